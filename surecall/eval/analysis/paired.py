"""Two strategies, or two runs, compared on the same conversations.

A pair is one scenario and trial of one model and profile, seen from both sides. Pairs that
infrastructure spoiled on either side say nothing about the difference: they are dropped and
counted. Only tool scenarios are compared; `Outcomes` leaves out the others.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from surecall.eval.analysis.outcomes import Ends, Outcomes, paired
from surecall.eval.analysis.stats import Rate, holm, mcnemar, paired_interval
from surecall.eval.storage.trial import Cell, Status
from surecall.settings.presets import Strategy

Names: TypeAlias = tuple[str, str]
_Side: TypeAlias = Mapping[Cell, Mapping[str, Ends]]

STRATEGIES: Final[tuple[str, ...]] = get_args(Strategy)
# Up to production, all is known to help or to do no harm; the strategies beyond must prove it.
_BEYOND_AT: Final = STRATEGIES.index("production") + 1
PLAIN, BEYOND = STRATEGIES[:_BEYOND_AT], STRATEGIES[_BEYOND_AT:]
ALPHA: Final = 0.05


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from `first` to `second`. A blank model, profile or strategy means all.

    `fixed` pairs pass only in the second, `broken` ones only in the first. The difference is the
    second rate minus the first; `p_adjusted` is corrected for the family. The interval of the
    difference, `low` to `high`, is corrected alike: it leaves out zero exactly if the verdict does.
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
        """How many pairs were judged on both sides."""
        return self.both + self.fixed + self.broken + self.neither

    @property
    def rates(self) -> tuple[Rate, Rate]:
        """The two rates, over the judged pairs alone."""
        n = self.pairs
        return Rate(self.both + self.broken, n), Rate(self.both + self.fixed, n)

    @property
    def where(self) -> str:
        """Which cells it is about, in words."""
        cell = " ".join(filter(None, (self.model, self.profile, self.strategy)))
        return cell if self.model else " ".join(filter(None, ("over all", self.strategy)))

    def verdict(self, alpha: float = ALPHA) -> Literal["better", "worse", "no evidence"]:
        """Say in words whether the second is better; a difference may well be noise."""
        if self.p_adjusted >= alpha:
            return "no evidence"
        return "better" if self.fixed > self.broken else "worse"


class Comparisons(msgspec.Struct, frozen=True):
    """A family of comparisons, and the same over everything; Holm's correction within each."""

    rows: tuple[Comparison, ...] = ()
    overall: tuple[Comparison, ...] = ()

    def beaten_by(self, cell: Cell) -> tuple[str, ...]:
        """Name the strategies that a cell's own is significantly better than."""
        own = [row for row in self.rows if (row.model, row.profile) == (cell.model, cell.profile)]
        return (
            *(
                row.first
                for row in own
                if row.second == cell.strategy and row.verdict() == "better"
            ),
            *(row.second for row in own if row.first == cell.strategy and row.verdict() == "worse"),
        )


def compare_strategies(found: Outcomes, cells: Iterable[Cell] = ()) -> Comparisons:
    """Compare every two strategies, model by model and profile by profile."""
    sides: dict[str, dict[Cell, Mapping[str, Ends]]] = {}
    for cell in found.cells:
        sides.setdefault(cell.strategy, {})[_any_strategy(cell)] = found.of(cell)
    order = tuple(map(_any_strategy, cells))
    rows: list[Comparison] = []
    overall: list[Comparison] = []
    for names in combinations(in_order(sides, by_strategy(sides)), 2):
        first, second = (sides[name] for name in names)
        rows += _by_cell(first, second, names, order)
        overall.append(_compared(first, second, names, Cell("", "", "")))
    return Comparisons(_corrected(rows), _corrected(overall))


