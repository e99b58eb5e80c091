"""The ledger: what is left to do, and what is recorded. Trials are made up."""

from surecall.eval.running.harness_events import (
    Planned,
)
from tests.support.eval_fakes import Memory, Trials, a_trial, planned, run
from tests.support.spec import proves


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
