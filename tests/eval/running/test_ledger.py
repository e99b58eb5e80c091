"""Tests of `surecall.eval.running.ledger`."""

import msgspec
import pytest

from surecall.eval.analysis.stats import Rate, is_decided, pooled_interval
from surecall.eval.running.ledger import (
    UNUSABLE_AFTER,
    CellRates,
    EndpointHealth,
    RefusalTracker,
    TrialsPlanned,
    as_failed,
)
from surecall.eval.storage.trial import Cell, Key, Status, Trial
from tests.support.evaluations import CLAUDE, GROK, Memory, Trials, a_trial, planned, run
from tests.support.spec import proves

# The ledger: what is left to do, and what is recorded. Trials are made up


def test_only_what_is_missing_is_run_and_spoiled_trials_are_run_again() -> None:
    what = planned(trials=2)
    first, second, *others = what.keys()
    store = Memory(a_trial(first), a_trial(second, "infra", "TIMEOUT"))
    trials = Trials(a_trial)
    report, notices = run(what, trials, store)

    assert sorted(trials.begun) == sorted([second, *others])
    assert (report.wanted, report.recorded, report.executed) == (8, 1, 7)
    assert notices[0] == TrialsPlanned(8, 1)
    assert run(what, trials, store)[0].executed == 0


@proves("I29")
def test_what_cannot_apply_is_recorded_as_skipped_once() -> None:
    what = planned(model_filter="minimax/minimax-m2-her", trials=2)
    store, trials = Memory(), Trials(a_trial)
    report, _ = run(what, trials, store)

    assert (report.wanted, report.executed, report.skipped) == (2, 2, 2)
    assert {key.scenario for key in trials.begun} == {"chat_only"}
    skipped = {trial.category for trial in store.found.values() if trial.status == "skipped"}
    assert skipped == {"TOOLS_DISABLED"}
    assert run(what, trials, store)[0].skipped == 0


# Refused requests say something about a model only if the model was ever heard


def refused(number: int = 1, category: str = "BAD_REQUEST", **fields: object) -> Trial:
    trial = a_trial(Key(GROK, "happy_path", number), "failed", category)
    return msgspec.structs.replace(trial, **({"requests": ()} | fields))


@pytest.mark.parametrize("category", ["BAD_REQUEST", "REQUEST_TOO_LARGE", "UNPROCESSABLE"])
def test_a_model_that_was_never_heard_has_not_failed(category: str) -> None:
    judged = RefusalTracker().provisional_record(refused(category=category, truth="open"))

    assert (judged.status, judged.category, judged.truth) == ("infra", category, "")


def test_a_failure_that_is_settled_is_what_it_was_before_it_was_judged() -> None:
    before = refused(truth="open")

    assert as_failed(RefusalTracker().provisional_record(before)) == before


def test_what_was_refused_after_a_reply_is_a_failure_of_the_model() -> None:
    after_one = a_trial(Key(GROK, "happy_path", 1), "failed", "BAD_REQUEST")

    assert RefusalTracker().provisional_record(after_one) is after_one


def test_other_failures_without_a_reply_stay_what_they_are() -> None:
    too_long = refused(category="CONTEXT_TOO_LONG")

    assert RefusalTracker().provisional_record(too_long) is too_long


def test_the_first_reply_settles_what_was_refused_before_and_after() -> None:
    refusals = RefusalTracker()
    early, late = refused(1), refused(3)
    refusals.provisional_record(early)
    assert not refusals.take_now_failed(early)
    assert not refusals.take_now_failed(a_trial(Key(CLAUDE, "happy_path", 1)))

    heard = a_trial(Key(GROK, "happy_path", 2))
    assert refusals.take_now_failed(heard) == [early.key]
    assert not refusals.take_now_failed(heard)
    assert refusals.provisional_record(late) is late


def test_a_model_that_is_always_refused_is_not_measured_beside_one_that_answers() -> None:
    def outcome(key: Key) -> Trial:
        trial = a_trial(key, "failed", "BAD_REQUEST") if key.cell == GROK else a_trial(key)
        return msgspec.structs.replace(trial, requests=()) if key.cell == GROK else trial

    store = Memory()
    report, _ = run(planned(trials=2), Trials(outcome), store)

    assert (report.passed, report.failed, report.infra) == (4, 0, 4)
    assert {trial.key.cell for trial in store.trials() if trial.status == "infra"} == {GROK}


