"""Ratios over requests, such as F1, and differences of two of them on the same requests.

    Part        what one request adds: above the line, below it
    ratio       the sum above by the sum below, with its interval
    difference  second ratio minus first, with its interval

Replies to one request resemble each other, so a request is the unit. The interval is Wilson's, on
the size that the disagreement between requests leaves (as `stats.interval` does it for scenarios).
It was held against a percentile bootstrap over requests, which covers too little where a ratio is
near one: it cannot imagine what it has not drawn.
"""

from collections.abc import Sequence
from math import hypot, sqrt
from typing import Final

import msgspec

from surecall.eval.analysis.stats import CLUSTERED_FROM, Z95, student, wilson


class Part(msgspec.Struct, frozen=True):
    """What one request adds to a ratio, `above` and `below` the line: 0 ≤ above ≤ below."""

    above: float
    below: float


class Ratio(msgspec.Struct, frozen=True):
    """A ratio with its interval; `n` requests were compared. None: nothing was compared."""

    value: float | None
    low: float
    high: float
    n: int


UNKNOWN: Final = Ratio(None, 0.0, 1.0, 0)


def ratio(parts: Sequence[Part], z: float = Z95) -> Ratio:
    """Return the ratio of some requests; where nothing could disagree, nothing did, and it is 1."""
    n = len(parts)
    if not n:
        return UNKNOWN
    below = sum(part.below for part in parts)
    if not below:
        return Ratio(1.0, wilson(n, n, z)[0], 1.0, n)
    value = sum(part.above for part in parts) / below
    active = [part for part in parts if part.below]
    size = below * below / sum(part.below**2 for part in active)
    if len(active) >= CLUSTERED_FROM:
        variance = _variance(_pulls(active))
        z = student(z, len(active) - 1)
        size = value * (1 - value) / variance if variance else size
    return Ratio(value, *wilson(value * size, size, z), n)


def difference(first: Sequence[Part], second: Sequence[Part], z: float = Z95) -> Ratio:
    """Return second minus first; both say something about the same requests, in the same order.

    The interval goes by the spread of what the requests add to the difference, with Student's
    quantile. Away from zero it reaches at least as far as one that is made of those of both ratios,
    as Newcombe's is: where all requests agree there is no spread, but others may not. Too few
    requests to estimate a spread decide nothing: then it holds zero.
    """
    before, after = ratio(first, z), ratio(second, z)
    if before.value is None or after.value is None:
        return Ratio(None, -1.0, 1.0, 0)
    found = after.value - before.value
    down = hypot(after.value - after.low, before.high - before.value)
    up = hypot(after.high - after.value, before.value - before.low)
    if len(first) < CLUSTERED_FROM:
        down, up = max(down, found), max(up, -found)
    else:
        both = zip(_pulls(second), _pulls(first), strict=True)
        spread = _variance([one - other for one, other in both])
        # No spread is no certainty: as far as Wilson's goes where all successes are alike.
        least = abs(found) * z * z / (len(first) + z * z)
        reach = max(student(z, len(first) - 1) * sqrt(spread), least)
        down = reach if found > 0 else max(down, reach)
        up = reach if found < 0 else max(up, reach)
    return Ratio(found, max(-1.0, found - down), min(1.0, found + up), after.n)


def _pulls(parts: Sequence[Part]) -> list[float]:
    """Return how far each request pulls the ratio away from what it is."""
    below = sum(part.below for part in parts)
    if not below:
        return [0.0] * len(parts)
    value = sum(part.above for part in parts) / below
    return [(part.above - value * part.below) / below for part in parts]


def _variance(pulls: Sequence[float]) -> float:
    return len(pulls) / (len(pulls) - 1) * sum(pull * pull for pull in pulls)
