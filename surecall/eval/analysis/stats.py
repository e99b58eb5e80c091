"""Statistics for rates, paired comparisons, and durations.

    one rate             Rate, wilson_interval, pooled_interval, trials_to_decide
    sequential looks     always_valid_interval, StoppingRule
    reliability          pass_hat
    paired rates         mcnemar_p, newcombe_interval, holm_adjust, paired_interval
    durations            percentile

Trials of one scenario are correlated, so the trial count overstates the evidence. With fewer than
eight scenarios the correlation cannot be estimated, and the plain Wilson interval is used; from
eight on, `pooled_interval` widens it by the variance between scenarios.

Checking a 95% interval repeatedly and stopping once it decides has an error rate far above 5%.
When the number of trials depends on their results, `pooled_interval` is at least as wide as an
interval that is valid at all looks simultaneously.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import comb, erfc, exp, fsum, lgamma, log, log1p, sqrt
from typing import Final, TypeAlias

import msgspec

Interval: TypeAlias = tuple[float, float]

Z95: Final = 1.959963984540054
MIN_CLUSTERS: Final = 8
MAX_TRIALS: Final = 10_000
_BISECTIONS: Final = 50
_MAX_QUANTILE: Final = 10.0
# Fractions of its capital that a bettor stakes on each trial: 2.5% to 100%.
_STAKES: Final = tuple(part / 40 for part in range(1, 41))
# By Ville's inequality, capital in a fair game ever grows 40-fold with probability at most 1/40:
# 2.5% on each side.
_LOG_WEALTH_LIMIT: Final = log(40)


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rate of `k` successes in `n` trials."""

    k: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.k <= self.n:
            raise ValueError(f"{self.k} of {self.n} is not a valid rate")

    def __add__(self, other: "Rate") -> "Rate":
        """Pool two rates."""
        return Rate(self.k + other.k, self.n + other.n)

    @property
    def rate(self) -> float | None:
        """The share of successes; None without trials."""
        return self.k / self.n if self.n else None

    @property
    def interval(self) -> Interval:
        """The Wilson 95% interval; 0 to 1 without trials."""
        return wilson_interval(self.k, self.n)


EMPTY_RATE: Final = Rate(0, 0)


class StoppingRule(msgspec.Struct, frozen=True):
    """How the number of trials was determined.

    `sequential` means that it depended on the results. `max_trials` limits the trials per scenario
    of an evaluation that runs until it can decide; zero means no such limit.
    """

    sequential: bool = False
    max_trials: int = 0


FIXED_TRIALS: Final = StoppingRule()


def wilson_interval(k: float, n: float, z: float = Z95) -> Interval:
    """Return the Wilson score interval. Counts may be fractional, as effective sample sizes are."""
    if not n:
        return (0.0, 1.0)
    middle = k + z * z / 2
    reach = z * sqrt(k * (n - k) / n + z * z / 4)
    # At 0 and 1 the bound is exact, and rounding must not move it.
    low = (middle - reach) / (n + z * z) if k > 0 else 0.0
    high = (middle + reach) / (n + z * z) if k < n else 1.0
    return (low, high)


def always_valid_interval(k: float, n: float) -> Interval:
    """Return an interval that covers the rate at all looks simultaneously with probability 95%.

    This is a betting confidence sequence. Forty bettors stake different fractions of their capital
    on each trial, at odds that are fair for a hypothetical rate. If that rate is true, their total
    capital ever grows 40-fold with probability at most 1/40 (Ville's inequality), so a rate at
    which it has grown that much is excluded. Bets on success give the lower bound, bets on failure
    the upper one.

    Trials need not be identically distributed: if scenarios differ and have equally many trials,
    the expected capital is lower, so the interval stays valid.
    """
    return _highest_excluded_rate(k, n), 1.0 - _highest_excluded_rate(n - k, n)


# A report needs the same counts repeatedly.
@lru_cache(maxsize=4096)
def _highest_excluded_rate(k: float, n: float) -> float:
    """Return the highest rate that the successes exclude."""
    return (
        _bisect_share(lambda rate: _log_wealth(k, n - k, rate) < _LOG_WEALTH_LIMIT)
        if k > 0
        else 0.0
    )


