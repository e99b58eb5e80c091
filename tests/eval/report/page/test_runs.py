"""Runs as columns: every run can be read back."""

import msgspec

from surecall.eval.report.page.data import Context, Report, report_of
from surecall.eval.report.page.runs import STATUSES
from surecall.eval.storage.trial import Miss, Score, Trial
from surecall.values.types import Usage
from tests.support.eval_results import CELLS, many, trial


def reported(*trials: Trial, **context: object) -> Report:
    return report_of(trials, msgspec.convert(context, Context))


def test_every_run_can_be_read_from_the_columns() -> None:
    trials = many()
    runs = report_of(trials, Context()).runs

    found = [
        (runs.key(at), STATUSES[runs.status[at]], runs.codes[runs.code[at]], runs.ms[at])
        for at in range(runs.count)
    ]
    assert found == [(each.key, each.status, each.category, each.elapsed_ms) for each in trials]


def test_a_cost_that_nobody_told_is_not_zero() -> None:
    told = trial(CELLS[0], number=1, usage=Usage(total_tokens=9, cost=0.0012))
    free = trial(CELLS[0], number=2, usage=Usage(cost=0.0))
    report = reported(told, free, trial(CELLS[0], number=3))

    assert report.runs.micros == (1200, 0, -1)
    assert report.runs.tokens == (9, 0, 0)


def test_a_long_error_is_cut_and_one_that_repeats_stands_once() -> None:
    failed = [
        trial(CELLS[0], number=number, status="failed", error=error)
        for number, error in enumerate(("x" * 999, "same", "same"), 1)
    ]
    runs = reported(*failed).runs

    assert runs.error == (1, 2, 2)
    assert len(runs.errors[1]) == 200


def test_runs_with_the_same_causes_share_them() -> None:
    one, two = Miss("a file was lost"), Miss("the answer is short", "a word", turn=1)
    failed = [
        trial(CELLS[0], number=number, status="failed", category="ASSERTION_FAILED", score=score)
        for number, score in enumerate((Score(misses=(one, two)), Score(misses=(two, one, two))), 1)
    ]
    runs = reported(*failed, failed[0], trial(CELLS[0], number=4)).runs

    assert runs.causes == ("a file was lost", "the answer is short")
    assert runs.unmet == (1,)
    assert runs.sets == ((0, 1), (1, 0), ())
    assert runs.missed == (0, 1, 0, 2)
