"""Tests of `surecall.eval.running.cluster.dask_engine`."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from distributed import LocalCluster

from surecall.cli.target import open_client
from surecall.eval.running.cluster.dask_cluster import connect_cluster
from surecall.eval.running.cluster.dask_engine import (
    MAX_WORKER_LOSSES,
    Assignments,
    ClusterWorker,
    DaskEngine,
    LimitShares,
    RequeuedTrials,
    RetryGroup,
    WorkerLost,
)
from surecall.eval.running.cluster.worker_trials import (
    ENCODER,
    TrialOrder,
    TrialOutcome,
    WorkerOrders,
    WorkerReport,
)
from surecall.eval.running.harness import LocalEngine, StopRequest, evaluate
from surecall.eval.running.ledger import (
    EvaluationEvent,
    EvaluationReport,
    EvaluationStopped,
    RateLimited,
    TrialFinished,
    TrialStarted,
    TrialStore,
)
from surecall.eval.running.matrix import EvaluationPlan
from surecall.eval.running.trial_run import RunTrial, TrialResult, run_trial
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Cell, Key
from surecall.values.errors import ConfigError
from tests.support.evaluations import (
    DEADLY,
    Gated,
    Memory,
    NoClient,
    a_trial,
    deadly,
    evaluate_simulated,
    mistaken,
    no_client,
    plan_simulated,
    planned,
    quick,
    refusing_client,
    timeless,
)
from tests.support.timing import until, virtual_time

# The Dask engine: the same results as one process, whatever becomes of its workers


@pytest.fixture(name="cluster", scope="module")
def cluster_fixture() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        silence_logs=100,
    ) as cluster:
        yield cluster


Watch = Callable[[EvaluationEvent], None]


def run(  # noqa: PLR0913  # what an evaluation is made of, most of it by keyword
    cluster: LocalCluster | str,
    what: EvaluationPlan,
    trials: RunTrial = quick,
    *,
    store: TrialStore | None = None,
    stop: StopRequest | None = None,
    client: Any = no_client,
    watch: Watch = lambda _: None,
) -> tuple[EvaluationReport, list[EvaluationEvent]]:
    notices: list[EvaluationEvent] = []

    def take(notice: EvaluationEvent) -> None:
        notices.append(notice)
        watch(notice)

    address = cluster if isinstance(cluster, str) else cluster.scheduler_address
    engine = DaskEngine(partial(connect_cluster, address), trials, client)
    held = Memory() if store is None else store
    report = asyncio.run(_evaluated(what, held, engine, take, stop))
    return report, notices


async def _evaluated(
    what: EvaluationPlan,
    store: TrialStore,
    engine: DaskEngine,
    take: Watch,
    stop: StopRequest | None,
) -> EvaluationReport:
    return await evaluate(what, store, engine, take, stop or StopRequest())


@pytest.mark.processes
def test_every_trial_is_run_once_and_recorded(cluster: LocalCluster) -> None:
    what, store = planned(trials=30), Memory()
    report, notices = run(cluster, what, store=store)
    begun = [notice.key for notice in notices if isinstance(notice, TrialStarted)]

    assert sorted(store.found) == sorted(begun) == sorted(what.keys())
    assert (report.end_reason, report.executed, report.failed) == ("complete", 120, 40)


@pytest.mark.processes
def test_the_results_are_those_of_one_process_and_any_engine_continues_another(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    small, large = plan_simulated(trials=1), plan_simulated(trials=2)
    _, alone = evaluate_simulated(tmp_path / "alone", large)
    with open_or_resume(tmp_path / "both", {"a": "run"}) as store:
        first, _ = run(cluster, small, run_trial, store=store, client=open_client)
        with open_client(large.settings) as client:
            local = LocalEngine(run_trial, lambda _: client)
            again = asyncio.run(evaluate(small, store, local, lambda _: None, _stop()))
            rest = asyncio.run(evaluate(large, store, local, lambda _: None, _stop()))
        last, _ = run(cluster, large, run_trial, store=store, client=open_client)
        together = list(store.trials())

    assert (first.executed, again.executed, rest.executed, last.executed) == (12, 0, 12, 0)
    assert [timeless(one) for one in together] == [timeless(one) for one in alone]


def _stop() -> StopRequest:
    return StopRequest()


def pids(cluster: LocalCluster) -> list[int]:
    return [nanny.pid for nanny in cluster.workers.values() if nanny.pid is not None]


@pytest.mark.processes
def test_a_killed_worker_loses_nothing_and_nothing_is_recorded_twice(
    cluster: LocalCluster,
) -> None:
    what, store, victims = planned(trials=400), Memory(), pids(cluster)[:1]

    def watch(notice: EvaluationEvent) -> None:
        if isinstance(notice, TrialFinished) and len(store.found) >= 200 and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    report, notices = run(cluster, what, store=store, watch=watch)
    finished = [notice.trial.key for notice in notices if isinstance(notice, TrialFinished)]

    assert victims == []
    assert sorted(finished) == sorted(store.found) == sorted(what.keys())
    assert (report.end_reason, report.missing, report.infra) == ("complete", 0, 0)


@pytest.mark.processes
def test_a_trial_that_ends_every_worker_is_given_up_and_no_other(cluster: LocalCluster) -> None:
    store = Memory()
    report, _ = run(cluster, planned(trials=10), deadly, store=store)
    (spoiled,) = [trial for trial in store.found.values() if not trial.ok]

    assert (report.end_reason, report.executed, report.infra) == ("complete", 40, 1)
    assert (spoiled.key.trial, spoiled.key.scenario) == (DEADLY, "happy_path")
    assert spoiled.error == "3 worker processes ended while they ran this trial"


@pytest.mark.processes
def test_after_the_first_wish_what_is_under_way_ends_and_nothing_begins(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    gated, stop, store = Gated(tmp_path), StopRequest(), Memory()

    def watch(notice: EvaluationEvent) -> None:
        if isinstance(notice, TrialStarted) and not stop.is_requested:
            stop.request()
        if isinstance(notice, EvaluationStopped):
            gated.open()

    report, _ = run(cluster, planned(trials=50, jobs=4), gated, store=store, stop=stop, watch=watch)

    assert report.end_reason == "interrupted"
    assert len(store.found) == len(gated.begun) == report.executed
    assert 0 < report.executed < 100


@pytest.mark.processes
def test_after_the_second_wish_everything_ends_now(cluster: LocalCluster, tmp_path: Path) -> None:
    gated, stop, store = Gated(tmp_path), StopRequest(), Memory()

    def watch(notice: EvaluationEvent) -> None:
        if isinstance(notice, TrialStarted):
            stop.request()
            stop.request()

    report, _ = run(cluster, planned(trials=9, jobs=2), gated, store=store, stop=stop, watch=watch)

    assert (report.end_reason, report.executed) == ("interrupted", 0)
    assert gated.begun


@pytest.mark.processes
def test_a_mistake_of_the_user_ends_the_evaluation(cluster: LocalCluster) -> None:
    with pytest.raises(ConfigError, match="no such thing"):
        run(cluster, planned(trials=3), mistaken)


@pytest.mark.processes
def test_a_refusal_at_one_worker_is_heard_here(cluster: LocalCluster) -> None:
    what = planned(trials=2, jobs=4)
    report, notices = run(cluster, what, client=refusing_client)
    limited = [notice for notice in notices if isinstance(notice, RateLimited)]

    assert report.end_reason == "complete"
    assert {notice.provider for notice in limited} == {"x-ai", "anthropic"}
    assert all(notice.limit < 4 for notice in limited)


@pytest.mark.processes
def test_no_more_is_spent_than_the_cap(cluster: LocalCluster) -> None:
    report, _ = run(cluster, planned(trials=9, max_cost=2.0))

    assert (report.end_reason, report.spent, report.executed) == ("budget", 2.0, 8)


@pytest.mark.processes
def test_an_open_number_of_trials_grows_in_rounds(cluster: LocalCluster) -> None:
    report, _ = run(cluster, planned(trials="auto", scenarios="happy_path", bar=50.0))

    assert report.end_reason == "complete"
    assert report.executed > 20


@contextmanager
def spawned(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a part of Dask as its users do, and kill it at the end."""
    words = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.processes
