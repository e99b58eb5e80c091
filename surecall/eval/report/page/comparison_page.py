"""Renders the page that compares two runs.

    two runs ─► compare_runs          ─► rows          each cell, and overall
             ─► changed_conversations ─► changes       single conversations, fixed or broken
             ─► unmatched_trials      ─► unmatched     trials that only one run has

The page has no scripts, and its policy allows none.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
from jinja2.filters import do_mark_safe

from surecall.eval.analysis.classification import MEANINGS
from surecall.eval.analysis.comparisons import Comparison, Comparisons, ToolOutcomes
from surecall.eval.analysis.summary import Figure, pooled_figure
from surecall.eval.report.page.formatting import difference_axis_for
from surecall.eval.report.page.html import content_policy, style_sheet, template_environment
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.values.types import JSON

# Sign, text, and CSS class of each verdict.
VERDICT_STYLES: Final[dict[str, tuple[str, str, str]]] = {
    "better": ("▲", "better", "use"),
    "worse": ("▼", "worse", "avoid"),
    "no evidence": ("≈", "no evidence of a difference", "more-trials"),
    "not compared": ("\N{EN DASH}", "not compared", "none"),
}


class ComparedRun(msgspec.Struct, frozen=True):
    """One of the two runs with its trials."""

    name: str
    directory: str
    identity: JSON
    simulated: bool
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]


class ComparisonRow(msgspec.Struct, frozen=True):
    """A comparison with the figures of both runs and its verdict."""

    comparison: Comparison
    before: Figure
    after: Figure
    verdict: str


class ChangedConversation(msgspec.Struct, frozen=True):
    """A conversation that passed in only one run. `verdict` is that of its cell."""

    kind: Literal["fixed", "broken"]
    before: Trial
    after: Trial
    verdict: str

    @property
    def key(self) -> Key:
        """The key of the conversation, which is the same in both runs."""
        return self.after.key


class UnmatchedTrials(msgspec.Struct, frozen=True):
    """Trials that only one run has. A blank scenario means the whole cell."""

    side: Literal["A", "B"]
    cell: Cell
    scenario: str
    trials: int


def render_comparison(
    before: ComparedRun,
    after: ComparedRun,
    comparisons: Comparisons,
    *,
    settings: tuple[str, ...] = (),
    notices: tuple[str, ...] = (),
) -> str:
    """Return the comparison page.

    `settings` lists the settings that differ; `notices` are caveats about comparability.
    """
    rows = tuple(map(_comparison_row, comparisons.rows))
    changes = changed_conversations(before, after, comparisons)
    style = style_sheet("compare.css")
    return (
        template_environment()
        .get_template("compare.html")
        .render(
            sides=(("A", before), ("B", after)),
            simulated=before.simulated or after.simulated,
            overall=tuple(map(_comparison_row, comparisons.overall)),
            rows=rows,
            tally=Counter(row.verdict for row in rows),
            changes=changes,
            meanings=_category_meanings(changes),
            unmatched=unmatched_trials(before, after),
            settings=settings,
            notices=notices,
            verdicts=VERDICT_STYLES,
            axis=difference_axis_for(
                (row.low, row.high)
                for row in (*comparisons.overall, *comparisons.rows)
                if row.pairs
            ),
            policy=content_policy(style),
            style=do_mark_safe(style),  # noqa: S704 - files of this package
        )
    )


def changed_conversations(
    before: ComparedRun, after: ComparedRun, comparisons: Comparisons
) -> tuple[ChangedConversation, ...]:
    """Return the conversations that passed in only one run, broken ones first."""
    verdicts = {
        Cell(row.model, row.profile, row.strategy): row_verdict(row) for row in comparisons.rows
    }
    earlier = {trial.key: trial for trial in before.trials if trial.kind == "tool"}
    changes = [
        ChangedConversation("fixed" if trial.ok else "broken", was, trial, verdicts[trial.key.cell])
        for trial in after.trials
        if (was := earlier.get(trial.key)) and {was.status, trial.status} == {"passed", "failed"}
    ]
    return tuple(sorted(changes, key=lambda change: (change.kind, change.key)))


def unmatched_trials(before: ComparedRun, after: ComparedRun) -> tuple[UnmatchedTrials, ...]:
    """Return the trials that only one run has: whole cells, or scenarios of shared cells."""
    return (*_unmatched_in("A", before, after), *_unmatched_in("B", after, before))


def row_verdict(row: Comparison) -> str:
    """Return the verdict of a row; `not compared` without pairs."""
    return row.verdict() if row.pairs else "not compared"


def _unmatched_in(
    letter: Literal["A", "B"], side: ComparedRun, other: ComparedRun
) -> Iterator[UnmatchedTrials]:
    """Yield the trials of one run, A or B, that the other one lacks."""
    mine, theirs = ToolOutcomes(side.trials), ToolOutcomes(other.trials)
    shared = {*other.cells, *theirs.cells}
    counts = Counter({(cell, ""): 0 for cell in side.cells if cell not in shared})
    for (cell, scenario), number in mine.missing_from(theirs).items():
        counts[cell, scenario if cell in shared else ""] += number
    for (cell, scenario), number in sorted(counts.items()):
        yield UnmatchedTrials(letter, cell, scenario, number)


def _comparison_row(row: Comparison) -> ComparisonRow:
    first, second = row.rates
    return ComparisonRow(row, pooled_figure([first]), pooled_figure([second]), row_verdict(row))


def _category_meanings(changes: tuple[ChangedConversation, ...]) -> dict[str, str]:
    """Return the explanation of each category in the changes."""
    codes = {trial.category for change in changes for trial in (change.before, change.after)}
    return {code: MEANINGS[code] for code in sorted(codes & MEANINGS.keys())}