def compare_runs(
    first: Outcomes, second: Outcomes, names: Names = ("A", "B"), cells: Iterable[Cell] = ()
) -> Comparisons:
    """Compare two evaluations cell by cell, on the conversations that both have.

    What is over everything is over all cells of one strategy: another strategy is another way to
    ask, and its rates are not added to these.
    """
    before, after = ({cell: side.of(cell) for cell in side.cells} for side in (first, second))
    rows = _by_cell(before, after, names, tuple(cells))
    strategies = {cell.strategy for cell in (*before, *after)}
    overall = [
        _compared(_asked(before, each), _asked(after, each), names, Cell("", "", each))
        for each in in_order(strategies, by_strategy(strategies))
    ]
    return Comparisons(_corrected(rows), _corrected(overall))


def by_strategy(labels: Iterable[str]) -> tuple[str, ...]:
    """Put the labels of known strategies in their order, those with a fallback after the plain."""
    known = (label for label in labels if label.partition("+")[0] in STRATEGIES)
    return tuple(
        sorted(known, key=lambda label: (STRATEGIES.index(label.partition("+")[0]), label))
    )


def in_order(found: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Put names in their known order; those it does not mention follow by alphabet."""
    present = set(found)
    listed = [name for name in dict.fromkeys(known) if name in present]
    return (*listed, *sorted(present.difference(listed)))


def _asked(side: _Side, strategy: str) -> _Side:
    return {cell: found for cell, found in side.items() if cell.strategy == strategy}


def _any_strategy(cell: Cell) -> Cell:
    return msgspec.structs.replace(cell, strategy="")


def _by_cell(
    first: _Side, second: _Side, names: Names, order: tuple[Cell, ...]
) -> list[Comparison]:
    found = first.keys() | second.keys()
    listed = [cell for cell in dict.fromkeys(order) if cell in found]
    cells = (*listed, *sorted(found - set(listed)))
    return [
        _compared({cell: first.get(cell, {})}, {cell: second.get(cell, {})}, names, cell)
        for cell in cells
    ]


def _compared(first: _Side, second: _Side, names: Names, cell: Cell) -> Comparison:
    """Compare all cells of two sides as one."""
    counts = dict.fromkeys(
        ("both", "fixed", "broken", "neither", "infra", "skipped", "unpaired"), 0
    )
    for each in first.keys() | second.keys():
        mine, theirs = first.get(each, {}), second.get(each, {})
        for scenario in mine.keys() | theirs.keys():
            ends = paired(mine.get(scenario, {}), theirs.get(scenario, {}))
            for pair, number in ends.items():
                counts[_kind(*pair)] += number
    plain = Comparison(
        model=cell.model,
        profile=cell.profile,
        strategy=cell.strategy,
        first=names[0],
        second=names[1],
        **counts,
    )
    return msgspec.structs.replace(
        plain,
        difference=(plain.fixed - plain.broken) / plain.pairs if plain.pairs else None,
        p=mcnemar(plain.fixed, plain.broken),
    )


def _kind(first: Status | None, second: Status | None) -> str:
    pair = (first, second)
    for status, kind in ((None, "unpaired"), ("infra", "infra"), ("skipped", "skipped")):
        if status in pair:
            return kind
    if first == second:
        return "both" if first == "passed" else "neither"
    return "fixed" if second == "passed" else "broken"


def _corrected(rows: list[Comparison]) -> tuple[Comparison, ...]:
    """Correct for the family. A row without pairs tests nothing, so it is no member."""
    adjusted = iter(holm([row.p for row in rows if row.pairs]))
    return tuple(
        _bounded(msgspec.structs.replace(row, p_adjusted=next(adjusted))) if row.pairs else row
        for row in rows
    )


def _bounded(row: Comparison) -> Comparison:
    """Add the interval, at the level at which this row was tested."""
    low, high = paired_interval(
        row.both,
        row.fixed,
        row.broken,
        row.neither,
        alpha=ALPHA * row.p / row.p_adjusted,
        differs=row.verdict() != "no evidence",
    )
    return msgspec.structs.replace(row, low=low, high=high)
