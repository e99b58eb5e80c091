"""How an evaluation ends: its last words, and its exit code."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from surecall.cli.common import INCOMPLETE, INTERRUPTED, WRONG_USAGE, complain, note
from surecall.cli.gates import exit_code
from surecall.cli.listing import count
from surecall.eval.analysis.agreement import Agreement
from surecall.eval.analysis.paired import Comparisons
from surecall.eval.analysis.summary import Summary
from surecall.eval.running.harness_events import Report
from surecall.eval.settings.fields import Settings
from surecall.values.errors import ErrorCode

_AUTH: Final = frozenset({ErrorCode.AUTH, ErrorCode.PAYMENT_REQUIRED})


def in_vain(report: Report, summary: Summary) -> bool:
    """Whether the endpoint cannot be used, and there is nothing to show."""
    measured = summary.totals.tool.n or summary.totals.control.n
    return report.ending == "unusable" and not measured


def ended(
    settings: Settings,
    address: str,
    report: Report,
    summary: Summary,
    compared: Comparisons,
    agreed: Sequence[Agreement] = (),
) -> int:
    """Say how it ended, unless everything is well, and return the exit code."""
    if report.ending == "interrupted":
        note(f"interrupted: {report.done} of {report.wanted} done, the same command continues")
        return INTERRUPTED
    if report.ending == "unusable":
        told = _unusable(address, report)
        if in_vain(report, summary):
            told = f"{told} Given up after {report.ran} of {count(report.wanted, 'run')}."
        return complain(told, WRONG_USAGE if report.category in _AUTH else INCOMPLETE)
    if settings.max_cost is not None and report.unpriced:
        note(
            f"warning: {report.unpriced} trials came without a price; --max-cost cannot count them"
        )
    code, reasons = exit_code(settings, summary, report, compared, agreed)
    for reason in reasons:
        note(f"surecall: {reason}")
    return code


def _unusable(address: str, report: Report) -> str:
    """Say why an endpoint cannot be used; its address, if it has one, is named once."""
    named = urlsplit(address).netloc in report.error
    told = report.error if named else f"{address}: {report.error}"
    return told if told.endswith((".", "!", "?")) else f"{told}."
