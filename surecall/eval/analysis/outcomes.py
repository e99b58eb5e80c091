"""How trials ended, in little memory: for each cell and scenario, their numbers by status."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from surecall.eval.storage.done import Place
from surecall.eval.storage.ranges import Ranges
from surecall.eval.storage.trial import Cell, Key, Status, Trial

Ends: TypeAlias = Mapping[Status, Ranges]
Kinds: TypeAlias = tuple[Status | None, Status | None]


class Outcomes:
    """What a comparison needs of trials: those of tool scenarios, and how they ended."""

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._ends: dict[Cell, dict[str, dict[Status, Ranges]]] = {}
        for trial in trials:
            if trial.kind == "tool":
                self.add(trial.key, trial.status)

    def add(self, key: Key, status: Status) -> None:
        """Note how a trial ended; each is noted once."""
        ends = self._ends.setdefault(key.cell, {}).setdefault(key.scenario, {})
        ends.setdefault(status, Ranges()).add(key.trial)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that have any."""
        return tuple(self._ends)

    def of(self, cell: Cell) -> Mapping[str, Ends]:
        """Return those of a cell, by scenario."""
        return self._ends.get(cell, {})

    def lacking_in(self, other: "Outcomes") -> Counter[Place]:
        """Count the trials that another has not, by cell and scenario."""
        found: Counter[Place] = Counter()
        for cell in self.cells:
            theirs = other.of(cell)
            for scenario, ends in self.of(cell).items():
                both = paired(ends, theirs.get(scenario, {}))
                found[cell, scenario] = sum(both[status, None] for status in ends)
        return +found


def paired(first: Ends, second: Ends) -> Counter[Kinds]:
    """Count the trials of one scenario by how they ended on both sides; None for not at all."""
    counts: Counter[Kinds] = Counter()
    for status, mine in first.items():
        counts[status, None] += len(mine)
        for other, theirs in second.items():
            counts[status, other] = common = mine.common(theirs)
            counts[status, None] -= common
            counts[None, other] -= common
    for other, theirs in second.items():
        counts[None, other] += len(theirs)
    return counts
