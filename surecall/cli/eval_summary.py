"""What `surecall eval` prints at the end, and its exit code.

A row for each model, best first, with its verdict and the reasons:

verdict      model   tool pass     40%             bar 90% 100%  control  p95
✓ use        clean     60/60 100%  ······················┼─●     10/10    0.1 s
    caution: …
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

import surecall
from surecall.cli.console import (
    FAILED,
    INCOMPLETE,
    INTERRUPTED,
    WRONG_USAGE,
    Columns,
    ExitCode,
    add_remarks,
    column_lines,
    columns_width,
    detect_screen,
    drop_columns,
    fit_text,
    join_columns,
    print_error,
    print_note,
    print_text,
    rate_text,
    shorten_columns,
    wrap_line,
)
from surecall.cli.tables import NARROW, WIDE, axis_for, candidate_columns, model_heading
from surecall.eval.analysis.agreement import Agreement, AgreementVerdict
from surecall.eval.analysis.comparisons import Comparison, Comparisons, format_points, overall_gains
from surecall.eval.analysis.recommendations import (
    ProfileCandidate,
    Recommendation,
    profile_candidates,
    verdict_labels,
)
from surecall.eval.analysis.summary import CellSummary, Summary, count_by
from surecall.eval.analysis.verdict_text import group_by_decision, steps_sentence, verdict_sentence
from surecall.eval.report.page.comparison_page import VERDICT_STYLES, row_verdict
from surecall.eval.report.summary_json import BEHAVIOR_COLUMNS, behavior_row
from surecall.eval.running.ledger import REFUSED_REQUEST_CODES, EvaluationReport
from surecall.eval.running.matrix import EvaluationPlan
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.value_parsers import Gate
from surecall.eval.storage.trial import Cell
from surecall.values.errors import ErrorCode
from surecall.values.text import quantity

_DEFAULT: Final = "default"
_MAX_NAME: Final = 60
# Columns that a narrow table drops, in this order.
_OPTIONAL: Final = ("control", "p95", "interval")
# Columns that a narrow table shows below each row.
_REMARK_COLUMNS: Final = ("strategy", "profile")


class _ResultRow(msgspec.Struct, frozen=True):
    """One profile of a model; the first one of each model has the verdict and the reasons."""

    candidate: ProfileCandidate
    verdict: str = ""
    why: str = ""


def verdict_lines(
    advice: Sequence[Recommendation],
    cells: Iterable[CellSummary],
    threshold: float,
    width: int | None = None,
) -> list[str]:
    """Return the table of verdicts; if it is narrow, the reasons are below the rows."""
    rows = list(_result_rows(advice, tuple(cells)))
    if not rows:
        return []
    everything = _table_columns(advice, rows, threshold, WIDE)
    shown = everything if width is None else _narrow_columns(advice, rows, threshold, width)
    hidden = [name for name in _REMARK_COLUMNS if name in everything and name not in shown]
    remarks = ["; ".join(_remark_parts(row, hidden)) for row in rows]
    return add_remarks(join_columns(shown), ["", *remarks], width)


def _result_rows(
    advice: Sequence[Recommendation], cells: Sequence[CellSummary]
) -> Iterator[_ResultRow]:
    premature = {each.cell: each.totals.false_finals.answers for each in cells}
    known = profile_candidates(cells)
    for group in group_by_decision(advice).values():
        for each in group:
            profiles = [one for one in known if one.model == each.model]
            for found in sorted(profiles, key=lambda one: _candidate_order(one, each)):
                if found.profile == each.decided_profile:
                    sign, word = verdict_labels(simulated=each.simulated)[each.decision]
                    cell = Cell(found.model, found.profile, found.strategy)
                    yield _ResultRow(
                        found, f"{sign} {word}", "; ".join(_reasons(each, premature[cell]))
                    )
                else:
                    yield _ResultRow(found)


def _candidate_order(candidate: ProfileCandidate, advice: Recommendation) -> tuple[bool, float]:
    """Sort key for the profiles of a model: the recommended one first, then by rate."""
    return candidate.profile != advice.decided_profile, -(candidate.tool.rate or 0.0)


def _reasons(advice: Recommendation, premature_answers: int) -> Iterator[str]:
    """Yield the reasons for a verdict, beside its figures, and its cautions."""
    if advice.decision == "more trials":
        yield f"needs {quantity(advice.more_trials or 0, 'more run')}"
    if advice.decided_profile == advice.profile:
        yield from map(_lowercase_clause, advice.notes)
    if premature_answers:
        yield quantity(premature_answers, "premature answer")
    if advice.decided_profile == advice.profile:
        yield from (f"caution, {_lowercase_clause(sentence)}" for sentence in advice.cautions)


def _lowercase_clause(sentence: str) -> str:
    """Return a sentence as a part of another one: in lower case, without its period."""
    return sentence[0].lower() + sentence[1:].rstrip(".")


def _remark_parts(row: _ResultRow, hidden: Sequence[str]) -> Iterator[str]:
    """Yield the cells of hidden columns, then the reasons."""
    yield from (f"{name} {getattr(row.candidate, name)}" for name in hidden)
    if row.why:
        yield row.why


def _narrow_columns(
    advice: Sequence[Recommendation], rows: Sequence[_ResultRow], threshold: float, width: int
) -> Columns:
    """Return the table's columns without those that do not fit."""
    wide = drop_columns(_table_columns(advice, rows, threshold, WIDE), width, _OPTIONAL)
    if columns_width(wide) <= width:
        return wide
    columns = drop_columns(
        _table_columns(advice, rows, threshold, NARROW), width, (*_OPTIONAL, *_REMARK_COLUMNS)
    )
    return drop_columns(shorten_columns(columns, width, ("model",)), width, ("line",))


