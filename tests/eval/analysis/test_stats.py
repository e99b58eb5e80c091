"""Tests of `surecall.eval.analysis.stats`."""

import gc
import itertools
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special, stats  # type: ignore[import-untyped]
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped]
from statsmodels.stats import contingency_tables  # type: ignore[import-untyped]
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]
from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-untyped]

from surecall.eval.analysis.stats import (
    Rate,
    always_valid_interval,
    clopper_pearson_interval,
    holm_adjust,
    is_decided,
    mcnemar_p,
    newcombe_interval,
    paired_interval,
    pass_hat,
    percentile,
    pooled_interval,
    student_quantile,
    trials_to_decide,
    two_sided_quantile,
    wilson_interval,
)
from tests.support.spec import proves

# The statistics, held against scipy, statsmodels, published figures and brute force


TABLES = 10_000
CLOSE = 1e-9


def random_tables(seed: int) -> NDArray[np.int64]:
    """Ten thousand tables of both, fixed, broken, neither: small and large, even and lopsided."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 400, TABLES)
    shares = draw.dirichlet((0.5, 0.3, 0.3, 0.5), TABLES)
    return draw.multinomial(sizes, shares)


def test_wilson_agrees_with_statsmodels_on_ten_thousand_rates() -> None:
    draw = np.random.default_rng(1)
    n = draw.integers(1, 2_000, TABLES)
    k = draw.binomial(n, draw.beta(0.3, 0.3, TABLES))
    low, high = proportion_confint(k, n, method="wilson")

    ours = np.array([Rate(int(a), int(b)).interval for a, b in zip(k, n, strict=True)])

    assert np.abs(ours - np.column_stack((low, high))).max() < CLOSE


@pytest.mark.parametrize("level", [0.8, 0.9, 0.99])
def test_wilson_takes_any_level(level: float) -> None:
    z = float(stats.norm.ppf((1 + level) / 2))

    expected = stats.binomtest(7, 11).proportion_ci(level, method="wilson")

    assert wilson_interval(7, 11, z) == pytest.approx((expected.low, expected.high))


def test_the_bounds_at_the_ends_are_exact() -> None:
    assert all(wilson_interval(0, n)[0] == 0.0 for n in range(1, 500))
    assert all(wilson_interval(n, n)[1] == 1.0 for n in range(1, 500))


@pytest.mark.parametrize(
    ("k", "shown"), [(40, (91.2, 100.0)), (39, (87.1, 99.6)), (36, (76.9, 96.0))]
)
def test_known_intervals_of_forty_runs(k: int, shown: tuple[float, float]) -> None:
    low, high = Rate(k, 40).interval

    assert (round(100 * low, 1), round(100 * high, 1)) == shown


def test_nothing_tried_means_nothing_known() -> None:
    assert Rate(0, 0).rate is None
    assert Rate(0, 0).interval == (0.0, 1.0)
    assert pooled_interval([]) == (0.0, 1.0)
    assert trials_to_decide(Rate(0, 0), 0.9) is None


@pytest.mark.parametrize(("k", "n"), [(-1, 4), (5, 4), (0, -1)])
def test_more_successes_than_trials_are_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="not a valid rate"):
        Rate(k, n)


def test_rates_pool() -> None:
    assert Rate(1, 2) + Rate(3, 5) == Rate(4, 7)
    assert Rate(4, 5).rate == 0.8


def test_mcnemar_agrees_with_scipy_on_ten_thousand_tables() -> None:
    tables = random_tables(2)
    fixed, broken = tables[:, 1], tables[:, 2]
    tail = stats.binom.cdf(np.minimum(fixed, broken), fixed + broken, 0.5)

    ours = np.array([mcnemar_p(int(b), int(c)) for b, c in zip(fixed, broken, strict=True)])

    assert np.abs(ours - np.minimum(1, 2 * tail)).max() < CLOSE


def test_mcnemar_agrees_with_statsmodels() -> None:
    for both, fixed, broken, neither in random_tables(3)[:100].tolist():
        theirs = contingency_tables.mcnemar([[both, fixed], [broken, neither]], exact=True)
        assert mcnemar_p(fixed, broken) == pytest.approx(theirs.pvalue, abs=CLOSE)


@pytest.mark.parametrize(("fixed", "broken", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625)])
def test_mcnemar_by_hand(fixed: int, broken: int, p: float) -> None:
    assert mcnemar_p(fixed, broken) == mcnemar_p(broken, fixed) == p


def test_mcnemar_stands_many_pairs() -> None:
    assert mcnemar_p(6_000, 0) == 0.0
    assert mcnemar_p(3_000, 3_000) == 1.0


# Newcombe, Statistics in Medicine 17 (1998), 2635-2650, method 10; the last table is the one of
# Fagerland, Lydersen and Laake, Statistics in Medicine 33 (2014), 2850-2875.
PUBLISHED = {
    (36, 12, 2, 0): (0.0569, 0.3404),
    (20, 12, 2, 16): (0.0562, 0.3292),
    (18, 14, 0, 18): (0.1441, 0.3963),
    (2, 97, 1, 0): (0.8721, 0.9854),
    (0, 30, 0, 0): (0.8395, 1.0),
    (54, 0, 0, 0): (-0.0664, 0.0664),
    (30, 0, 0, 24): (-0.0358, 0.0358),
    (1, 1, 7, 12): (-0.507, -0.026),
}


@pytest.mark.parametrize(("table", "bounds"), PUBLISHED.items(), ids=str)
def test_newcombe_gives_the_published_intervals(
    table: tuple[int, int, int, int], bounds: tuple[float, float]
) -> None:
    assert newcombe_interval(*table) == pytest.approx(bounds, abs=5e-4)


def newcombe_by_arrays(tables: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute method 10 a second time, over whole columns, on statsmodels' Wilson bounds."""
    both, fixed, broken, neither = tables.T
    n = tables.sum(axis=1)
    low, high = proportion_confint(
        np.array([both + fixed, both + broken]), np.array([n, n]), method="wilson"
    )
    share = np.array([both + fixed, both + broken]) / n
    product = both * neither - fixed * broken
    corrected = np.where(product > 0, np.clip(product - n / 2, 0, None), product)
    margins = (both + fixed) * (broken + neither) * (both + broken) * (fixed + neither)
    phi = np.divide(corrected, np.sqrt(margins), out=np.zeros(len(n)), where=margins > 0)
    down, up = share - low, high - share
    delta = np.sqrt(down[0] ** 2 - 2 * phi * down[0] * up[1] + up[1] ** 2)
    epsilon = np.sqrt(down[1] ** 2 - 2 * phi * down[1] * up[0] + up[0] ** 2)
    difference = share[0] - share[1]
    return np.column_stack((difference - delta, difference + epsilon))