def _log_wealth(won: float, lost: float, rate: float) -> float:
    """Return the logarithm of the bettors' mean capital, relative to their initial capital."""
    odds = (1 - rate) / rate
    grown = [
        won * log1p(stake * odds) + (lost * log1p(-stake) if lost else 0.0)
        for stake in (_STAKES[:-1] if lost else _STAKES)
    ]
    most = max(grown)
    return most + log(fsum(exp(each - most) for each in grown) / len(_STAKES))


def pooled_interval(
    parts: Iterable[Rate], *, z: float = Z95, growth: float = 1.0, sequential: bool = False
) -> Interval:
    """Return the interval of a rate pooled over scenarios.

    From eight scenarios on it is clustered: Wilson on the effective sample size (from the
    cluster-robust variance, at most the actual size), with Student's quantile. A `sequential`
    interval also covers the always-valid one. `growth` scales the number of trials, for
    projections.
    """
    clusters = [part for part in parts if part.n]
    total = sum(clusters, EMPTY_RATE)
    low, high = _single_look_interval(clusters, total, z, growth)
    if not sequential:
        return low, high
    least, most = always_valid_interval(total.k * growth, total.n * growth)
    return min(low, least), max(high, most)


def _single_look_interval(
    clusters: Sequence[Rate], total: Rate, z: float, growth: float
) -> Interval:
    """Return the pooled interval for a single look at the data; see `pooled_interval`."""
    size = total.n * growth
    if len(clusters) < MIN_CLUSTERS:
        return wilson_interval(total.k * growth, size, z)
    share = total.k / total.n
    squares = sum((part.k - share * part.n) ** 2 for part in clusters)
    variance = len(clusters) / (len(clusters) - 1) * squares / total.n**2
    if variance:
        size = min(size, share * (1 - share) / variance)
    return wilson_interval(share * size, size, student_quantile(z, len(clusters) - 1))


def student_quantile(z: float, degrees_of_freedom: float) -> float:
    """Return Student's quantile for a normal one, by the Cornish-Fisher expansion.

    At 95%, the error is below 0.0002 from seven degrees of freedom on.
    """
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees_of_freedom**power for power, term in enumerate(terms, 1))


def is_decided(bounds: Interval, threshold: float) -> bool:
    """Whether an interval lies entirely on one side of the threshold."""
    low, high = bounds
    return low >= threshold or high < threshold


def trials_to_decide(
    rate: Rate,
    threshold: float,
    *,
    parts: Sequence[Rate] = (),
    z: float = Z95,
    cap: int = MAX_TRIALS,
    sequential: bool = False,
) -> int | None:
    """Return how many more trials would decide if the observed rates stay the same.

    Zero means that the interval is decided already. None means that `cap` more trials would not
    decide it, or that there are no trials. `parts` are the rates by scenario: if they disagree,
    more trials of the same scenarios may never decide.
    """
    if not rate.n:
        return None

    def decides(more: int) -> bool:
        """Whether this many more trials at the same rate would decide."""
        growth = 1 + more / rate.n
        return is_decided(
            pooled_interval(parts or (rate,), z=z, growth=growth, sequential=sequential), threshold
        )

    enough = bisect_left(range(cap + 1), x=True, key=decides)
    return enough if enough <= cap else None


def pass_hat(k: int, successes: int, n: int) -> float | None:
    """Return the unbiased estimate of pass^k: the probability that `k` trials all pass."""
    return comb(successes, k) / comb(n, k) if k <= n else None


def mcnemar_p(fixed: int, broken: int) -> float:
    """Return the exact two-sided p-value of McNemar's test from the discordant pairs."""
    pairs = fixed + broken
    tail, term = 0, 1
    for i in range(min(fixed, broken) + 1):
        tail += term
        term = term * (pairs - i) // (i + 1)
    return min(1.0, 2 * tail / (1 << pairs))


