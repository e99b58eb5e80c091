"""The local engine: how many trials run at the same time, and what ends all of them."""

import asyncio

import pytest

from surecall.eval.running.harness_events import (
    RateLimited,
)
from surecall.eval.storage.trial import Key, Trial
from surecall.values.errors import ConfigError
from surecall.values.trace import Trace
from surecall.values.types import Answer
from tests.support.eval_fakes import Memory, NoClient, Trials, a_trial, planned, run


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


def test_a_refusal_for_too_many_requests_is_told_and_holds_up_only_its_lane() -> None:
    answer = Answer(429, {"retry-after": "0.05"}, b"")
    report, notices = run(planned(trials=2, jobs=2), Trials(a_trial), client=NoClient(answer))
    limited = [notice for notice in notices if isinstance(notice, RateLimited)]

    assert report.ending == "complete"
    first = {notice.provider: notice for notice in reversed(limited)}
    assert first.keys() == {"x-ai", "anthropic"}
    assert {(notice.wait_s, notice.limit) for notice in first.values()} == {(0.05, 1)}


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
    assert most <= 8 + 3  # with the evaluation, its round, and the watch for a wish to stop


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
