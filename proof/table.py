"""The tables of claims, as Markdown."""

from collections.abc import Sequence
from pathlib import Path

from proof.claims import Row, Tier
from scripts.marked import with_part

_CLAIMS = "| claim | n | 95 % bound | result |\n|---|---:|---|---|"
_RUNS = "| claim | what was run | seed | details |\n|---|---|---:|---|"
_PART = "proof"


def markdown(rows: Sequence[Row], tier: Tier, machine: str) -> str:
    """Write the rows as Markdown: the claims with their results, then what was run."""
    held = sum(row.outcome.holds for row in rows)
    lines = [
        f"`make prove TIER={tier}`: {held} of {len(rows)} claims hold. {machine}",
        "",
        _CLAIMS,
        *map(_claim, rows),
        "",
        "### What was run",
        "",
        _RUNS,
        *map(_run, rows),
    ]
    for row in rows:
        if row.outcome.failures:
            lines += ["", f"### {row.id} does not hold", ""]
            lines += [f"- {_cell(failure)}" for failure in row.outcome.failures]
    return "\n".join(lines)


def write(text: str, path: Path) -> None:
    """Write the tables to a file: between the marks of a page that has them, else on their own."""
    page = path.read_text("utf-8") if path.exists() else ""
    has_marks = f"<!-- {_PART} -->" in page
    path.write_text(with_part(page, _PART, text) if has_marks else f"{text}\n", "utf-8")


def _claim(row: Row) -> str:
    outcome = row.outcome
    result = "holds" if outcome.holds else "**does not hold**"
    return _line(f"{row.id} {row.sentence}", f"{outcome.cases:,}", outcome.bound, result)


def _run(row: Row) -> str:
    return _line(row.id, row.outcome.ran, str(row.seed), row.outcome.figures)


def _line(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
