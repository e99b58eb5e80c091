"""Markdown tables in the columns of the original's tables. No text can break out of a cell."""

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from surecall.eval.analysis.causes import CauseCount
from surecall.eval.analysis.paired import Comparison, Comparisons
from surecall.eval.analysis.summary import Summary, Totals
from surecall.eval.report.common import Entry, Results
from surecall.eval.report.conduct import COLUMNS, conduct_of, conduct_row
from surecall.eval.report.summary_json import (
    builds_in,
    cell_summary,
    figures,
    summary_by_scenario,
    totals,
    under,
)
from surecall.eval.storage.trial import CONTROL, Cell
from surecall.values.types import JSON

# These are shown only where they tell something.
STRATEGY: Final = "strategy"
READERS: Final = "calls read from"
NO_TOOLS: Final = "without tools:"
EARLY_ANSWERS: Final = "early answers:"
MATRIX_COLUMNS: Final = (
    "model",
    "sampling_profile",
    STRATEGY,
    READERS,
    "tool_ok:",
    "tool_ok_rate:",
    "control_ok (chat_only):",
    NO_TOOLS,
    "p95_ms:",
    EARLY_ANSWERS,
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
    "what was on",
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
CONDUCT: Final = (
    "Runs whose side effects were judged. Silent wrong: it ended as a success, but something is "
    "wrong; false success: what the answer claims was not done. Effects are counted one by one."
)
CAUSE_COLUMNS: Final = (
    "not met",
    "expected",
    "got",
    "runs:",
    "scenarios",
    "models",
    "code",
)
SIMULATED: Final = (
    "**Simulated.** The models in this report are simulated by scripts. Nothing here says anything "
    "about a real model."
)
_TOP_SCENARIOS: Final = 2
_TOP_CAUSES: Final = 20
_TOP_TEXTS: Final = 3
_NOTHING: Final = "-"
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + " _-./:,;%()+='")
# What Markdown or HTML could take for markup, or a table for the end of a cell.
_SPECIAL: Final = frozenset("&<>|\\`*_[]{}()#!~$@:")


def report(
    results: Results,
    recommendations: Iterable[Sequence[str]] = (),
    notice: str = "",
    lead: str = "",
) -> str:
    """Return the report: the sums, the matrix, what strategies change, and what to use.

    The notice says what is missing from it; the lead is a section that comes first.
    """
    rows = list(recommendations)
    found = figures(results)
    pairs = comparison_table(found.comparisons)
    parts = [
        "# Tool calling evaluation",
        *([SIMULATED] if results.simulated else []),
        *([f"**Note.** {text(notice)}"] if notice else []),
        *([lead] if lead else []),
        "\n".join(_sums(results, found)),
        "## Model/profile matrix (tool scenarios only)",
        matrix(results),
        *(["## Why runs failed", causes] if (causes := causes_table(found)) else []),
        *(["## What was done", CONDUCT, conduct] if (conduct := conduct_table(results)) else []),
        *(["## Strategies, on the same conversations", pairs] if found.comparisons.rows else []),
        *(_advice(rows, simulated=results.simulated) if rows else ()),
    ]
    return "\n\n".join(parts) + "\n"


def matrix(results: Results) -> str:
    """Return one row for each cell.

    The strategy, and what calls were read from, have a column only if there are several; early
    answers and runs of scenarios without tools only if there were any.
    """
    hidden = set()
    if len({cell.strategy for cell in results.entries}) == 1:
        hidden.add(STRATEGY)
    if len(_readers(results)) <= 1:
        hidden.add(READERS)
    if not any(entry.kind == "no_tools" for entry in results.all):
        hidden.add(NO_TOOLS)
    if not any(entry.false_finals for entry in results.all):
        hidden.add(EARLY_ANSWERS)
    columns = [name for name in MATRIX_COLUMNS if name not in hidden]
    cells = [_matrix_row(results, cell) for cell in results.entries]
    rows = [dict(zip(MATRIX_COLUMNS, row, strict=True)) for row in cells]
    return table(columns, [[row[name] for name in columns] for row in rows])