def test_a_scheduler_that_goes_away_ends_it_with_a_sentence_and_the_rest_can_be_run(
    tmp_path: Path,
) -> None:
    gated, store, what = Gated(tmp_path), Memory(), planned(trials=3, jobs=4)
    file = tmp_path / "scheduler.json"
    host = ("--host", "127.0.0.1")
    with (
        spawned("dask_scheduler", *host, "--port", "0", f"--scheduler-file={file}") as scheduler,
        spawned("dask_worker", *host, "--no-nanny", f"--scheduler-file={file}"),
    ):
        until(lambda: file.exists() and file.read_bytes().endswith(b"}"))
        address = msgspec.json.decode(file.read_bytes())["address"]

        def watch(notice: EvaluationEvent) -> None:
            if isinstance(notice, TrialStarted):
                scheduler.kill()

        report, _ = run(address, what, gated, store=store, watch=watch)

    assert (report.end_reason, report.error) == ("lost", "the Dask scheduler is gone")
    assert report.executed == len(store.found) == 0
    local = LocalEngine(quick, lambda _: NoClient())
    rest = asyncio.run(evaluate(what, store, local, lambda _: None, _stop()))
    assert (rest.end_reason, rest.executed) == ("complete", 12)


# What the engine knows of a worker: how much it should have waiting, and that it is lost