def _table_columns(
    advice: Sequence[Recommendation], rows: Sequence[_ResultRow], threshold: float, axis_width: int
) -> Columns:
    """Return all columns of the table of verdicts."""
    found = [row.candidate for row in rows]
    axis = axis_for(
        threshold,
        min((each.tool_interval[0] for each in found if each.tool.n), default=1.0),
        axis_width,
    )
    columns = {
        "verdict": ["verdict", *(row.verdict for row in rows)],
        **candidate_columns(found, axis, simulated=any(each.simulated for each in advice)),
    }
    return {name: texts for name, texts in columns.items() if any(texts[1:])}


# Strategies side by side, with the change from the first to the last:
#
# model            raw           production    change      from raw to production
# sim/stops-early    12/60  20%    38/60  63%  +43 points  ▲ better: 26 fixed, 0 broken


def strategy_lines(
    advice: Sequence[Recommendation], summary: Summary, width: int | None = None
) -> list[str]:
    """Return a row for each model and profile, best first; empty for a single strategy."""
    strategies = list(summary.strategies)
    changes = overall_gains(summary.comparisons)
    if len(strategies) == 1 or not changes:
        return []
    advised = [each.model for group in group_by_decision(advice).values() for each in group]
    # Models without advice, which lack the recommended strategy, come last.
    order = dict.fromkeys((*advised, *(each.cell.model for each in summary.cells)))
    tool = {each.cell: each.totals.tool for each in summary.cells}
    places = dict.fromkeys((each.cell.model, each.cell.profile) for each in summary.cells)
    several = {profile for _, profile in places} != {_DEFAULT}
    rows = []
    for model, profile in sorted(places, key=lambda place: [*order].index(place[0])):
        found = (tool.get(Cell(model, profile, each)) for each in strategies)
        rows.append(
            (
                fit_text(model, _MAX_NAME),
                *([fit_text(profile, _MAX_NAME)] if several else []),
                *("" if one is None else rate_text(one.k, one.n) for one in found),
                *_change_cells(changes.get((model, profile))),
            )
        )
    simulated = any(each.simulated for each in advice)
    heads = (model_heading(simulated=simulated), *(["profile"] if several else []), *strategies)
    span = f"from {strategies[0]} to {strategies[-1]}"
    return column_lines((*heads, "change", span), rows, width)


def _change_cells(row: Comparison | None) -> tuple[str, str]:
    """Return the size of a change, and whether it may be chance."""
    if row is None or not row.pairs:
        return "", "not compared"
    if not row.fixed and not row.broken:
        return "none", ""
    sign, words, _ = VERDICT_STYLES[row_verdict(row)]
    if row.verdict() == "no evidence":
        words = f"not significant after correction (p = {row.p_adjusted:.2g})"
    return format_points(row), f"{sign} {words}: {row.fixed} fixed, {row.broken} broken"


# Behavior metrics: what the runs of each cell did and claimed.
#
# model      profile  strategy  right  silent wrong  false success  wrong effects  …
# sim/clean  default  guided    14/14             0              0              0  …


