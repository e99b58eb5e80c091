"""Tests of `surecall.eval.running.harness`."""

import asyncio
from functools import partial
from pathlib import Path

import msgspec
import pytest

from surecall.eval.running.harness import StopRequest
from surecall.eval.running.ledger import (
    UNUSABLE_AFTER,
    EvaluationReport,
    EvaluationStopped,
    RateLimited,
    TrialFinished,
    TrialsPlanned,
    TrialStarted,
)
from surecall.eval.running.limiter import MAX_UNPRICED_TRIALS
from surecall.eval.settings.resolution import result_settings
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Key, Trial
from surecall.runtime.recording import load_trace
from surecall.values.errors import ConfigError
from surecall.values.trace import Trace
from surecall.values.types import HttpResponse
from tests.support.evaluations import (
    CLAUDE,
    GROK,
    SERVED,
    Memory,
    NoClient,
    Trials,
    a_trial,
    evaluate_simulated,
    plan_simulated,
    planned,
    run,
    timeless,
)

# The harness: what runs and what is recorded. Trials are made up, and time hardly passes


def test_every_trial_of_a_plan_is_run_once_and_recorded() -> None:
    what, store, trials, client = planned(trials=3), Memory(), Trials(a_trial), NoClient()
    report, notices = run(what, trials, store, client=client)

    assert sorted(trials.begun) == sorted(store.found) == sorted(what.keys())
    assert report == EvaluationReport(
        end_reason="complete", wanted=12, recorded=0, executed=12, passed=12
    )
    assert report.missing == 0
    assert client.times_opened == 1
    assert notices[0] == TrialsPlanned(12, 0)
    assert {type(notice) for notice in notices[1:]} == {TrialStarted, TrialFinished}


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
    assert report.end_reason == "complete"
    assert [notice for notice in notices if isinstance(notice, TrialsPlanned)][:3] == [
        TrialsPlanned(60, 0),
        TrialsPlanned(120, 0),
        TrialsPlanned(180, 0),
    ]
    assert run(what, Trials(outcome), store)[0].executed == 0


def test_an_open_number_of_trials_does_not_grow_while_all_are_spoiled() -> None:
    report, _ = run(planned(trials="auto"), Trials(lambda key: a_trial(key, "infra", "TIMEOUT")))

    assert report.infra == 40


# How an evaluation ends early: by a wish, by its budget, by an endpoint that refuses all of it


def test_the_first_wish_to_stop_lets_trials_under_way_end() -> None:
    stop = StopRequest()

    async def pause(key: Key) -> None:
        if key.trial == 2:
            if not stop.is_requested:
                stop.request()
            await asyncio.sleep(0.001)

    store, trials = Memory(), Trials(a_trial, pause)
    report, notices = run(planned(trials=50, jobs=2), trials, store, stop)
    (stopped,) = [notice for notice in notices if isinstance(notice, EvaluationStopped)]

    assert report.end_reason == stopped.reason == "interrupted"
    assert sorted(store.found) == sorted(trials.begun)
    assert 0 < len(store.found) < 200
    assert report.missing == 200 - len(store.found)


@pytest.mark.parametrize("terminated", [True, False])
def test_a_second_wish_or_a_termination_ends_trials_that_go_on(*, terminated: bool) -> None:
    stop = StopRequest()

    async def pause(key: Key) -> None:
        if key.trial == 1:
            return
        if terminated:
            stop.terminate(grace_s=0.01)
        else:
            stop.request()
            stop.request()
        await asyncio.Event().wait()

    store, trials = Memory(), Trials(a_trial, pause)
    report, _ = run(planned(trials=9, jobs=1), trials, store, stop)

    assert {key.trial for key in store.found} == {1}
    assert len(trials.begun) == len(store.found) + 1
    assert trials.under_way == 0
    assert (report.end_reason, report.executed) == ("interrupted", len(store.found))


def test_after_one_wish_a_trial_has_all_the_time_that_a_trial_may_take() -> None:
    stop = StopRequest()

    async def pause(_: Key) -> None:
        if not stop.is_requested:
            stop.request()
        await asyncio.Event().wait()  # ended by the limit of a trial alone

    store = Memory()
    report, _ = run(planned(trials=9, jobs=1, timeout=3600.0), Trials(a_trial, pause), store, stop)

    (spoiled,) = store.found.values()
    assert (spoiled.status, spoiled.category) == ("infra", "TIMEOUT")
    assert (report.end_reason, report.executed) == ("interrupted", 1)


