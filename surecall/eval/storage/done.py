"""Which trials are recorded, in little memory: ranges of numbers for each cell and scenario.

Trials of a scenario are numbered from one and mostly recorded in order, so a million of them are a
handful of ranges.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any, TypeAlias

from surecall.eval.storage.trial import Cell, Key

Place: TypeAlias = tuple[Cell, str]


class Done:
    """A set of keys: what is added is in it, and nothing else is."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._ranges: dict[Place, _Ranges] = {}
        for key in keys:
            self.add(key)

    def add(self, key: Key) -> None:
        """Add a key; one that is there already changes nothing."""
        self._ranges.setdefault((key.cell, key.scenario), _Ranges()).add(key.trial)

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


class _Ranges:
    """Whole numbers as ranges: `_firsts[i]` to `_lasts[i]`, ascending, with a gap between them."""

    def __init__(self) -> None:
        self._firsts: array[Any] = array("q")
        self._lasts: array[Any] = array("q")

    def add(self, number: int) -> None:
        """Lengthen the range that the number touches, join two, or begin one."""
        if number in self:
            return
        at = bisect_left(self._firsts, number)
        follows = at > 0 and self._lasts[at - 1] == number - 1
        precedes = at < len(self._firsts) and self._firsts[at] == number + 1
        if follows and precedes:
            self._lasts[at - 1] = self._lasts[at]
            del self._firsts[at], self._lasts[at]
        elif follows:
            self._lasts[at - 1] = number
        elif precedes:
            self._firsts[at] = number
        else:
            self._firsts.insert(at, number)
            self._lasts.insert(at, number)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number)
        return at > 0 and number <= self._lasts[at - 1]

    def up_to(self, last: int) -> int:
        """Count the numbers that are not larger than the last."""
        ends = zip(self._firsts, self._lasts, strict=True)
        return sum(min(end, last) - start + 1 for start, end in ends if start <= last)

    def __len__(self) -> int:
        return self.up_to(self._lasts[-1]) if self._lasts else 0

    def __eq__(self, other: object) -> bool:
        mine = (self._firsts, self._lasts)
        return isinstance(other, _Ranges) and mine == (other._firsts, other._lasts)

    __hash__ = None  # type: ignore[assignment]  # it changes
