"""Figures: a rate with its interval, and times."""

from surecall.eval.analysis.figures import Figure, Timing, figure, timing
from surecall.eval.analysis.stats import Rate, Stopping, interval


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
    assert timing([3, 1, 2]) == Timing(3, 2, 3)
    assert timing([]) == Timing()
