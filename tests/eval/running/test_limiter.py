"""How much goes on at once: requests wait for their lane, quotas end, money runs out."""

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager, nullcontext, suppress

import pytest

from surecall.core.outcome import RunFailed
from surecall.eval.running.lane import LONGEST_PAUSE_S, Lane
from surecall.eval.running.limiter import Budget, Limiter, Watched
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.connection import RetryPolicy
from surecall.testing import ScriptedModel, failure, says
from surecall.values.events import LlmRequestEndEvent
from surecall.values.types import Answer
from surecall.wire.messages import parse_usage
from tests.support.clock import virtual_time
from tests.support.patience import until_soon

OK = Answer(200, {}, b"{}")
TOO_MANY = Answer(429, {"retry-after": "4"}, b"{}")


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class OneAnswer:
    """A client that always gives the same answer."""

    api_key = "kept"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    async def send(self, body: bytes) -> Answer:
        del body
        return self.answer

    def opened(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


def test_a_limiter_counts_the_conversations_of_each_lane_apart() -> None:
    limiter = Limiter(2, Clock())
    for _ in range(2):
        limiter.begin("a")

    assert [limiter.takes(lane) for lane in "ab"] == [False, True]
    assert limiter.under_way == 2
    limiter.end("a")
    assert limiter.takes("a")


def test_a_limiter_learns_from_answers() -> None:
    clock = Clock()
    limiter = Limiter(32, clock)

    assert [limiter.heard("a", 99.0, OK) for _ in range(4)] == [None] * 4
    assert limiter.lane("a").limit == 12
    assert limiter.opens_in("ab") is None
    assert limiter.heard("a", 99.5, TOO_MANY) == 4.0
    assert (limiter.lane("a").threshold, limiter.lane("b").limit) == (8, 8)
    assert (limiter.takes("a"), limiter.takes("b")) == (False, True)
    clock.now = 101.0
    assert limiter.opens_in("ab") == 3.0
    clock.now = 104.0
    assert limiter.opens_in("ab") is None
    assert limiter.takes("a")


def test_a_failing_server_is_no_reason_to_ask_for_more() -> None:
    limiter = Limiter(32, Clock())

    assert limiter.heard("a", 99.0, Answer(503, {}, b"")) is None
    assert limiter.lane("a") == Lane.fresh(32)


def test_a_refusal_without_advice_closes_nothing() -> None:
    limiter = Limiter(8, Clock())

    assert limiter.heard("a", 99.0, Answer(429, {}, b"")) == 0.0
    assert limiter.takes("a")


def test_refusals_one_after_another_tell_how_long_the_lane_rests() -> None:
    clock = Clock()
    limiter = Limiter(8, clock)
    told = []
    for _ in range(6):
        told.append(limiter.heard("a", clock.now, Answer(429, {}, b"")))
        clock.now += told[-1] or 0.0
        assert limiter.takes("a")
        clock.now += 1.0

    assert told == [0.0, 0.25, 1.0, 4.0, 16.0, 60.0]


def test_of_many_refusals_together_the_first_is_news() -> None:
    limiter = Limiter(8, Clock())
    longer = Answer(429, {"retry-after": "9"}, b"")

    told = [limiter.heard("a", 99.0, answer) for answer in (TOO_MANY, longer, TOO_MANY)]

    assert told == [4.0, None, None]
    assert limiter.lane("a").threshold == 5
    assert limiter.opens_in("a") == 9.0


def quota(remaining: int, reset: str) -> dict[str, str]:
    return {"x-ratelimit-remaining-requests": f"{remaining}", "x-ratelimit-reset-requests": reset}


def test_a_quota_that_is_spent_closes_the_lane_and_is_no_refusal() -> None:
    limiter = Limiter(32, Clock())
    asyncio.run(limiter.admitted("a"))

    assert limiter.heard("a", 99.0, Answer(200, quota(0, "6m0s"), b"{}")) == LONGEST_PAUSE_S
    assert limiter.lane("a").limit == 9
    assert not limiter.takes("a")
    assert limiter.opens_in("ab") == LONGEST_PAUSE_S
    # It is news once, and only if it takes a while.
    assert limiter.heard("a", 99.0, Answer(200, quota(0, "6m0s"), b"{}")) is None
    assert limiter.heard("b", 99.0, Answer(200, quota(0, "20ms"), b"{}")) is None


def test_a_refusal_for_a_spent_quota_lasts_until_it_is_renewed_if_nothing_else_is_advised() -> None:
    spent = quota(0, "30s")
    answers = (
        Answer(429, spent, b"{}"),
        Answer(429, quota(3, "30s"), b"{}"),
        Answer(429, {"retry-after": "2", **spent}, b"{}"),
    )

    assert [Limiter(8, Clock()).heard("a", 99.0, answer) for answer in answers] == [30.0, 0.0, 2.0]


def test_a_router_may_say_it_inside_of_its_refusal() -> None:
    body = {"error": {"metadata": {"headers": {"Retry-After": "7"}}}}
    inside = Answer(429, {}, json.dumps(body).encode())
    outside = Answer(429, {"retry-after": "3"}, inside.body)

    assert [Limiter(8, Clock()).heard("a", 99.0, each) for each in (inside, outside)] == [7.0, 3.0]


@pytest.mark.parametrize("now", [0.1, 2048.3, 4096.7, 100_000.1, 1e6 + 0.7, 1e7 + 0.3])
def test_the_wait_that_was_asked_for_is_told_whatever_the_clock_reads(now: float) -> None:
    clock = Clock()
    clock.now = now
    advice = Answer(429, {"retry-after": "0.05"}, b"")

    assert Limiter(8, clock).heard("a", now, advice) == 0.05


def test_advice_may_be_a_date() -> None:
    limiter = Limiter(8, Clock(), wall=lambda: 784_111_777.0)
    dated = Answer(429, {"retry-after": "Sun, 06 Nov 1994 08:49:40 GMT"}, b"")

    assert limiter.heard("a", 99.0, dated) == pytest.approx(3.0)


def test_a_watched_client_tells_of_refusals_and_is_otherwise_the_same() -> None:
    limiter, told = Limiter(8, Clock()), list[tuple[str, float]]()
    client = OneAnswer(OK)
    watched = Watched(client, "a", limiter, lambda lane, wait_s: told.append((lane, wait_s)))

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
        self.asked: list[asyncio.Future[Answer]] = []

    async def send(self, body: bytes) -> Answer:
        del body
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]

    def opened(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def answer(self, *answers: Answer) -> int:
        """Answer the requests under way, oldest first; say how many are there then."""
        waiting = [turn for turn in self.asked if not turn.done()]
        for turn, answer in zip(waiting, answers, strict=False):
            turn.set_result(answer)
        for _ in range(50):
            await asyncio.sleep(0)
        return sum(not turn.done() for turn in self.asked)


def test_requests_pass_as_the_lane_has_room_and_retries_among_them() -> None:
    refusal = Answer(429, {}, b"{}")

    async def counted() -> list[int]:
        limiter, client = Limiter(10, Clock()), Held()
        watched = Watched(client, "a", limiter, lambda *_: None)
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
        watched = Watched(client, "a", limiter, lambda *_: None)
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
        watched = Watched(client, "a", limiter, lambda *_: None)
        first = asyncio.create_task(watched.send(b""))
        await client.answer()
        await client.answer(Answer(429, {"retry-after": "30"}, b"{}"))
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
        watched = Watched(model, "a", Limiter(1, time.monotonic, time.time), lambda *_: None)
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
        limiter.room = lambda: calls.append("room")
        for _ in range(conversations):
            limiter.begin("a")
        await Watched(OneAnswer(OK), "a", limiter, lambda *_: None).send(b"")
        return calls

    assert [asyncio.run(told(count)) for count in (8, 9)] == [["room"], []]


def paid(budget: Budget, *costs: float | None) -> Budget:
    for cost in costs:
        budget = budget.paid(cost)
    return budget


def test_without_a_cap_money_is_only_counted() -> None:
    budget = paid(Budget(), 5.0, None, 2.0)

    assert (budget.spent, budget.priced, budget.unpriced) == (7.0, 2, 1)
    assert budget.advice(100) == "go"


def test_under_a_cap_the_first_trial_alone_shows_what_one_costs() -> None:
    assert [Budget(cap=1.0).advice(under_way) for under_way in (0, 1)] == ["go", "wait"]


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
    assert paid(Budget(cap=1.0), *costs).advice(under_way) == advice


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
    budget, without_cap = Budget(cap=1.0), Budget()
    for model, cost in told:
        budget, without_cap = budget.paid(cost, model), without_cap.paid(cost, model)

    assert (budget.silent, without_cap.silent) == (silent, None)


@pytest.mark.parametrize("cost", [-5, -0.01, 1e308, float("inf"), float("nan"), 10**400])
def test_a_cost_that_cannot_be_true_is_none(cost: float) -> None:
    usage = parse_usage({"cost": cost})
    budget = Budget(cap=1.0).paid(cost)

    assert usage is not None
    assert usage.cost is None
    assert (budget.spent, budget.priced, budget.unpriced) == (0.0, 0, 1)
