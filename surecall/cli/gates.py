"""Gates: whether the results of an evaluation are good enough, and the exit code. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from surecall.cli.common import FAILED, INCOMPLETE
from surecall.eval.analysis.agreement import Agreement, Verdict
from surecall.eval.analysis.paired import Comparisons
from surecall.eval.analysis.summary import CellSummary, Summary, count_by
from surecall.eval.running.harness_events import Report
from surecall.eval.running.refusals import REFUSED
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.parse import Gate
from surecall.values.errors import ErrorCode

# The endpoint does not have this; another try would end the same way.
_LASTING = frozenset({ErrorCode.NO_TOOL_USE_ENDPOINT})
# Another try ends the same way until something is changed: the key, the address, the model.
_REFUSED = REFUSED | {
    ErrorCode.AUTH,
    ErrorCode.PAYMENT_REQUIRED,
    ErrorCode.FORBIDDEN,
    ErrorCode.NOT_FOUND,
}


def exit_code(
    settings: Settings,
    summary: Summary,
    report: Report,
    compared: Comparisons,
    agreed: Sequence[Agreement] = (),
) -> tuple[int, list[str]]:
    """Return the exit code and why: a failed gate comes before a gate that could not judge.

    `compared` is how it compares with the run that it is held against, if any, and `agreed` how
    endpoints compare with the reference.
    """
    failed = [
        *_below(settings.fail_under, summary),
        *_regressed(compared),
        *(f"{each.name} is worse than {each.reference}" for each in _judged(agreed, "worse")),
    ]
    if failed:
        return FAILED, failed
    open_ends = [
        *_left_open(summary, report),
        *_unmeasured(settings.fail_under, summary),
        *(f"{each.name}: the verdict is open" for each in _judged(agreed, "open")),
    ]
    return (INCOMPLETE, open_ends) if open_ends else (0, [])


def _judged(agreed: Sequence[Agreement], verdict: Verdict) -> Iterator[Agreement]:
    return (each for each in agreed if each.verdict == verdict)


def _below(gate: Gate | None, summary: Summary) -> Iterator[str]:
    if gate is None:
        return
    for each in summary.cells:
        tool = each.totals.tool
        reached = tool.rate if gate.observed else tool.low
        if tool.rate is not None and (reached or 0.0) * 100 < gate.percent:
            what = "rate" if gate.observed else "lower bound"
            yield f"{_name(each)}: {what} {reached or 0.0:.1%} is below {gate.percent:g} %"


def _regressed(compared: Comparisons) -> Iterator[str]:
    for pair in (*compared.rows, *compared.overall):
        if pair.verdict() == "worse":
            counts = f"{pair.fixed} fixed, {pair.broken} broken"
            yield f"{pair.where}: significantly worse than before, {counts}"


def _left_open(summary: Summary, report: Report) -> Iterator[str]:
    if report.ending == "budget":
        yield f"the budget is used up; {report.missing} trials were not run"
    elif report.ending == "unpriced":
        yield (
            f"{report.error}; {report.missing} trials were not run; the same command without it "
            "continues"
        )
    elif report.ending == "lost":
        yield (
            f"{report.error}; {report.missing} trials were not run; the same command continues, "
            "with any --engine"
        )
    elif report.missing > 0:
        yield f"{report.missing} trials were not run; the same command continues"
    totals = summary.totals
    spoiled = count_by((failure for failure in totals.failures if failure.infra), "category")
    refused = {code: number for code, number in spoiled.items() if code in _REFUSED}
    if refused:
        yield f"{_spoiled(refused)}; another try would end the same way; see surecall check"
    passing = {code: number for code, number in spoiled.items() if code not in _LASTING | _REFUSED}
    if passing:
        again = "it" if sum(passing.values()) == 1 else "them"
        yield f"{_spoiled(passing)}; the same command tries {again} again"
    if not (totals.tool.n or totals.control.n or totals.no_tools.n):
        yield "nothing was measured"


def _spoiled(codes: Mapping[str, int]) -> str:
    number = sum(codes.values())
    were = "trial was" if number == 1 else "trials were"
    return f"{number} {were} spoiled ({', '.join(sorted(codes))})"


def _unmeasured(gate: Gate | None, summary: Summary) -> Iterator[str]:
    """Say what a gate could not judge. Cells without tools matter only if no cell has tools."""
    if gate is None:
        return
    if not summary.totals.tool.n:
        yield "no run with tools was measured, so --fail-under has nothing to judge"
        return
    for each in summary.cells:
        if not each.totals.tool.n and not each.totals.skipped:
            yield f"{_name(each)}: no run with tools was measured, so --fail-under cannot judge it"


def _name(each: CellSummary) -> str:
    return f"{each.cell.model} {each.cell.profile} {each.cell.strategy}"
