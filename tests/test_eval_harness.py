"""The harness: what runs, what is recorded, and how it ends. Trials are made up, time hardly."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import msgspec
import pytest

from surecall.catalog import ModelCatalog
from surecall.errors import ConfigError
from surecall.eval.harness import HOPELESS_AFTER, Stop, evaluate, lines_of, setup_of
from surecall.eval.harness_events import (
    Finished,
    Notice,
    Planned,
    RateLimited,
    Report,
    Started,
    Stopped,
    Tally,
)
from surecall.eval.matrix import Library, Plan, models_at, plan
from surecall.eval.matrix_cells import Model
from surecall.eval.scenario import Scenario, select_scenarios
from surecall.eval.scenarios import SCENARIOS
from surecall.eval.settings_endpoint import OPENROUTER_URL, Endpoint
from surecall.eval.settings_fields import Settings
from surecall.eval.trial import Cell, Key, Served, Status, Trial
from surecall.eval.trial_run import Setup
from surecall.events import PolicyErred, Trace
from surecall.retry import RetryPolicy
from surecall.sampling import SamplingCatalog
from surecall.transport import Client
from surecall.types import Answer, Usage

ENDPOINT = Endpoint(OPENROUTER_URL, "/v1", "openrouter")
GROK, CLAUDE = Cell("x-ai/grok-4.1-fast"), Cell("anthropic/claude-opus-4.6:nitro")
SERVED = (Served(turn=0, latency_ms=1, attempt=1),)
Outcome = Callable[[Key], Trial]


def planned(**changes: Any) -> Plan:
    settings = Settings(**({"model_filter": "x_ai,anthropic", "scenarios": "simple"} | changes))
    catalog = ModelCatalog.builtin()
    library = Library(models_at(ENDPOINT, catalog), catalog, SamplingCatalog.builtin())
    return plan(settings, select_scenarios(settings.scenarios, SCENARIOS), library, ENDPOINT)


class Memory:
    """A store that forgets when the test ends."""

    def __init__(self, *trials: Trial) -> None:
        self.found = {trial.key: trial for trial in trials}
        self.traces: dict[Key, bytes | None] = {}

    def done_keys(self, *, infra: bool = True) -> set[Key]:
        return {key for key, trial in self.found.items() if infra or trial.status != "infra"}

    def trials(self) -> Iterator[Trial]:
        return iter(list(self.found.values()))

    def add(self, trial: Trial, trace: bytes | None = None) -> None:
        assert trial.key not in self.done_keys(infra=False)
        self.found[trial.key] = trial
        self.traces[trial.key] = trace


class NoClient:
    """An endpoint that answers as it is told, and knows how often it was opened."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer or Answer(200, {}, b"")
        self.times_opened = 0

    async def send(self, body: bytes) -> Answer:
        del body
        return self.answer

    def opened(self) -> AbstractAsyncContextManager[None]:
        self.times_opened += 1
        return nullcontext()


class Trials:
    """Makes trials up; knows which began, and how many were ever under way at once."""

    def __init__(self, outcome: Outcome, pause: Callable[[Key], Awaitable[Any]] | None = None):
        self.outcome = outcome
        self.pause = pause
        self.begun: list[Key] = []
        self.under_way = self.most = 0

    async def __call__(
        self, key: Key, scenario: Scenario, setup: Setup, client: Client
    ) -> tuple[Trial, Trace]:
        assert scenario.id == key.scenario
        assert setup.model == key.cell.model
        self.begun.append(key)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await client.send(b"")
            await (asyncio.sleep(0) if self.pause is None else self.pause(key))
            return self.outcome(key), Trace(())
        finally:
            self.under_way -= 1


def a_trial(key: Key, status: Status = "passed", category: str = "", cost: float = 0.0) -> Trial:
    return Trial(key=key, status=status, category=category, requests=SERVED, usage=Usage(cost=cost))


def run(
    what: Plan,
    trials: Callable[..., Any],
    store: Memory | None = None,
    stop: Stop | None = None,
    client: NoClient | None = None,
) -> tuple[Report, list[Notice]]:
    notices: list[Notice] = []
    served = client or NoClient()

    async def go() -> Report:
        return await evaluate(
            what, store or Memory(), trials, lambda _: served, notices.append, stop or Stop()
        )

    return asyncio.run(go()), notices


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


def test_the_first_wish_to_stop_lets_trials_under_way_end() -> None:
    stop = Stop()

    async def pause(key: Key) -> None:
        if key.trial == 2:
            stop.request()
            await asyncio.sleep(0.001)

    store, trials = Memory(), Trials(a_trial, pause)
    report, notices = run(planned(trials=50, jobs=2), trials, store, stop)
    (stopped,) = [notice for notice in notices if isinstance(notice, Stopped)]

    assert report.ending == stopped.reason == "interrupted"
    assert sorted(store.found) == sorted(trials.begun)
    assert 0 < len(store.found) < 200
    assert report.missing == 200 - len(store.found)


@pytest.mark.parametrize("wishes", [1, 2])
def test_trials_that_do_not_end_in_time_or_at_once_are_not_recorded(wishes: int) -> None:
    stop = Stop(grace_s=0.01 if wishes == 1 else 3600.0)

    async def pause(key: Key) -> None:
        if key.trial == 1:
            return
        for _ in range(wishes):
            stop.request()
        await asyncio.Event().wait()

    store, trials = Memory(), Trials(a_trial, pause)
    report, _ = run(planned(trials=9, jobs=1), trials, store, stop)

    assert {key.trial for key in store.found} == {1}
    assert len(trials.begun) == len(store.found) + 1
    assert trials.under_way == 0
    assert (report.ending, report.ran) == ("interrupted", len(store.found))


