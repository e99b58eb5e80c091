"""Tests of `surecall.eval.running.limiter`."""

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager, nullcontext, suppress

import pytest

from surecall.core.outcome import RunFailed
from surecall.eval.running.limiter import (
    MAX_PAUSE_S,
    ConcurrencyWindow,
    CostBudget,
    Limiter,
    NotifyAll,
    NotifyOne,
    RateLimitedClient,
)
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.connection import RetryPolicy
from surecall.testing import ScriptedModel, failure, says
from surecall.values.events import LlmRequestEndEvent
from surecall.values.types import HttpResponse
from surecall.wire.chat_format import parse_usage
from tests.support.timing import until_soon, virtual_time

# How much goes on at once: requests wait for their lane, quotas end, money runs out


OK = HttpResponse(200, {}, b"{}")
TOO_MANY = HttpResponse(429, {"retry-after": "4"}, b"{}")


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class OneAnswer:
    """A client that always gives the same answer."""

    api_key = "kept"

    def __init__(self, answer: HttpResponse) -> None:
        self.answer = answer

    async def send(self, body: bytes) -> HttpResponse:
        del body
        return self.answer

    def opened(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


def test_a_limiter_counts_the_conversations_of_each_lane_apart() -> None:
    limiter = Limiter(2, Clock())
    for _ in range(2):
        limiter.begin_conversation("a")

    assert [limiter.has_room(lane) for lane in "ab"] == [False, True]
    assert limiter.running == 2
    limiter.end_conversation("a")
    assert limiter.has_room("a")


def test_a_limiter_learns_from_answers() -> None:
    clock = Clock()
    limiter = Limiter(32, clock)

    assert [limiter.record_response("a", 99.0, OK) for _ in range(4)] == [None] * 4
    assert limiter.window("a").limit == 12
    assert limiter.next_opening_s("ab") is None
    assert limiter.record_response("a", 99.5, TOO_MANY) == 4.0
    assert (limiter.window("a").slow_start_threshold, limiter.window("b").limit) == (8, 8)
    assert (limiter.has_room("a"), limiter.has_room("b")) == (False, True)
    clock.now = 101.0
    assert limiter.next_opening_s("ab") == 3.0
    clock.now = 104.0
    assert limiter.next_opening_s("ab") is None
    assert limiter.has_room("a")


def test_a_failing_server_is_no_reason_to_ask_for_more() -> None:
    limiter = Limiter(32, Clock())

    assert limiter.record_response("a", 99.0, HttpResponse(503, {}, b"")) is None
    assert limiter.window("a") == ConcurrencyWindow.initial(32)


def test_a_refusal_without_advice_closes_nothing() -> None:
    limiter = Limiter(8, Clock())

    assert limiter.record_response("a", 99.0, HttpResponse(429, {}, b"")) == 0.0
    assert limiter.has_room("a")


def test_refusals_one_after_another_tell_how_long_the_lane_rests() -> None:
    clock = Clock()
    limiter = Limiter(8, clock)
    told = []
    for _ in range(6):
        told.append(limiter.record_response("a", clock.now, HttpResponse(429, {}, b"")))
        clock.now += told[-1] or 0.0
        assert limiter.has_room("a")
        clock.now += 1.0

    assert told == [0.0, 0.25, 1.0, 4.0, 16.0, 60.0]


def test_of_many_refusals_together_the_first_is_news() -> None:
    limiter = Limiter(8, Clock())
    longer = HttpResponse(429, {"retry-after": "9"}, b"")

    told = [limiter.record_response("a", 99.0, answer) for answer in (TOO_MANY, longer, TOO_MANY)]

    assert told == [4.0, None, None]
    assert limiter.window("a").slow_start_threshold == 5
    assert limiter.next_opening_s("a") == 9.0


def quota(remaining: int, reset: str) -> dict[str, str]:
    return {"x-ratelimit-remaining-requests": f"{remaining}", "x-ratelimit-reset-requests": reset}


def test_a_quota_that_is_spent_closes_the_lane_and_is_no_refusal() -> None:
    limiter = Limiter(32, Clock())
    asyncio.run(limiter.acquire_request("a"))

    assert (
        limiter.record_response("a", 99.0, HttpResponse(200, quota(0, "6m0s"), b"{}"))
        == MAX_PAUSE_S
    )
    assert limiter.window("a").limit == 9
    assert not limiter.has_room("a")
    assert limiter.next_opening_s("ab") == MAX_PAUSE_S
    # It is news once, and only if it takes a while.
    assert limiter.record_response("a", 99.0, HttpResponse(200, quota(0, "6m0s"), b"{}")) is None
    assert limiter.record_response("b", 99.0, HttpResponse(200, quota(0, "20ms"), b"{}")) is None


def test_a_refusal_for_a_spent_quota_lasts_until_it_is_renewed_if_nothing_else_is_advised() -> None:
    spent = quota(0, "30s")
    answers = (
        HttpResponse(429, spent, b"{}"),
        HttpResponse(429, quota(3, "30s"), b"{}"),
        HttpResponse(429, {"retry-after": "2", **spent}, b"{}"),
    )

    assert [Limiter(8, Clock()).record_response("a", 99.0, answer) for answer in answers] == [
        30.0,
        0.0,
        2.0,
    ]


def test_a_router_may_say_it_inside_of_its_refusal() -> None:
    body = {"error": {"metadata": {"headers": {"Retry-After": "7"}}}}
    inside = HttpResponse(429, {}, json.dumps(body).encode())
    outside = HttpResponse(429, {"retry-after": "3"}, inside.body)

    assert [Limiter(8, Clock()).record_response("a", 99.0, each) for each in (inside, outside)] == [
        7.0,
        3.0,
    ]


@pytest.mark.parametrize("now", [0.1, 2048.3, 4096.7, 100_000.1, 1e6 + 0.7, 1e7 + 0.3])
def test_the_wait_that_was_asked_for_is_told_whatever_the_clock_reads(now: float) -> None:
    clock = Clock()
    clock.now = now
    advice = HttpResponse(429, {"retry-after": "0.05"}, b"")

    assert Limiter(8, clock).record_response("a", now, advice) == 0.05


def test_advice_may_be_a_date() -> None:
    limiter = Limiter(8, Clock(), wall_clock=lambda: 784_111_777.0)
    dated = HttpResponse(429, {"retry-after": "Sun, 06 Nov 1994 08:49:40 GMT"}, b"")

    assert limiter.record_response("a", 99.0, dated) == pytest.approx(3.0)


def test_a_watched_client_tells_of_refusals_and_is_otherwise_the_same() -> None:
    limiter, told = Limiter(8, Clock()), list[tuple[str, float]]()
    client = OneAnswer(OK)
    watched = RateLimitedClient(
        client, "a", limiter, lambda lane, wait_s: told.append((lane, wait_s))
    )

    async def talk() -> None:
        async with watched.opened():
            assert await watched.send(b"") is OK
            client.answer = TOO_MANY
            assert await watched.send(b"") is TOO_MANY

    asyncio.run(talk())
    assert told == [("a", 4.0)]
    assert watched.api_key == "kept"


class Held:
    """A client that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[HttpResponse]] = []

    async def send(self, body: bytes) -> HttpResponse:
        del body
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]

    def opened(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def answer(self, *answers: HttpResponse) -> int:
        """Answer the requests under way, oldest first; say how many are there then."""
        waiting = [turn for turn in self.asked if not turn.done()]
        for turn, answer in zip(waiting, answers, strict=False):
            turn.set_result(answer)
        for _ in range(50):
            await asyncio.sleep(0)
        return sum(not turn.done() for turn in self.asked)


def test_requests_pass_as_the_lane_has_room_and_retries_among_them() -> None:
    refusal = HttpResponse(429, {}, b"{}")

    async def counted() -> list[int]:
        limiter, client = Limiter(10, Clock()), Held()
        watched = RateLimitedClient(client, "a", limiter, lambda *_: None)
        tasks = [asyncio.create_task(watched.send(b"")) for _ in range(30)]
        counts = [await client.answer()]
        counts.append(await client.answer(OK))
        limiter.clock = lambda: 101.0
        counts.append(await client.answer(refusal))
        counts.append(await client.answer(*[OK] * 8))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return counts

    # Eight, then nine: one answer widened the lane. Then it is cut to six, and six are let in.
    assert asyncio.run(counted()) == [8, 9, 8, 6]


def test_a_request_that_breaks_off_makes_room_for_the_next() -> None:
    async def sent() -> int:
        limiter, client = Limiter(1, Clock()), Held()
        watched = RateLimitedClient(client, "a", limiter, lambda *_: None)
        first, second = (asyncio.create_task(watched.send(b"")) for _ in range(2))
        assert await client.answer() == 1
        first.cancel()
        await client.answer()
        second.cancel()
        await asyncio.wait([first, second])
        return len(client.asked)

    assert asyncio.run(sent()) == 2


def test_waiting_requests_go_on_when_a_closed_lane_opens() -> None:
    async def answered() -> float:
        limiter, client = Limiter(8, time.monotonic), Held()
        watched = RateLimitedClient(client, "a", limiter, lambda *_: None)
        first = asyncio.create_task(watched.send(b""))
        await client.answer()
        await client.answer(HttpResponse(429, {"retry-after": "30"}, b"{}"))
        await first
        began = time.monotonic()
        tasks = [asyncio.create_task(watched.send(b"")) for _ in range(3)]
        await until_soon(lambda: len(client.asked) == 4)
        await client.answer(OK, OK, OK)
        await asyncio.gather(*tasks)
        return time.monotonic() - began

    with virtual_time():
        assert 30 <= asyncio.run(answered()) < 40


def test_the_time_in_front_of_a_lane_is_none_of_the_latency_of_the_model() -> None:
    async def latencies() -> list[int]:
        model = ScriptedModel(failure(429, headers={"retry-after": "30"}), says("a"), says("b"))
        watched = RateLimitedClient(
            model, "a", Limiter(1, time.monotonic, time.time), lambda *_: None
        )
        runner = ToolLoopRunner(client=watched, model="m", retry=RetryPolicy(attempts=1))
        with suppress(RunFailed):
            await runner.run("Hi.")
        result = await runner.run("Hi again.")
        return [event.elapsed_ms for event in result.trace if isinstance(event, LlmRequestEndEvent)]

    with virtual_time():
        assert asyncio.run(latencies()) == [0]


def test_room_for_a_conversation_is_told_when_an_answer_makes_some() -> None:
    async def told(conversations: int) -> list[str]:
        limiter, calls = Limiter(16, Clock()), list[str]()
        limiter.on_room = lambda: calls.append("room")
        for _ in range(conversations):
            limiter.begin_conversation("a")
        await RateLimitedClient(OneAnswer(OK), "a", limiter, lambda *_: None).send(b"")
        return calls

    assert [asyncio.run(told(count)) for count in (8, 9)] == [["room"], []]


def paid(budget: CostBudget, *costs: float | None) -> CostBudget:
    for cost in costs:
        budget = budget.with_cost(cost)
    return budget


def test_without_a_cap_money_is_only_counted() -> None:
    budget = paid(CostBudget(), 5.0, None, 2.0)

    assert (budget.spent, budget.priced, budget.unpriced) == (7.0, 2, 1)
    assert budget.next_action(100) == "go"


def test_under_a_cap_the_first_trial_alone_shows_what_one_costs() -> None:
    assert [CostBudget(cap=1.0).next_action(under_way) for under_way in (0, 1)] == ["go", "wait"]


@pytest.mark.parametrize(
    ("costs", "under_way", "advice"),
    [
        pytest.param((0.1,), 8, "go", id="room"),
        pytest.param((0.1,), 9, "wait", id="those-under-way-may-take-the-rest"),
        pytest.param((0.6,), 0, "stop", id="the-next-would-be-too-much"),
        pytest.param((0.6,), 1, "wait", id="not-before-the-others-end"),
        pytest.param((1.5,), 0, "stop", id="overspent"),
        pytest.param((0.01, 0.3, 0.01), 1, "go", id="room-for-two-of-the-dearest"),
        pytest.param((0.01, 0.3, 0.01), 2, "wait", id="no-room-for-three-of-the-dearest"),
        pytest.param((None,), 0, "go", id="nobody-told-the-cost"),
        pytest.param((None,), 1, "wait", id="nobody-told-the-cost-yet"),
        pytest.param((-5.0, 0.6), 0, "stop", id="nobody-pays-us"),
        pytest.param((None, 0.0), 50, "go", id="free"),
    ],
)
def test_a_trial_begins_only_if_it_fits_the_budget(
    costs: tuple[float | None, ...], under_way: int, advice: str
) -> None:
    assert paid(CostBudget(cap=1.0), *costs).next_action(under_way) == advice


@pytest.mark.parametrize(
    ("told", "silent"),
    [
        ([("a", None)] * 2, None),
        ([("a", None)] * 3, "a"),
        ([("a", None)] * 2 + [("a", 0.1), ("a", None)], None),
        ([("b", 0.1)] * 9 + [("a", None)] * 3, "a"),
        ([("b", None), ("a", None)] * 2, None),
    ],
)
def test_a_model_that_never_tells_a_price_is_noticed(
    told: list[tuple[str, float | None]], silent: str | None
) -> None:
    budget, without_cap = CostBudget(cap=1.0), CostBudget()
    for model, cost in told:
        budget, without_cap = budget.with_cost(cost, model), without_cap.with_cost(cost, model)

    assert (budget.unpriced_model, without_cap.unpriced_model) == (silent, None)


@pytest.mark.parametrize("cost", [-5, -0.01, 1e308, float("inf"), float("nan"), 10**400])
def test_a_cost_that_cannot_be_true_is_none(cost: float) -> None:
    usage = parse_usage({"cost": cost})
    budget = CostBudget(cap=1.0).with_cost(cost)

    assert usage is not None
    assert usage.cost is None
    assert (budget.spent, budget.priced, budget.unpriced) == (0.0, 0, 1)


# Who waits for the bell wakes when it is their turn, or when the time is up


def test_each_ring_wakes_who_has_waited_longest() -> None:
    async def woken() -> list[str]:
        bell, order = NotifyOne(), list[str]()

        async def wait(name: str, timeout_s: float | None = None) -> None:
            await bell.wait(timeout_s)
            order.append(name)

        tasks = [asyncio.create_task(wait(name)) for name in "ab"]
        late = asyncio.create_task(wait("late", 0.0))
        await late
        for _ in tasks:
            bell.notify_one()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append("ring")
        bell.notify_one()
        return order

    assert asyncio.run(woken()) == ["late", "a", "ring", "b", "ring"]


def test_a_ring_for_somebody_who_is_gone_goes_to_the_next() -> None:
    async def heard() -> None:
        bell = NotifyOne()
        gone, also_gone, waiting = (asyncio.create_task(bell.wait(None)) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        bell.notify_one()  # for the second, who is cancelled before it comes
        also_gone.cancel()
        await waiting

    asyncio.run(heard())


def test_nobody_waits_longer_than_they_want() -> None:
    assert asyncio.run(NotifyOne().wait(0.0)) is None


def test_a_gong_wakes_everybody_as_often_as_it_sounds(virtual: object) -> None:
    del virtual
    gong, woken = NotifyAll(), []

    async def waits(name: str) -> None:
        for _ in range(2):
            await gong.wait(None)
            woken.append(name)

    async def work() -> None:
        tasks = [asyncio.create_task(waits(name)) for name in ("a", "b")]
        for _ in range(2):
            await asyncio.sleep(0)
            gong.notify_all()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        await gong.wait(0.5)

    asyncio.run(work())
    assert woken == ["a", "b", "a", "b"]