def behavior_lines(
    cells: Iterable[CellSummary], width: int | None = None, *, simulated: bool = False
) -> list[str]:
    """Return a table of the cells with runs whose side effects were checked."""
    rows = [
        (
            fit_text(each.cell.model, _MAX_NAME),
            fit_text(each.cell.profile, _MAX_NAME),
            each.cell.strategy,
            *map(str.rjust, behavior_row(each.totals.conduct), map(len, BEHAVIOR_COLUMNS)),
        )
        for each in cells
        if each.totals.conduct.runs
    ]
    heads = (model_heading(simulated=simulated), "profile", "strategy", *BEHAVIOR_COLUMNS)
    return column_lines(heads, rows, width) if rows else []


def plan_headline(plan: EvaluationPlan, recorded: int) -> str:
    """Return the number of planned runs and its factors, in one line."""
    least = f"{plan.trials} or more trials" if plan.has_automatic_trials else ""
    factors = (
        quantity(len(plan.cells), "cell"),
        quantity(len(plan.scenarios), "scenario"),
        least or quantity(plan.trials, "trial"),
    )
    skipped = len(plan.skips) * plan.trials
    less = f" - {skipped} skipped" if skipped else ""
    shard = plan.settings.shard
    part = "" if shard is None else f", of which part {shard.index}/{shard.count}"
    runs = quantity(plan.count_remaining().total(), "run")
    runs = f"{runs} or more" if plan.has_automatic_trials else runs
    done = f", {recorded} recorded" if recorded else ""
    return f"surecall {surecall.__version__}   {' x '.join(factors)}{less}{part} = {runs}{done}"


def print_conclusion(
    advice: Sequence[Recommendation], summary: Summary, threshold: float, notice: str = ""
) -> None:
    """Print what is missing, the verdict, and the tables."""
    width = detect_screen(sys.stdout).width
    parts = [
        "\n".join(part) for part in _conclusion_parts(advice, summary, threshold, notice, width)
    ]
    print_text("\n\n".join(parts) + ("" if width is None else "\n"))


def _conclusion_parts(
    advice: Sequence[Recommendation],
    summary: Summary,
    threshold: float,
    notice: str,
    width: int | None,
) -> Iterator[list[str]]:
    """Yield the parts of the conclusion, each as lines."""
    gained = steps_sentence(summary.comparisons)
    sentences = filter(None, (notice, verdict_sentence(advice), gained))
    tables = (
        [line for each in sentences for line in wrap_line(each, width, "")],
        verdict_lines(advice, summary.cells, threshold, width),
        strategy_lines(advice, summary, width),
        behavior_lines(summary.cells, width, simulated=any(each.simulated for each in advice)),
    )
    return (part for part in tables if part)


# Gates: whether the results pass, and the exit code.

# The endpoint lacks the feature, so a retry fails the same way.
_PERMANENT = frozenset({ErrorCode.NO_TOOL_USE_ENDPOINT})
# A retry fails the same way until the key, the address, or the model changes.
_NEEDS_CHANGE = REFUSED_REQUEST_CODES | {
    ErrorCode.AUTH,
    ErrorCode.PAYMENT_REQUIRED,
    ErrorCode.FORBIDDEN,
    ErrorCode.NOT_FOUND,
}


def exit_code(
    settings: Settings,
    summary: Summary,
    report: EvaluationReport,
    comparisons: Comparisons,
    agreements: Sequence[Agreement] = (),
) -> tuple[ExitCode, list[str]]:
    """Return the exit code and its reasons; failed gates take precedence over undecided ones.

    `comparisons` is the comparison with the `--against` run, if any, and `agreements` that of
    endpoints with the reference.
    """
    failed = [
        *_threshold_reasons(settings.fail_under, summary),
        *_regression_reasons(comparisons),
        *(
            f"{each.name} is worse than {each.reference}"
            for each in _agreements_with_verdict(agreements, "worse")
        ),
    ]
    if failed:
        return FAILED, failed
    undecided = [
        *_incomplete_reasons(summary, report),
        *_unmeasured_reasons(settings.fail_under, summary),
        *(
            f"{each.name}: the verdict is open"
            for each in _agreements_with_verdict(agreements, "open")
        ),
    ]
    return (INCOMPLETE, undecided) if undecided else (0, [])


def _agreements_with_verdict(
    agreements: Sequence[Agreement], verdict: AgreementVerdict
) -> Iterator[Agreement]:
    return (each for each in agreements if each.verdict == verdict)


def _threshold_reasons(gate: Gate | None, summary: Summary) -> Iterator[str]:
    """Yield the cells that a gate's threshold fails, each with its rate."""
    if gate is None:
        return
    for each in summary.cells:
        tool = each.totals.tool
        reached = tool.rate if gate.observed else tool.low
        if tool.rate is not None and (reached or 0.0) * 100 < gate.percent:
            what = "rate" if gate.observed else "lower bound"
            yield f"{_cell_name(each)}: {what} {reached or 0.0:.1%} is below {gate.percent:g}%"


