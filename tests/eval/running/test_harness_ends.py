"""How an evaluation ends early: by a wish, by its budget, by an endpoint that refuses all of it."""

import asyncio
from functools import partial

import msgspec
import pytest

from surecall.eval.running.harness import Stop
from surecall.eval.running.harness_events import Stopped
from surecall.eval.running.limiter import UNTOLD_AT_MOST
from surecall.eval.running.outlook import HOPELESS_AFTER
from surecall.eval.storage.trial import Key, Trial
from tests.support.eval_fakes import GROK, SERVED, Memory, Trials, a_trial, planned, run


def test_the_first_wish_to_stop_lets_trials_under_way_end() -> None:
    stop = Stop()

    async def pause(key: Key) -> None:
        if key.trial == 2:
            if not stop.requested:
                stop.request()
            await asyncio.sleep(0.001)

    store, trials = Memory(), Trials(a_trial, pause)
    report, notices = run(planned(trials=50, jobs=2), trials, store, stop)
    (stopped,) = [notice for notice in notices if isinstance(notice, Stopped)]

    assert report.ending == stopped.reason == "interrupted"
    assert sorted(store.found) == sorted(trials.begun)
    assert 0 < len(store.found) < 200
    assert report.missing == 200 - len(store.found)


@pytest.mark.parametrize("terminated", [True, False])
def test_a_second_wish_or_a_termination_ends_trials_that_go_on(*, terminated: bool) -> None:
    stop = Stop()

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
    assert (report.ending, report.ran) == ("interrupted", len(store.found))


def test_after_one_wish_a_trial_has_all_the_time_that_a_trial_may_take() -> None:
    stop = Stop()

    async def pause(_: Key) -> None:
        if not stop.requested:
            stop.request()
        await asyncio.Event().wait()  # ended by the limit of a trial alone

    store = Memory()
    report, _ = run(planned(trials=9, jobs=1, timeout=3600.0), Trials(a_trial, pause), store, stop)

    (spoiled,) = store.found.values()
    assert (spoiled.status, spoiled.category) == ("infra", "TIMEOUT")
    assert (report.ending, report.ran) == ("interrupted", 1)


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


def test_dear_trials_between_cheap_ones_do_not_break_the_cap() -> None:
    costs = iter([0.06, *[0.01] * 7, *[0.06] * 72])

    def outcome(key: Key) -> Trial:
        return a_trial(key, cost=next(costs))

    report, _ = run(planned(trials=20, jobs=8, max_cost=0.2), Trials(outcome))

    assert (report.ending, report.ran, round(report.spent, 6)) == ("budget", 9, 0.19)


def test_trials_of_unknown_cost_are_counted() -> None:
    def outcome(key: Key) -> Trial:
        return Trial(key=key, status="passed", requests=SERVED)

    assert run(planned(trials=1), Trials(outcome))[0].unpriced == 4


def test_a_budget_that_cannot_be_kept_ends_the_evaluation_after_the_first_answers() -> None:
    def outcome(key: Key) -> Trial:
        return Trial(key=key, status="passed", requests=SERVED)

    store = Memory()
    report, notices = run(planned(trials=20, jobs=8, max_cost=1.0), Trials(outcome), store)

    assert report.ending == "unpriced"
    assert UNTOLD_AT_MOST <= report.ran < 2 * UNTOLD_AT_MOST  # of two models
    assert "tells no prices, so --max-cost cannot be kept" in report.error
    assert [each.reason for each in notices if isinstance(each, Stopped)] == ["unpriced"]
    again, _ = run(planned(trials=20, max_cost=1.0), Trials(outcome), store)
    assert (again.ending, again.ran) == ("unpriced", 0)
    rest, _ = run(planned(trials=20), Trials(outcome), store)
    assert (rest.ending, rest.missing) == ("complete", 0)


def refused(category: str, key: Key) -> Trial:
    trial = a_trial(key, "infra", category)
    return msgspec.structs.replace(trial, error="what it said")


@pytest.mark.parametrize("category", ["PAYMENT_REQUIRED", "CONNECTION_ERROR", "NOT_FOUND"])
def test_an_endpoint_that_refuses_everything_is_given_up(category: str) -> None:
    report, _ = run(planned(trials=20, jobs=1), Trials(partial(refused, category)))

    assert (report.ending, report.error) == ("unusable", "what it said")
    assert (report.infra, report.category) == (HOPELESS_AFTER, category)


@pytest.mark.parametrize(("models", "enough"), [("x_ai", 1), ("x_ai,anthropic", 2)])
def test_a_wrong_key_is_known_when_the_first_two_models_refuse_it(models: str, enough: int) -> None:
    what = planned(model_filter=models, trials=20, jobs=1)
    report, _ = run(what, Trials(partial(refused, "AUTH")))

    assert (report.ending, report.infra, report.category) == ("unusable", enough, "AUTH")


@pytest.mark.parametrize("category", ["AUTH", "CONNECTION_ERROR"])
def test_an_endpoint_is_unusable_after_few_trials_too_if_all_of_them_were_refused(
    category: str,
) -> None:
    few = planned(trials=1, jobs=4)
    report, notices = run(few, Trials(partial(refused, category)))

    assert (report.ending, report.missing) == ("unusable", 0)
    assert [each.reason for each in notices if isinstance(each, Stopped)] == ["unusable"]


def test_what_was_measured_before_is_not_doubted_when_the_rest_is_not_there() -> None:
    def outcome(key: Key) -> Trial:
        return refused("NOT_FOUND", key) if key.cell == GROK else a_trial(key)

    store = Memory()
    few = planned(trials=1, jobs=4)
    assert run(few, Trials(outcome), store)[0].ending == "complete"
    again, _ = run(few, Trials(outcome), store)
    assert (again.ending, again.ran) == ("complete", 2)
    wrong, _ = run(few, Trials(partial(refused, "AUTH")), store)
    assert (wrong.ending, wrong.ran) == ("unusable", 2)


def test_an_endpoint_that_refuses_only_some_is_not_given_up() -> None:
    def outcome(key: Key) -> Trial:
        return a_trial(key, "infra", "AUTH") if key.cell == GROK else a_trial(key)

    assert run(planned(trials=20, jobs=1), Trials(outcome))[0].ending == "complete"
