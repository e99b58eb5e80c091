"""Figures: a rate with its interval, and times."""

from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.figures import Figure, Times, Timing, figure
from surecall.eval.analysis.stats import Rate, Stopping, interval, percentile


def test_a_figure_pools_rates_and_has_their_interval() -> None:
    parts = [Rate(3, 4), Rate(4, 4)]

    assert figure(parts) == Figure(7, 8, 7 / 8, *interval(parts))
    assert figure(parts).counts == Rate(7, 8)
    assert figure([]) == Figure(0, 0, None, 0.0, 1.0)


def test_after_many_looks_the_interval_is_wider() -> None:
    once, often = figure([Rate(40, 40)]), figure([Rate(40, 40)], Stopping(sequential=True))

    assert often.low < once.low
    assert (often.k, often.n, often.rate) == (once.k, once.n, once.rate)


def test_times_are_counted_and_never_interpolated() -> None:
    assert Times([3, 1, 2]).timing == Timing(3, 2, 3)
    assert Times().timing == Timing()
    assert Times().percentiles((0, 100)) == (0, 0)


@given(st.lists(st.lists(st.integers(0, 30), max_size=30)))
def test_times_are_those_that_were_added_in_whatever_parts(parts: list[list[int]]) -> None:
    percents = range(101)
    found = Times.of(map(Times, parts))
    every = [value for part in parts for value in part]

    assert len(found) == len(every)
    assert found.percentiles(percents) == tuple(percentile(every, each) for each in percents)
    one_by_one = Times()
    for value in every:
        one_by_one.add(value)
    assert one_by_one.percentiles(percents) == found.percentiles(percents)
