"""The page of two runs: what got better, what broke, what may be chance.

    two sides ─► compare_runs ─► rows            each cell, and all of them
              ─► changes_of   ─► changes         single conversations, fixed or broken
              ─► lonely_of    ─► only in one     what cannot be compared

The page has no script at all, and its policy allows none.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
from jinja2.filters import do_mark_safe

from surecall.eval.analysis.figures import Figure
from surecall.eval.analysis.outcomes import Outcomes
from surecall.eval.analysis.paired import Comparison, Comparisons
from surecall.eval.analysis.stats import Rate
from surecall.eval.report.page import words
from surecall.eval.report.page.html import environment, source_hash, style_sheet
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.values.types import JSON

OWN_STYLE: Final = "compare.css"
# A sign, words, and the class that colours both.
VERDICTS: Final[dict[str, tuple[str, str, str]]] = {
    "better": ("▲", "better", "use"),
    "worse": ("▼", "worse", "avoid"),
    "no evidence": ("≈", "no evidence of a difference", "more-trials"),
    "not compared": ("\N{EN DASH}", "not compared", "none"),
}


class Side(msgspec.Struct, frozen=True):
    """One of the two runs, with its trials."""

    name: str
    directory: str
    identity: JSON
    simulated: bool
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]


class Row(msgspec.Struct, frozen=True):
    """A comparison as the page shows it."""

    compared: Comparison
    before: Figure
    after: Figure
    verdict: str


class Change(msgspec.Struct, frozen=True):
    """One conversation that passed on one side only; `verdict` is that of its cell."""

    kind: Literal["fixed", "broken"]
    before: Trial
    after: Trial
    verdict: str

    @property
    def key(self) -> Key:
        """Which conversation it is, on both sides."""
        return self.after.key


class Lonely(msgspec.Struct, frozen=True):
    """Trials that only one side has. A blank scenario means the whole cell."""

    side: Literal["A", "B"]
    cell: Cell
    scenario: str
    trials: int


def render_comparison(
    before: Side,
    after: Side,
    found: Comparisons,
    *,
    settings: tuple[str, ...] = (),
    notices: tuple[str, ...] = (),
) -> str:
    """Return the page. `settings` say where the two differ, `notices` what may make it unfair."""
    rows = tuple(map(_row, found.rows))
    changes = changes_of(before, after, found)
    style = style_sheet(OWN_STYLE)
    return (
        environment()
        .get_template("compare.html")
        .render(
            sides=(("A", before), ("B", after)),
            simulated=before.simulated or after.simulated,
            overall=tuple(map(_row, found.overall)),
            rows=rows,
            tally=Counter(row.verdict for row in rows),
            changes=changes,
            meanings=_meanings(changes),
            lonely=lonely_of(before, after),
            settings=settings,
            notices=notices,
            verdicts=VERDICTS,
            policy=_policy(style),
            style=do_mark_safe(style),  # noqa: S704 - files of this package
        )
    )


def changes_of(before: Side, after: Side, found: Comparisons) -> tuple[Change, ...]:
    """List the conversations that passed on one side only: the broken ones first."""
    verdicts = {_cell(row): verdict_of(row) for row in found.rows}
    earlier = {trial.key: trial for trial in before.trials if trial.kind == "tool"}
    changes = [
        Change("fixed" if trial.ok else "broken", was, trial, verdicts[trial.key.cell])
        for trial in after.trials
        if (was := earlier.get(trial.key)) and {was.status, trial.status} == {"passed", "failed"}
    ]
    return tuple(sorted(changes, key=lambda change: (change.kind, change.key)))


def lonely_of(before: Side, after: Side) -> tuple[Lonely, ...]:
    """List what only one run has: whole cells, and within shared ones scenario by scenario."""
    return (*_only("A", before, after), *_only("B", after, before))


def verdict_of(row: Comparison) -> str:
    """Return the verdict on a row; one without pairs was not compared."""
    return row.verdict() if row.pairs else "not compared"


def _only(letter: Literal["A", "B"], side: Side, other: Side) -> Iterator[Lonely]:
    mine, theirs = Outcomes(side.trials), Outcomes(other.trials)
    shared = {*other.cells, *theirs.cells}
    counts = Counter({(cell, ""): 0 for cell in side.cells if cell not in shared})
    for (cell, scenario), number in mine.lacking_in(theirs).items():
        counts[cell, scenario if cell in shared else ""] += number
    for (cell, scenario), number in sorted(counts.items()):
        yield Lonely(letter, cell, scenario, number)


def _row(row: Comparison) -> Row:
    first, second = row.rates
    return Row(row, _figure(first), _figure(second), verdict_of(row))


def _figure(rate: Rate) -> Figure:
    return Figure(rate.k, rate.n, rate.rate, *rate.interval)


def _cell(row: Comparison) -> Cell:
    return Cell(row.model, row.profile, row.strategy)


def _meanings(changes: tuple[Change, ...]) -> dict[str, str]:
    codes = {trial.category for change in changes for trial in (change.before, change.after)}
    return {code: words.MEANINGS[code] for code in sorted(codes & words.MEANINGS.keys())}


def _policy(style: str) -> str:
    allowed = (
        "default-src 'none'",
        f"style-src '{source_hash(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(allowed)
