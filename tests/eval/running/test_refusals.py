"""Refused requests say something about a model only if the model was ever heard."""

import msgspec
import pytest

from surecall.eval.running.refusals import Refusals, settled
from surecall.eval.storage.trial import Key, Trial
from tests.support.eval_fakes import CLAUDE, GROK, Memory, Trials, a_trial, planned, run


def refused(number: int = 1, category: str = "BAD_REQUEST", **fields: object) -> Trial:
    trial = a_trial(Key(GROK, "happy_path", number), "failed", category)
    return msgspec.structs.replace(trial, **({"requests": ()} | fields))


@pytest.mark.parametrize("category", ["BAD_REQUEST", "REQUEST_TOO_LARGE", "UNPROCESSABLE"])
def test_a_model_that_was_never_heard_has_not_failed(category: str) -> None:
    judged = Refusals().judged(refused(category=category, truth="open"))

    assert (judged.status, judged.category, judged.truth) == ("infra", category, "")


def test_a_failure_that_is_settled_is_what_it_was_before_it_was_judged() -> None:
    before = refused(truth="open")

    assert settled(Refusals().judged(before)) == before


def test_what_was_refused_after_a_reply_is_a_failure_of_the_model() -> None:
    after_one = a_trial(Key(GROK, "happy_path", 1), "failed", "BAD_REQUEST")

    assert Refusals().judged(after_one) is after_one


def test_other_failures_without_a_reply_stay_what_they_are() -> None:
    too_long = refused(category="CONTEXT_TOO_LONG")

    assert Refusals().judged(too_long) is too_long


def test_the_first_reply_settles_what_was_refused_before_and_after() -> None:
    refusals = Refusals()
    early, late = refused(1), refused(3)
    refusals.judged(early)
    assert not refusals.settled_by(early)
    assert not refusals.settled_by(a_trial(Key(CLAUDE, "happy_path", 1)))

    heard = a_trial(Key(GROK, "happy_path", 2))
    assert refusals.settled_by(heard) == [early.key]
    assert not refusals.settled_by(heard)
    assert refusals.judged(late) is late


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
