"""The statistics behind every figure: exact where it is cheap, and never without an interval.

    one rate        Rate, wilson, interval, trials_to_decide
    many looks      always_valid, Stopping
    reliability     pass_hat
    two, paired     mcnemar, newcombe, holm, paired_interval
    times           percentile

Trials of one scenario resemble each other, so their number overstates what is known. With few
scenarios that cannot be estimated, and the Wilson interval is used; from eight on, `interval`
widens it by how much the scenarios disagree.

Who looks at a 95 % interval again and again, and stops as soon as it says something, is wrong far
more often than one time in twenty. Where the number of trials depends on what they showed,
`interval` is never narrower than one that holds at all looks together.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import comb, erfc, exp, fsum, lgamma, log, log1p, sqrt
from typing import Final, TypeAlias

import msgspec

Interval: TypeAlias = tuple[float, float]

Z95: Final = 1.959963984540054
CLUSTERED_FROM: Final = 8
MOST_TRIALS: Final = 10_000
_HALVINGS: Final = 50
_FARTHEST: Final = 10.0
# The shares of their money that players stake on each trial, from 2.5 % to everything.
_STAKES: Final = tuple(part / 40 for part in range(1, 41))
# In a fair game, one in forty ever has forty times what they began with: 2.5 % on each side.
_RICH: Final = log(40)


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`k` successes out of `n`."""

    k: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.k <= self.n:
            raise ValueError(f"{self.k} of {self.n} is not a rate")

    def __add__(self, other: "Rate") -> "Rate":
        """Pool two rates."""
        return Rate(self.k + other.k, self.n + other.n)

    @property
    def rate(self) -> float | None:
        """The share of successes; unknown when nothing was tried."""
        return self.k / self.n if self.n else None

    @property
    def interval(self) -> Interval:
        """The Wilson 95 % interval; everything is possible when nothing was tried."""
        return wilson(self.k, self.n)


NOTHING: Final = Rate(0, 0)


class Stopping(msgspec.Struct, frozen=True):
    """How the number of trials came about: chosen beforehand, or by what the trials showed.

    It is `sequential` in the second case. `most` is how many trials a scenario gets at most, where
    the rule that goes on until it can decide has a limit; zero means that there is no such rule.
    """

    sequential: bool = False
    most: int = 0


CHOSEN: Final = Stopping()


def wilson(k: float, n: float, z: float = Z95) -> Interval:
    """Return the Wilson score interval. Counts may be fractions: effective sample sizes are."""
    if not n:
        return (0.0, 1.0)
    middle = k + z * z / 2
    reach = z * sqrt(k * (n - k) / n + z * z / 4)
    # At the ends the bound is known, and rounding must not move it.
    low = (middle - reach) / (n + z * z) if k > 0 else 0.0
    high = (middle + reach) / (n + z * z) if k < n else 1.0
    return (low, high)


def always_valid(k: float, n: float) -> Interval:
    """Return an interval that, with a chance of 95 %, holds the rate at every look at once.

    Forty players bet on each trial at the odds that are fair for some rate, each with another
    share of their money. While the odds are fair, all of them together become forty times as rich
    with a chance of one in forty at most, however long they play (Ville). A rate at which they
    have become so rich is ruled out: betting on success rules out those below, on failure above.

    It does not matter whether trials are alike. If scenarios differ, and each has had the same
    number of trials, the players win less on average, by the inequality of the means.
    """
    return _ruled_out(k, n), 1.0 - _ruled_out(n - k, n)


# A report asks for the same counts over and over.
@lru_cache(maxsize=4096)
def _ruled_out(k: float, n: float) -> float:
    """Return the highest rate that the successes rule out."""
    return _solved(lambda rate: _wealth(k, n - k, rate) < _RICH) if k > 0 else 0.0


def _wealth(won: float, lost: float, rate: float) -> float:
    """Return the logarithm of what players have, on average, for each unit that they began with."""
    odds = (1 - rate) / rate
    grown = [
        won * log1p(stake * odds) + (lost * log1p(-stake) if lost else 0.0)
        for stake in (_STAKES[:-1] if lost else _STAKES)
    ]
    most = max(grown)
    return most + log(fsum(exp(each - most) for each in grown) / len(_STAKES))


def interval(
    parts: Iterable[Rate], *, z: float = Z95, growth: float = 1.0, sequential: bool = False
) -> Interval:
    """Return the interval of a rate pooled over scenarios, as if each had `growth` times the runs.

    From eight scenarios on it is clustered: Wilson on the effective sample size (from the
    cluster-robust variance, never more than the real size), with Student's quantile. A `sequential`
    one reaches as far as the one for many looks, too.
    """
    clusters = [part for part in parts if part.n]
    total = sum(clusters, NOTHING)
    low, high = _of_one_look(clusters, total, z, growth)
    if not sequential:
        return low, high
    least, most = always_valid(total.k * growth, total.n * growth)
    return min(low, least), max(high, most)


def _of_one_look(clusters: Sequence[Rate], total: Rate, z: float, growth: float) -> Interval:
    size = total.n * growth
    if len(clusters) < CLUSTERED_FROM:
        return wilson(total.k * growth, size, z)
    share = total.k / total.n
    squares = sum((part.k - share * part.n) ** 2 for part in clusters)
    variance = len(clusters) / (len(clusters) - 1) * squares / total.n**2
    if variance:
        size = min(size, share * (1 - share) / variance)
    return wilson(share * size, size, student(z, len(clusters) - 1))


