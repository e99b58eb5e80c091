"""Where the lines of a drawing go. Pure geometry; the templates make SVG of it."""

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import Final

import msgspec

from surecall.eval.report.page.data import Curve

WIDTH: Final = 640
HEIGHT: Final = 180
_DECADE: Final = (1, 2, 5)
_MOST_TICKS: Final = 8


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
