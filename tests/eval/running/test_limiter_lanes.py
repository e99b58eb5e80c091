"""Tests of `surecall.eval.running.limiter`."""

import asyncio
import math
import time
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.running.harness import LocalEngine, StopRequest, evaluate
from surecall.eval.running.ledger import EvaluationEvent, EvaluationReport, RateLimited
from surecall.eval.running.limiter import MAX_PAUSE_S, ConcurrencyWindow, RemainingQuota
from surecall.wire.rate_limits import MAX_RESET_S, Quota
from tests.support.evaluations import (
    LATENCY_S,
    WALL,
    AdvisingBucket,
    Anything,
    Bucket,
    Conversations,
    Dropping,
    Memory,
    Provider,
    Rule,
    Slots,
    ToldBucket,
    Window,
    planned,
)
from tests.support.timing import virtual_time

# A lane doubles, is cut once for many refusals, and never waits for ever


def after(
    lane: ConcurrencyWindow, answers: int, started: float = 9.0, now: float = 9.0
) -> ConcurrencyWindow:
    for _ in range(answers):
        lane = lane.after_answer(started, now)
    return lane


def refused(lane: ConcurrencyWindow, times: int, answers: int = 1) -> ConcurrencyWindow:
    """Return a lane that was refused so often; between two refusals there are some answers."""
    for now in range(times):
        lane = lane.after_rate_limit(started=now + 0.5, now=now + 1.0, wait_s=0.0)
        if now < times - 1:
            lane = after(lane, answers, now + 1.2, now + 1.2)
    return lane


def test_a_lane_begins_narrow_and_doubles_each_round() -> None:
    lane, widths = ConcurrencyWindow.initial(512), list[int]()
    for _ in range(8):
        widths.append(lane.limit)
        lane = after(lane, lane.limit)

    assert widths == [8, 16, 32, 64, 128, 256, 512, 512]
    assert [ConcurrencyWindow.initial(most).limit for most in (1, 5, 8, 9)] == [1, 5, 8, 8]


def test_after_a_cut_a_round_widens_it_by_a_thirty_second_and_at_least_one() -> None:
    wide, narrow = ConcurrencyWindow(512, 320, 320), ConcurrencyWindow(512, 30, 30)

    assert [after(wide, n).limit for n in (319, 320, 320 + 330)] == [320, 330, 340]
    assert [after(narrow, n).limit for n in (29, 30, 30 + 31)] == [30, 31, 32]
    assert after(wide, 100_000).limit == 512


def test_a_narrow_lane_waits_for_more_answers_than_it_is_wide() -> None:
    lane = ConcurrencyWindow(512, 1, 1)

    assert [after(lane, n).limit for n in (19, 20, 39, 40)] == [1, 2, 2, 3]


def test_a_refusal_cuts_once_for_all_that_were_under_way_together() -> None:
    lane = ConcurrencyWindow(100, 100, 100)
    lane = lane.after_rate_limit(started=1.0, now=2.0, wait_s=0.0)

    assert lane.limit == 70
    assert (
        lane.after_answer(3.0, 3.0).after_rate_limit(started=3.5, now=4.0, wait_s=0.0).limit == 49
    )
    assert ConcurrencyWindow.initial(1).after_rate_limit(1.0, 2.0, 0.0).limit == 1


@pytest.mark.parametrize(("more", "limit"), [(0, 70), (1, 69), (50, 20), (99, 8)])
def test_what_was_refused_together_does_not_come_again_together(more: int, limit: int) -> None:
    lane = ConcurrencyWindow(100, 100, 100).after_rate_limit(started=1.0, now=2.0, wait_s=0.0)
    for _ in range(more):
        lane = lane.after_rate_limit(started=1.5, now=2.1, wait_s=0.0)

    assert (lane.limit, lane.slow_start_threshold) == (limit, 70)
    assert after(lane, 70 - limit).limit == 70
    assert after(lane, 70 - limit + 70).limit == 72