def test_newcombe_agrees_with_a_second_reading_on_ten_thousand_tables() -> None:
    tables = random_tables(4)

    ours = np.array([newcombe_interval(*table) for table in tables.tolist()])

    assert np.abs(ours - newcombe_by_arrays(tables)).max() < CLOSE


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
def test_an_interval_and_the_test_beside_it_never_contradict_each_other(alpha: float) -> None:
    tables = [*(table for n in range(1, 13) for table in tables_of(n)), *RARE]
    for both, fixed, broken, neither in tables:
        differs = mcnemar_p(fixed, broken) < alpha
        low, high = paired_interval(both, fixed, broken, neither, alpha=alpha, differs=differs)

        assert (low > 0 or high < 0) == differs
        difference = (fixed - broken) / (both + fixed + broken + neither)
        assert -1 <= low <= difference <= high <= 1


def tables_of(n: int) -> Iterator[tuple[int, int, int, int]]:
    for both, fixed, broken in itertools.product(range(n + 1), repeat=3):
        if both + fixed + broken <= n:
            yield both, fixed, broken, n - both - fixed - broken


# Here Newcombe's interval holds zero at one level in a thousand, and the test does not.
RARE = [(0, 0, 11, 49), (48, 11, 0, 1), (44, 14, 1, 1), (1, 1, 14, 44)]


def test_an_interval_that_needs_no_mending_is_newcombes() -> None:
    assert paired_interval(20, 12, 1, 7, alpha=0.05, differs=True) == pytest.approx(
        newcombe_interval(20, 12, 1, 7)
    )
    assert paired_interval(0, 5, 0, 0, alpha=0.05, differs=False)[0] == pytest.approx(
        2 * 0.4782 - 1, abs=1e-4
    )


