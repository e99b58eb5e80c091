"""Tests of `surecall.eval.running.cluster.worker_trials`."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from surecall.eval.running.cluster.worker_trials import (
    BATCH_S,
    ENCODER,
    MAX_REPORT_INTERVAL_S,
    ORDERS_DECODER,
    REPORT_DECODER,
    ProviderResponse,
    SealedKey,
    TrialOrder,
    TrialOutcome,
    WorkerOrders,
    WorkerReport,
    WorkerTrials,
    open_worker_trials,
)
from surecall.eval.running.trial_run import TrialResult
from surecall.eval.storage.trial import Cell, Key, Miss, Score, Trial
from surecall.values.errors import ConfigError
from surecall.values.types import HttpResponse, Secret
from tests.support.evaluations import (
    Trials,
    a_trial,
    no_client,
    planned,
    refusing_client,
    refusing_router,
)
from tests.support.timing import never, virtual_time

# A workshop: it begins what its shares allow, and tells when there is something to tell


PLAN = planned(trials=4)
ORDERS = [
    TrialOrder(number, key.cell.model.partition("/")[0], key)
    for number, key in enumerate(PLAN.keys(), start=1)
]
LANES = sorted({order.lane for order in ORDERS})
OPEN = dict.fromkeys(LANES, 99)


@asynccontextmanager
async def workshop(trials: Trials, client: Any = no_client) -> AsyncIterator[WorkerTrials]:
    async with open_worker_trials(PLAN, trials, client) as found:
        yield found


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await work()

    with virtual_time():
        asyncio.run(go())


async def all_news(shop: WorkerTrials, orders: WorkerOrders, count: int) -> WorkerReport:
    """Ask until so many trials have ended; put all news together."""
    news = await shop.exchange(orders)
    while len(news.outcomes) < count:
        more = await shop.exchange(WorkerOrders([], orders.max_running, orders.shares))
        news = WorkerReport(
            [*news.started, *more.started],
            [*news.outcomes, *more.outcomes],
            [*news.responses, *more.responses],
        )
    return news


def test_every_trial_is_run_once_and_told_once() -> None:
    trials = Trials(a_trial)

    async def work() -> None:
        async with workshop(trials) as shop:
            news = await all_news(shop, WorkerOrders(ORDERS, 99, OPEN), len(ORDERS))

        assert sorted(news.started) == [order.number for order in ORDERS]
        assert [
            each.result.trial.key for each in sorted(news.outcomes, key=lambda one: one.number)
        ] == [order.key for order in ORDERS]
        assert len(news.responses) == len(ORDERS)

    run(work)
    assert sorted(trials.begun) == sorted(PLAN.keys())


@pytest.mark.parametrize(("most", "share"), [(3, 99), (99, 1)])
def test_no_more_are_under_way_than_its_shares_allow(most: int, share: int) -> None:
    trials = Trials(a_trial, lambda _: asyncio.sleep(0.001))

    async def work() -> None:
        async with workshop(trials) as shop:
            await all_news(
                shop, WorkerOrders(ORDERS, most, dict.fromkeys(LANES, share)), len(ORDERS)
            )

    run(work)
    assert trials.most == (3 if most == 3 else len(LANES))


def test_a_lane_without_a_share_begins_nothing_until_it_gets_one() -> None:
    trials = Trials(a_trial)
    one, other = LANES

    async def work() -> None:
        async with workshop(trials) as shop:
            own = [order for order in ORDERS if order.lane == one]
            await all_news(shop, WorkerOrders(ORDERS, 99, {one: 99}), len(own))
            assert {key.cell.model.partition("/")[0] for key in trials.begun} == {one}
            await all_news(shop, WorkerOrders([], 99, {other: 99}), len(ORDERS) - len(own))

    run(work)
    assert len(trials.begun) == len(ORDERS)


def test_a_lane_that_was_closed_elsewhere_waits_and_opens_by_itself() -> None:
    begun_at: list[float] = []

    async def pause(_: Key) -> None:
        begun_at.append(asyncio.get_running_loop().time())

    async def work() -> None:
        start = asyncio.get_running_loop().time()
        async with workshop(Trials(a_trial, pause)) as shop:
            await all_news(
                shop, WorkerOrders(ORDERS, 99, OPEN, dict.fromkeys(LANES, 7.0)), len(ORDERS)
            )
        assert min(begun_at) >= start + 7.0

    run(work)


def test_a_refusal_is_told_at_once_and_closes_the_lane_here() -> None:
    async def work() -> None:
        async with workshop(Trials(a_trial, lambda _: never()), refusing_client) as shop:
            news = await shop.exchange(WorkerOrders(ORDERS[:1], 1, OPEN))
        (heard,) = news.responses
        assert heard.answer == HttpResponse(429, {"retry-after": "0.05"}, b"")
        assert heard.lane == ORDERS[0].lane

    run(work)


def test_what_a_router_hands_on_inside_of_its_refusal_is_told_too() -> None:
    async def work() -> None:
        async with workshop(Trials(a_trial, lambda _: never()), refusing_router) as shop:
            news = await shop.exchange(WorkerOrders(ORDERS[:1], 1, OPEN))
        (heard,) = news.responses
        assert sorted(heard.headers) == [
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ]

    run(work)


def test_news_wait_a_moment_for_more_and_nothing_is_told_at_last() -> None:
    async def work() -> None:
        clock = asyncio.get_running_loop().time
        async with workshop(Trials(a_trial, lambda _: never())) as shop:
            began = clock()
            assert (await shop.exchange(WorkerOrders(ORDERS[:2], 2, OPEN))).started == [1, 2]
            assert clock() - began == pytest.approx(BATCH_S)
            assert (await shop.exchange(WorkerOrders([], 2, OPEN))) == WorkerReport()
            assert clock() - began == pytest.approx(BATCH_S + MAX_REPORT_INTERVAL_S)

    run(work)


def test_a_halted_workshop_drops_what_waits_and_finishes_what_is_under_way() -> None:
    gate = asyncio.Event()

    async def work() -> None:
        async with workshop(Trials(a_trial, lambda _: gate.wait())) as shop:
            begun = (await shop.exchange(WorkerOrders(ORDERS, 2, OPEN))).started
            await shop.halt_in_loop()
            dropped = (await shop.exchange(WorkerOrders([], 2, OPEN))).dropped
            assert len(begun) == 2
            assert sorted([*begun, *dropped]) == [order.number for order in ORDERS]
            late = await shop.exchange(WorkerOrders(ORDERS[-1:], 2, OPEN))
            assert late.dropped == [ORDERS[-1].number]
            gate.set()
            ended = (await all_news(shop, WorkerOrders([], 2, OPEN), 2)).outcomes
            assert sorted(each.number for each in ended) == begun

    run(work)


def wrong(error: Exception, _: Key) -> Trial:
    raise error


def test_a_mistake_of_the_user_is_told_in_place_of_a_result() -> None:
    async def work() -> None:
        async with workshop(Trials(partial(wrong, ConfigError("no such thing")))) as shop:
            news = await shop.exchange(WorkerOrders(ORDERS[:1], 1, OPEN))
        assert (news.user_error, news.outcomes) == ("no such thing", [])

    run(work)


def test_a_result_that_cannot_be_written_down_is_told_too() -> None:
    def outcome(key: Key) -> Trial:
        return Trial(key=key, status="passed", draft={"object": object()})

    async def work() -> None:
        async with workshop(Trials(outcome)) as shop:
            news = await shop.exchange(WorkerOrders(ORDERS[:1], 1, OPEN))
        assert news.user_error.startswith(f"{ORDERS[0].key.scenario}: TypeError")

    run(work)


def test_closing_ends_what_is_under_way() -> None:
    trials = Trials(a_trial, lambda _: never())

    async def work() -> None:
        async with workshop(trials) as shop:
            await shop.exchange(WorkerOrders(ORDERS, 99, OPEN))

    run(work)
    assert trials.begun
    assert trials.under_way == 0


# What travels between processes arrives as it was, and shows no key


KEY = Key(Cell("m"), "x", 1)


def test_orders_and_news_arrive_as_they_were() -> None:
    orders = WorkerOrders([TrialOrder(1, "lane", KEY)], 4, {"lane": 2}, {"lane": 0.5})
    outcome = TrialOutcome.from_result(
        1, TrialResult(Trial(key=KEY, status="passed"), b"{}\n", "said")
    )
    news = WorkerReport(
        [1], [outcome], [ProviderResponse("lane", 0.1, 200, {"a": "b"})], [2], "wrong"
    )

    assert ORDERS_DECODER.decode(ENCODER.encode(orders)) == orders
    assert REPORT_DECODER.decode(ENCODER.encode(news)) == news


def test_a_result_arrives_whole() -> None:
    score = Score(state=False, misses=(Miss("c", "e", "g", 1, "id"),), facts={"seen": True})
    trial = Trial(
        key=KEY,
        status="failed",
        category="X",
        score=score,
        draft={"large": 10**30, "text": "ä\u2028", "nested": [1.5, None]},
    )
    ended = TrialResult(trial, b"line\n", "what to do")

    assert TrialOutcome.from_result(1, ended).result == ended


def test_an_answer_is_heard_without_its_body() -> None:
    answer = ProviderResponse("lane", 0.1, 429, {"retry-after": "1"}).answer

    assert (answer.status, answer.headers, answer.body) == (429, {"retry-after": "1"}, b"")


def test_a_key_on_its_way_arrives_and_is_not_shown() -> None:
    sealed = SealedKey(Secret("sk-made-up"))
    arrived = pickle.loads(pickle.dumps(sealed))  # noqa: S301  # what was written a line ago
    nothing = pickle.loads(pickle.dumps(SealedKey(None)))  # noqa: S301  # the same

    assert "made-up" not in f"{sealed} {sealed!r} {arrived!r} {vars(sealed)}"
    assert arrived.secret.reveal() == "sk-made-up"
    assert nothing.secret is None