def test_a_wish_before_the_beginning_is_obeyed() -> None:
    stop, trials = StopRequest(), Trials(a_trial)
    stop.request()

    assert run(planned(), trials, stop=stop)[0].end_reason == "interrupted"
    assert trials.begun == []


def test_no_more_is_spent_than_the_cap() -> None:
    def outcome(key: Key) -> Trial:
        return a_trial(key, cost=0.25)

    store = Memory()
    report, notices = run(planned(trials=9, max_cost=2.0), Trials(outcome), store)

    assert (report.end_reason, report.spent, report.executed) == ("budget", 2.0, 8)
    assert report.missing == 28
    assert notices[-1] == EvaluationStopped("budget", 0)
    more = planned(trials=9, max_cost=3.0)
    assert run(more, Trials(outcome), store)[0].executed == 4


def test_spending_exactly_the_cap_on_everything_is_complete() -> None:
    report, _ = run(planned(trials=1, max_cost=1.0), Trials(lambda key: a_trial(key, cost=0.25)))

    assert (report.end_reason, report.spent) == ("complete", 1.0)


def test_dear_trials_between_cheap_ones_do_not_break_the_cap() -> None:
    costs = iter([0.06, *[0.01] * 7, *[0.06] * 72])

    def outcome(key: Key) -> Trial:
        return a_trial(key, cost=next(costs))

    report, _ = run(planned(trials=20, jobs=8, max_cost=0.2), Trials(outcome))

    assert (report.end_reason, report.executed, round(report.spent, 6)) == ("budget", 9, 0.19)


def test_trials_of_unknown_cost_are_counted() -> None:
    def outcome(key: Key) -> Trial:
        return Trial(key=key, status="passed", requests=SERVED)

    assert run(planned(trials=1), Trials(outcome))[0].unpriced == 4


def test_a_budget_that_cannot_be_kept_ends_the_evaluation_after_the_first_answers() -> None:
    def outcome(key: Key) -> Trial:
        return Trial(key=key, status="passed", requests=SERVED)

    store = Memory()
    report, notices = run(planned(trials=20, jobs=8, max_cost=1.0), Trials(outcome), store)

    assert report.end_reason == "unpriced"
    assert MAX_UNPRICED_TRIALS <= report.executed < 2 * MAX_UNPRICED_TRIALS  # of two models
    assert "reports no costs, so --max-cost cannot be enforced" in report.error
    assert [each.reason for each in notices if isinstance(each, EvaluationStopped)] == ["unpriced"]
    again, _ = run(planned(trials=20, max_cost=1.0), Trials(outcome), store)
    assert (again.end_reason, again.executed) == ("unpriced", 0)
    rest, _ = run(planned(trials=20), Trials(outcome), store)
    assert (rest.end_reason, rest.missing) == ("complete", 0)


def refused(category: str, key: Key) -> Trial:
    trial = a_trial(key, "infra", category)
    return msgspec.structs.replace(trial, error="what it said")


@pytest.mark.parametrize("category", ["PAYMENT_REQUIRED", "CONNECTION_ERROR", "NOT_FOUND"])
def test_an_endpoint_that_refuses_everything_is_given_up(category: str) -> None:
    report, _ = run(planned(trials=20, jobs=1), Trials(partial(refused, category)))

    assert (report.end_reason, report.error) == ("unusable", "what it said")
    assert (report.infra, report.category) == (UNUSABLE_AFTER, category)


@pytest.mark.parametrize(("models", "enough"), [("x_ai", 1), ("x_ai,anthropic", 2)])
def test_a_wrong_key_is_known_when_the_first_two_models_refuse_it(models: str, enough: int) -> None:
    what = planned(model_filter=models, trials=20, jobs=1)
    report, _ = run(what, Trials(partial(refused, "AUTH")))

    assert (report.end_reason, report.infra, report.category) == ("unusable", enough, "AUTH")


@pytest.mark.parametrize("category", ["AUTH", "CONNECTION_ERROR"])
def test_an_endpoint_is_unusable_after_few_trials_too_if_all_of_them_were_refused(
    category: str,
) -> None:
    few = planned(trials=1, jobs=4)
    report, notices = run(few, Trials(partial(refused, category)))

    assert (report.end_reason, report.missing) == ("unusable", 0)
    assert [each.reason for each in notices if isinstance(each, EvaluationStopped)] == ["unusable"]


