"""Gates: what passes, what fails, and what is left open."""

import pytest

from surecall.cli.gates import exit_code
from surecall.eval.analysis.paired import Comparisons
from surecall.eval.analysis.summary import summarise
from surecall.eval.running.harness_events import Ending, Report
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.parse import Gate
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from tests.support.commands import Run
from tests.support.trials import series, trial

GATED = Settings(fail_under=Gate(10.0))


def judged(
    trials: list[Trial], settings: Settings = GATED, ending: Ending = "complete", missing: int = 0
) -> tuple[int, list[str]]:
    wanted, error = len(trials) + missing, "" if ending == "complete" else "why"
    report = Report(ending=ending, wanted=wanted, recorded=0, ran=len(trials), error=error)
    return exit_code(settings, summarise(trials), report, Comparisons())


@pytest.mark.parametrize(
    "trials", [series("...", CONTROL), [*series("sss"), *series("...", CONTROL)]]
)
def test_a_gate_without_a_rate_does_not_pass(trials: list[Trial]) -> None:
    assert judged(trials) == (
        3,
        ["no run with tools was measured, so --fail-under has nothing to judge"],
    )
    assert judged(trials, Settings()) == (0, [])


def test_a_gate_names_the_cell_that_it_cannot_judge_unless_that_has_no_tools() -> None:
    blank, off = Cell("blank"), Cell("off")
    known = series("." * 20)

    code, (reason,) = judged([*known, *series("..", CONTROL, blank)])
    assert code == 3
    assert reason.startswith("blank default production: no run with tools was measured")
    assert judged([*known, *series("ss", cell=off), *series("..", CONTROL, off)]) == (0, [])


def test_a_rate_that_is_too_low_comes_before_what_is_left_open() -> None:
    code, (reason,) = judged(series("xxx"), missing=2)

    assert code == 1
    assert "lower bound 0.0% is below 10 %" in reason


def test_trials_that_were_not_run_leave_the_verdict_open() -> None:
    trials = series("." * 20)

    assert judged(trials, missing=2) == (
        3,
        ["2 trials were not run; the same command continues"],
    )
    assert judged(trials, ending="budget", missing=2) == (
        3,
        ["the budget is used up; 2 trials were not run"],
    )
    assert judged(trials, ending="lost", missing=2) == (
        3,
        ["why; 2 trials were not run; the same command continues, with any --engine"],
    )


def test_what_will_be_refused_again_is_not_recommended_to_be_tried_again() -> None:
    spoiled = [
        trial("infra", number, category=category)
        for number, category in enumerate(("AUTH", "NOT_FOUND", "TIMEOUT"), 30)
    ]
    code, (refused, passing) = judged([*series("." * 20), *spoiled])

    assert code == 3
    assert refused.startswith(
        "2 trials were spoiled (AUTH, NOT_FOUND); another try would end the same"
    )
    assert passing == "1 trial was spoiled (TIMEOUT); the same command tries it again"


def test_a_gate_on_the_control_alone_leaves_the_verdict_open(run: Run) -> None:
    code, _, err = run("eval", "-m", "sim/clean", "-s", "chat_only", "-q", "--fail-under", "90")

    assert code == 3
    assert "--fail-under has nothing to judge" in err
