"""Many looks at one rate: exactly how often they are wrong, and laws of their interval."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats  # type: ignore[import-untyped]

from surecall.eval.analysis.stats import Rate, always_valid, interval, leaves, trials_to_decide


def chance_of_deciding(
    rates: Sequence[float], bar: float, looks: int = 10, batch: int = 10
) -> float:
    """Return, exactly, how often some look decides: all ways to come there, added up."""
    size = batch * len(rates)
    step = np.ones(1)
    for rate in rates:
        step = np.convolve(step, stats.binom.pmf(np.arange(batch + 1), batch, rate))
    going_on, decided = np.ones(1), 0.0
    for look in range(1, looks + 1):
        going_on = np.convolve(going_on, step)
        ends = np.array(
            [
                leaves(interval([Rate(k, look * size)], sequential=True), bar)
                for k in range(look * size + 1)
            ]
        )
        decided += float(going_on[ends].sum())
        going_on = np.where(ends, 0.0, going_on)
    return decided


@pytest.mark.slow
@pytest.mark.parametrize("bar", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("scenarios", [1, 2, 5])
def test_at_the_bar_ten_looks_decide_less_than_one_time_in_twenty(
    scenarios: int, bar: float
) -> None:
    assert 0 < chance_of_deciding([bar] * scenarios, bar) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    "rates", [(1.0, 0.8), (1.0, 1.0, 1.0, 1.0, 0.5), (0.8, 0.85, 0.9, 0.95, 1.0)]
)
def test_scenarios_that_differ_are_decided_about_no_more_often(rates: tuple[float, ...]) -> None:
    alike = chance_of_deciding([0.9] * len(rates), 0.9)

    assert sum(rates) / len(rates) == pytest.approx(0.9)
    assert chance_of_deciding(rates, 0.9) <= alike


@pytest.mark.slow
def test_away_from_the_bar_ten_looks_decide() -> None:
    assert chance_of_deciding([0.97] * 5, 0.9) > 0.99
    assert chance_of_deciding([0.8] * 5, 0.9) > 0.99


def test_the_interval_for_many_looks_agrees_with_a_search_by_scipy() -> None:
    stakes = np.arange(1, 41) / 40

    def rich(rate: float, won: int, lost: int) -> float:
        with np.errstate(divide="ignore"):
            lose = lost * np.log1p(-stakes) if lost else 0.0
        grown = lose + won * np.log1p(stakes * (1 - rate) / rate)
        return float(special.logsumexp(grown) - np.log(40 * 40))

    def below(won: int, lost: int) -> float:
        return float(optimize.brentq(rich, 1e-9, 1 - 1e-12, (won, lost))) if won else 0.0

    for k, n in ((0, 7), (7, 7), (1, 1), (36, 40), (49, 50), (50, 50), (400, 500), (90, 900)):
        expected = (below(k, n - k), 1 - below(n - k, k))
        assert always_valid(k, n) == pytest.approx(expected, abs=1e-8)


COUNTS = st.tuples(st.integers(0, 400), st.integers(0, 400))


@given(COUNTS)
def test_an_interval_for_many_looks_holds_the_rate_and_has_a_mirror(
    counts: tuple[int, int],
) -> None:
    k, missed = counts
    n = k + missed
    low, high = always_valid(k, n)

    assert 0.0 <= low <= high <= 1.0
    assert not n or low <= k / n <= high
    assert always_valid(missed, n) == pytest.approx((1 - high, 1 - low))


@given(st.lists(COUNTS.map(lambda pair: Rate(pair[0], sum(pair))), max_size=12))
def test_a_sequential_interval_is_never_narrower(parts: list[Rate]) -> None:
    low, high = interval(parts)
    least, most = interval(parts, sequential=True)

    assert least <= low <= high <= most


@given(COUNTS, st.integers(1, 400))
def test_once_decided_more_of_the_same_keep_it_decided(counts: tuple[int, int], more: int) -> None:
    rate = Rate(counts[0], sum(counts))
    enough = trials_to_decide(rate, 0.9, sequential=True)
    if rate.n and enough is not None:
        growth = 1 + (enough + more) / rate.n
        assert leaves(interval([rate], growth=growth, sequential=True), 0.9)


def test_many_looks_take_more_trials() -> None:
    for k in range(30, 41):
        once = trials_to_decide(Rate(k, 40), 0.9)
        often = trials_to_decide(Rate(k, 40), 0.9, sequential=True)
        assert once is None or often is None or often >= once
