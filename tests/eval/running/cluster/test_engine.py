"""The Dask engine: the same results as one process, whatever becomes of its workers."""

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

from surecall.cli.engine import client_of
from surecall.eval.running.cluster.engine import DaskEngine
from surecall.eval.running.cluster.opening import existing_cluster
from surecall.eval.running.guarded_trial import RunTrial
from surecall.eval.running.harness import Stop, evaluate
from surecall.eval.running.harness_events import (
    Finished,
    Notice,
    RateLimited,
    Report,
    Started,
    Stopped,
)
from surecall.eval.running.ledger import Results
from surecall.eval.running.local_engine import LocalEngine
from surecall.eval.running.matrix import Plan
from surecall.eval.running.trial_run import run_trial
from surecall.eval.storage.store import open_or_resume
from surecall.values.errors import ConfigError
from tests.eval.running import test_harness_sim as simulated
from tests.support.cluster import (
    DEADLY,
    Gated,
    deadly,
    mistaken,
    no_client,
    quick,
    refusing_client,
)
from tests.support.eval_fakes import Memory, NoClient, planned
from tests.support.patience import until

pytestmark = pytest.mark.processes


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


Watch = Callable[[Notice], None]


def run(  # noqa: PLR0913  # what an evaluation is made of, most of it by keyword
    cluster: LocalCluster | str,
    what: Plan,
    trials: RunTrial = quick,
    *,
    store: Results | None = None,
    stop: Stop | None = None,
    client: Any = no_client,
    watch: Watch = lambda _: None,
) -> tuple[Report, list[Notice]]:
    notices: list[Notice] = []

    def take(notice: Notice) -> None:
        notices.append(notice)
        watch(notice)

    address = cluster if isinstance(cluster, str) else cluster.scheduler_address
    engine = DaskEngine(partial(existing_cluster, address), trials, client)
    held = Memory() if store is None else store
    report = asyncio.run(_evaluated(what, held, engine, take, stop))
    return report, notices


async def _evaluated(
    what: Plan, store: Results, engine: DaskEngine, take: Watch, stop: Stop | None
) -> Report:
    return await evaluate(what, store, engine, take, stop or Stop())


def test_every_trial_is_run_once_and_recorded(cluster: LocalCluster) -> None:
    what, store = planned(trials=30), Memory()
    report, notices = run(cluster, what, store=store)
    begun = [notice.key for notice in notices if isinstance(notice, Started)]

    assert sorted(store.found) == sorted(begun) == sorted(what.keys())
    assert (report.ending, report.ran, report.failed) == ("complete", 120, 40)


