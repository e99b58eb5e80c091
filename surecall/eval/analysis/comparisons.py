"""Compares strategies, or whole runs, on the same conversations.

A pair is one scenario and trial of one model and profile, with its result on both sides. Pairs with
an infrastructure error on either side are excluded and counted. Only tool scenarios are compared.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from surecall.eval.analysis.stats import Rate, holm_adjust, mcnemar_p, paired_interval
from surecall.eval.storage.trial import Cell, CellScenario, IntegerRanges, Key, Status, Trial
from surecall.settings.presets import Strategy

TrialsByStatus: TypeAlias = Mapping[Status, IntegerRanges]
StatusPair: TypeAlias = tuple[Status | None, Status | None]


class ToolOutcomes:
    """The statuses of tool trials by cell and scenario, stored compactly."""

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._ends: dict[Cell, dict[str, dict[Status, IntegerRanges]]] = {}
        for trial in trials:
            if trial.kind == "tool":
                self.add(trial.key, trial.status)

    def add(self, key: Key, status: Status) -> None:
        """Record the status of a trial. Each trial must be added only once."""
        ends = self._ends.setdefault(key.cell, {}).setdefault(key.scenario, {})
        ends.setdefault(status, IntegerRanges()).add(key.trial)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells with trials."""
        return tuple(self._ends)

    def by_scenario(self, cell: Cell) -> Mapping[str, TrialsByStatus]:
        """Return the trials of a cell by scenario and status."""
        return self._ends.get(cell, {})

    def missing_from(self, other: "ToolOutcomes") -> Counter[CellScenario]:
        """Return the number of trials that `other` lacks, by cell and scenario."""
        found: Counter[CellScenario] = Counter()
        for cell in self.cells:
            theirs = other.by_scenario(cell)
            for scenario, ends in self.by_scenario(cell).items():
                both = count_pairs(ends, theirs.get(scenario, {}))
                found[cell, scenario] = sum(both[status, None] for status in ends)
        return +found


def count_pairs(first: TrialsByStatus, second: TrialsByStatus) -> Counter[StatusPair]:
    """Count the trials of one scenario by status on both sides; None means missing."""
    counts: Counter[StatusPair] = Counter()
    for status, mine in first.items():
        counts[status, None] += len(mine)
        for other, theirs in second.items():
            counts[status, other] = common = mine.count_common(theirs)
            counts[status, None] -= common
            counts[None, other] -= common
    for other, theirs in second.items():
        counts[None, other] += len(theirs)
    return counts


SideNames: TypeAlias = tuple[str, str]
_OutcomesByCell: TypeAlias = Mapping[Cell, Mapping[str, TrialsByStatus]]

STRATEGIES: Final[tuple[str, ...]] = get_args(Strategy)
# Strategies up to production are known to be harmless; extended ones must prove their benefit.
_FIRST_EXTENDED: Final = STRATEGIES.index("production") + 1
PLAIN_STRATEGIES, EXTENDED_STRATEGIES = STRATEGIES[:_FIRST_EXTENDED], STRATEGIES[_FIRST_EXTENDED:]
ALPHA: Final = 0.05


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A paired comparison of `first` and `second`. A blank model, profile, or strategy means all.

    `fixed` pairs pass only in the second, `broken` pairs only in the first. The difference is the
    second rate minus the first. `p_adjusted` and the interval `low` to `high` are corrected for
    multiple comparisons; the interval excludes zero exactly if the verdict is significant.
    """

    model: str = ""
    profile: str = ""
    strategy: str = ""
    first: str
    second: str
    both: int
    fixed: int
    broken: int
    neither: int
    infra: int = 0
    skipped: int = 0
    unpaired: int = 0
    difference: float | None = None
    low: float = -1.0
    high: float = 1.0
    p: float = 1.0
    p_adjusted: float = 1.0

    @property
    def pairs(self) -> int:
        """Number of pairs scored on both sides."""
        return self.both + self.fixed + self.broken + self.neither

    @property
    def rates(self) -> tuple[Rate, Rate]:
        """The two rates over the scored pairs."""
        n = self.pairs
        return Rate(self.both + self.broken, n), Rate(self.both + self.fixed, n)

    @property
    def scope(self) -> str:
        """The cells that are compared, in words."""
        cell = " ".join(filter(None, (self.model, self.profile, self.strategy)))
        return cell if self.model else " ".join(filter(None, ("over all", self.strategy)))

    def verdict(self, alpha: float = ALPHA) -> Literal["better", "worse", "no evidence"]:
        """Return whether the second side is significantly better or worse."""
        if self.p_adjusted >= alpha:
            return "no evidence"
        return "better" if self.fixed > self.broken else "worse"


class Comparisons(msgspec.Struct, frozen=True):
    """Comparisons by cell and overall, each family with Holm's correction."""

    rows: tuple[Comparison, ...] = ()
    overall: tuple[Comparison, ...] = ()

    def strategies_beaten_by(self, cell: Cell) -> tuple[str, ...]:
        """Return the strategies that the cell's own is significantly better than."""
        own = [row for row in self.rows if (row.model, row.profile) == (cell.model, cell.profile)]
        return (
            *(
                row.first
                for row in own
                if row.second == cell.strategy and row.verdict() == "better"
            ),
            *(row.second for row in own if row.first == cell.strategy and row.verdict() == "worse"),
        )