def _regression_reasons(comparisons: Comparisons) -> Iterator[str]:
    """Yield the comparisons that are significantly worse."""
    for pair in (*comparisons.rows, *comparisons.overall):
        if pair.verdict() == "worse":
            counts = f"{pair.fixed} fixed, {pair.broken} broken"
            yield f"{pair.scope}: significantly worse than before, {counts}"


def _incomplete_reasons(summary: Summary, report: EvaluationReport) -> Iterator[str]:
    if report.end_reason == "budget":
        yield (
            f"the budget is used up; {report.missing} trials were not run; raise --max-cost to "
            "continue"
        )
    elif report.end_reason == "unpriced":
        yield (
            f"{report.error}; {report.missing} trials were not run; run the same command without "
            "--max-cost to continue"
        )
    elif report.end_reason == "lost":
        yield (
            f"{report.error}; {report.missing} trials were not run; run the same command, with "
            "any --engine, to continue"
        )
    elif report.missing > 0:
        yield f"{report.missing} trials were not run; run the same command to continue"
    totals = summary.totals
    invalid = count_by((failure for failure in totals.failures if failure.infra), "category")
    permanent = {code: number for code, number in invalid.items() if code in _NEEDS_CHANGE}
    if permanent:
        yield (
            f"{_invalid_trials_text(permanent)}; a retry would fail the same way; see "
            "surecall check"
        )
    passing = {
        code: number for code, number in invalid.items() if code not in _PERMANENT | _NEEDS_CHANGE
    }
    if passing:
        again = "it" if sum(passing.values()) == 1 else "them"
        yield f"{_invalid_trials_text(passing)}; run the same command to retry {again}"
    if not (totals.tool.n or totals.control.n or totals.no_tools.n):
        yield "nothing was measured"


def _invalid_trials_text(codes: Mapping[str, int]) -> str:
    number = sum(codes.values())
    were = "trial is" if number == 1 else "trials are"
    return f"{number} {were} invalid ({', '.join(sorted(codes))})"


def _unmeasured_reasons(gate: Gate | None, summary: Summary) -> Iterator[str]:
    """Yield what a gate could not check. Cells without tools matter only if no cell has tools."""
    if gate is None:
        return
    if not summary.totals.tool.n:
        yield "no run with tools was measured, so --fail-under has nothing to check"
        return
    for each in summary.cells:
        if not each.totals.tool.n and not each.totals.skipped:
            yield (
                f"{_cell_name(each)}: no run with tools was measured, so --fail-under "
                "cannot check it"
            )


def _cell_name(cell: CellSummary) -> str:
    return f"{cell.cell.model} {cell.cell.profile} {cell.cell.strategy}"


def has_no_results(report: EvaluationReport, summary: Summary) -> bool:
    """Whether the endpoint is unusable and there are no results."""
    measured = summary.totals.tool.n or summary.totals.control.n
    return report.end_reason == "unusable" and not measured


def print_ending(
    settings: Settings,
    address: str,
    report: EvaluationReport,
    summary: Summary,
    comparisons: Comparisons,
    agreements: Sequence[Agreement] = (),
) -> ExitCode:
    """Print how the evaluation ended, unless it passed, and return the exit code."""
    if report.end_reason == "interrupted":
        print_note(
            f"interrupted: {report.completed} of {report.wanted} done; run the same "
            "command to continue"
        )
        return INTERRUPTED
    if report.end_reason == "unusable":
        message = _unusable_message(address, report)
        if has_no_results(report, summary):
            message = (
                f"{message} Gave up after {report.executed} of {quantity(report.wanted, 'run')}."
            )
        is_account = report.category in {ErrorCode.AUTH, ErrorCode.PAYMENT_REQUIRED}
        return print_error(message, WRONG_USAGE if is_account else INCOMPLETE)
    if settings.max_cost is not None and report.unpriced:
        print_note(
            f"warning: {report.unpriced} trials had no price, so --max-cost did not count them"
        )
    code, reasons = exit_code(settings, summary, report, comparisons, agreements)
    for reason in reasons:
        print_note(f"surecall: {reason}")
    return code


def _unusable_message(address: str, report: EvaluationReport) -> str:
    """Return why the endpoint is unusable, with its address."""
    has_address = urlsplit(address).netloc in report.error
    message = report.error if has_address else f"{address}: {report.error}"
    return message if message.endswith((".", "!", "?")) else f"{message}."
