"""The whole way: a plan, the harness, real trials over loopback HTTP, and the store."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall.eval.running.cells import Model
from surecall.eval.running.harness import Stop, evaluate
from surecall.eval.running.harness_events import Notice, Report
from surecall.eval.running.local_engine import LocalEngine
from surecall.eval.running.matrix import Library, Plan, plan
from surecall.eval.running.trial_run import run_trial
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.scenario import select_scenarios
from surecall.eval.settings.endpoint import endpoint_of
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.load import shaping
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Trial
from surecall.runtime.trace import load_trace
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.catalog import ModelCatalog
from surecall.settings.connection import Limits
from surecall.settings.sampling import SamplingCatalog
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.server import Simulator
from tests.support.patience import PATIENCE_S

LIBRARY = Library(
    tuple(
        Model(each.id, each.provider, imitates=each.imitates, simulated=True)
        for each in PERSONAS.values()
    ),
    ModelCatalog.builtin(),
    SamplingCatalog.builtin(),
)


def planned(**changes: Any) -> Plan:
    usual: dict[str, Any] = {"model_filter": "sim/clean,sim/lazy", "trials": 2}
    settings = Settings(**(usual | changes))
    scenarios = select_scenarios(settings.scenarios, SCENARIOS)
    return plan(settings, scenarios, LIBRARY, endpoint_of(settings))


def evaluated(base: Path, what: Plan) -> tuple[Report, list[Trial]]:
    async def go() -> Report:
        simulator = Simulator(seed=what.settings.seed)
        runner = await simulator.start()
        client = OpenAICompatible(simulator.url, limits=Limits(idle_s=PATIENCE_S))
        notices: list[Notice] = []
        try:
            engine = LocalEngine(run_trial, lambda _: client)
            return await evaluate(what, store, engine, notices.append, Stop())
        finally:
            await simulator.stop(runner)

    with open_or_resume(base, shaping(what.settings)) as store:
        report = asyncio.run(go())
        return report, list(store.trials())


def timeless(trial: Trial) -> Trial:
    served = [msgspec.structs.replace(each, latency_ms=0) for each in trial.requests]
    return msgspec.structs.replace(trial, elapsed_ms=0, started_at=0.0, requests=tuple(served))


def test_a_clean_model_passes_and_a_lazy_one_fails_where_tools_are_wanted(tmp_path: Path) -> None:
    report, trials = evaluated(tmp_path, planned())
    outcomes = {(each.key.cell.model, each.is_control, each.category) for each in trials}

    assert (report.ending, report.ran, report.infra) == ("complete", 24, 0)
    assert outcomes == {
        ("sim/clean", False, ""),
        ("sim/clean", True, ""),
        ("sim/lazy", False, "NO_TOOL_CALLS"),
        ("sim/lazy", True, ""),
    }


def test_the_same_command_resumes_and_more_trials_top_up(tmp_path: Path) -> None:
    small, large = planned(trials=1), planned(trials=3)

    assert [evaluated(tmp_path, what)[0].ran for what in (small, small, large)] == [12, 0, 24]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_results_with_any_number_of_jobs(tmp_path: Path) -> None:
    runs = [
        evaluated(tmp_path / str(jobs), planned(model_filter="sim/like-*", trials=1, jobs=jobs))
        for jobs in (2, 16)
    ]
    alone, together = ([timeless(trial) for trial in trials] for _, trials in runs)

    assert alone == together
    assert len({trial.status for trial in alone}) > 1


def test_strategies_at_the_same_time_each_meet_the_fault_and_retry(tmp_path: Path) -> None:
    what = planned(
        model_filter="sim/http-500",
        scenarios="happy_path",
        strategy_filter="raw,baseline,production",
        jobs=16,
    )
    _, trials = evaluated(tmp_path, what)
    met = {(trial.ok, trial.retries) for trial in trials}

    assert len(trials) == 6
    assert len(met) == 1
    assert met != {(True, 0)}


def test_no_trial_profits_from_what_another_learned(tmp_path: Path) -> None:
    what = planned(model_filter="sim/strict-no-parallel", scenarios="happy_path", trials=3, jobs=1)
    _, trials = evaluated(tmp_path, what)

    assert [(trial.ok, trial.retries) for trial in trials] == [(True, 1)] * 3


def test_a_recorded_trace_can_be_read_back(tmp_path: Path) -> None:
    what = planned(model_filter="sim/clean", scenarios="happy_path", trials=1)
    evaluated(tmp_path, what)
    with open_or_resume(tmp_path, shaping(what.settings)) as store:
        (key,) = what.keys()
        lines = store.trace(key)
    assert lines is not None
    (tmp_path / "trace.jsonl").write_bytes(lines)

    assert load_trace(tmp_path / "trace.jsonl").turns
