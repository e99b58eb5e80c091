"""Two worker processes against one process: throughput, and that the results are the same.

    python bench/engine.py [--trials 10000] [--rounds 1] [--kill]

The bar: two workers on two idle cores finish at least 1.6 times as many simulated trials in a
second as one process. With `--kill` a worker is killed in the middle (signal 9), and the throughput
says nothing; but no trial is lost, none is recorded twice, and the tables are the same.
"""

import argparse
import asyncio
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec

from surecall.cli.target import model_library, open_client
from surecall.eval.running.cluster.dask_cluster import start_cluster
from surecall.eval.running.cluster.dask_engine import DaskEngine
from surecall.eval.running.harness import LocalEngine, StopRequest, TrialEngine, evaluate
from surecall.eval.running.ledger import (
    EvaluationEvent,
    EvaluationReport,
    TrialFinished,
    TrialStarted,
)
from surecall.eval.running.matrix import EvaluationPlan, build_plan
from surecall.eval.running.trial_run import run_trial
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.scenario import select_scenarios
from surecall.eval.settings.endpoint import resolve_endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Trial

BAR = 1.6
WORKERS = 2
MODELS = "sim/clean,sim/bends-arguments"


def planned(trials: int) -> EvaluationPlan:
    """Plan about so many trials of two simulated models."""
    scenarios = select_scenarios("default", SCENARIOS)
    each = max(1, trials // (len(scenarios) * len(MODELS.split(","))))
    settings = Settings(model_filter=MODELS, trials=each, jobs=16)
    endpoint = resolve_endpoint(settings)
    return build_plan(settings, scenarios, model_library(endpoint), endpoint)


class Watch:
    """Knows when the first trial began and the last ended, and kills a worker on the way."""

    def __init__(self, kill_at: int = 0) -> None:
        self.began = self.ended = 0.0
        self.killed = 0
        self._kill_at = kill_at
        self._finished = 0

    def take(self, notice: EvaluationEvent) -> None:
        """Note the time of a notice."""
        if isinstance(notice, TrialStarted):
            self.began = self.began or time.perf_counter()
        elif isinstance(notice, TrialFinished):
            self.ended = time.perf_counter()
            self._finished += 1
            if self._finished == self._kill_at:
                self._kill()

    def _kill(self) -> None:
        multiprocessing.active_children()[-1].kill()
        self.killed += 1


class Measured(msgspec.Struct, frozen=True):
    """What one evaluation took, and what it recorded."""

    rate: float
    whole_s: float
    cpu_s: float
    own_s: float
    trials: list[Trial]


def local(what: EvaluationPlan, folder: Path) -> Measured:
    """Evaluate in this process."""
    with open_client(what.settings) as client:
        return evaluated(what, LocalEngine(run_trial, lambda _: client), folder, Watch())


def on_workers(what: EvaluationPlan, folder: Path, kill_at: int = 0) -> Measured:
    """Evaluate on worker processes; kill one of them after so many trials."""
    watch = Watch(kill_at)
    engine = DaskEngine(partial(start_cluster, WORKERS), run_trial, open_client)
    found = evaluated(what, engine, folder, watch)
    if kill_at and not watch.killed:
        raise SystemExit("no worker was killed")
    return found


def evaluated(what: EvaluationPlan, engine: TrialEngine, folder: Path, watch: Watch) -> Measured:
    """Evaluate a plan into a store of its own."""
    with open_or_resume(folder, what.identity) as store:

        async def go() -> EvaluationReport:
            return await evaluate(what, store, engine, watch.take, StopRequest())

        began, cpu, own = time.perf_counter(), _cpu_s(), time.process_time()
        report = asyncio.run(go())
        whole_s, cpu_s = time.perf_counter() - began, _cpu_s() - cpu
        own_s = time.process_time() - own
        rate = report.executed / (watch.ended - watch.began)
        return Measured(rate, whole_s, cpu_s, own_s, list(store.trials()))


def _cpu_s() -> float:
    own = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own + children.ru_utime + children.ru_stime


def timeless(trial: Trial) -> Trial:
    """Leave out of a record what depends on the clock."""
    served = tuple(msgspec.structs.replace(each, latency_ms=0) for each in trial.requests)
    return msgspec.structs.replace(trial, elapsed_ms=0, started_at=0.0, requests=served)


def check_same(what: EvaluationPlan, one: Measured, other: Measured) -> None:
    """Fail if a trial is lost, recorded twice, or ended differently."""
    for found in (one, other):
        keys = [trial.key for trial in found.trials]
        if sorted(keys) != sorted(what.keys()):
            raise SystemExit(f"{len(keys)} recorded, {len(set(keys))} of them different")
    if list(map(timeless, one.trials)) != list(map(timeless, other.trials)):
        raise SystemExit("the results differ")


def main() -> int:
    """Print a line for each round, and the median."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kill", action="store_true")
    given = parser.parse_args()
    what = planned(given.trials)
    count = len(list(what.keys()))
    ratios = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            one = local(what, Path(folder) / "one")
            two = on_workers(what, Path(folder) / "two", count // 2 if given.kill else 0)
        check_same(what, one, two)
        ratios.append(two.rate / one.rate)
        print(
            f"{count} trials  one process {one.rate:.0f}/s ({one.cpu_s:.1f} s CPU)  "
            f"{WORKERS} workers {two.rate:.0f}/s ({two.cpu_s:.1f} s CPU, {two.own_s:.1f} s of it "
            f"here; {two.whole_s:.1f} s with start and end)  ratio {ratios[-1]:.2f}"
        )
    median = statistics.median(ratios)
    print(f"median ratio {median:.2f} of {given.rounds}, bar {BAR}; the results are the same")
    return 0 if given.kill else int(median < BAR)


if __name__ == "__main__":
    sys.exit(main())
