"""The harness: what runs and what is recorded. Trials are made up, and time hardly passes."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from surecall.eval.running.cells import Model
from surecall.eval.running.harness import setup_of
from surecall.eval.running.harness_events import (
    Finished,
    Planned,
    RateLimited,
    Report,
    Started,
)
from surecall.eval.storage.trial import Key, Trial
from surecall.runtime.trace import dump_trace
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ConfigError
from surecall.values.events import PolicyErrorEvent
from surecall.values.trace import Trace
from surecall.values.types import Answer
from tests.support.eval_fakes import CLAUDE, GROK, Memory, NoClient, Trials, a_trial, planned, run
from tests.support.spec import proves


def test_every_trial_of_a_plan_is_run_once_and_recorded() -> None:
    what, store, trials, client = planned(trials=3), Memory(), Trials(a_trial), NoClient()
    report, notices = run(what, trials, store, client=client)

    assert sorted(trials.begun) == sorted(store.found) == sorted(what.keys())
    assert report == Report(ending="complete", wanted=12, recorded=0, ran=12, passed=12)
    assert report.missing == 0
    assert client.times_opened == 1
    assert notices[0] == Planned(12, 0)
    assert {type(notice) for notice in notices[1:]} == {Started, Finished}


def test_only_what_is_missing_is_run_and_spoiled_trials_are_run_again() -> None:
    what = planned(trials=2)
    first, second, *others = what.keys()
    store = Memory(a_trial(first), a_trial(second, "infra", "TIMEOUT"))
    trials = Trials(a_trial)
    report, notices = run(what, trials, store)

    assert sorted(trials.begun) == sorted([second, *others])
    assert (report.wanted, report.recorded, report.ran) == (8, 1, 7)
    assert notices[0] == Planned(8, 1)
    assert run(what, trials, store)[0].ran == 0


def test_never_more_trials_at_once_than_jobs() -> None:
    trials = Trials(a_trial, lambda _: asyncio.sleep(0.001))
    run(planned(trials=10, jobs=4), trials)

    # Two makers, each with a lane that begins at half.
    assert trials.most == 4
    alone = Trials(a_trial, lambda _: asyncio.sleep(0.001))
    run(planned(trials=5, jobs=1), alone)
    assert alone.most == 1


def test_what_is_recorded_does_not_depend_on_the_number_of_jobs() -> None:
    def outcome(key: Key) -> Trial:
        return a_trial(key, "failed" if key.trial % 3 else "passed", "X" if key.trial % 3 else "")

    stores = [Memory(), Memory()]
    for store, jobs in zip(stores, (1, 16), strict=True):
        run(planned(trials=7, jobs=jobs), Trials(outcome), store)

    assert stores[0].found == stores[1].found


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


def test_a_mistake_of_the_caller_ends_the_evaluation() -> None:
    def outcome(key: Key) -> Trial:
        raise ConfigError(f"no such thing in {key.scenario}")

    with pytest.raises(ConfigError, match="no such thing"):
        run(planned(trials=3), Trials(outcome))


def test_a_store_that_fails_ends_the_evaluation_and_leaves_nothing_running() -> None:
    class Full(Memory):
        def add(self, trial: Trial, trace: bytes | None = None) -> None:
            if len(self.found) == 2:
                raise OSError("disk full")
            super().add(trial, trace)

    store, trials = Full(), Trials(a_trial)
    with pytest.raises(OSError, match="disk full"):
        run(planned(trials=9), trials, store)

    assert len(store.found) == 2
    assert trials.under_way == 0


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


def test_a_refusal_for_too_many_requests_is_told_and_holds_up_only_its_lane() -> None:
    answer = Answer(429, {"retry-after": "0.05"}, b"")
    report, notices = run(planned(trials=2, jobs=2), Trials(a_trial), client=NoClient(answer))
    limited = [notice for notice in notices if isinstance(notice, RateLimited)]

    assert report.ending == "complete"
    assert {notice.provider for notice in limited} == {"x-ai", "anthropic"}
    assert {(notice.wait_s, notice.limit) for notice in limited} == {(0.05, 1)}


@proves("I29")
def test_what_cannot_apply_is_recorded_as_skipped_once() -> None:
    what = planned(model_filter="minimax/minimax-m2-her", trials=2)
    store, trials = Memory(), Trials(a_trial)
    report, _ = run(what, trials, store)

    assert (report.wanted, report.ran, report.skipped) == (2, 2, 2)
    assert {key.scenario for key in trials.begun} == {"chat_only"}
    skipped = {trial.category for trial in store.found.values() if trial.status == "skipped"}
    assert skipped == {"TOOLS_DISABLED"}
    assert run(what, trials, store)[0].skipped == 0


def test_an_open_number_of_trials_grows_until_the_interval_leaves_the_bar() -> None:
    def outcome(key: Key) -> Trial:
        good = key.cell == CLAUDE or key.trial % 10
        return a_trial(key) if good else a_trial(key, "failed", "X")

    store = Memory()
    what = planned(trials="auto", scenarios="happy_path,missing_workspace_id,chat_only", bar=90.0)
    report, notices = run(what, Trials(outcome), store)
    last = {
        cell: max(key.trial for key in store.found if key.cell == cell) for cell in (GROK, CLAUDE)
    }

    # 60 of 60 is above the bar of 90 % at every look; 9 of 10 never leaves it.
    assert last == {CLAUDE: 30, GROK: 100}
    assert report.ending == "complete"
    assert [notice for notice in notices if isinstance(notice, Planned)][:3] == [
        Planned(60, 0),
        Planned(120, 0),
        Planned(180, 0),
    ]
    assert run(what, Trials(outcome), store)[0].ran == 0


def test_an_open_number_of_trials_does_not_grow_while_all_are_spoiled() -> None:
    report, _ = run(planned(trials="auto"), Trials(lambda key: a_trial(key, "infra", "TIMEOUT")))

    assert report.infra == 40


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


def test_thousands_of_trials_need_no_more_tasks_than_jobs() -> None:
    most = 0

    async def trials(key: Key, *_: object) -> tuple[Trial, Trace]:
        nonlocal most
        if key.trial % 100 == 0:
            most = max(most, len(asyncio.all_tasks()))
        return a_trial(key), Trace(())

    class Count(Memory):
        def add(self, trial: Trial, trace: bytes | None = None) -> None:
            del trial, trace

    assert run(planned(trials=4_000, jobs=8), trials, Count())[0].ran == 16_000
    assert most <= 8 + 2
