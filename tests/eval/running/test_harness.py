"""The harness: what runs and what is recorded. Trials are made up, and time hardly passes."""

from surecall.eval.running.harness_events import (
    Finished,
    Planned,
    Report,
    Started,
)
from surecall.eval.storage.trial import Key, Trial
from tests.support.eval_fakes import CLAUDE, GROK, Memory, NoClient, Trials, a_trial, planned, run


def test_every_trial_of_a_plan_is_run_once_and_recorded() -> None:
    what, store, trials, client = planned(trials=3), Memory(), Trials(a_trial), NoClient()
    report, notices = run(what, trials, store, client=client)

    assert sorted(trials.begun) == sorted(store.found) == sorted(what.keys())
    assert report == Report(ending="complete", wanted=12, recorded=0, ran=12, passed=12)
    assert report.missing == 0
    assert client.times_opened == 1
    assert notices[0] == Planned(12, 0)
    assert {type(notice) for notice in notices[1:]} == {Started, Finished}


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