def conduct_table(results: Results) -> str:
    """Return one row for each cell with runs whose side effects were judged; blank without any."""
    found = {cell: conduct_of(entries) for cell, entries in results.entries.items()}
    rows = [
        (code(cell.model), code(cell.profile), code(cell.strategy), *conduct_row(conduct))
        for cell, conduct in found.items()
        if conduct.runs
    ]
    heads = ("model", "sampling_profile", STRATEGY, *(f"{name}:" for name in COLUMNS))
    return table(heads, rows) if rows else ""


def causes_table(found: Summary) -> str:
    """Return one row for each cause of failed runs, the most frequent first; blank without any."""
    rows = [_cause_row(cause) for cause in found.totals.causes[:_TOP_CAUSES]]
    if not rows:
        return ""
    rest = len(found.totals.causes) - len(rows)
    more = [f"And {rest} more, each in fewer runs or as many."] if rest else []
    return "\n\n".join([table(CAUSE_COLUMNS, rows), *more])


def _cause_row(cause: CauseCount) -> tuple[str, ...]:
    return (
        text(cause.check),
        _most(cause.expected),
        _most(cause.got),
        str(cause.times),
        _most(cause.scenarios),
        _most(cause.models),
        f"{code(cause.code)}{' (infrastructure, not scored)' if cause.infra else ''}",
    )


def _most(counts: Mapping[str, int]) -> str:
    """Name the most frequent texts, and how often each came; an ellipsis stands for the others."""
    if len(counts) == 1:
        return text(next(iter(counts)))
    listed = [f"{text(name)} x{count}" for name, count in list(counts.items())[:_TOP_TEXTS]]
    more = ["…"] if len(counts) > len(listed) else []
    return "; ".join([*listed, *more]) or _NOTHING


def _advice(rows: Iterable[Sequence[str]], *, simulated: bool) -> tuple[str, str]:
    """Return what to use; nothing that is simulated is recommended."""
    heading = "Simulated: what was handled" if simulated else "Recommendations"
    return f"## {heading}", recommendation_table(rows, simulated=simulated)


def recommendation_table(rows: Iterable[Sequence[str]], *, simulated: bool = False) -> str:
    """Return one row for each model, in the columns that `recommend.original_row` gives."""
    return table(
        SIMULATED_COLUMNS if simulated else RECOMMENDATION_COLUMNS,
        [(code(model), *map(text, others)) for model, *others in rows],
    )


def comparison_table(found: Comparisons) -> str:
    """Return one row for each model and profile, then those over everything."""
    return table(COMPARISON_COLUMNS, map(_comparison_row, (*found.rows, *found.overall)))