def test_a_lane_in_which_nothing_is_answered_pauses_longer_each_time_and_then_doubles() -> None:
    lane, pauses = ConcurrencyWindow(512, 512, 512), list[float]()
    now = 0.0
    for _ in range(7):
        now = max(now, lane.paused_until) + 1.0
        lane = lane.after_rate_limit(started=now, now=now, wait_s=0.0)
        pauses.append(max(0.0, lane.paused_until - now))

    assert pauses == [0.0, 0.25, 1.0, 4.0, 16.0, 60.0, 60.0]
    assert (lane.limit, lane.slow_start_threshold) == (1, 358)
    assert [after(lane, n, now + 1, now + 1).limit for n in (1, 3, 7, 357)] == [2, 4, 8, 358]


def test_answers_to_requests_from_before_a_refusal_do_not_widen() -> None:
    lane = ConcurrencyWindow(8, 3, 3).after_rate_limit(started=1.0, now=2.0, wait_s=0.0)

    assert after(lane, 50, started=1.5) == lane
    assert after(lane, 20, started=2.5).limit == 3


def test_a_lane_that_was_closed_begins_narrow_and_doubles_up_to_where_it_was_cut() -> None:
    lane = ConcurrencyWindow(512, 300, 300).after_rate_limit(started=1.0, now=2.0, wait_s=5.0)

    assert (lane.limit, lane.slow_start_threshold) == (8, 210)
    assert [after(lane, n).limit for n in (8, 24, 202, 202 + 209, 202 + 210)] == [
        *(16, 32, 210, 210, 216)
    ]
    assert ConcurrencyWindow(5, 5, 5).after_rate_limit(1.0, 2.0, 1.0).limit == 3


def test_a_lane_is_closed_for_as_long_as_the_provider_asks_but_not_for_ever() -> None:
    lane = ConcurrencyWindow(8, 4, 4).after_rate_limit(started=1.0, now=2.0, wait_s=5.0)

    assert [lane.has_room(0, now) for now in (2.0, 6.9, 7.0)] == [False, False, True]
    assert lane.after_rate_limit(1.5, 3.0, 1.0).paused_until == 7.0
    assert lane.after_rate_limit(1.5, 3.0, 1e9).paused_until == 3.0 + MAX_PAUSE_S
    assert lane.after_rate_limit(2.5, 3.0, 1e9).paused_until == 3.0 + MAX_PAUSE_S


def test_a_lane_takes_no_more_than_its_limit() -> None:
    lane = ConcurrencyWindow(8, 2, 2)

    assert [lane.has_room(under_way, 0.0) for under_way in (0, 1, 2)] == [True, True, False]


def test_a_lane_of_one_that_is_refused_rests_between_requests_longer_each_time() -> None:
    lane = ConcurrencyWindow.initial(1)

    assert [refused(lane, n).spacing_s for n in range(5)] == [0.0, 0.25, 0.5, 1.0, 2.0]
    assert refused(lane, 99).spacing_s == 60.0
    assert refused(lane, 2).paused_until == 2.5
    assert refused(lane, 2, answers=0).spacing_s == 0.25
    rested = refused(lane, 2).after_answer(started=2.5, now=10.0)
    assert [rested.has_room(0, now) for now in (10.4, 10.5)] == [False, True]


def test_rests_become_shorter_again_before_the_lane_widens() -> None:
    lane = refused(ConcurrencyWindow.initial(2), 3)

    assert (lane.limit, lane.spacing_s) == (1, 0.5)
    rounds = [after(lane, 20 * n) for n in range(6)]
    assert [(each.limit, each.spacing_s) for each in rounds] == [
        *((1, 0.5), (1, 0.375), (1, 0.28125), (1, 0.2109375), (1, 0.0), (2, 0.0))
    ]


def test_what_is_left_of_a_quota_is_kept_and_none_begins_before_it_is_renewed() -> None:
    lane = ConcurrencyWindow.initial(512).with_quota(
        Quota(3, 10.0, 4), started=0.0, now=1.0, in_flight=1
    )

    assert lane.has_room(0, 1.0)
    spent = lane.after_request(1.0).after_request(1.0)
    assert [spent.has_room(0, now) for now in (1.0, 10.9, 11.0)] == [False, False, True]
    renewed = spent.after_request(11.0)
    for _ in range(3):
        assert renewed.has_room(0, 11.0)
        renewed = renewed.after_request(11.0)
    assert [renewed.has_room(0, now) for now in (11.0, 20.9, 21.0)] == [False, False, True]


