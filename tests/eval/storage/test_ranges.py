"""Whole numbers as ranges: in every respect the set of numbers that was put in."""

from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.storage.ranges import Ranges

NUMBERS = st.lists(st.integers(1, 15))


@given(NUMBERS)
def test_it_holds_what_was_added_in_order_and_once(numbers: list[int]) -> None:
    found = Ranges(numbers)

    assert list(found) == sorted(set(numbers))
    assert len(found) == len(set(numbers))
    assert [number in found for number in range(17)] == [n in numbers for n in range(17)]


@given(NUMBERS, NUMBERS)
def test_what_two_have_in_common_is_counted(first: list[int], second: list[int]) -> None:
    assert Ranges(first).common(Ranges(second)) == len(set(first) & set(second))


@given(NUMBERS, st.integers(-1, 17))
def test_what_is_not_larger_is_counted(numbers: list[int], last: int) -> None:
    assert Ranges(numbers).up_to(last) == sum(number <= last for number in set(numbers))


@given(NUMBERS, NUMBERS)
def test_two_are_equal_if_they_hold_the_same(first: list[int], second: list[int]) -> None:
    assert (Ranges(first) == Ranges(second)) == (set(first) == set(second))
    assert Ranges(first) != first


def test_numbers_in_a_row_are_one_range_however_many() -> None:
    found = Ranges(range(1, 10_001))

    assert (list(found.firsts), list(found.lasts)) == ([1], [10_000])
