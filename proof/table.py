"""The table of claims, for people: Markdown, one row for each claim."""

from collections.abc import Sequence

from proof.claims import Row, Tier

_HEAD = "| claim | what was run | n | seed | 95 % bound | result |\n|---|---|---:|---:|---|---|"

_TRY_IT = """## Try it

One claim, in seconds, in a clone with the environment that `make test` makes:

```sh
python -m proof D4
```

```text
…
… D4 JSON is read as JSONTestSuite says, … | 318 | 1 | every case | holds; …
```"""


def markdown(rows: Sequence[Row], tier: Tier, machine: str) -> str:
    """Write the rows as a document."""
    held = sum(row.outcome.holds for row in rows)
    lines = [
        "# Proof",
        "",
        f"`make prove TIER={tier}` wrote this: {held} of {len(rows)} claims hold. {machine}",
        "",
        _HEAD,
        *map(_line, rows),
    ]
    for row in rows:
        if row.outcome.failures:
            lines += ["", f"## {row.id} does not hold", ""]
            lines += [f"- {_cell(failure)}" for failure in row.outcome.failures]
    return "\n".join([*lines, "", _TRY_IT]) + "\n"


def _line(row: Row) -> str:
    outcome = row.outcome
    result = "holds" if outcome.holds else "**does not hold**"
    if outcome.figures:
        result += f"; {outcome.figures}"
    cells = (
        f"{row.id} {row.sentence}",
        outcome.ran,
        f"{outcome.cases:,}",
        str(row.seed),
        outcome.bound,
        result,
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