def test_a_scenario_whose_schema_is_refused_fails_whichever_comes_first() -> None:
    def outcome(key: Key) -> Trial:
        trial = a_trial(key, "failed", "BAD_REQUEST")
        return a_trial(key) if key.trial == 2 else msgspec.structs.replace(trial, requests=())

    for jobs in (1, 8):
        store = Memory()
        report, _ = run(planned(trials=3, jobs=jobs), Trials(outcome), store)

        assert (report.passed, report.failed, report.infra) == (4, 8, 0)
        assert {trial.status for trial in store.trials()} == {"passed", "failed"}


def test_the_trace_of_a_refused_trial_stays_with_it() -> None:
    def outcome(key: Key) -> Trial:
        trial = a_trial(key, "failed", "BAD_REQUEST")
        return a_trial(key) if key.trial == 2 else msgspec.structs.replace(trial, requests=())

    told: list[tuple[int, str, bytes | None]] = []

    class Traced(Memory):
        def add(self, trial: Trial, trace: bytes | None = None) -> None:
            told.append((trial.key.trial, trial.status, trace))
            super().add(trial, b"events")

    run(planned(trials=2, jobs=1), Trials(outcome), Traced())

    assert told.count((1, "infra", None)) == told.count((1, "failed", b"events")) > 0


# When an endpoint is given up: by kind, by number, and by what else was heard


def ended(category: str, model: str = "a", status: Status = "infra") -> Trial:
    status = status if category else "passed"
    return Trial(
        key=Key(Cell(model), "x", 1), status=status, category=category, error="as recorded"
    )


def outlook(*trials: Trial, models: int = 3) -> EndpointHealth:
    found = EndpointHealth(models)
    for trial in trials:
        found.add(trial, "")
    return found


@pytest.mark.parametrize(
    ("trials", "models", "hopeless"),
    [
        ([], 1, False),
        ([ended("AUTH")], 1, True),
        ([ended("AUTH")] * 9, 2, False),
        ([ended("AUTH"), ended("AUTH", "b")], 17, True),
        ([ended(""), ended("AUTH"), ended("AUTH", "b")], 17, False),
        ([ended("TIMEOUT")] * UNUSABLE_AFTER, 1, False),
        ([ended("NOT_FOUND")] * UNUSABLE_AFTER, 1, True),
        ([ended("BAD_REQUEST")] * UNUSABLE_AFTER, 1, True),
        ([ended("BAD_REQUEST", status="failed")] * UNUSABLE_AFTER, 1, False),
        ([ended(""), *[ended("CONNECTION_ERROR")] * UNUSABLE_AFTER], 1, True),
        ([*[ended("CONNECTION_ERROR")] * 9, ended(""), ended("CONNECTION_ERROR")], 1, False),
    ],
)
def test_it_is_hopeless_after_enough_of_the_same(
    trials: list[Trial], models: int, *, hopeless: bool
) -> None:
    assert outlook(*trials, models=models).is_unusable is hopeless


def test_it_is_silent_while_nothing_else_was_heard() -> None:
    assert not outlook().never_answered
    assert outlook(ended("NOT_FOUND")).never_answered
    assert not outlook(ended("NOT_FOUND"), ended("")).never_answered
    assert not outlook(ended(""), ended("NOT_FOUND")).never_answered


def test_it_says_what_the_endpoint_said_or_else_what_is_recorded() -> None:
    found = EndpointHealth(1)
    found.add(ended("AUTH"), "no such key. Check the API key.")

    assert found.category == "AUTH"
    assert found.error == "no such key. Check the API key."
    assert outlook(ended("AUTH")).error == "as recorded"


# What an evaluation reports: the tally of rates so far


def test_a_tally_counts_what_the_tool_rate_counts() -> None:
    key = Key(GROK, "happy_path", 1)
    tally = CellRates(
        [
            a_trial(key),
            a_trial(key, "failed", "X"),
            a_trial(key, "infra", "AUTH"),
            a_trial(Key(GROK, "chat_only", 1)),
            msgspec.structs.replace(a_trial(Key(GROK, "mine", 1)), tools=False),
        ]
    )

    assert (tally.trial_count(GROK), tally.trial_count(CLAUDE)) == (2, 0)


def test_a_tally_decides_only_what_holds_at_every_look() -> None:
    keys = [Key(GROK, "happy_path", number) for number in range(1, 61)]
    forty, sixty = CellRates(map(a_trial, keys[:40])), CellRates(map(a_trial, keys))

    assert is_decided(pooled_interval([Rate(40, 40)]), 0.9)
    assert forty.is_undecided(GROK, 0.9)
    assert not sixty.is_undecided(GROK, 0.9)
    assert CellRates().is_undecided(GROK, 0.9)
