"""Ratios over requests: their intervals, and differences on the same requests."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.ratios import UNKNOWN, Part, Ratio, difference, ratio
from surecall.eval.analysis.stats import wilson

YES, NO, SILENT = Part(2, 2), Part(0, 2), Part(0, 0)
ANY_PART = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: Part(*sorted(pair)))
ANY_PARTS = st.lists(ANY_PART, max_size=30)


def inside(found: Ratio) -> bool:
    return found.value is None or found.low <= found.value <= found.high


@given(ANY_PARTS)
def test_a_ratio_lies_between_nothing_and_one_and_in_its_interval(parts: list[Part]) -> None:
    found = ratio(parts)

    assert 0 <= found.low <= found.high <= 1
    assert inside(found)
    assert found.n == len(parts)
    assert (found.value is None) == (not parts)


@given(ANY_PARTS, st.randoms(use_true_random=False))
def test_the_order_of_requests_does_not_matter(parts: list[Part], draw: random.Random) -> None:
    shuffled = draw.sample(parts, len(parts))

    assert _rounded(ratio(shuffled)) == _rounded(ratio(parts))


@given(st.lists(st.tuples(ANY_PART, ANY_PART), max_size=30))
def test_a_difference_the_other_way_round_is_its_mirror(pairs: list[tuple[Part, Part]]) -> None:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    there, back = difference(first, second), difference(second, first)

    assert inside(there)
    assert -1 <= there.low <= there.high <= 1
    if there.value is not None and back.value is not None and pairs:
        assert (there.value, there.low, there.high) == pytest.approx(
            (-back.value, -back.high, -back.low), abs=1e-9
        )


def _rounded(found: Ratio) -> tuple[object, ...]:
    value = None if found.value is None else round(found.value, 9)
    return value, round(found.low, 9), round(found.high, 9), found.n


def test_where_nothing_could_disagree_nothing_did() -> None:
    assert ratio([]) == UNKNOWN
    assert ratio([SILENT] * 20) == Ratio(1.0, wilson(20, 20)[0], 1.0, 20)


def test_few_requests_count_as_trials_of_a_rate() -> None:
    found = ratio([YES, YES, NO, SILENT])

    assert found.value == pytest.approx(2 / 3)
    assert (found.low, found.high) == pytest.approx(wilson(2, 3))


def test_a_request_that_adds_much_makes_less_known() -> None:
    even = ratio([YES, YES, YES, NO])
    uneven = ratio([Part(30, 30), YES, YES, NO])

    assert uneven.low < even.low


def test_many_requests_that_agree_are_as_good_as_their_number_and_no_better() -> None:
    found = ratio([YES] * 40)

    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.907, abs=0.001)


def test_requests_that_are_alike_in_themselves_tell_more_than_those_that_are_not() -> None:
    alike = ratio([Part(9, 10)] * 20 + [Part(8, 10)] * 20)
    apart = ratio([YES] * 34 + [NO] * 6)

    assert alike.value == apart.value == pytest.approx(0.85)
    assert alike.high - alike.low < apart.high - apart.low


def test_a_loss_in_some_of_many_requests_is_seen_beside_a_side_that_never_fails() -> None:
    found = difference([YES] * 40, [YES] * 31 + [NO] * 9)

    assert found.value == pytest.approx(-0.225)
    assert found.low < -0.3
    assert -0.12 < found.high < 0


def test_sides_that_never_differ_may_still_differ_elsewhere() -> None:
    found = difference([YES] * 40, [YES] * 40)

    assert found.value == 0
    assert (found.low, found.high) == pytest.approx((-0.093, 0.093), abs=0.001)


def test_few_requests_decide_nothing_even_if_all_of_them_differ() -> None:
    for requests, decides in ((1, False), (7, False), (8, True)):
        worse = difference([YES] * requests, [NO] * requests)
        better = difference([NO] * requests, [YES] * requests)
        assert (worse.high < 0, better.low > 0) == (decides, decides)


def test_nothing_is_known_where_one_side_has_nothing() -> None:
    assert difference([], []).value is None


def _drawn(draw: random.Random, chance: float, requests: int) -> Sequence[Part]:
    return [YES if draw.random() < chance else NO for _ in range(requests)]


def test_the_intervals_hold_the_truth_about_as_often_as_they_promise() -> None:
    draw = random.Random(3)  # noqa: S311 - any numbers will do
    held = differs = 0
    for _ in range(300):
        first, second = (_drawn(draw, chance, 60) for chance in (0.9, 0.9))
        found, gap = ratio(second), difference(first, second)
        held += found.low <= 0.9 <= found.high
        differs += gap.high < 0 or gap.low > 0

    assert held >= 0.92 * 300
    assert differs <= 0.08 * 300
