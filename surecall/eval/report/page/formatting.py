"""Chart geometry and text formatting for the templates of the page."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Final
from urllib.parse import quote

import msgspec
from jinja2.filters import do_mark_safe

from surecall.eval.analysis.recommendations import IntervalDecision
from surecall.eval.analysis.summary import Figure, Timing
from surecall.eval.storage.trial import Key
from surecall.values.text import join_surrogates
from surecall.values.trace import safe_text

WIDTH: Final = 640
HEIGHT: Final = 180
_MOST_TICKS: Final = 8
_TENTHS: Final = 10
# In tenths: an axis starts at 50% or lower; one that starts below 30% has ticks every 20%.
_SHORTEST_FROM: Final = 5
_LONG_FROM: Final = 3
_WIDE_STEP: Final = 2


class RateAxis(msgspec.Struct, frozen=True):
    """The shared axis of all rates in a report, from `start` tenths to 100%."""

    start: int = 0

    def share(self, rate: float) -> float:
        """Return the position of a rate as a share of the width."""
        share = (_TENTHS * rate - self.start) / (_TENTHS - self.start)
        return min(max(share, 0.0), 1.0)

    def at(self, rate: float) -> str:
        """Return the position of a rate as an SVG percentage."""
        return f"{100 * self.share(rate):.2f}%"

    def between(self, low: float, high: float) -> str:
        """Return the width between two rates as an SVG percentage."""
        return f"{float(self.at(high)[:-1]) - float(self.at(low)[:-1]):.2f}%"

    @property
    def ticks(self) -> tuple[float, ...]:
        """The rates that are labeled on the axis."""
        step = 1 if self.start >= _LONG_FROM else _WIDE_STEP
        return tuple(tenth / _TENTHS for tenth in range(_TENTHS, self.start - 1, -step))[::-1]


def axis_for(figures: Iterable[Figure]) -> RateAxis:
    """Return an axis that fits all figures."""
    lowest = min((floor(_TENTHS * each.low) for each in figures if each.n), default=0)
    # The axis starts at a tick.
    start = lowest if lowest >= _LONG_FROM else lowest - lowest % _WIDE_STEP
    return RateAxis(min(start, _SHORTEST_FROM))


# Ends of an axis of differences, as shares.
_DIFFERENCE_ENDS: Final = (0.1, 0.2, 0.5, 1.0)


class DifferenceAxis(msgspec.Struct, frozen=True):
    """The shared axis of all differences in a comparison, from `-end` to `end`."""

    end: float = 1.0

    def at(self, difference: float) -> str:
        """Return the position of a difference as an SVG percentage."""
        share = 0.5 + difference / self.end / 2
        return f"{100 * min(max(share, 0.0), 1.0):.2f}%"

    @property
    def ticks(self) -> tuple[float, ...]:
        """The differences that are labeled on the axis."""
        return (-self.end, -self.end / 2, 0.0, self.end / 2, self.end)


def difference_axis_for(bounds: Iterable[tuple[float, float]]) -> DifferenceAxis:
    """Return an axis that fits all intervals of differences."""
    most = max((abs(bound) for pair in bounds for bound in pair), default=1.0)
    return DifferenceAxis(next((end for end in _DIFFERENCE_ENDS if most <= end), 1.0))


class CurveLine(msgspec.Struct, frozen=True):
    """One curve, as the points of a polyline; `p50` and `p95` in milliseconds."""

    name: str
    n: int
    path: str
    p50: int
    p95: int


class CurvePlot(msgspec.Struct, frozen=True):
    """Curves over one logarithmic axis of time."""

    lines: tuple[CurveLine, ...] = ()
    ticks: tuple[tuple[float, int], ...] = ()
    width: int = WIDTH
    height: int = HEIGHT


def plot_curves(timings: Mapping[str, Timing]) -> CurvePlot:
    """Return the cumulative distributions of durations as curves."""
    values = [max(point, 1) for timing in timings.values() for point in timing.points]
    if not values:
        return CurvePlot()
    start, end = log10(min(values)), log10(max(values))
    if end - start < 1:
        start, end = start - 0.5, end + 0.5

    def across(ms: float) -> float:
        """Return the horizontal position of a duration."""
        return round((log10(max(ms, 1)) - start) / (end - start) * WIDTH, 1)

    ticks = [
        (across(step * 10**power), step * 10**power)
        for power in range(max(floor(start), 0), ceil(end) + 1)
        for step in (1, 2, 5)
        if start <= log10(step * 10**power) <= end
    ]
    if len(ticks) > _MOST_TICKS:
        ticks = [tick for tick in ticks if str(tick[1]).startswith("1")]
    lines = tuple(
        CurveLine(name, timing.n, _polyline_points(timing.points, across), timing.p50, timing.p95)
        for name, timing in timings.items()
    )
    return CurvePlot(lines, tuple(ticks))


def _polyline_points(points: Sequence[int], position_of: Callable[[float], float]) -> str:
    last = len(points) - 1
    return " ".join(
        f"{position_of(ms)},{round(HEIGHT - HEIGHT * step / last, 1)}"
        for step, ms in enumerate(points)
    )


# Explanation of each group of models.
DECISION_RULES: Final[dict[IntervalDecision, str]] = {
    "use": "the whole interval is at or above the threshold",
    "avoid": "the whole interval is below the threshold",
    "more trials": "the interval includes the threshold, and more runs would decide",
    "too close": (
        "the interval includes the threshold, and more runs would not decide or are not planned"
    ),
    "not measured": "no tool run was scored",
}
_PERCENT: Final = 100
_SECOND: Final = 1000
_LONG_S: Final = 100
_CENT: Final = 0.01
_NOTHING, _TO, _MINUS = "\N{EN DASH}", "\N{EN DASH}", "\N{MINUS SIGN}"
_TEXT_WITHOUT_BREAKS: Final = re.compile(r"[^\n\t]+")
_AFTER_SEPARATORS: Final = re.compile("(?<=[/_:@])")


def percent(rate: float | None, digits: int = 1) -> str:
    """Return a share in percent, or a dash for None. Rounding never reaches 0% or 100%."""
    if rate is None:
        return _NOTHING
    text = f"{_PERCENT * rate:.{digits}f}"
    smallest = 10**-digits
    if rate < 1 and float(text) == _PERCENT:
        text = f"{_PERCENT - smallest:.{digits}f}"
    if rate > 0 and float(text) == 0:
        text = f"{smallest:.{digits}f}"
    return f"{text}%"


def bounds(figure: Figure, digits: int = 1) -> str:
    """Return an interval in percent, without percent signs."""
    return f"{_PERCENT * figure.low:.{digits}f}{_TO}{_PERCENT * figure.high:.{digits}f}"


def points(difference: float, digits: int = 1) -> str:
    """Return a difference of two shares in points, with its sign."""
    return f"{_PERCENT * difference:+.{digits}f}".replace("-", _MINUS)


def seconds(ms: float | None) -> str:
    """Return a duration in ms or s, rounded to a useful precision."""
    if not ms:
        return _NOTHING
    if ms < _SECOND:
        return f"{ms:.0f} ms"
    return f"{ms / _SECOND:.{0 if ms >= _LONG_S * _SECOND else 1}f} s"


def count(number: float | None) -> str:
    """Return a number with thousands separators."""
    return _NOTHING if number is None else f"{number:,.0f}"


def count_noun(number: int, noun: str) -> str:
    """Return a count with its noun, such as `1 run` or `2 runs`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def money(dollars: float | None) -> str:
    """Return an amount in dollars; amounts below a cent have two significant digits."""
    if dollars is None:
        return _NOTHING
    return f"${dollars:.2f}" if dollars >= _CENT or not dollars else f"${dollars:.2g}"


def runs_link(filters: Mapping[str, str]) -> str:
    """Return the link to the list of runs with these filters. The scripts of the page parse it."""
    return f"#runs?{'&'.join(f'{kind}={_percent_encode(text)}' for kind, text in filters.items())}"


def run_link(key: Key) -> str:
    """Return the link to one run, which opens at the deciding turn."""
    cell = key.cell
    names = (cell.model, cell.profile, cell.strategy, key.scenario, str(key.trial))
    return f"#run/{','.join(map(_percent_encode, names))}"


def _percent_encode(text: str) -> str:
    """Percent-encode a text as a browser does. Lone surrogates are replaced."""
    return quote(join_surrogates(text), safe="!'()*")


def visible(text: str) -> str:
    """Return untrusted text with control and direction characters escaped."""
    return _TEXT_WITHOUT_BREAKS.sub(lambda piece: safe_text(piece.group()), text)


def wrappable(text: str) -> str:
    """Return a name with line break opportunities after its separators."""
    return do_mark_safe("<wbr>").join(_AFTER_SEPARATORS.split(visible(text)))
