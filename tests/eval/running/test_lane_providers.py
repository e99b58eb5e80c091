"""Lanes against providers that take only so much, through the harness, in virtual time.

The bars: a lane that may be 512 wide does nine tenths of what 512 can within ten rounds; at most
one request in ten is refused; no provider gets much less than it takes.
"""

import asyncio
import time
from typing import Any, NamedTuple

import pytest

from surecall.eval.running.harness import Stop, evaluate
from surecall.eval.running.harness_events import Notice, RateLimited, Report
from surecall.eval.running.local_engine import LocalEngine
from tests.support.clock import virtual_time
from tests.support.eval_fakes import Memory, planned
from tests.support.limited_providers import (
    LATENCY_S,
    WALL,
    AdvisingBucket,
    Anything,
    Bucket,
    Conversations,
    Dropping,
    Provider,
    Rule,
    Slots,
    ToldBucket,
    Window,
)

pytestmark = pytest.mark.slow

ROUND_S = LATENCY_S
AT_ONCE = 0.005


class Evaluated(NamedTuple):
    """What an evaluation came to."""

    provider: Provider
    report: Report
    notices: list[Notice]
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
    notices: list[Notice] = []

    async def go() -> Evaluated:
        began = time.monotonic()
        monkeypatch.setattr(time, "time", lambda: WALL + time.monotonic() - began)
        provider = Provider(rule, time.monotonic, **how)
        engine = LocalEngine(Conversations(), lambda _: provider)
        report = await evaluate(plan, Memory(), engine, notices.append, Stop())
        return Evaluated(provider, report, notices, time.monotonic() - began)

    with virtual_time(), monkeypatch.context():
        return asyncio.run(go())


def test_a_lane_does_nine_tenths_of_what_its_width_can_within_ten_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = evaluated(Anything(), 2600, monkeypatch, varies=0.0)

    assert found.provider.rate(9 * ROUND_S, 10 * ROUND_S) >= 0.9 * 512 / LATENCY_S
    assert not [notice for notice in found.notices if isinstance(notice, RateLimited)]


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
    assert found.report.ran == trials
    assert found.report.infra <= 0.02 * trials


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


def test_headers_on_every_answer_leave_nothing_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluated(ToldBucket(300, 300), 2500, monkeypatch)

    assert found.provider.refused == 0


def test_a_quota_that_nobody_tells_of_is_waited_for_with_few_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = evaluated(Window(3000, 60.0, told=False), 5000, monkeypatch, refuses_after_s=AT_ONCE)

    assert found.refused <= 0.02
    assert found.took_s <= 5 * 60
    assert found.report.infra <= 0.01 * 5000


def test_a_storm_of_refusals_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Dropping(Anything(), AdvisingBucket(100, 10), at=1.2)
    found = evaluated(rule, 600, monkeypatch, jobs=200)
    told = [notice for notice in found.notices if isinstance(notice, RateLimited)]

    assert found.provider.refused > 3 * len(told) > 0
