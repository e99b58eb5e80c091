"""Markdown tables in the columns of the original's tables. No text can break out of a cell."""

import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from surecall.eval.render import Entry, Results
from surecall.eval.render_summary import cell_summary, summary_by_scenario, totals
from surecall.eval.trial import CONTROL, Cell
from surecall.types import JSON

MATRIX_COLUMNS: Final = (
    "model",
    "sampling_profile",
    "tool_ok:",
    "tool_ok_rate:",
    "control_ok (chat_only):",
    "p95_ms:",
    "top tool failures",
)
RECOMMENDATION_COLUMNS: Final = (
    "model",
    "recommended sampling profile(s)",
    "preset/workaround",
    "recommended?",
    "notes",
)
SIMULATED: Final = (
    "**Simulated.** The models in this report are scripted stand-ins. Nothing here says anything "
    "about a real model."
)
_TOP_SCENARIOS: Final = 2
_NOTHING: Final = "-"
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + " _-./:,;%()+='")
# What Markdown or HTML could take for markup, or a table for the end of a cell.
_SPECIAL: Final = frozenset("&<>|\\`*_[]{}()#!~$@:")


def report(results: Results, recommendations: Iterable[Sequence[str]] = ()) -> str:
    """Return the report: the sums, the matrix, and what to use."""
    rows = list(recommendations)
    parts = [
        "# Tool calling evaluation",
        *([SIMULATED] if results.simulated else []),
        "\n".join(_sums(results)),
        "## Model/profile matrix (tool scenarios only)",
        matrix(results),
        *(["## Recommendations", recommendation_table(rows)] if rows else []),
    ]
    return "\n\n".join(parts) + "\n"


def matrix(results: Results) -> str:
    """Return one row for each cell; a column for the strategy only where there are several."""
    several = len({cell.strategy for cell in results.entries}) > 1
    columns = (*MATRIX_COLUMNS[:2], *(["strategy"] if several else []), *MATRIX_COLUMNS[2:])
    rows = [_matrix_row(results, cell, several=several) for cell in results.entries]
    return table(columns, rows)


def recommendation_table(rows: Iterable[Sequence[str]]) -> str:
    """Return one row for each model: profile, preset, verdict, notes; all plain text."""
    return table(
        RECOMMENDATION_COLUMNS,
        [(code(model), *map(text, others)) for model, *others in rows],
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


def _matrix_row(results: Results, cell: Cell, *, several: bool) -> tuple[str, ...]:
    figures = cell_summary(results, cell)
    return (
        code(cell.model),
        code(cell.profile),
        *([code(cell.strategy)] if several else []),
        _of(figures, "tool_"),
        _rate(figures),
        _of(figures, "control_"),
        str(figures["tool_ms_p95"] or _NOTHING),
        _top_failures(results.entries[cell]),
    )


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
    tools = [entry for entry in entries if not entry.is_control]
    failed = [entry for entry in tools if entry.status == "failed"]
    scenarios = Counter(entry.key.scenario for entry in failed).most_common(_TOP_SCENARIOS)
    categories = Counter(entry.category for entry in failed).most_common(1)
    spoiled = sum(entry.status == "infra" for entry in tools)
    parts = [f"{text(name)} x{count}" for name, count in (*scenarios, *categories)]
    return "; ".join([*parts, *([f"infra x{spoiled} (not scored)"] if spoiled else [])]) or _NOTHING


def _sums(results: Results) -> Iterable[str]:
    sums = totals(results)
    yield f"- Overall: {_share(sums['ok'], sums['runs'])}"
    tools = _share(sums["tool_ok"], sums["tool_runs"])
    yield f"- Tool scenarios only (without `{CONTROL}`): {tools}"
    if sums["infra"]:
        yield f"- Spoiled by the infrastructure, in no tool rate: {sums['infra']}"
    if sums["skipped"]:
        yield f"- Skipped, because they cannot apply: {sums['skipped']}"
    yield "- By scenario (ok / runs):"
    for name, counts in summary_by_scenario(results).items():
        yield f"  - {code(name)}: {_share(counts['ok'], counts['runs'])}"


def _share(ok: int, runs: int) -> str:
    return f"`{ok}/{runs}` ok (`{ok / runs:.2%}`)" if runs else "none"
