"""A lane doubles, is cut once for many refusals, and never waits for ever."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.running.lane import LONGEST_PAUSE_S, Allowance, Lane
from surecall.wire.rate_limits import LONGEST_RESET_S, Quota


def after(lane: Lane, answers: int, started: float = 9.0, now: float = 9.0) -> Lane:
    for _ in range(answers):
        lane = lane.answered(started, now)
    return lane


def refused(lane: Lane, times: int, answers: int = 1) -> Lane:
    """Return a lane that was refused so often; between two refusals there are some answers."""
    for now in range(times):
        lane = lane.refused(started=now + 0.5, now=now + 1.0, wait_s=0.0)
        if now < times - 1:
            lane = after(lane, answers, now + 1.2, now + 1.2)
    return lane


def test_a_lane_begins_narrow_and_doubles_each_round() -> None:
    lane, widths = Lane.fresh(512), list[int]()
    for _ in range(8):
        widths.append(lane.limit)
        lane = after(lane, lane.limit)

    assert widths == [8, 16, 32, 64, 128, 256, 512, 512]
    assert [Lane.fresh(most).limit for most in (1, 5, 8, 9)] == [1, 5, 8, 8]


def test_after_a_cut_a_round_widens_it_by_a_thirty_second_and_at_least_one() -> None:
    wide, narrow = Lane(512, 320, 320), Lane(512, 30, 30)

    assert [after(wide, n).limit for n in (319, 320, 320 + 330)] == [320, 330, 340]
    assert [after(narrow, n).limit for n in (29, 30, 30 + 31)] == [30, 31, 32]
    assert after(wide, 100_000).limit == 512


def test_a_narrow_lane_waits_for_more_answers_than_it_is_wide() -> None:
    lane = Lane(512, 1, 1)

    assert [after(lane, n).limit for n in (19, 20, 39, 40)] == [1, 2, 2, 3]


def test_a_refusal_cuts_once_for_all_that_were_under_way_together() -> None:
    lane = Lane(100, 100, 100)
    lane = lane.refused(started=1.0, now=2.0, wait_s=0.0)

    assert lane.limit == 70
    assert lane.answered(3.0, 3.0).refused(started=3.5, now=4.0, wait_s=0.0).limit == 49
    assert Lane.fresh(1).refused(1.0, 2.0, 0.0).limit == 1


@pytest.mark.parametrize(("more", "limit"), [(0, 70), (1, 69), (50, 20), (99, 8)])
def test_what_was_refused_together_does_not_come_again_together(more: int, limit: int) -> None:
    lane = Lane(100, 100, 100).refused(started=1.0, now=2.0, wait_s=0.0)
    for _ in range(more):
        lane = lane.refused(started=1.5, now=2.1, wait_s=0.0)

    assert (lane.limit, lane.threshold) == (limit, 70)
    assert after(lane, 70 - limit).limit == 70
    assert after(lane, 70 - limit + 70).limit == 72


def test_a_lane_in_which_nothing_is_answered_pauses_longer_each_time_and_then_doubles() -> None:
    lane, pauses = Lane(512, 512, 512), list[float]()
    now = 0.0
    for _ in range(7):
        now = max(now, lane.closed_until) + 1.0
        lane = lane.refused(started=now, now=now, wait_s=0.0)
        pauses.append(max(0.0, lane.closed_until - now))

    assert pauses == [0.0, 0.25, 1.0, 4.0, 16.0, 60.0, 60.0]
    assert (lane.limit, lane.threshold) == (1, 358)
    assert [after(lane, n, now + 1, now + 1).limit for n in (1, 3, 7, 357)] == [2, 4, 8, 358]


def test_answers_to_requests_from_before_a_refusal_do_not_widen() -> None:
    lane = Lane(8, 3, 3).refused(started=1.0, now=2.0, wait_s=0.0)

    assert after(lane, 50, started=1.5) == lane
    assert after(lane, 20, started=2.5).limit == 3


def test_a_lane_that_was_closed_begins_narrow_and_doubles_up_to_where_it_was_cut() -> None:
    lane = Lane(512, 300, 300).refused(started=1.0, now=2.0, wait_s=5.0)

    assert (lane.limit, lane.threshold) == (8, 210)
    assert [after(lane, n).limit for n in (8, 24, 202, 202 + 209, 202 + 210)] == [
        *(16, 32, 210, 210, 216)
    ]
    assert Lane(5, 5, 5).refused(1.0, 2.0, 1.0).limit == 3


def test_a_lane_is_closed_for_as_long_as_the_provider_asks_but_not_for_ever() -> None:
    lane = Lane(8, 4, 4).refused(started=1.0, now=2.0, wait_s=5.0)

    assert [lane.takes(0, now) for now in (2.0, 6.9, 7.0)] == [False, False, True]
    assert lane.refused(1.5, 3.0, 1.0).closed_until == 7.0
    assert lane.refused(1.5, 3.0, 1e9).closed_until == 3.0 + LONGEST_PAUSE_S
    assert lane.refused(2.5, 3.0, 1e9).closed_until == 3.0 + LONGEST_PAUSE_S


def test_a_lane_takes_no_more_than_its_limit() -> None:
    lane = Lane(8, 2, 2)

    assert [lane.takes(under_way, 0.0) for under_way in (0, 1, 2)] == [True, True, False]


def test_a_lane_of_one_that_is_refused_rests_between_requests_longer_each_time() -> None:
    lane = Lane.fresh(1)

    assert [refused(lane, n).rest_s for n in range(5)] == [0.0, 0.25, 0.5, 1.0, 2.0]
    assert refused(lane, 99).rest_s == 60.0
    assert refused(lane, 2).closed_until == 2.5
    assert refused(lane, 2, answers=0).rest_s == 0.25
    rested = refused(lane, 2).answered(started=2.5, now=10.0)
    assert [rested.takes(0, now) for now in (10.4, 10.5)] == [False, True]


def test_rests_become_shorter_again_before_the_lane_widens() -> None:
    lane = refused(Lane.fresh(2), 3)

    assert (lane.limit, lane.rest_s) == (1, 0.5)
    rounds = [after(lane, 20 * n) for n in range(6)]
    assert [(each.limit, each.rest_s) for each in rounds] == [
        *((1, 0.5), (1, 0.375), (1, 0.28125), (1, 0.2109375), (1, 0.0), (2, 0.0))
    ]


def test_what_is_left_of_a_quota_is_kept_and_none_begins_before_it_is_renewed() -> None:
    lane = Lane.fresh(512).told(Quota(3, 10.0, 4), started=0.0, now=1.0, others=1)

    assert lane.takes(0, 1.0)
    spent = lane.began(1.0).began(1.0)
    assert [spent.takes(0, now) for now in (1.0, 10.9, 11.0)] == [False, False, True]
    renewed = spent.began(11.0)
    for _ in range(3):
        assert renewed.takes(0, 11.0)
        renewed = renewed.began(11.0)
    assert [renewed.takes(0, now) for now in (11.0, 20.9, 21.0)] == [False, False, True]


def test_fewer_than_are_under_way_are_none() -> None:
    lane = Lane.fresh(512).told(Quota(3, 10.0), started=0.0, now=1.0, others=5)

    assert not lane.takes(0, 1.0)
    assert lane.opens_at == 11.0
    assert lane.began(11.0).allowance.left == math.inf


def test_the_answer_to_the_newest_request_counts() -> None:
    lane = Lane.fresh(512).told(Quota(9, 10.0), started=5.0, now=6.0, others=0)

    assert lane.told(Quota(0, 10.0), started=4.0, now=6.5, others=0) == lane
    assert not lane.told(Quota(0, 10.0), started=5.5, now=6.5, others=0).takes(0, 7.0)


def test_after_a_wait_that_was_cut_short_one_request_asks() -> None:
    lane = Lane.fresh(512).told(Quota(0, 50_000.0, 1000), started=0.0, now=0.0, others=0)
    opened = lane.opens_at

    assert opened == LONGEST_PAUSE_S
    assert lane.takes(0, opened)
    assert not lane.began(opened).takes(0, opened)
    assert lane.began(opened).opens_at == 2 * LONGEST_PAUSE_S


def test_a_lane_without_a_quota_counts_none() -> None:
    lane = Lane.fresh(8)

    assert lane.began(1.0) is lane
    assert lane.allowance == Allowance()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["answered", "refused", "told", "began"]),
        st.floats(0, 5),  # how long ago it began
        st.floats(0, 400),  # how much time passes
        st.one_of(st.just(0.0), st.floats(0, 1e30)),
        st.integers(0, 1000),
        st.integers(0, 600),
    ),
    max_size=60,
)


@given(st.integers(1, 600), EVENTS)
def test_whatever_happens_a_lane_keeps_its_bounds_and_opens_again(
    most: int, events: list[tuple[str, float, float, float, int, int]]
) -> None:
    lane, now = Lane.fresh(most), 1000.0
    for what, ago, passed, wait_s, remaining, others in events:
        now += passed
        match what:
            case "answered":
                lane = lane.answered(now - ago, now)
            case "refused":
                lane = lane.refused(now - ago, now, wait_s)
            case "told":
                reset_s = min(max(wait_s, 0.01), LONGEST_RESET_S)
                quota = Quota(remaining, reset_s, remaining or None)
                lane = lane.told(quota, now - ago, now, others)
            case _:
                lane = lane.began(now) if lane.takes(0, now) else lane
        assert 1 <= lane.limit <= most
        assert lane.limit <= lane.threshold <= most
        assert lane.opens_at <= now + LONGEST_PAUSE_S
        assert lane.takes(0, now + LONGEST_PAUSE_S)


@pytest.mark.parametrize("width", [1, 2, 5, 100, 512])
def test_no_answer_and_no_refusal_at_the_same_moment_counts_twice(width: int) -> None:
    lane = Lane(512, width, width).refused(started=1.0, now=2.0, wait_s=0.0)

    assert lane.refused(started=2.0, now=2.0, wait_s=0.0).threshold == lane.threshold
    assert lane.answered(started=2.0, now=2.0) == lane