ADDRESS = "tcp://127.0.0.1:1"
OUTCOME = TrialOutcome.from_result(1, TrialResult(a_trial(Key(Cell("m"), "x", 1))))


class Told:
    """A client of a cluster in which one worker says what it is told to."""

    id = "a client"

    def __init__(self, say: Callable[[], Any], after_s: float = 0.0) -> None:
        self.say = say
        self.after_s = after_s

    async def run(self, _: object, *__: object, workers: list[str]) -> dict[str, Any]:
        await asyncio.sleep(self.after_s)
        return dict.fromkeys(workers, self.say())


def test_so_much_waits_at_a_worker_as_it_does_in_a_moment() -> None:
    news = ENCODER.encode(WorkerReport(outcomes=[OUTCOME] * 100))

    async def work(after_s: float) -> list[int]:
        member = ClusterWorker(Told(lambda: news, after_s), ADDRESS)
        before = member.prefetch_count(8)
        await member.exchange(WorkerOrders())
        return [before, member.prefetch_count(8)]

    with virtual_time():
        assert asyncio.run(work(1.0))[0] == 8
        assert asyncio.run(work(1e-6))[1] == 200


def test_a_slow_worker_has_one_trial_waiting() -> None:
    async def work() -> int:
        member = ClusterWorker(Told(lambda: ENCODER.encode(WorkerReport())), ADDRESS)
        await member.exchange(WorkerOrders())
        return member.prefetch_count(8)

    assert asyncio.run(work()) == 1


def raised() -> Any:
    raise OSError("gone")


@pytest.mark.parametrize("say", [raised, lambda: None])
def test_a_worker_that_does_not_answer_or_knows_nothing_is_lost(say: Callable[[], Any]) -> None:
    with pytest.raises(WorkerLost):
        asyncio.run(ClusterWorker(Told(say), ADDRESS).exchange(WorkerOrders()))


def test_one_that_is_lost_need_not_be_halted_or_closed() -> None:
    async def work() -> None:
        member = ClusterWorker(Told(raised), ADDRESS)
        await member.halt()
        await member.close()

    asyncio.run(work())