def test_fewer_than_are_under_way_are_none() -> None:
    lane = ConcurrencyWindow.initial(512).with_quota(
        Quota(3, 10.0), started=0.0, now=1.0, in_flight=5
    )

    assert not lane.has_room(0, 1.0)
    assert lane.next_request_at == 11.0
    assert lane.after_request(11.0).quota.remaining == math.inf


def test_the_answer_to_the_newest_request_counts() -> None:
    lane = ConcurrencyWindow.initial(512).with_quota(
        Quota(9, 10.0), started=5.0, now=6.0, in_flight=0
    )

    assert lane.with_quota(Quota(0, 10.0), started=4.0, now=6.5, in_flight=0) == lane
    assert not lane.with_quota(Quota(0, 10.0), started=5.5, now=6.5, in_flight=0).has_room(0, 7.0)


def test_after_a_wait_that_was_cut_short_one_request_asks() -> None:
    lane = ConcurrencyWindow.initial(512).with_quota(
        Quota(0, 50_000.0, 1000), started=0.0, now=0.0, in_flight=0
    )
    opened = lane.next_request_at

    assert opened == MAX_PAUSE_S
    assert lane.has_room(0, opened)
    assert not lane.after_request(opened).has_room(0, opened)
    assert lane.after_request(opened).next_request_at == 2 * MAX_PAUSE_S


def test_a_lane_without_a_quota_counts_none() -> None:
    lane = ConcurrencyWindow.initial(8)

    assert lane.after_request(1.0) is lane
    assert lane.quota == RemainingQuota()


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
    lane, now = ConcurrencyWindow.initial(most), 1000.0
    for what, ago, passed, wait_s, remaining, others in events:
        now += passed
        match what:
            case "answered":
                lane = lane.after_answer(now - ago, now)
            case "refused":
                lane = lane.after_rate_limit(now - ago, now, wait_s)
            case "told":
                reset_s = min(max(wait_s, 0.01), MAX_RESET_S)
                quota = Quota(remaining, reset_s, remaining or None)
                lane = lane.with_quota(quota, now - ago, now, others)
            case _:
                lane = lane.after_request(now) if lane.has_room(0, now) else lane
        assert 1 <= lane.limit <= most
        assert lane.limit <= lane.slow_start_threshold <= most
        assert lane.next_request_at <= now + MAX_PAUSE_S
        assert lane.has_room(0, now + MAX_PAUSE_S)


@pytest.mark.parametrize("width", [1, 2, 5, 100, 512])
def test_no_answer_and_no_refusal_at_the_same_moment_counts_twice(width: int) -> None:
    lane = ConcurrencyWindow(512, width, width).after_rate_limit(started=1.0, now=2.0, wait_s=0.0)

    assert (
        lane.after_rate_limit(started=2.0, now=2.0, wait_s=0.0).slow_start_threshold
        == lane.slow_start_threshold
    )
    assert lane.after_answer(started=2.0, now=2.0) == lane


# Lanes against providers that take only so much, through the harness, in virtual time.
# The bars: a lane that may be 512 wide does nine tenths of what 512 can within ten rounds; at most
# one request in ten is refused; no provider gets much less than it takes.


ROUND_S = LATENCY_S
AT_ONCE = 0.005


class Evaluated(NamedTuple):
    """What an evaluation came to."""

    provider: Provider
    report: EvaluationReport
    notices: list[EvaluationEvent]
    took_s: float

    @property
    def refused(self) -> float:
        """The share of requests that were refused; each was a retry, or spoiled its trial."""
        return self.provider.refused / self.provider.asked

    @property
    def rate(self) -> float:
        """How many requests were served a second."""
        return len(self.provider.served) / self.took_s


def evaluated(
    rule: Rule, trials: int, monkeypatch: pytest.MonkeyPatch, jobs: int = 512, **how: Any
) -> Evaluated:
    plan = planned(model_filter="x_ai", scenarios="happy_path", trials=trials, jobs=jobs)
    notices: list[EvaluationEvent] = []

    async def go() -> Evaluated:
        began = time.monotonic()
        monkeypatch.setattr(time, "time", lambda: WALL + time.monotonic() - began)
        provider = Provider(rule, time.monotonic, **how)
        engine = LocalEngine(Conversations(), lambda _: provider)
        report = await evaluate(plan, Memory(), engine, notices.append, StopRequest())
        return Evaluated(provider, report, notices, time.monotonic() - began)

    with virtual_time(), monkeypatch.context():
        return asyncio.run(go())


