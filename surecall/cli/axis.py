"""A rate and its interval, drawn on an axis of characters. Pure.

    40%             bar 90% 100%
    ···············───────┼─●

The line is the interval, the dot the observed rate, the cross the bar.
"""

from typing import Final

import msgspec

from surecall.eval.analysis.stats import Interval

WIDE: Final = 25
NARROW: Final = 17
FLOOR: Final = 0.4


class Axis(msgspec.Struct, frozen=True):
    """An axis from `floor` to 100 %, which all rows of a table share. `bar` is marked on it."""

    bar: float
    floor: float = FLOOR
    size: int = WIDE

    @property
    def head(self) -> str:
        """The ends of the axis, and the bar, as near to its place as there is room."""
        first, mark, last = f"{self.floor:.0%}", f"bar {self.bar:.0%}", "100%"
        latest = self.size - len(last) - 1 - len(mark)
        start = max(len(first) + 1, min(self._place(self.bar) - len(mark) + 1, latest))
        return (first.ljust(start) + mark).ljust(self.size - len(last)) + last

    def drawn(self, rate: float | None, bounds: Interval) -> str:
        """Draw a rate and its interval; without a rate, the bar alone."""
        marks = ["·"] * self.size
        if rate is not None:
            low, high = map(self._place, bounds)
            marks[low : high + 1] = "─" * (high + 1 - low)
        marks[self._place(self.bar)] = "┼"
        if rate is not None:
            marks[self._place(rate)] = "●"
        return "".join(marks)

    def _place(self, share: float) -> int:
        inside = max(0.0, min(1.0, (share - self.floor) / (1 - self.floor)))
        return round(inside * (self.size - 1))


def axis_for(bar: float, lowest: float, size: int = WIDE) -> Axis:
    """Return an axis on which all intervals have their place: from 0 % if one begins below 40."""
    return Axis(bar, FLOOR if lowest >= FLOOR and bar >= FLOOR else 0.0, size)