def test_what_was_measured_before_is_not_doubted_when_the_rest_is_not_there() -> None:
    def outcome(key: Key) -> Trial:
        return refused("NOT_FOUND", key) if key.cell == GROK else a_trial(key)

    store = Memory()
    few = planned(trials=1, jobs=4)
    assert run(few, Trials(outcome), store)[0].end_reason == "complete"
    again, _ = run(few, Trials(outcome), store)
    assert (again.end_reason, again.executed) == ("complete", 2)
    wrong, _ = run(few, Trials(partial(refused, "AUTH")), store)
    assert (wrong.end_reason, wrong.executed) == ("unusable", 2)


def test_an_endpoint_that_refuses_only_some_is_not_given_up() -> None:
    def outcome(key: Key) -> Trial:
        return a_trial(key, "infra", "AUTH") if key.cell == GROK else a_trial(key)

    assert run(planned(trials=20, jobs=1), Trials(outcome))[0].end_reason == "complete"


# The whole way: a plan, the harness, real trials over loopback HTTP, and the store


def test_a_clean_model_passes_and_a_lazy_one_fails_where_tools_are_wanted(tmp_path: Path) -> None:
    report, trials = evaluate_simulated(tmp_path, plan_simulated())
    outcomes = {(each.key.cell.model, each.is_control, each.category) for each in trials}

    assert (report.end_reason, report.executed, report.infra) == ("complete", 24, 0)
    assert outcomes == {
        ("sim/clean", False, ""),
        ("sim/clean", True, ""),
        ("sim/lazy", False, "NO_TOOL_CALLS"),
        ("sim/lazy", True, ""),
    }


def test_the_same_command_resumes_and_more_trials_top_up(tmp_path: Path) -> None:
    small, large = plan_simulated(trials=1), plan_simulated(trials=3)

    assert [evaluate_simulated(tmp_path, what)[0].executed for what in (small, small, large)] == [
        12,
        0,
        24,
    ]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_results_with_any_number_of_jobs(tmp_path: Path) -> None:
    runs = [
        evaluate_simulated(
            tmp_path / str(jobs), plan_simulated(model_filter="sim/like-*", trials=1, jobs=jobs)
        )
        for jobs in (2, 16)
    ]
    alone, together = ([timeless(trial) for trial in trials] for _, trials in runs)

    assert alone == together
    assert len({trial.status for trial in alone}) > 1


def test_strategies_at_the_same_time_each_meet_the_fault_and_retry(tmp_path: Path) -> None:
    what = plan_simulated(
        model_filter="sim/http-500",
        scenarios="happy_path",
        strategy_filter="raw,baseline,production",
        jobs=16,
    )
    _, trials = evaluate_simulated(tmp_path, what)
    met = {(trial.ok, trial.retries) for trial in trials}

    assert len(trials) == 6
    assert len(met) == 1
    assert met != {(True, 0)}


def test_no_trial_profits_from_what_another_learned(tmp_path: Path) -> None:
    what = plan_simulated(
        model_filter="sim/strict-no-parallel", scenarios="happy_path", trials=3, jobs=1
    )
    _, trials = evaluate_simulated(tmp_path, what)

    assert [(trial.ok, trial.retries) for trial in trials] == [(True, 1)] * 3


def test_a_recorded_trace_can_be_read_back(tmp_path: Path) -> None:
    what = plan_simulated(model_filter="sim/clean", scenarios="happy_path", trials=1)
    evaluate_simulated(tmp_path, what)
    with open_or_resume(tmp_path, result_settings(what.settings)) as store:
        (key,) = what.keys()
        lines = store.trace(key)
    assert lines is not None
    (tmp_path / "trace.jsonl").write_bytes(lines)

    assert load_trace(tmp_path / "trace.jsonl").turns


# The local engine: how many trials run at the same time, and what ends all of them


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
    answer = HttpResponse(429, {"retry-after": "0.05"}, b"")
    report, notices = run(planned(trials=2, jobs=2), Trials(a_trial), client=NoClient(answer))
    limited = [notice for notice in notices if isinstance(notice, RateLimited)]

    assert report.end_reason == "complete"
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

    assert run(planned(trials=4_000, jobs=8), trials, Count())[0].executed == 16_000
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
