"""One trial, guarded: crashes and limits of time are records, and concern no other trial."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from surecall.eval.running.cells import Model
from surecall.eval.running.guarded_trial import said_in, setup_of
from surecall.eval.storage.trial import Key, Trial
from surecall.runtime.trace import dump_trace
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import LlmRequestErrorEvent, PolicyErrorEvent
from surecall.values.trace import Trace
from tests.support.eval_fakes import GROK, Memory, Trials, a_trial, planned, run
from tests.support.spec import proves


@proves("I28")
def test_a_crash_spoils_its_own_trial_and_no_other() -> None:
    def outcome(key: Key) -> Trial:
        if key.trial == 2 and key.cell == GROK:
            raise RuntimeError("boom")
        return a_trial(key)

    store = Memory()
    report, _ = run(planned(trials=3), Trials(outcome), store)
    crashed = [trial for trial in store.found.values() if not trial.ok]

    assert (report.ending, report.passed, report.infra) == ("complete", 10, 2)
    assert {(each.status, each.category, each.error) for each in crashed} == {
        ("infra", "EXCEPTION", "RuntimeError: boom")
    }


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError()])
def test_a_trial_that_ends_itself_spoils_no_other(error: BaseException) -> None:
    def outcome(key: Key) -> Trial:
        if key.trial == 2 and key.cell == GROK:
            raise error
        return a_trial(key)

    report, _ = run(planned(trials=3, jobs=1), Trials(outcome))

    assert (report.ending, report.passed, report.infra) == ("complete", 10, 2)


def test_a_trial_that_takes_too_long_is_spoiled_and_the_others_go_on() -> None:
    def pause(key: Key) -> Awaitable[Any]:
        return asyncio.Event().wait() if key.trial == 1 else asyncio.sleep(0)

    store = Memory()
    report, _ = run(planned(trials=2, timeout=0.02), Trials(a_trial, pause), store)
    late = [trial for trial in store.found.values() if not trial.ok]

    assert (report.passed, report.infra) == (4, 4)
    assert {(each.category, each.error) for each in late} == {("TIMEOUT", "no end within 0.02 s")}


def test_a_timeout_of_something_else_is_a_crash() -> None:
    def outcome(key: Key) -> Trial:
        raise TimeoutError(key.scenario)

    store = Memory()
    run(planned(trials=1, timeout=None), Trials(outcome), store)

    assert {trial.category for trial in store.found.values()} == {"EXCEPTION"}


def test_simulated_models_are_asked_again_without_delay() -> None:
    what = planned(seed=7, empty_response_retry_count=0)
    real = what.cells[0]
    sim = msgspec.structs.replace(real, model=Model("sim/clean", simulated=True))

    assert setup_of(real, what).retry == RetryPolicy()
    assert setup_of(sim, what).retry.longest_wait_s < 0.1
    assert (setup_of(sim, what).seed, setup_of(sim, what).extra_attempts) == (7, 0)


def test_a_trace_is_recorded_line_by_line() -> None:
    event = PolicyErrorEvent(run_id="r", turn=0, at=1.0, stage="visible", message="a\nb")
    store = Memory()

    async def trials(key: Key, *_: object) -> tuple[Trial, Trace]:
        return a_trial(key), Trace((event, event))

    run(planned(trials=1), trials, store)
    assert set(store.traces.values()) == {dump_trace(Trace((event, event)))}
    lines = dump_trace(Trace((event, event))).splitlines()
    assert [msgspec.json.decode(line)["message"] for line in lines] == ["a\nb", "a\nb"]


def test_what_the_endpoint_said_last_is_kept() -> None:
    faults = [Fault(ErrorCode.AUTH, name, status=401, hint="Check it.") for name in ("a", "b")]
    events = [
        LlmRequestErrorEvent(fault=fault, attempt=1, elapsed_ms=1, run_id="r", turn=0, at=0.0)
        for fault in faults
    ]

    assert said_in(Trace(tuple(events))) == "AUTH (HTTP 401): b. Check it."
    assert said_in(Trace(())) == ""