def test_what_a_worker_cannot_do_is_the_users_to_know() -> None:
    member = ClusterWorker(Told(lambda: "it lacks a package"), ADDRESS)

    with pytest.raises(ConfigError, match="it lacks a package"):
        asyncio.run(member.open(b"", None))


# What becomes of the trials of a lost worker: again in smaller groups, and given up at last


def order(number: int, lane: str = "a") -> TrialOrder:
    return TrialOrder(number, lane, Key(Cell("m"), "x", number))


def hand_of(*orders: TrialOrder) -> Assignments:
    hand = Assignments()
    for each in orders:
        hand.add(each)
    return hand


def groups(returned: RequeuedTrials) -> list[RetryGroup]:
    found = []
    while group := returned.pop_group():
        found.append(group)
    return found


def test_a_hand_counts_what_it_has_in_each_lane() -> None:
    hand = hand_of(order(1), order(2, "b"), order(3))

    assert (len(hand), hand.count_in_lane("a"), hand.count_in_lane("b"), hand.lanes) == (
        3,
        2,
        1,
        {"a", "b"},
    )
    assert hand.remove(2) == order(2, "b")
    assert hand.remove(2) is None
    assert (len(hand), hand.count_in_lane("b"), hand.lanes) == (2, 0, {"a"})


def test_what_a_lost_worker_had_is_run_again_in_small_groups_and_then_alone() -> None:
    returned = RequeuedTrials()
    assert list(returned.requeue(hand_of(*map(order, range(20))))) == []
    first = groups(returned)

    assert [len(group.orders) for group in first] == [8, 8, 4]
    assert {group.losses for group in first} == {1}
    hand = Assignments()
    hand.add_group(first[0])
    assert list(returned.requeue(hand)) == []
    second = groups(returned)
    assert [len(group.orders) for group in second] == [1] * 8
    assert not returned


def test_a_trial_that_ended_worker_after_worker_is_given_up_with_a_sentence() -> None:
    hand = Assignments()
    hand.add_group(RetryGroup((order(1),), MAX_WORKER_LOSSES - 1))
    (given_up,) = RequeuedTrials().requeue(hand)

    assert (given_up.trial.key, given_up.trial.status) == (order(1).key, "infra")
    assert given_up.trial.error == "3 worker processes ended while they ran this trial"


def test_a_hand_that_is_empty_again_takes_the_usual_trials() -> None:
    hand = Assignments()
    hand.add_group(RetryGroup((order(1), order(2)), 2))
    hand.remove(1)

    assert hand.losses == 2
    hand.remove(2)
    assert hand.losses == 0


# A limit that several workers share is kept by all of them together


def test_everybody_gets_a_fair_part_and_all_together_no_more_than_there_is() -> None:
    shares = LimitShares()
    parts = [shares.grant(name, 16, 3) for name in ("a", "b", "c")]

    assert parts == [6, 6, 4]
    assert sum(parts) == 16


def test_one_that_is_alone_has_everything_and_gives_it_back_before_another_gets_it() -> None:
    shares = LimitShares()

    assert shares.grant("a", 16, 1) == 16
    assert shares.grant("b", 16, 2) == 0
    assert shares.grant("a", 16, 2) == 8
    assert shares.grant("b", 16, 2) == 8


def test_what_an_idle_or_lost_worker_held_goes_to_the_others() -> None:
    shares = LimitShares()
    shares.grant("a", 4, 2)
    shares.grant("b", 4, 2)
    shares.release("a")
    shares.release("a")

    assert shares.grant("b", 4, 1) == 4


def test_fewer_than_there_are_workers_go_to_the_first() -> None:
    shares = LimitShares()

    assert [shares.grant(name, 1, 3) for name in ("a", "b", "c")] == [1, 0, 0]


def test_a_limit_that_falls_is_kept_as_soon_as_everybody_has_heard_of_it() -> None:
    shares = LimitShares()
    for name in ("a", "b"):
        shares.grant(name, 8, 2)

    assert [shares.grant(name, 4, 2) for name in ("a", "b", "a")] == [0, 2, 2]