def student(z: float, freedom: float) -> float:
    """Return Student's quantile for a normal one, by the Cornish-Fisher expansion.

    At 95 % it is off by less than 0.0002 from seven degrees of freedom on.
    """
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def leaves(bounds: Interval, bar: float) -> bool:
    """Whether an interval lies wholly on one side of the bar."""
    low, high = bounds
    return low >= bar or high < bar


def trials_to_decide(
    rate: Rate,
    bar: float,
    *,
    parts: Sequence[Rate] = (),
    z: float = Z95,
    cap: int = MOST_TRIALS,
    sequential: bool = False,
) -> int | None:
    """Say how many more trials, going as those so far, move the interval off the bar.

    Zero means decided; None that `cap` more would not do, or that nothing was tried. `parts` are
    the rates by scenario: when these disagree, more of the same trials may never decide.
    """
    if not rate.n:
        return None

    def decided(more: int) -> bool:
        growth = 1 + more / rate.n
        return leaves(interval(parts or (rate,), z=z, growth=growth, sequential=sequential), bar)

    enough = bisect_left(range(cap + 1), x=True, key=decided)
    return enough if enough <= cap else None


def pass_hat(k: int, successes: int, n: int) -> float | None:
    """Return pass^k, unbiased: the chance that `k` trials in a row all pass."""
    return comb(successes, k) / comb(n, k) if k <= n else None


def mcnemar(fixed: int, broken: int) -> float:
    """Return the exact two-sided p of McNemar's test, from the pairs that differ."""
    pairs = fixed + broken
    tail, term = 0, 1
    for i in range(min(fixed, broken) + 1):
        tail += term
        term = term * (pairs - i) // (i + 1)
    return min(1.0, 2 * tail / (1 << pairs))


def newcombe(both: int, fixed: int, broken: int, neither: int, z: float = Z95) -> Interval:
    """Return Newcombe's interval for the difference of two paired rates (1998, method 10).

    The difference is after minus before, so `(fixed - broken) / n`.
    """
    n = both + fixed + broken + neither
    if not n:
        return (-1.0, 1.0)
    after, before = (both + fixed) / n, (both + broken) / n
    after_low, after_high = wilson(both + fixed, n, z)
    before_low, before_high = wilson(both + broken, n, z)
    phi = _correlation(both, fixed, broken, neither)
    difference = (fixed - broken) / n
    return (
        difference - _diagonal(after - after_low, before_high - before, phi),
        difference + _diagonal(before - before_low, after_high - after, phi),
    )


def _correlation(both: int, fixed: int, broken: int, neither: int) -> float:
    """Estimate phi; agreement is believed only as far as it exceeds half a pair on average."""
    n = both + fixed + broken + neither
    margins = (both + fixed) * (broken + neither) * (both + broken) * (fixed + neither)
    excess: float = both * neither - fixed * broken
    if excess > 0:
        excess = max(excess - n / 2, 0)
    return excess / sqrt(margins) if margins else 0.0


def _diagonal(a: float, b: float, phi: float) -> float:
    return sqrt(a * a - 2 * phi * a * b + b * b)


def paired_interval(
    both: int, fixed: int, broken: int, neither: int, *, alpha: float, differs: bool
) -> Interval:
    """Return an interval for the difference that leaves out zero exactly if the test does.

    It is Newcombe's at that level. Few pairs can make the two disagree about zero; then the bound
    beside zero is the exact one, from the pairs that differ, which McNemar's test goes by as well.
    """
    low, high = newcombe(both, fixed, broken, neither, two_sided(alpha))
    if differs == (low > 0 or high < 0):
        return low, high
    changed = fixed + broken
    share = changed / (both + changed + neither)
    least, most = clopper_pearson(fixed, changed, alpha)
    if fixed > broken:
        low = (2 * least - 1) * share
    else:
        high = (2 * most - 1) * share
    return (low, high) if differs else (min(low, 0.0), max(high, 0.0))


def two_sided(alpha: float) -> float:
    """Return the normal quantile that leaves `alpha` outside, half on each side."""
    return _FARTHEST * _solved(lambda share: erfc(_FARTHEST * share / sqrt(2)) < alpha)


def clopper_pearson(k: int, n: int, alpha: float) -> Interval:
    """Return the exact interval of a rate, by halving; it holds what a two-sided test keeps."""
    low = 0.0 if k == 0 else _solved(lambda share: _at_least(k, n, share) > alpha / 2)
    high = 1.0 if k == n else _solved(lambda share: 1 - _at_least(k + 1, n, share) <= alpha / 2)
    return low, high


def _solved(is_beyond: Callable[[float], bool]) -> float:
    """Return the share from which on something holds."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return (low + high) / 2


def _at_least(k: int, n: int, share: float) -> float:
    """Return the chance of `k` or more successes out of `n`."""
    terms = (
        lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) + i * log(share) + (n - i) * log1p(-share)
        for i in range(k, n + 1)
    )
    return fsum(map(exp, terms))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return each p adjusted for the whole family, step-down, in the order given."""
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, place in enumerate(ranked):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return tuple(adjusted)


def percentile(values: Iterable[int], percent: int) -> int:
    """Return the value at place floor(n · p) in ascending order; zero when there is none.

    The original harness counts so. It is never interpolated, and for p95 of twenty values or
    fewer it is simply the largest.
    """
    ordered = sorted(values)
    return ordered[place_of(percent, len(ordered))] if ordered else 0


def place_of(percent: int, n: int) -> int:
    """Return the place of a percentile among n values, counted from zero."""
    # In whole numbers: in floating point, 0.29 · 100 falls short of 29.
    return min(n * percent // 100, n - 1)
