"""How often a comparison of endpoints is wrong: five hundred comparisons of each kind.

    python bench/agreement.py

A request has one to three right calls, or none; a model makes each of them with a chance of its
own, 93 % on average, and now and then another one. Both endpoints serve that model; the second one
may drop all calls of a reply with some chance. The interval of F1 is held against the truth, and so
is that of a percentile bootstrap over requests (200 draws); a verdict of "worse" about an endpoint
that drops nothing is an error.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

from surecall.eval.analysis.agreement import (
    EndpointReplies,
    RatioTerm,
    RepliesByRequest,
    agreements,
    compare_calls,
)

ROUNDS: Final = 500
SEED: Final = 21
RESAMPLES: Final = 200
KINDS: Final = (
    (10, 2, 0.0),
    (30, 2, 0.0),
    (100, 2, 0.0),
    (300, 2, 0.0),
    (100, 2, 0.1),
    (300, 2, 0.1),
)


class Request:
    """What a model makes of one request."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._calls = draw.choice((0, 0, 1, 1, 1, 2, 3))
        self._chance = draw.betavariate(14, 1)

    def reply(self, drops: float = 0.0) -> Counter[str]:
        """Draw one reply."""
        if self._draw.random() < drops:
            return Counter()
        if not self._calls:
            return Counter() if self._draw.random() < self._chance else Counter("x")
        return Counter(
            f"{call}" if self._draw.random() < self._chance else f"{call}{self._draw.choice('uvw')}"
            for call in range(self._calls)
        )


def truth(drops: float) -> float:
    """Return F1 of the second endpoint, over very many requests."""
    draw = random.Random(SEED)  # noqa: S311 - any numbers will do
    above = below = 0.0
    for _ in range(100_000):
        request = Request(draw)
        part = compare_calls(request.reply(), request.reply(drops)).f1
        above, below = above + part.above, below + part.below
    return above / below


def side(replies: Sequence[Sequence[Counter[str]]]) -> RepliesByRequest:
    """Put the replies of an endpoint together."""
    return {
        str(at): EndpointReplies(tuple(each), sum(reply.total() for reply in each))
        for at, each in enumerate(replies)
    }


def resampled(parts: Sequence[RatioTerm], draw: random.Random) -> tuple[float, float]:
    """Return the interval of a percentile bootstrap."""
    found = []
    for _ in range(RESAMPLES):
        drawn = draw.choices(parts, k=len(parts))
        below = sum(part.below for part in drawn)
        found.append(sum(part.above for part in drawn) / below if below else 1.0)
    found.sort()
    return found[RESAMPLES // 40], found[-RESAMPLES // 40 - 1]


def main() -> None:
    """Print a row for each kind."""
    print("requests trials drops  F1     holds  bootstrap holds  worse")
    for requests, trials, drops in KINDS:
        draw = random.Random(SEED)  # noqa: S311 - any numbers will do
        f1 = truth(drops)
        counts: Counter[str] = Counter()
        for _ in range(ROUNDS):
            asked = [Request(draw) for _ in range(requests)]
            first = [[each.reply() for _ in range(trials)] for each in asked]
            second = [[each.reply(drops) for _ in range(trials)] for each in asked]
            (found,) = agreements("A", {"A": side(first), "B": side(second)})
            parts = [
                sum_of([compare_calls(one, other).f1 for one in mine for other in theirs])
                for mine, theirs in zip(first, second, strict=True)
            ]
            low, high = resampled(parts, draw)
            counts["holds"] += found.calls.value.low <= f1 <= found.calls.value.high
            counts["bootstrap"] += low <= f1 <= high
            counts["worse"] += found.verdict == "worse"
        shares = [f"{100 * counts[name] / ROUNDS:.1f}%" for name in ("holds", "bootstrap", "worse")]
        print(
            f"{requests:8} {trials:6} {drops:5.0%} {f1:6.1%} {shares[0]:>6} "
            f"{shares[1]:>16} {shares[2]:>6}",
            flush=True,
        )


def sum_of(parts: Sequence[RatioTerm]) -> RatioTerm:
    """Add up what the pairs of one request add."""
    return RatioTerm(sum(part.above for part in parts), sum(part.below for part in parts))


if __name__ == "__main__":
    main()