def test_a_wish_before_the_beginning_is_obeyed() -> None:
    stop, trials = Stop(), Trials(a_trial)
    stop.request()

    assert run(planned(), trials, stop=stop)[0].ending == "interrupted"
    assert trials.begun == []


def test_no_more_is_spent_than_the_cap() -> None:
    def outcome(key: Key) -> Trial:
        return a_trial(key, cost=0.25)

    store = Memory()
    report, notices = run(planned(trials=9, max_cost=2.0), Trials(outcome), store)

    assert (report.ending, report.spent, report.ran) == ("budget", 2.0, 8)
    assert report.missing == 28
    assert notices[-1] == Stopped("budget", 0)
    more = planned(trials=9, max_cost=3.0)
    assert run(more, Trials(outcome), store)[0].ran == 4


def test_spending_exactly_the_cap_on_everything_is_complete() -> None:
    report, _ = run(planned(trials=1, max_cost=1.0), Trials(lambda key: a_trial(key, cost=0.25)))

    assert (report.ending, report.spent) == ("complete", 1.0)


def test_trials_of_unknown_cost_are_counted() -> None:
    def outcome(key: Key) -> Trial:
        return Trial(key=key, status="passed", requests=SERVED)

    assert run(planned(trials=1), Trials(outcome))[0].unpriced == 4


@pytest.mark.parametrize("category", ["AUTH", "PAYMENT_REQUIRED", "CONNECTION_ERROR"])
def test_an_endpoint_that_refuses_everything_is_given_up(category: str) -> None:
    def outcome(key: Key) -> Trial:
        trial = a_trial(key, "infra", category)
        return msgspec.structs.replace(trial, error="what it said")

    report, _ = run(planned(trials=20, jobs=1), Trials(outcome))

    assert (report.ending, report.error) == ("unusable", "what it said")
    assert report.infra == HOPELESS_AFTER


def test_an_endpoint_that_refuses_only_some_is_not_given_up() -> None:
    def outcome(key: Key) -> Trial:
        return a_trial(key, "infra", "AUTH") if key.cell == GROK else a_trial(key)

    assert run(planned(trials=20, jobs=1), Trials(outcome))[0].ending == "complete"


def test_a_refusal_for_too_many_requests_is_told_and_holds_up_only_its_lane() -> None:
    answer = Answer(429, {"retry-after": "0.05"}, b"")
    report, notices = run(planned(trials=2, jobs=2), Trials(a_trial), client=NoClient(answer))
    limited = [notice for notice in notices if isinstance(notice, RateLimited)]

    assert report.ending == "complete"
    assert {notice.provider for notice in limited} == {"x-ai", "anthropic"}
    assert all(0 < notice.wait_s <= 0.05 and notice.limit == 1 for notice in limited)


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

    # 40 of 40 is above the bar of 90 %; 9 of 10 never leaves it.
    assert last == {CLAUDE: 20, GROK: 100}
    assert report.ending == "complete"
    assert [notice for notice in notices if isinstance(notice, Planned)][:3] == [
        Planned(60, 0),
        Planned(120, 0),
        Planned(150, 0),
    ]
    assert run(what, Trials(outcome), store)[0].ran == 0


def test_an_open_number_of_trials_does_not_grow_while_all_are_spoiled() -> None:
    report, _ = run(planned(trials="auto"), Trials(lambda key: a_trial(key, "infra", "TIMEOUT")))

    assert report.infra == 40


def test_a_tally_counts_what_the_tool_rate_counts() -> None:
    key = Key(GROK, "happy_path", 1)
    tally = Tally(
        [
            a_trial(key),
            a_trial(key, "failed", "X"),
            a_trial(key, "infra", "AUTH"),
            a_trial(Key(GROK, "chat_only", 1)),
        ]
    )

    assert (tally.counted(GROK), tally.counted(CLAUDE)) == (2, 0)
    assert tally.undecided(GROK, 0.5)
    assert not tally.undecided(GROK, 0.95)


def test_simulated_models_are_asked_again_without_delay() -> None:
    what = planned(seed=7, empty_response_retry_count=0)
    real = what.cells[0]
    sim = msgspec.structs.replace(real, model=Model("sim/clean", simulated=True))

    assert setup_of(real, what).retry == RetryPolicy()
    assert setup_of(sim, what).retry.longest_wait_s < 0.1
    assert (setup_of(sim, what).seed, setup_of(sim, what).extra_attempts) == (7, 0)


def test_a_trace_is_recorded_line_by_line() -> None:
    event = PolicyErred(run_id="r", turn=0, at=1.0, stage="visible", message="a\nb")
    store = Memory()

    async def trials(key: Key, *_: object) -> tuple[Trial, Trace]:
        return a_trial(key), Trace((event, event))

    run(planned(trials=1), trials, store)
    assert set(store.traces.values()) == {lines_of(Trace((event, event)))}
    lines = lines_of(Trace((event, event))).splitlines()
    assert [msgspec.json.decode(line)["message"] for line in lines] == ["a\nb", "a\nb"]


def test_a_hundred_thousand_trials_need_no_more_tasks_than_jobs() -> None:
    most = 0

    async def trials(key: Key, *_: object) -> tuple[Trial, Trace]:
        nonlocal most
        if key.trial % 500 == 0:
            most = max(most, len(asyncio.all_tasks()))
        return a_trial(key), Trace(())

    class Count(Memory):
        def add(self, trial: Trial, trace: bytes | None = None) -> None:
            del trial, trace

    assert run(planned(trials=25_000, jobs=8), trials, Count())[0].ran == 100_000
    assert most <= 8 + 2
