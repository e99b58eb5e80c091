"""The keys of recorded trials as ranges: in every respect the set of keys that was put in."""

from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.storage.done import Done
from surecall.eval.storage.trial import Cell, Key

CELLS = (Cell("a"), Cell("a", "default", "raw"), Cell("b"))
KEYS = st.builds(
    Key, st.sampled_from(CELLS), st.sampled_from(["x", "y"]), st.integers(min_value=1, max_value=12)
)


@given(st.lists(KEYS), KEYS)
def test_what_was_added_is_in_it_and_nothing_else(keys: list[Key], other: Key) -> None:
    done = Done(keys)

    assert all(key in done for key in keys)
    assert (other in done) == (other in set(keys))
    assert len(done) == len(set(keys))


@given(st.lists(KEYS), st.integers(0, 14), st.integers(0, 14))
def test_a_stretch_of_numbers_is_counted_as_one_by_one(
    keys: list[Key], first: int, last: int
) -> None:
    done = Done(keys)
    for cell in CELLS:
        wanted = [Key(cell, "x", trial) for trial in range(first, last + 1)]
        if first <= last:
            assert done.within((cell, "x"), first, last) == sum(key in set(keys) for key in wanted)


@given(st.lists(KEYS), st.lists(KEYS))
def test_two_are_equal_if_they_hold_the_same_in_whatever_order(
    keys: list[Key], others: list[Key]
) -> None:
    assert Done(keys) == Done(reversed(keys))
    assert (Done(keys) == Done(others)) == (set(keys) == set(others))


def test_it_is_equal_to_nothing_of_another_kind() -> None:
    key = Key(Cell("a"), "x", 1)
    assert Done([key]) != {key}
    assert Done([key])._ranges[key.cell, "x"] != [1]


def test_trials_in_order_are_one_range_however_many() -> None:
    done = Done(Key(Cell("a"), "x", trial) for trial in range(1, 10_001))

    (ranges,) = done._ranges.values()
    assert (list(ranges.firsts), list(ranges.lasts)) == ([1], [10_000])


def test_very_large_numbers_are_numbers_like_others() -> None:
    largest = Key(Cell("a"), "x", 2**63 - 1)

    assert largest in Done([largest])
    assert len(Done([largest, Key(Cell("a"), "x", 1)])) == 2
