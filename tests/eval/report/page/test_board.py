"""The first screen: groups, their order, and the columns that have something to show."""

from surecall.eval.report.page.board import Board, board_of
from surecall.eval.report.page.data import Context, report_of
from surecall.eval.report.page.drawing import Axis
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from tests.support.trials import series, trial


def board(*trials: Trial) -> Board:
    return board_of(report_of(trials, Context()))


def test_models_stand_in_their_groups_best_first_by_rate_then_time_then_cost() -> None:
    def good(model: str, ms: int, cost: float) -> list[Trial]:
        cell = Cell(model)
        usage = {"cost": cost}
        return [trial(number=at, cell=cell, elapsed_ms=ms, usage=usage) for at in range(1, 41)]

    found = board(
        *series("x" * 20, cell=Cell("poor")),
        *series("." * 18 + "xx", cell=Cell("open")),
        *good("dear", 5, 0.2),
        *good("slow", 9, 0.1),
        *good("cheap", 5, 0.1),
    )

    assert [group.decision for group in found.groups][:2] == ["use", "avoid"]
    assert [row.advice.model for row in found.rows] == ["cheap", "dear", "slow", "poor", "open"]
    assert (found.times, found.costs, found.profiles, found.gains) == (True, True, False, False)


def test_a_row_names_its_weakest_scenario_and_counts_the_others() -> None:
    found = board(*series("..x", "some"), *series("xxx", "worst"), *series("..", "fine"))
    (row,) = found.rows

    assert [(one.scenario, one.k, one.n) for one in row.weak] == [("worst", 0, 3)]
    assert row.more_weak == 1
    assert found.scenarios == ("fine", "some", "worst")


def test_a_row_shows_what_its_strategy_gained_over_the_first() -> None:
    raw = Cell("maker/model", strategy="raw")
    (row,) = board(*series("x" * 9, cell=raw), *series("." * 9)).rows

    assert row.gain is not None
    assert (row.gain.first, row.gain.second, row.gain.fixed) == ("raw", "production", 9)
    assert row.start == 0.0


def test_without_runs_there_is_nothing_to_show() -> None:
    assert board() == Board(axis=Axis(0))
    (row,) = board(*series("s")).rows
    assert (row.advice.decided_tool.n, row.gain, row.weak) == (0, None, ())


def test_a_control_that_fails_is_a_caution_beside_the_verdict() -> None:
    found = board(*series("." * 40), *series("...xx", CONTROL))

    assert [group.decision for group in found.groups] == ["use"]
    assert (found.rows[0].caution, found.cautions) == (True, True)
    assert not board(*series("." * 40), *series(".....", CONTROL)).cautions
