"""Where the lines of a drawing go. Pure geometry; the templates make SVG of it."""

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import Final

import msgspec

from surecall.eval.analysis.figures import Figure
from surecall.eval.report.page.data import Curve

WIDTH: Final = 640
HEIGHT: Final = 180
_DECADE: Final = (1, 2, 5)
_MOST_TICKS: Final = 8
_TENTHS: Final = 10
# An axis shows at least the upper half; one that shows more than this has a tick every 20 %.
_SHORTEST_FROM: Final = 5
_LONG_FROM: Final = 3
_WIDE_STEP: Final = 2


class Axis(msgspec.Struct, frozen=True):
    """The one axis of rates, from `start` tenths to 100 %: every row of a report is drawn on it."""

    start: int = 0

    def share(self, rate: float) -> float:
        """Return the place of a rate, as a share of the width."""
        share = (_TENTHS * rate - self.start) / (_TENTHS - self.start)
        return min(max(share, 0.0), 1.0)

    def at(self, rate: float) -> str:
        """Return the same, as it is written in a drawing."""
        return f"{100 * self.share(rate):.2f}%"

    def between(self, low: float, high: float) -> str:
        """Return how wide a stretch is drawn."""
        return f"{float(self.at(high)[:-1]) - float(self.at(low)[:-1]):.2f}%"

    @property
    def ticks(self) -> tuple[float, ...]:
        """The rates that are written at the axis."""
        step = 1 if self.start >= _LONG_FROM else _WIDE_STEP
        return tuple(tenth / _TENTHS for tenth in range(_TENTHS, self.start - 1, -step))[::-1]


def axis_for(figures: Iterable[Figure]) -> Axis:
    """Return the axis on which all of these fit."""
    lowest = min((floor(_TENTHS * each.low) for each in figures if each.n), default=0)
    # An axis begins with a tick.
    start = lowest if lowest >= _LONG_FROM else lowest - lowest % _WIDE_STEP
    return Axis(min(start, _SHORTEST_FROM))


class Line(msgspec.Struct, frozen=True):
    """One curve, as the points of a polyline; `p50` and `p95` in milliseconds."""

    name: str
    n: int
    path: str
    p50: int
    p95: int


class Plot(msgspec.Struct, frozen=True):
    """Curves over one logarithmic axis of time."""

    lines: tuple[Line, ...] = ()
    ticks: tuple[tuple[float, int], ...] = ()
    width: int = WIDTH
    height: int = HEIGHT


def curves(found: Sequence[Curve]) -> Plot:
    """Place distributions side by side: how many were done, over how long it took."""
    values = [max(point, 1) for curve in found for point in curve.points]
    if not values:
        return Plot()
    start, end = log10(min(values)), log10(max(values))
    if end - start < 1:
        start, end = start - 0.5, end + 0.5

    def across(ms: float) -> float:
        return round((log10(max(ms, 1)) - start) / (end - start) * WIDTH, 1)

    ticks = [
        (across(step * 10**power), step * 10**power)
        for power in range(max(floor(start), 0), ceil(end) + 1)
        for step in _DECADE
        if start <= log10(step * 10**power) <= end
    ]
    if len(ticks) > _MOST_TICKS:
        ticks = [tick for tick in ticks if str(tick[1]).startswith("1")]
    lines = tuple(
        Line(curve.name, curve.n, _path(curve, across), curve.points[50], curve.points[95])
        for curve in found
    )
    return Plot(lines, tuple(ticks))


def _path(curve: Curve, across: Callable[[float], float]) -> str:
    last = len(curve.points) - 1
    return " ".join(
        f"{across(ms)},{round(HEIGHT - HEIGHT * step / last, 1)}"
        for step, ms in enumerate(curve.points)
    )