def newcombe_interval(both: int, fixed: int, broken: int, neither: int, z: float = Z95) -> Interval:
    """Return Newcombe's interval for the difference of two paired rates (1998, method 10).

    The difference is after minus before: `(fixed - broken) / n`.
    """
    n = both + fixed + broken + neither
    if not n:
        return (-1.0, 1.0)
    after, before = (both + fixed) / n, (both + broken) / n
    after_low, after_high = wilson_interval(both + fixed, n, z)
    before_low, before_high = wilson_interval(both + broken, n, z)
    phi = _phi_coefficient(both, fixed, broken, neither)
    difference = (fixed - broken) / n
    return (
        difference - _combined_distance(after - after_low, before_high - before, phi),
        difference + _combined_distance(before - before_low, after_high - after, phi),
    )


def _phi_coefficient(both: int, fixed: int, broken: int, neither: int) -> float:
    """Return phi, with Newcombe's continuity correction for positive correlation."""
    n = both + fixed + broken + neither
    margins = (both + fixed) * (broken + neither) * (both + broken) * (fixed + neither)
    excess: float = both * neither - fixed * broken
    if excess > 0:
        excess = max(excess - n / 2, 0)
    return excess / sqrt(margins) if margins else 0.0


def _combined_distance(a: float, b: float, phi: float) -> float:
    """Combine distances from two correlated rates to a limit, as in Newcombe's method."""
    return sqrt(a * a - 2 * phi * a * b + b * b)


def paired_interval(
    both: int, fixed: int, broken: int, neither: int, *, alpha: float, differs: bool
) -> Interval:
    """Return an interval for the difference that excludes zero exactly if the test rejects.

    This is Newcombe's interval at level `alpha`. With few pairs it can disagree with McNemar's
    test; then the bound next to zero is the exact one from the discordant pairs.
    """
    low, high = newcombe_interval(both, fixed, broken, neither, two_sided_quantile(alpha))
    if differs == (low > 0 or high < 0):
        return low, high
    changed = fixed + broken
    share = changed / (both + changed + neither)
    least, most = clopper_pearson_interval(fixed, changed, alpha)
    if fixed > broken:
        low = (2 * least - 1) * share
    else:
        high = (2 * most - 1) * share
    return (low, high) if differs else (min(low, 0.0), max(high, 0.0))


def two_sided_quantile(alpha: float) -> float:
    """Return the two-sided normal quantile for `alpha`."""
    return _MAX_QUANTILE * _bisect_share(
        lambda share: erfc(_MAX_QUANTILE * share / sqrt(2)) < alpha
    )


def clopper_pearson_interval(k: int, n: int, alpha: float) -> Interval:
    """Return the exact (Clopper-Pearson) interval of a rate, by bisection."""
    low = 0.0 if k == 0 else _bisect_share(lambda share: _binomial_tail(k, n, share) > alpha / 2)
    high = (
        1.0
        if k == n
        else _bisect_share(lambda share: 1 - _binomial_tail(k + 1, n, share) <= alpha / 2)
    )
    return low, high


def _bisect_share(is_beyond: Callable[[float], bool]) -> float:
    """Return the smallest share for which the predicate holds, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return (low + high) / 2


def _binomial_tail(k: int, n: int, share: float) -> float:
    """Return the probability of at least `k` successes in `n` trials."""
    terms = (
        lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) + i * log(share) + (n - i) * log1p(-share)
        for i in range(k, n + 1)
    )
    return fsum(map(exp, terms))


def holm_adjust(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm-adjusted p-values, in the given order."""
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, place in enumerate(ranked):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return tuple(adjusted)


def percentile(values: Iterable[int], percent: int) -> int:
    """Return the value at index floor(n · p) in ascending order; zero without values.

    This is the definition of the original harness. It does not interpolate; p95 of twenty or fewer
    values is the largest one.
    """
    ordered = sorted(values)
    return ordered[percentile_index(percent, len(ordered))] if ordered else 0


def percentile_index(percent: int, n: int) -> int:
    """Return the zero-based index of a percentile among `n` sorted values."""
    # Integer arithmetic: in floating point, 0.29 · 100 is less than 29.
    return min(n * percent // 100, n - 1)