def _comparison_row(pair: Comparison) -> tuple[str, ...]:
    first, second = pair.rates
    bounds = f"[{100 * pair.low:+.1f}, {100 * pair.high:+.1f}]"
    return (
        code(pair.model) if pair.model else "all",
        code(pair.profile) if pair.profile else "all",
        f"{code(pair.first)} to {code(pair.second)}",
        f"{first.k}/{first.n} to {second.k}/{second.n}",
        str(pair.fixed),
        str(pair.broken),
        _NOTHING if pair.difference is None else f"{100 * pair.difference:+.1f} {bounds}",
        f"{pair.p:.2g}",
        f"{pair.p_adjusted:.2g}",
        pair.verdict(),
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out cells that are Markdown already; a name that ends in a colon aligns right."""
    names = [name.removesuffix(":") for name in columns]
    rulers = ["---:" if name.endswith(":") else "---" for name in columns]
    lines = [f"| {' | '.join(names)} |", f"|{'|'.join(rulers)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def code(value: str) -> str:
    """Show a name in code style, if it is plain; otherwise as the text that it is."""
    return f"`{value}`" if value and _PLAIN.issuperset(value) else text(value)


def text(value: str) -> str:
    """Show any text as itself, on one line."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    if _PLAIN.issuperset(plain):
        return plain or _NOTHING
    return "".join(f"&#{ord(char)};" if char in _SPECIAL else char for char in plain)


def _matrix_row(results: Results, cell: Cell) -> tuple[str, ...]:
    figures = cell_summary(results, cell)
    return (
        code(cell.model),
        code(cell.profile),
        code(cell.strategy),
        ", ".join(results.columns[cell].readers) or "unknown",
        _of(figures, "tool_"),
        _rate(figures),
        _of(figures, "control_"),
        _of(figures, "no_tools_"),
        str(figures["tool_ms_p95"] or _NOTHING),
        _early(figures["false_finals"]),
        _top_failures(results.entries[cell]),
    )


def _early(found: JSON) -> str:
    return f"{found['answers']} in {_runs(found['runs'])}" if found["answers"] else _NOTHING


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _of(figures: JSON, prefix: str) -> str:
    runs = figures[f"{prefix}runs"]
    return f"{figures[f'{prefix}ok']}/{runs}" if runs else _NOTHING


def _rate(figures: JSON) -> str:
    if not figures["tool_runs"]:
        return _NOTHING
    low, high = figures["tool_ok_interval"]
    return f"{figures['tool_ok_rate']:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def _top_failures(entries: Iterable[Entry]) -> str:
    """Name the scenarios that fail most, and the commonest category; infrastructure apart."""
    tools = [entry for entry in entries if entry.kind == "tool"]
    failed = [entry for entry in tools if entry.status == "failed"]
    scenarios = Counter(entry.key.scenario for entry in failed).most_common(_TOP_SCENARIOS)
    categories = Counter(entry.category for entry in failed).most_common(1)
    spoiled = sum(entry.status == "infra" for entry in tools)
    parts = [f"{text(name)} x{count}" for name, count in (*scenarios, *categories)]
    return "; ".join([*parts, *([f"infra x{spoiled} (not scored)"] if spoiled else [])]) or _NOTHING


def _sums(results: Results, found: Summary) -> Iterable[str]:
    """Write the sums; those of several strategies one after the other, never as one."""
    for strategy, own in found.strategies.items():
        lines = _strategy_sums(under(results, strategy), own)
        if len(found.strategies) == 1:
            yield from lines
        else:
            yield f"- Under {code(strategy)}:"
            yield from (f"  {line}" for line in lines)
    known = _readers(results)
    if len(known) == 1 and (names := ", ".join(*known)):
        yield f"- Calls were read from: {names}"
    if builds := _builds(results):
        yield f"- Served by: {', '.join(map(code, builds))}"


def _strategy_sums(results: Results, found: Totals) -> Iterable[str]:
    sums = totals(results)
    yield f"- Overall: {_share(sums['ok'], sums['runs'])}"
    tools = _share(sums["tool_ok"], sums["tool_runs"])
    yield f"- Tool scenarios only (without `{CONTROL}`): {tools}"
    whole = _share(found.end_to_end.k, found.end_to_end.n)
    yield f"- The same end to end (what the infrastructure spoiled is a failure): {whole}"
    if sums["no_tools_runs"]:
        without = _share(sums["no_tools_ok"], sums["no_tools_runs"])
        yield f"- Scenarios without tools (other than `{CONTROL}`), in no tool rate: {without}"
    if found.pass_hat:
        chances = ", ".join(f"{k}: {chance:.1%}" for k, chance in enumerate(found.pass_hat, 1))
        yield f"- pass^k, the chance that a scenario passes k times in a row: {chances}"
    if early := sums["false_finals"]["answers"]:
        runs, passed = _runs(sums["false_finals"]["runs"]), sums["false_finals"]["passed"]
        yield f"- Early answers: {early}, in {runs}, {passed} of which passed"
    if sums["infra"]:
        yield f"- Spoiled by the infrastructure, in no tool rate: {sums['infra']}"
    if sums["skipped"]:
        yield f"- Skipped, because they cannot apply: {sums['skipped']}"
    yield "- By scenario (ok / runs):"
    for name, counts in summary_by_scenario(results).items():
        yield f"  - {code(name)}: {_share(counts['ok'], counts['runs'])}"


def _readers(results: Results) -> set[tuple[str, ...]]:
    return {column.readers for column in results.columns.values()}


def _builds(results: Results) -> list[str]:
    started = results.sheet.settings.get("served_by")
    return [*([started] if isinstance(started, str) and started else []), *builds_in(results)]


def _share(ok: int, runs: int) -> str:
    return f"`{ok}/{runs}` ok (`{ok / runs:.2%}`)" if runs else "none"
