"""How much goes on at once: lanes widen and halve, close and open; money runs out."""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

import pytest

from surecall.eval.running.limiter import Budget, Lane, Limiter, Watched
from surecall.values.types import Answer
from surecall.wire.messages import parse_usage

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


def after(lane: Lane, answers: int, started: float = 0.0) -> Lane:
    for _ in range(answers):
        lane = lane.answered(started)
    return lane


def test_a_lane_widens_by_one_after_each_round_of_answers() -> None:
    lane = Lane(most=8, limit=4)

    assert [after(lane, n).limit for n in (3, 4, 8, 9, 14, 15)] == [4, 5, 5, 6, 6, 7]
    assert [after(lane, n).limit for n in (22, 1_000)] == [8, 8]


def test_a_refusal_halves_once_for_all_that_were_under_way_together() -> None:
    lane = Lane(most=16, limit=8)
    lane = lane.refused(started=1.0, now=2.0, wait_s=0.0)
    lane = lane.refused(started=1.5, now=2.1, wait_s=0.0)

    assert lane.limit == 4
    assert lane.refused(started=3.0, now=4.0, wait_s=0.0).limit == 2
    assert Lane(most=1, limit=1).refused(1.0, 2.0, 0.0).limit == 1


def test_answers_to_requests_from_before_a_refusal_do_not_widen() -> None:
    lane = Lane(most=8, limit=2).refused(started=1.0, now=2.0, wait_s=0.0)

    assert after(lane, 5, started=1.5) == lane
    assert after(lane, 1, started=2.5).limit == 2


def test_a_lane_is_closed_for_as_long_as_the_provider_asks_but_not_for_ever() -> None:
    lane = Lane(most=8, limit=4).refused(started=1.0, now=2.0, wait_s=5.0)

    assert [lane.takes(0, now) for now in (2.0, 6.9, 7.0)] == [False, False, True]
    assert lane.refused(1.5, 3.0, 1.0).closed_until == 7.0
    assert lane.refused(1.5, 3.0, 1e9).closed_until == 123.0


def test_a_lane_takes_no_more_than_its_limit() -> None:
    lane = Lane(most=8, limit=2)

    assert [lane.takes(under_way, 0.0) for under_way in (0, 1, 2)] == [True, True, False]


def test_a_limiter_starts_at_half_and_counts_each_lane_apart() -> None:
    limiter = Limiter(5, Clock())
    for _ in range(2):
        limiter.begin("a")

    assert [limiter.takes(lane) for lane in "ab"] == [False, True]
    assert limiter.under_way == 2
    limiter.end("a")
    assert limiter.takes("a")
    assert Limiter(1, Clock()).takes("a")


def test_a_limiter_learns_from_answers() -> None:
    clock = Clock()
    limiter = Limiter(8, clock)

    assert [limiter.heard("a", 99.0, OK) for _ in range(4)] == [None] * 4
    assert limiter.lane("a").limit == 5
    assert limiter.opens_in("ab") is None
    assert limiter.heard("a", 99.5, TOO_MANY) == 4.0
    assert (limiter.lane("a").limit, limiter.lane("b").limit) == (2, 4)
    assert (limiter.takes("a"), limiter.takes("b")) == (False, True)
    clock.now = 101.0
    assert limiter.opens_in("ab") == 3.0
    clock.now = 104.0
    assert limiter.opens_in("ab") is None
    assert limiter.takes("a")


def test_a_refusal_without_advice_closes_nothing() -> None:
    limiter = Limiter(8, Clock())

    assert limiter.heard("a", 99.0, Answer(429, {}, b"")) == 0.0
    assert limiter.takes("a")


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
