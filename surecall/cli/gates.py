"""Gates: whether the results of an evaluation are good enough, and the exit code. Pure."""

from collections.abc import Iterator, Sequence

from surecall.cli.common import FAILED, INCOMPLETE
from surecall.eval.analysis.paired import compare_runs, outcomes
from surecall.eval.analysis.summary import CellSummary, Summary
from surecall.eval.running.harness_events import Report
from surecall.eval.running.refusals import REFUSED
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.parse import Gate
from surecall.eval.storage.trial import Trial
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
    trials: Sequence[Trial],
    earlier: Sequence[Trial] | None,
) -> tuple[int, list[str]]:
    """Return the exit code and why: a failed gate comes before a gate that could not judge."""
    failed = [*_below(settings.fail_under, summary), *_regressed(trials, earlier)]
    if failed:
        return FAILED, failed
    open_ends = [
        *_left_open(summary, report, trials),
        *_unmeasured(settings.fail_under, summary),
    ]
    return (INCOMPLETE, open_ends) if open_ends else (0, [])


def _below(gate: Gate | None, summary: Summary) -> Iterator[str]:
    if gate is None:
        return
    for each in summary.cells:
        tool = each.totals.tool
        reached = tool.rate if gate.observed else tool.low
        if tool.rate is not None and (reached or 0.0) * 100 < gate.percent:
            what = "rate" if gate.observed else "lower bound"
            yield f"{_name(each)}: {what} {reached or 0.0:.1%} is below {gate.percent:g} %"


def _regressed(trials: Sequence[Trial], earlier: Sequence[Trial] | None) -> Iterator[str]:
    if earlier is None:
        return
    compared = compare_runs(outcomes(earlier), outcomes(trials))
    for pair in (*compared.rows, *compared.overall):
        if pair.verdict() == "worse":
            counts = f"{pair.fixed} fixed, {pair.broken} broken"
            yield f"{pair.where}: significantly worse than before, {counts}"


def _left_open(summary: Summary, report: Report, trials: Sequence[Trial]) -> Iterator[str]:
    if report.ending == "budget":
        yield f"the budget is used up; {report.missing} trials were not run"
    elif report.ending == "unpriced":
        yield (
            f"{report.error}; {report.missing} trials were not run; the same command without it "
            "continues"
        )
    elif report.missing > 0:
        yield f"{report.missing} trials were not run; the same command continues"
    spoiled = [trial for trial in trials if trial.status == "infra"]
    refused = [trial for trial in spoiled if trial.category in _REFUSED]
    if refused:
        yield f"{_spoiled(refused)}; another try would end the same way; see surecall check"
    passing = [trial for trial in spoiled if trial.category not in _LASTING | _REFUSED]
    if passing:
        again = "it" if len(passing) == 1 else "them"
        yield f"{_spoiled(passing)}; the same command tries {again} again"
    totals = summary.totals
    if not (totals.tool.n or totals.control.n or totals.no_tools.n):
        yield "nothing was measured"


def _spoiled(trials: Sequence[Trial]) -> str:
    causes = ", ".join(sorted({trial.category for trial in trials}))
    were = "trial was" if len(trials) == 1 else "trials were"
    return f"{len(trials)} {were} spoiled ({causes})"


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