def compare_strategies(outcomes: ToolOutcomes, cells: Iterable[Cell] = ()) -> Comparisons:
    """Compare every pair of strategies for each model and profile."""
    sides: dict[str, dict[Cell, Mapping[str, TrialsByStatus]]] = {}
    for cell in outcomes.cells:
        sides.setdefault(cell.strategy, {})[_without_strategy(cell)] = outcomes.by_scenario(cell)
    order = tuple(map(_without_strategy, cells))
    rows: list[Comparison] = []
    overall: list[Comparison] = []
    for names in combinations(sort_names(sides, sort_strategies(sides)), 2):
        first, second = (sides[name] for name in names)
        rows += _compare_cells(first, second, names, order)
        overall.append(_compare_pooled(first, second, names, Cell("", "", "")))
    return Comparisons(_correct_for_family(rows), _correct_for_family(overall))


def compare_runs(
    first: ToolOutcomes,
    second: ToolOutcomes,
    names: SideNames = ("A", "B"),
    cells: Iterable[Cell] = (),
) -> Comparisons:
    """Compare two runs cell by cell on the conversations that both have.

    The overall comparisons pool the cells of one strategy. Rates of different strategies are never
    combined.
    """
    before, after = (
        {cell: side.by_scenario(cell) for cell in side.cells} for side in (first, second)
    )
    rows = _compare_cells(before, after, names, tuple(cells))
    strategies = {cell.strategy for cell in (*before, *after)}
    overall = [
        _compare_pooled(
            _outcomes_of_strategy(before, each),
            _outcomes_of_strategy(after, each),
            names,
            Cell("", "", each),
        )
        for each in sort_names(strategies, sort_strategies(strategies))
    ]
    return Comparisons(_correct_for_family(rows), _correct_for_family(overall))


