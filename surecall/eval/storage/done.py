"""Which trials are recorded, in little memory: ranges of numbers for each cell and scenario.

Trials of a scenario are numbered from one and mostly recorded in order, so a million of them are a
handful of ranges.
"""

from collections.abc import Iterable
from typing import TypeAlias

from surecall.eval.storage.ranges import Ranges
from surecall.eval.storage.trial import Cell, Key

Place: TypeAlias = tuple[Cell, str]


class Done:
    """A set of keys: what is added is in it, and nothing else is."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._ranges: dict[Place, Ranges] = {}
        for key in keys:
            self.add(key)

    def add(self, key: Key) -> None:
        """Add a key; one that is there already changes nothing."""
        self._ranges.setdefault((key.cell, key.scenario), Ranges()).add(key.trial)

    def __contains__(self, key: Key) -> bool:
        ranges = self._ranges.get((key.cell, key.scenario))
        return ranges is not None and key.trial in ranges

    def within(self, place: Place, first: int, last: int) -> int:
        """Count the trials of a cell and scenario from a first to a last number, both included."""
        ranges = self._ranges.get(place)
        return 0 if ranges is None else ranges.up_to(last) - ranges.up_to(first - 1)

    def __len__(self) -> int:
        return sum(len(ranges) for ranges in self._ranges.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Done) and self._ranges == other._ranges

    __hash__ = None  # type: ignore[assignment]  # it changes
