"""The two kinds of figures in every report: rates with their intervals, and times."""

from collections.abc import Iterable

import msgspec

from surecall.eval.analysis.stats import CHOSEN, NOTHING, Rate, Stopping, interval, percentile


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


def timing(values: Iterable[int]) -> Timing:
    """Measure some times."""
    ordered = sorted(values)
    return Timing(len(ordered), percentile(ordered, 50), percentile(ordered, 95))