def test_the_results_are_those_of_one_process_and_any_engine_continues_another(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    small, large = simulated.planned(trials=1), simulated.planned(trials=2)
    _, alone = simulated.evaluated(tmp_path / "alone", large)
    with open_or_resume(tmp_path / "both", {"a": "run"}) as store:
        first, _ = run(cluster, small, run_trial, store=store, client=client_of)
        with client_of(large.settings) as client:
            local = LocalEngine(run_trial, lambda _: client)
            again = asyncio.run(evaluate(small, store, local, lambda _: None, _stop()))
            rest = asyncio.run(evaluate(large, store, local, lambda _: None, _stop()))
        last, _ = run(cluster, large, run_trial, store=store, client=client_of)
        together = list(store.trials())

    assert (first.ran, again.ran, rest.ran, last.ran) == (12, 0, 12, 0)
    assert [simulated.timeless(one) for one in together] == [
        simulated.timeless(one) for one in alone
    ]


def _stop() -> Stop:
    return Stop()


def pids(cluster: LocalCluster) -> list[int]:
    return [nanny.pid for nanny in cluster.workers.values() if nanny.pid is not None]


def test_a_killed_worker_loses_nothing_and_nothing_is_recorded_twice(
    cluster: LocalCluster,
) -> None:
    what, store, victims = planned(trials=400), Memory(), pids(cluster)[:1]

    def watch(notice: Notice) -> None:
        if isinstance(notice, Finished) and len(store.found) >= 200 and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    report, notices = run(cluster, what, store=store, watch=watch)
    finished = [notice.trial.key for notice in notices if isinstance(notice, Finished)]

    assert victims == []
    assert sorted(finished) == sorted(store.found) == sorted(what.keys())
    assert (report.ending, report.missing, report.infra) == ("complete", 0, 0)


def test_a_trial_that_ends_every_worker_is_given_up_and_no_other(cluster: LocalCluster) -> None:
    store = Memory()
    report, _ = run(cluster, planned(trials=10), deadly, store=store)
    (spoiled,) = [trial for trial in store.found.values() if not trial.ok]

    assert (report.ending, report.ran, report.infra) == ("complete", 40, 1)
    assert (spoiled.key.trial, spoiled.key.scenario) == (DEADLY, "happy_path")
    assert spoiled.error == "3 worker processes ended while they ran this trial"


def test_after_the_first_wish_what_is_under_way_ends_and_nothing_begins(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    gated, stop, store = Gated(tmp_path), Stop(), Memory()

    def watch(notice: Notice) -> None:
        if isinstance(notice, Started) and not stop.requested:
            stop.request()
        if isinstance(notice, Stopped):
            gated.open()

    report, _ = run(cluster, planned(trials=50, jobs=4), gated, store=store, stop=stop, watch=watch)

    assert report.ending == "interrupted"
    assert len(store.found) == len(gated.begun) == report.ran
    assert 0 < report.ran < 100


def test_after_the_second_wish_everything_ends_now(cluster: LocalCluster, tmp_path: Path) -> None:
    gated, stop, store = Gated(tmp_path), Stop(), Memory()

    def watch(notice: Notice) -> None:
        if isinstance(notice, Started):
            stop.request()
            stop.request()

    report, _ = run(cluster, planned(trials=9, jobs=2), gated, store=store, stop=stop, watch=watch)

    assert (report.ending, report.ran) == ("interrupted", 0)
    assert gated.begun


def test_a_mistake_of_the_user_ends_the_evaluation(cluster: LocalCluster) -> None:
    with pytest.raises(ConfigError, match="no such thing"):
        run(cluster, planned(trials=3), mistaken)


def test_a_refusal_at_one_worker_is_heard_here(cluster: LocalCluster) -> None:
    what = planned(trials=2, jobs=4)
    report, notices = run(cluster, what, client=refusing_client)
    limited = [notice for notice in notices if isinstance(notice, RateLimited)]

    assert report.ending == "complete"
    assert {notice.provider for notice in limited} == {"x-ai", "anthropic"}
    assert all(notice.limit < 4 for notice in limited)


def test_no_more_is_spent_than_the_cap(cluster: LocalCluster) -> None:
    report, _ = run(cluster, planned(trials=9, max_cost=2.0))

    assert (report.ending, report.spent, report.ran) == ("budget", 2.0, 8)


def test_an_open_number_of_trials_grows_in_rounds(cluster: LocalCluster) -> None:
    report, _ = run(cluster, planned(trials="auto", scenarios="happy_path", bar=50.0))

    assert report.ending == "complete"
    assert report.ran > 20


@contextmanager
def spawned(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a part of Dask as its users do, and kill it at the end."""
    words = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


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

        def watch(notice: Notice) -> None:
            if isinstance(notice, Started):
                scheduler.kill()

        report, _ = run(address, what, gated, store=store, watch=watch)

    assert (report.ending, report.error) == ("lost", "the Dask scheduler is gone")
    assert report.ran == len(store.found) == 0
    local = LocalEngine(quick, lambda _: NoClient())
    rest = asyncio.run(evaluate(what, store, local, lambda _: None, _stop()))
    assert (rest.ending, rest.ran) == ("complete", 12)
