"""The two kinds of figures in every report: rates with their intervals, and times."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

import msgspec

from surecall.eval.analysis.stats import CHOSEN, NOTHING, Rate, Stopping, interval, place_of


class Figure(msgspec.Struct, frozen=True):
    """A rate as reports show it: with its interval, clustered where scenarios suffice."""

    k: int
    n: int
    rate: float | None
    low: float
    high: float

    @property
    def counts(self) -> Rate:
        """The bare counts."""
        return Rate(self.k, self.n)


class Timing(msgspec.Struct, frozen=True):
    """Milliseconds, and of how many: p95 of few values is little more than the largest."""

    n: int = 0
    p50: int = 0
    p95: int = 0


class Latency(msgspec.Struct, frozen=True):
    """How long whole runs took, retries and tools included, and how long single requests.

    `tool` is what reports call p50 and p95: the runs of tool scenarios that were judged, so those
    of the tool rate. What infrastructure spoiled took as long as the patience of a client.
    """

    tool: Timing
    control: Timing
    requests: Timing


def figure(parts: Iterable[Rate], stopping: Stopping = CHOSEN) -> Figure:
    """Pool the rates of scenarios into one, with its interval."""
    rates = tuple(parts)
    total = sum(rates, NOTHING)
    bounds = interval(rates, sequential=stopping.sequential)
    return Figure(total.k, total.n, total.rate, *bounds)


class Times:
    """Milliseconds, each with how often it was measured: memory for the different ones alone."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self.counts = Counter(values)

    def add(self, *values: int) -> None:
        """Add what was measured."""
        self.counts.update(values)

    @classmethod
    def of(cls, parts: Iterable["Times"]) -> "Times":
        """Put several together."""
        found = cls()
        for part in parts:
            found.counts.update(part.counts)
        return found

    def __len__(self) -> int:
        return self.counts.total()

    def percentiles(self, percents: Sequence[int]) -> tuple[int, ...]:
        """Return the values at some places, in ascending order; as `percentile` counts them."""
        values = sorted(self.counts)
        ends = list(accumulate(self.counts[value] for value in values))
        if not values:
            return tuple(0 for _ in percents)
        places = (place_of(percent, ends[-1]) for percent in percents)
        return tuple(values[bisect_right(ends, place)] for place in places)

    @property
    def timing(self) -> Timing:
        """What reports show of it."""
        return Timing(len(self), *self.percentiles((50, 95)))