def test_clopper_and_pearson_are_those_of_statsmodels() -> None:
    for n, alpha in ((1, 0.05), (7, 0.05), (40, 0.01), (900, 0.001)):
        for k in {0, 1, n // 3, n - 1, n}:
            known = proportion_confint(k, n, alpha, method="beta")
            assert clopper_pearson_interval(k, n, alpha) == pytest.approx(known, abs=CLOSE)


def test_quantiles_are_those_of_scipy() -> None:
    for alpha in (0.9, 0.05, 0.001, 1e-9):
        assert two_sided_quantile(alpha) == pytest.approx(stats.norm.isf(alpha / 2), abs=CLOSE)


def test_newcombe_turns_round_with_the_arms_and_holds_the_difference() -> None:
    for both, fixed, broken, neither in random_tables(5)[:1_000].tolist():
        low, high = newcombe_interval(both, fixed, broken, neither)
        back_low, back_high = newcombe_interval(both, broken, fixed, neither)
        assert (low, high) == pytest.approx((-back_high, -back_low))
        assert -1 - CLOSE <= low < high <= 1 + CLOSE
        assert low <= (fixed - broken) / (both + fixed + broken + neither) <= high


def test_no_pairs_say_nothing() -> None:
    assert newcombe_interval(0, 0, 0, 0) == (-1.0, 1.0)


def test_holm_agrees_with_statsmodels_on_ten_thousand_families(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # statsmodels collects garbage in every call: ten minutes for what takes a second.
    monkeypatch.setattr(gc, "collect", lambda: 0)
    draw = np.random.default_rng(6)
    sizes = draw.integers(1, 12, TABLES)
    # Rounded, so that families have ties; raised, so that some are small.
    families = [np.round(draw.random(size) ** 3, 3) for size in sizes]

    worst = max(
        np.abs(
            np.array(holm_adjust(family.tolist())) - multipletests(family, method="holm")[1]
        ).max()
        for family in families
    )

    assert worst < CLOSE


def test_an_empty_family_needs_no_adjustment() -> None:
    assert holm_adjust([]) == ()


def test_pass_hat_agrees_with_scipy_on_ten_thousand_counts() -> None:
    draw = np.random.default_rng(7)
    n = draw.integers(1, 60, TABLES)
    c = draw.binomial(n, draw.random(TABLES))
    k = draw.integers(1, 12, TABLES)
    expected = special.comb(c, k) / np.maximum(special.comb(n, k), 1)

    ours = [pass_hat(*each) for each in zip(k.tolist(), c.tolist(), n.tolist(), strict=True)]

    for mine, theirs, fits in zip(ours, expected, k <= n, strict=True):
        assert mine == pytest.approx(theirs, abs=CLOSE) if fits else mine is None


@pytest.mark.parametrize(("k", "outcomes"), [(1, "1101"), (2, "1101"), (3, "11011"), (2, "0001")])
def test_pass_hat_is_the_share_of_draws_that_all_pass(k: int, outcomes: str) -> None:
    draws = list(combinations(outcomes, k))

    whole = sum(set(draw) == {"1"} for draw in draws) / len(draws)

    assert pass_hat(k, outcomes.count("1"), len(outcomes)) == pytest.approx(whole)


@proves("C126")
@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [
        (range(10, 0, -1), 50, 6),
        (range(10, 0, -1), 95, 10),
        ([], 95, 0),
        ([7], 50, 7),
        ([1, 2], 100, 2),
        (range(1, 101), 29, 30),
    ],
)
def test_percentiles_take_the_place_the_original_takes(
    values: Sequence[int], percent: int, found: int
) -> None:
    assert percentile(values, percent) == found


def test_an_interval_leaves_the_bar_by_either_side() -> None:
    assert is_decided((0.9, 1.0), 0.9)
    assert is_decided((0.1, 0.89), 0.9)
    assert not is_decided((0.1, 0.9), 0.9)
    assert not is_decided((0.85, 0.95), 0.9)


@pytest.mark.parametrize(
    ("rate", "more"),
    [
        (Rate(40, 40), 0),
        (Rate(30, 40), 0),
        (Rate(10, 10), 25),
        (Rate(39, 40), 22),
        (Rate(36, 40), None),
        (Rate(0, 1), 0),
    ],
)
def test_trials_to_decide_at_a_bar_of_ninety_percent(rate: Rate, more: int | None) -> None:
    assert trials_to_decide(rate, 0.9) == more


def test_trials_to_decide_is_the_first_number_that_does() -> None:
    for k in range(31):
        more = trials_to_decide(Rate(k, 30), 0.8, cap=200)
        tried = (wilson_interval(k * (30 + m) / 30, 30 + m) for m in range(201))
        assert more == next((m for m, bounds in enumerate(tried) if is_decided(bounds, 0.8)), None)


def test_a_cap_bounds_the_search() -> None:
    assert trials_to_decide(Rate(10, 10), 0.9, cap=24) is None
    assert trials_to_decide(Rate(10, 10), 0.9, cap=25) == 25


def test_student_agrees_with_scipy_from_seven_degrees_on() -> None:
    for freedom in range(7, 200):
        assert student_quantile(1.959963984540054, freedom) == pytest.approx(
            float(stats.t.ppf(0.975, freedom)), abs=2e-4
        )


def scenario_rates(seed: int) -> list[Rate]:
    draw = np.random.default_rng(seed)
    n = draw.integers(2, 20, int(draw.integers(8, 15)))
    k = draw.binomial(n, draw.beta(2, 1, len(n)))
    return [Rate(int(a), int(b)) for a, b in zip(k, n, strict=True)]


@pytest.mark.parametrize("seed", range(40))
def test_the_clustered_interval_rests_on_the_robust_variance(seed: int) -> None:
    rates = scenario_rates(seed)
    passed = np.concatenate([np.repeat((1.0, 0.0), (each.k, each.n - each.k)) for each in rates])
    groups = np.repeat(np.arange(len(rates)), [each.n for each in rates])
    fit = OLS(passed, np.ones_like(passed)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    share = passed.mean()
    size = min(len(passed), share * (1 - share) / fit.bse[0] ** 2)

    expected = wilson_interval(share * size, size, float(stats.t.ppf(0.975, len(rates) - 1)))

    assert pooled_interval(rates) == pytest.approx(expected, abs=2e-4)


def test_scenarios_that_disagree_widen_the_interval() -> None:
    uneven = [Rate(10, 10)] * 6 + [Rate(0, 10)] * 2
    low, high = pooled_interval(uneven)
    plain_low, plain_high = Rate(60, 80).interval

    assert low < plain_low - 0.1
    assert high > plain_high + 0.05


def test_the_clustered_interval_is_never_narrower_than_the_plain_one() -> None:
    for even in ([Rate(5, 10)] * 8, [Rate(10, 10)] * 8, [Rate(0, 10)] * 8):
        low, high = pooled_interval(even)
        plain_low, plain_high = sum(even, Rate(0, 0)).interval
        assert low <= plain_low <= plain_high <= high


def test_seven_scenarios_are_too_few_to_cluster_and_empty_ones_do_not_count() -> None:
    few = [Rate(10, 10)] * 5 + [Rate(0, 10)] * 2

    assert pooled_interval([*few, Rate(0, 0)]) == Rate(50, 70).interval
    assert pooled_interval([*few, Rate(0, 10)]) != Rate(50, 80).interval


def test_more_of_the_same_trials_cannot_decide_what_the_scenarios_disagree_on() -> None:
    uneven = [Rate(10, 10)] * 7 + [Rate(5, 10)]

    assert trials_to_decide(Rate(75, 80), 0.8) == 0
    assert trials_to_decide(Rate(75, 80), 0.8, parts=uneven) is None


# Many looks at one rate: exactly how often they are wrong, and properties of their interval


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
                is_decided(pooled_interval([Rate(k, look * size)], sequential=True), bar)
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
        assert always_valid_interval(k, n) == pytest.approx(expected, abs=1e-8)


COUNTS = st.tuples(st.integers(0, 400), st.integers(0, 400))


@given(COUNTS)
def test_an_interval_for_many_looks_holds_the_rate_and_has_a_mirror(
    counts: tuple[int, int],
) -> None:
    k, missed = counts
    n = k + missed
    low, high = always_valid_interval(k, n)

    assert 0.0 <= low <= high <= 1.0
    assert not n or low <= k / n <= high
    assert always_valid_interval(missed, n) == pytest.approx((1 - high, 1 - low))


@given(st.lists(COUNTS.map(lambda pair: Rate(pair[0], sum(pair))), max_size=12))
def test_a_sequential_interval_is_never_narrower(parts: list[Rate]) -> None:
    low, high = pooled_interval(parts)
    least, most = pooled_interval(parts, sequential=True)

    assert least <= low <= high <= most


@given(COUNTS, st.integers(1, 400))
def test_once_decided_more_of_the_same_keep_it_decided(counts: tuple[int, int], more: int) -> None:
    rate = Rate(counts[0], sum(counts))
    enough = trials_to_decide(rate, 0.9, sequential=True)
    if rate.n and enough is not None:
        growth = 1 + (enough + more) / rate.n
        assert is_decided(pooled_interval([rate], growth=growth, sequential=True), 0.9)


def test_many_looks_take_more_trials() -> None:
    for k in range(30, 41):
        once = trials_to_decide(Rate(k, 40), 0.9)
        often = trials_to_decide(Rate(k, 40), 0.9, sequential=True)
        assert once is None or often is None or often >= once
