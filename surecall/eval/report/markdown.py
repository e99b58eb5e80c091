"""Renders the Markdown report of a run, and the comparison of endpoints.

Tables have the columns of the original harness. All text is escaped, so it cannot break a table.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from surecall.eval.analysis.agreement import (
    NO_DIFFERENCE,
    Agreement,
    AgreementFigure,
    RequestCounts,
    agreement_sentence,
    agreements,
    format_difference,
    format_ratio,
    replies_by_request,
)
from surecall.eval.analysis.comparisons import Comparison, Comparisons
from surecall.eval.analysis.failure_causes import CauseCount
from surecall.eval.analysis.summary import Summary, Totals
from surecall.eval.report.run_results import RunResults, Sheet, TrialBrief
from surecall.eval.report.summary_json import (
    BEHAVIOR_COLUMNS,
    behavior_row,
    cell_json,
    counts_by_scenario,
    served_builds,
    totals_json,
)
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from surecall.values.types import JSON

# Columns that are hidden if they have no information.
STRATEGY: Final = "strategy"
CALL_SOURCES: Final = "calls parsed from"
NO_TOOLS: Final = "without tools:"
PREMATURE_ANSWERS: Final = "premature answers:"
MATRIX_COLUMNS: Final = (
    "model",
    "sampling_profile",
    STRATEGY,
    CALL_SOURCES,
    "tool_ok:",
    "tool_ok_rate:",
    "control_ok (chat_only):",
    NO_TOOLS,
    "p95_ms:",
    PREMATURE_ANSWERS,
    "top tool failures",
)
RECOMMENDATION_COLUMNS: Final = (
    "model",
    "recommended sampling profile(s)",
    "preset/workaround",
    "recommended?",
    "notes",
    "decision",
    "+N runs:",
)
SIMULATED_COLUMNS: Final = (
    "simulated model",
    "sampling profile(s)",
    "active workarounds",
    "notes",
    "handled?",
    "+N runs:",
)
COMPARISON_COLUMNS: Final = (
    "model",
    "sampling_profile",
    "strategies",
    "passed:",
    "fixed:",
    "broken:",
    "difference:",
    "p (McNemar):",
    "p (Holm):",
    "verdict",
)
BEHAVIOR_NOTE: Final = (
    "Runs whose side effects were checked. Silent failure: the run reported success, but the "
    "result is wrong. False success: the answer claims work that was not done. Effect columns "
    "count side effects, not runs."
)
CAUSE_COLUMNS: Final = (
    "unmet expectation or error",
    "expected",
    "got",
    "runs:",
    "scenarios",
    "models",
    "code",
)
SIMULATED_NOTICE: Final = (
    "**Simulated.** The models in this report are scripted simulations. The results say nothing "
    "about real models."
)
_NOTHING: Final = "-"
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + " _-./:,;%()+='")
# Characters with a meaning in Markdown, HTML, or tables. Common harmless uses stay: a bracketed
# interval, an underscore within a word, and a colon before a space.
_SPECIAL: Final = re.compile(
    r"""(?P<interval>\[[-+.,\d\x20]+\](?![(\[:]))
    | [\\&<>|`*\[\]~$@] | \#(?=\w) | (?<![^\W_])_ | _(?![^\W_]) | :(?=\S)""",
    re.VERBOSE,
)


def markdown_report(
    results: RunResults,
    recommendations: Iterable[Sequence[str]] = (),
    notice: str = "",
    lead: str = "",
    verdict: str = "",
) -> str:
    """Return the Markdown report: verdict, recommendations, totals, matrix, causes, comparisons.

    `notice` tells what is missing from the report; `lead` is a section placed before the totals;
    `verdict` is the sentence placed first.
    """
    rows = list(recommendations)
    found = results.summary
    pairs = comparison_table(found.comparisons)
    heading = "Simulated: what surecall handled" if results.is_simulated else "Recommendations"
    parts = [
        "# Tool calling evaluation",
        *([f"**Verdict.** {escape_text(verdict)}"] if verdict else []),
        *([SIMULATED_NOTICE] if results.is_simulated else []),
        *([f"**Note.** {escape_text(notice)}"] if notice else []),
        *([lead] if lead else []),
        *(
            [f"## {heading}", recommendation_table(rows, simulated=results.is_simulated)]
            if rows
            else []
        ),
        "## Totals",
        "\n".join(_summary_lines(results, found)),
        "## Model/profile matrix (tool scenarios only)",
        matrix_table(results),
        *(["## Why runs failed", causes] if (causes := causes_table(found)) else []),
        *(
            ["## Behavior metrics", BEHAVIOR_NOTE, conduct]
            if (conduct := behavior_table(results))
            else []
        ),
        *(["## Strategies on the same conversations", pairs] if found.comparisons.rows else []),
    ]
    return "\n\n".join(parts) + "\n"


def matrix_table(results: RunResults) -> str:
    """Return the table of cells.

    Strategy and call sources have a column only if there are several; premature answers and
    scenarios without tools only if there are any.
    """
    hidden = set()
    if len({cell.strategy for cell in results.entries}) == 1:
        hidden.add(STRATEGY)
    if len(_distinct_call_sources(results)) <= 1:
        hidden.add(CALL_SOURCES)
    if not any(each.kind == "no_tools" for each in results.summary.totals.scenarios):
        hidden.add(NO_TOOLS)
    if not results.summary.totals.false_finals.answers:
        hidden.add(PREMATURE_ANSWERS)
    columns = [name for name in MATRIX_COLUMNS if name not in hidden]
    cells = [_matrix_row(results, cell) for cell in results.entries]
    rows = [dict(zip(MATRIX_COLUMNS, row, strict=True)) for row in cells]
    return markdown_table(columns, [[row[name] for name in columns] for row in rows])


def behavior_table(results: RunResults) -> str:
    """Return the table of behavior metrics by cell; blank if no side effects were checked."""
    rows = [
        (
            code_span(cell.model),
            code_span(cell.profile),
            code_span(cell.strategy),
            *behavior_row(found.conduct),
        )
        for cell, found in results.totals_by_cell.items()
        if found.conduct.runs
    ]
    heads = ("model", "sampling_profile", STRATEGY, *(f"{name}:" for name in BEHAVIOR_COLUMNS))
    return markdown_table(heads, rows) if rows else ""


def causes_table(summary: Summary) -> str:
    """Return the table of the 20 most frequent causes of failed runs; blank without any."""
    rows = [_cause_row(cause) for cause in summary.totals.causes[:20]]
    if not rows:
        return ""
    rest = len(summary.totals.causes) - len(rows)
    more = [f"{rest} less frequent causes are not shown."] if rest else []
    return "\n\n".join([markdown_table(CAUSE_COLUMNS, rows), *more])


def _cause_row(cause: CauseCount) -> tuple[str, ...]:
    return (
        escape_text(cause.check),
        _list_counts(cause.expected),
        _list_counts(cause.got),
        str(cause.times),
        _list_counts(cause.scenarios),
        _list_counts(cause.models),
        f"{code_span(cause.code)}{' (infrastructure, not scored)' if cause.infra else ''}",
    )


def _list_counts(counts: Mapping[str, int]) -> str:
    """List the three most frequent texts with their counts, then an ellipsis."""
    if len(counts) == 1:
        return escape_text(next(iter(counts)))
    listed = [f"{escape_text(name)} x{count}" for name, count in list(counts.items())[:3]]
    more = ["…"] if len(counts) > len(listed) else []
    return "; ".join([*listed, *more]) or _NOTHING


def recommendation_table(rows: Iterable[Sequence[str]], *, simulated: bool = False) -> str:
    """Return the table of rows from `recommendation_row`."""
    return markdown_table(
        SIMULATED_COLUMNS if simulated else RECOMMENDATION_COLUMNS,
        [(code_span(model), *map(escape_text, others)) for model, *others in rows],
    )


def comparison_table(comparisons: Comparisons) -> str:
    """Return the table of comparisons by model and profile, then overall."""
    return markdown_table(
        COMPARISON_COLUMNS, map(_comparison_row, (*comparisons.rows, *comparisons.overall))
    )


def _comparison_row(pair: Comparison) -> tuple[str, ...]:
    first, second = pair.rates
    bounds = f"[{100 * pair.low:+.1f}, {100 * pair.high:+.1f}]"
    return (
        code_span(pair.model) if pair.model else "all",
        code_span(pair.profile) if pair.profile else "all",
        f"{code_span(pair.first)} to {code_span(pair.second)}",
        f"{first.k}/{first.n} to {second.k}/{second.n}",
        str(pair.fixed),
        str(pair.broken),
        _NOTHING if pair.difference is None else f"{100 * pair.difference:+.1f} {bounds}",
        f"{pair.p:.2g}",
        f"{pair.p_adjusted:.2g}",
        pair.verdict(),
    )


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown cells. Columns whose name ends in a colon align right."""
    names = [name.removesuffix(":") for name in columns]
    rulers = ["---:" if name.endswith(":") else "---" for name in columns]
    lines = [f"| {' | '.join(names)} |", f"|{'|'.join(rulers)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def code_span(value: str) -> str:
    """Return a name as a code span, or as escaped text if it has special characters."""
    return f"`{value}`" if value and _PLAIN.issuperset(value) else escape_text(value)


def escape_text(value: str) -> str:
    """Return any text escaped, on one line."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    return _SPECIAL.sub(_escape_match, plain) or _NOTHING


def _escape_match(match: re.Match[str]) -> str:
    return match["interval"] or f"&#{ord(match[0])};"


def _matrix_row(results: RunResults, cell: Cell) -> tuple[str, ...]:
    figures = cell_json(results, cell)
    return (
        code_span(cell.model),
        code_span(cell.profile),
        code_span(cell.strategy),
        ", ".join(results.columns[cell].call_sources) or "unknown",
        _format_passed(figures, "tool_"),
        _rate_with_interval(figures),
        _format_passed(figures, "control_"),
        _format_passed(figures, "no_tools_"),
        str(figures["tool_ms_p95"] or _NOTHING),
        _format_premature_answers(figures["false_finals"]),
        _top_failures(results.entries[cell]),
    )


def _format_premature_answers(counts: JSON) -> str:
    return (
        f"{counts['answers']} in {_format_run_count(counts['runs'])}"
        if counts["answers"]
        else _NOTHING
    )


def _format_run_count(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _format_passed(figures: JSON, prefix: str) -> str:
    """Format how many runs of a kind passed; the keys of `figures` start with `prefix`."""
    runs = figures[f"{prefix}runs"]
    return f"{figures[f'{prefix}ok']}/{runs}" if runs else _NOTHING


def _rate_with_interval(figures: JSON) -> str:
    if not figures["tool_runs"]:
        return _NOTHING
    low, high = figures["tool_ok_interval"]
    return f"{figures['tool_ok_rate']:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def _top_failures(entries: Iterable[TrialBrief]) -> str:
    """Return the two scenarios that fail most, the most frequent category, and infra errors."""
    tools = [entry for entry in entries if entry.kind == "tool"]
    failed = [entry for entry in tools if entry.status == "failed"]
    scenarios = Counter(entry.key.scenario for entry in failed).most_common(2)
    categories = Counter(entry.category for entry in failed).most_common(1)
    infra = sum(entry.status == "infra" for entry in tools)
    parts = [f"{escape_text(name)} x{count}" for name, count in (*scenarios, *categories)]
    return "; ".join([*parts, *([f"infra x{infra} (not scored)"] if infra else [])]) or _NOTHING


def _summary_lines(results: RunResults, summary: Summary) -> Iterable[str]:
    """Yield the totals. Several strategies are listed separately, never combined."""
    for strategy, own in summary.strategies.items():
        lines = _strategy_lines(results, own)
        if len(summary.strategies) == 1:
            yield from lines
        else:
            yield f"- Under {code_span(strategy)}:"
            yield from (f"  {line}" for line in lines)
    known = _distinct_call_sources(results)
    if len(known) == 1 and (names := ", ".join(*known)):
        yield f"- Calls parsed from: {names}"
    if builds := _all_builds(results):
        yield f"- Served by: {', '.join(map(code_span, builds))}"


def _strategy_lines(results: RunResults, totals: Totals) -> Iterable[str]:
    """Yield the totals of one strategy as list items."""
    sums = totals_json(totals)
    yield f"- Overall: {_format_passed_share(sums['ok'], sums['runs'])}"
    tools = _format_passed_share(sums["tool_ok"], sums["tool_runs"])
    yield f"- Tool scenarios only (without `{CONTROL}`): {tools}"
    whole = _format_passed_share(totals.end_to_end.k, totals.end_to_end.n)
    yield f"- The same end to end (infrastructure errors count as failures): {whole}"
    if sums["no_tools_runs"]:
        without = _format_passed_share(sums["no_tools_ok"], sums["no_tools_runs"])
        yield f"- Scenarios without tools (other than `{CONTROL}`), not in the tool rate: {without}"
    if totals.pass_hat:
        chances = ", ".join(f"{k}: {chance:.1%}" for k, chance in enumerate(totals.pass_hat, 1))
        yield f"- pass^k (probability that a scenario passes k times in a row): {chances}"
    if early := sums["false_finals"]["answers"]:
        runs, passed = (
            _format_run_count(sums["false_finals"]["runs"]),
            sums["false_finals"]["passed"],
        )
        yield f"- Premature answers: {early}, in {runs}, {passed} of which passed"
    if claims := sums["unsupported_claims"]:
        yield f"- Answers that claim what no call did: {claims}"
    if sums["infra"]:
        yield f"- Infrastructure errors, not in the tool rate: {sums['infra']}"
    if sums["skipped"]:
        yield f"- Skipped because they do not apply: {sums['skipped']}"
    yield "- By scenario (ok / runs):"
    for name, counts in counts_by_scenario(results, totals).items():
        yield f"  - {code_span(name)}: {_format_passed_share(counts['ok'], counts['runs'])}"


def _distinct_call_sources(results: RunResults) -> set[tuple[str, ...]]:
    return {column.call_sources for column in results.columns.values()}


def _all_builds(results: RunResults) -> list[str]:
    """Return the server builds: the one that was started, and those that replies name."""
    started = results.sheet.settings.get("served_by")
    return [*([started] if isinstance(started, str) and started else []), *served_builds(results)]


def _format_passed_share(passed: int, runs: int) -> str:
    return f"`{passed}/{runs}` ok (`{passed / runs:.2%}`)" if runs else "none"


AGREEMENT_FILE: Final = "agreement.json"
SEPARATE_RATES_NOTE: Final = (
    "The rates on this page are for each endpoint separately: whether its calls match their "
    "schemas and the expectations of the requests."
)
AGREEMENT_LEGEND: Final = (
    "Answered: requests with a reply, excluding infrastructure errors. Call or not, same calls: F1 "
    "with {reference} as ground truth; its own figure is its agreement with itself. Calls fit: "
    "calls that match the schemas of their tools. Intervals are 95%; those of differences are "
    "corrected for all comparisons."
)


def compare_endpoints(sheet: Sheet, trials: Iterable[Trial]) -> tuple[Agreement, ...]:
    """Compare the endpoints of a run with its reference; empty without a reference."""
    if not sheet.endpoints:
        return ()
    reference = str(sheet.settings.get("reference"))
    names = (reference, *str(sheet.settings.get("against", "")).split(","))
    found: dict[str, list[Trial]] = {name: [] for name in names}
    for trial in trials:
        if trial.key.cell.model in found:
            found[trial.key.cell.model].append(trial)
    called = short_endpoint_names(names)
    sides = {called[name]: replies_by_request(own) for name, own in found.items()}
    return agreements(called[reference], sides)


def short_endpoint_names(names: Sequence[str]) -> dict[str, str]:
    """Return the endpoint part of each name if that is unique, else the full names."""
    short = [name.rpartition("@")[2] for name in names]
    alone = len(set(short)) == len(short)
    return dict(zip(names, short if alone else names, strict=True))


def agreement_heads(agreement: Agreement) -> tuple[str, ...]:
    """Return the column headings of the comparison table."""
    return ("", agreement.name, agreement.reference, "difference", "")


def agreement_rows(agreement: Agreement) -> list[tuple[str, ...]]:
    """Return the rows of the comparison table, one for each figure."""
    return [
        _agreement_row("answered", agreement.answered),
        _agreement_row("call or not", agreement.decision),
        ("  precision", format_ratio(agreement.precision), "", "", ""),
        ("  recall", format_ratio(agreement.recall), "", "", ""),
        _agreement_row("same calls", agreement.calls),
        _agreement_row("calls fit", agreement.fits),
    ]


def _agreement_row(name: str, figure: AgreementFigure) -> tuple[str, ...]:
    floor = format_ratio(figure.reference) if figure.reference.value is not None else ""
    verdict = "" if figure.verdict == NO_DIFFERENCE else figure.verdict
    return (name, format_ratio(figure.value), floor, format_difference(figure.gap), verdict)


def request_count_lines(agreements: Sequence[Agreement]) -> list[str]:
    """Return one line for each endpoint with the outcomes of its requests."""
    counts = {each.reference: each.reference_counts for each in agreements}
    counts |= {each.name: each.counts for each in agreements}
    return [f"{name}: {_format_request_counts(each)}" for name, each in counts.items()]


def _format_request_counts(counts: RequestCounts) -> str:
    parts = [f"{counts.answered} of {counts.asked} answered", f"{counts.calls} calls"]
    if counts.refused:
        parts.append(f"{counts.refused} refused")
    parts += [f"{number} failed ({code})" for code, number in sorted(counts.errors.items())]
    return ", ".join(parts)


def agreement_section(agreements: Sequence[Agreement]) -> str:
    """Return the comparison of endpoints as Markdown; blank without any."""
    if not agreements:
        return ""
    parts = ["## Endpoints on the same requests"]
    for each in agreements:
        cells = [[escape_text(cell.strip()) for cell in row] for row in agreement_rows(each)]
        parts += [
            escape_text(agreement_sentence(each)),
            markdown_table(list(map(escape_text, agreement_heads(each))), cells),
        ]
    parts.append("\n".join(f"- {escape_text(line)}" for line in request_count_lines(agreements)))
    parts.append(AGREEMENT_LEGEND.format(reference=escape_text(agreements[0].reference)))
    return "\n\n".join([*parts, "## Results by endpoint"])


def agreement_notices(agreements: Sequence[Agreement]) -> list[str]:
    """Return the comparison of endpoints as sentences for the HTML page."""
    if not agreements:
        return []
    return [*map(agreement_sentence, agreements), SEPARATE_RATES_NOTE]


def agreement_json(agreements: Sequence[Agreement], addresses: Mapping[str, str]) -> JSON:
    """Return the comparison of endpoints as JSON; every ratio has its n and interval."""
    figures = ("answered", "decision", "calls", "fits")
    plain: list[JSON] = [
        {
            **msgspec.to_builtins(each),
            "verdict": each.verdict,
            "verdicts": {name: getattr(each, name).verdict for name in figures},
            "sentence": agreement_sentence(each),
        }
        for each in agreements
    ]
    return {"endpoints": dict(addresses), "comparisons": plain}