def sort_strategies(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels of known strategies in strategy order, plain before those with fallback."""
    known = (label for label in labels if label.partition("+")[0] in STRATEGIES)
    return tuple(
        sorted(known, key=lambda label: (STRATEGIES.index(label.partition("+")[0]), label))
    )


def sort_names(names: Iterable[str], known_order: Iterable[str]) -> tuple[str, ...]:
    """Return names in their known order, then the remaining ones alphabetically."""
    present = set(names)
    listed = [name for name in dict.fromkeys(known_order) if name in present]
    return (*listed, *sorted(present.difference(listed)))


def _outcomes_of_strategy(outcomes: _OutcomesByCell, strategy: str) -> _OutcomesByCell:
    return {cell: found for cell, found in outcomes.items() if cell.strategy == strategy}


def _without_strategy(cell: Cell) -> Cell:
    return msgspec.structs.replace(cell, strategy="")


def _compare_cells(
    first: _OutcomesByCell, second: _OutcomesByCell, names: SideNames, cell_order: tuple[Cell, ...]
) -> list[Comparison]:
    """Compare two sides cell by cell."""
    found = first.keys() | second.keys()
    listed = [cell for cell in dict.fromkeys(cell_order) if cell in found]
    cells = (*listed, *sorted(found - set(listed)))
    return [
        _compare_pooled({cell: first.get(cell, {})}, {cell: second.get(cell, {})}, names, cell)
        for cell in cells
    ]


def _compare_pooled(
    first: _OutcomesByCell, second: _OutcomesByCell, names: SideNames, cell: Cell
) -> Comparison:
    """Compare two sides over all their cells."""
    counts = dict.fromkeys(
        ("both", "fixed", "broken", "neither", "infra", "skipped", "unpaired"), 0
    )
    for each in first.keys() | second.keys():
        mine, theirs = first.get(each, {}), second.get(each, {})
        for scenario in mine.keys() | theirs.keys():
            ends = count_pairs(mine.get(scenario, {}), theirs.get(scenario, {}))
            for pair, number in ends.items():
                counts[_pair_kind(*pair)] += number
    plain = Comparison(
        first=names[0],
        second=names[1],
        **(msgspec.structs.asdict(cell) | counts),
    )
    return msgspec.structs.replace(
        plain,
        difference=(plain.fixed - plain.broken) / plain.pairs if plain.pairs else None,
        p=mcnemar_p(plain.fixed, plain.broken),
    )


def _pair_kind(first: Status | None, second: Status | None) -> str:
    """Return the field of `Comparison` that counts a pair with these statuses."""
    pair = (first, second)
    for status, kind in ((None, "unpaired"), ("infra", "infra"), ("skipped", "skipped")):
        if status in pair:
            return kind
    if first == second:
        return "both" if first == "passed" else "neither"
    return "fixed" if second == "passed" else "broken"


def _correct_for_family(rows: list[Comparison]) -> tuple[Comparison, ...]:
    """Apply Holm's correction. Rows without pairs are not part of the family."""
    adjusted = iter(holm_adjust([row.p for row in rows if row.pairs]))
    return tuple(
        _with_interval(msgspec.structs.replace(row, p_adjusted=next(adjusted)))
        if row.pairs
        else row
        for row in rows
    )


def _with_interval(row: Comparison) -> Comparison:
    """Add the interval at the level at which the row was tested."""
    low, high = paired_interval(
        row.both,
        row.fixed,
        row.broken,
        row.neither,
        alpha=ALPHA * row.p / row.p_adjusted,
        differs=row.verdict() != "no evidence",
    )
    return msgspec.structs.replace(row, low=low, high=high)


_VERDICT_PHRASES = {
    "better": "statistically significant",
    "worse": "statistically significant",
    "no evidence": "not significant after correction",
}


def overall_gains(comparisons: Comparisons) -> dict[tuple[str, str], Comparison]:
    """Return the comparison of the first and last strategy for each model and profile."""
    return {
        (row.model, row.profile): row
        for row in comparisons.rows
        if _spans_all_strategies(row, comparisons)
    }


def change_sentence(row: Comparison) -> str:
    """Return a sentence about the difference and whether it is significant."""
    before, after = row.rates
    strategy = f" with {row.strategy}" if row.strategy else ""
    passed = (
        f"From {row.first} to {row.second}{strategy}: {before.k} of {before.n} runs passed, then "
        f"{after.k}"
    )
    if not row.fixed and not row.broken:
        return f"{passed}; no difference."
    changed = f"{format_points(row)} ({row.fixed} fixed, {row.broken} broken)"
    return f"{passed}; {changed}; {_VERDICT_PHRASES[row.verdict()]}."


def format_points(row: Comparison) -> str:
    """Return a difference of rates as text, such as `+80 points`."""
    return f"{round(100 * (row.difference or 0.0)):+} points"


def _spans_all_strategies(row: Comparison, comparisons: Comparisons) -> bool:
    """Whether a row compares the first strategy with the last."""
    return (row.first, row.second) == (comparisons.overall[0].first, comparisons.overall[-1].second)