@pytest.mark.slow
def test_a_lane_does_nine_tenths_of_what_its_width_can_within_ten_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = evaluated(Anything(), 2600, monkeypatch, varies=0.0)

    assert found.provider.rate(9 * ROUND_S, 10 * ROUND_S) >= 0.9 * 512 / LATENCY_S
    assert not [notice for notice in found.notices if isinstance(notice, RateLimited)]


@pytest.mark.slow
@pytest.mark.parametrize("refuses_after_s", [LATENCY_S, AT_ONCE], ids=["late", "at-once"])
@pytest.mark.parametrize(
    ("rule", "trials", "takes"),
    [
        pytest.param(lambda: Slots(100), 2500, 100 / LATENCY_S, id="slots"),
        pytest.param(lambda: Slots(5), 400, 5 / LATENCY_S, id="few-slots"),
        pytest.param(lambda: Slots(1), 150, 1 / LATENCY_S, id="one-slot"),
        pytest.param(lambda: Bucket(300, 300), 5000, 300, id="bucket"),
        pytest.param(lambda: Bucket(300, 10), 2500, 300, id="bucket-without-bursts"),
        pytest.param(lambda: Bucket(1, 1), 200, 1, id="one-a-second"),
        pytest.param(lambda: ToldBucket(300, 300), 2500, 300, id="bucket-with-headers"),
        pytest.param(lambda: AdvisingBucket(300, 300), 6000, 300, id="bucket-with-retry-after"),
        pytest.param(lambda: Window(3000, 60.0), 5000, 50, id="window-with-headers"),
    ],
)
def test_a_provider_gets_most_of_what_it_takes_and_refuses_at_most_one_request_in_ten(
    rule: Any,
    trials: int,
    takes: float,
    refuses_after_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = evaluated(rule(), trials, monkeypatch, refuses_after_s=refuses_after_s)

    assert found.refused <= 0.1
    assert found.rate >= 0.6 * takes
    assert found.report.executed == trials
    assert found.report.infra <= 0.02 * trials


@pytest.mark.slow
@pytest.mark.parametrize("refuses_after_s", [LATENCY_S, AT_ONCE], ids=["late", "at-once"])
@pytest.mark.parametrize(
    ("rule", "takes"),
    [
        pytest.param(lambda: Dropping(Slots(400), Slots(50), at=3.0), 50 / LATENCY_S, id="slots"),
        pytest.param(
            lambda: Dropping(Bucket(1000, 100), Bucket(100, 10), at=3.0), 100, id="bucket"
        ),
    ],
)
def test_a_limit_that_drops_in_the_middle_is_found_again(
    rule: Any, takes: float, refuses_after_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = evaluated(rule(), 4000, monkeypatch, refuses_after_s=refuses_after_s)
    end = found.took_s

    assert found.refused <= 0.1
    assert found.provider.rate(end / 2, end) >= 0.6 * takes
    assert found.report.infra <= 0.02 * 4000


@pytest.mark.slow
def test_headers_on_every_answer_leave_nothing_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluated(ToldBucket(300, 300), 2500, monkeypatch)

    assert found.provider.refused == 0


@pytest.mark.slow
def test_a_quota_that_nobody_tells_of_is_waited_for_with_few_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = evaluated(Window(3000, 60.0, told=False), 5000, monkeypatch, refuses_after_s=AT_ONCE)

    assert found.refused <= 0.02
    assert found.took_s <= 5 * 60
    assert found.report.infra <= 0.01 * 5000


@pytest.mark.slow
def test_a_storm_of_refusals_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Dropping(Anything(), AdvisingBucket(100, 10), at=1.2)
    found = evaluated(rule, 600, monkeypatch, jobs=200)
    told = [notice for notice in found.notices if isinstance(notice, RateLimited)]

    assert found.provider.refused > 3 * len(told) > 0
