"""How rates moved from strategy to strategy."""

from surecall.eval.report.page.data import Context, report_of
from surecall.eval.report.page.moves import Moves, moves_of
from surecall.eval.storage.trial import Cell
from tests.support.trials import series


def test_models_that_moved_are_drawn_and_the_others_named() -> None:
    trials = [
        *series("x" * 9, cell=Cell("helped", strategy="raw")),
        *series("." * 9, cell=Cell("helped")),
        *series("." * 9, cell=Cell("same", strategy="raw")),
        *series("." * 9, cell=Cell("same")),
    ]
    found = moves_of(report_of(trials, Context()))
    (move,) = found.moved

    assert found.strategies == ("raw", "production")
    assert [(each.mark, each.strategy, each.tool.k) for each in move.places] == [
        (0, "raw", 0),
        (1, "production", 9),
    ]
    assert [gain.model for gain in found.still] == ["same"]


def test_a_strategy_without_a_judged_run_has_no_place() -> None:
    trials = [
        *series("x.", cell=Cell("m", strategy="raw")),
        *series("..", cell=Cell("m")),
        *series("ii", cell=Cell("m", strategy="guided")),
        *series(".", cell=Cell("other", strategy="raw")),
    ]
    (move,) = moves_of(report_of(trials, Context())).moved

    assert [each.strategy for each in move.places] == ["raw", "production"]
    assert moves_of(report_of(series(".."), Context())) == Moves()


def test_rates_that_are_near_each_other_are_drawn_on_levels_of_their_own() -> None:
    trials = [
        *series("x" * 9 + ".", cell=Cell("m", strategy="raw")),
        *series("." + "x" * 9, cell=Cell("m")),
        *series("." * 10, cell=Cell("m", strategy="guided")),
        *series("x.." + "." * 7, cell=Cell("other", strategy="raw")),
        *series("." * 10, cell=Cell("other")),
    ]
    found = moves_of(report_of(trials, Context()))
    down = {
        move.gain.model: [(each.strategy, each.down) for each in move.places]
        for move in found.moved
    }

    assert down["m"] == [("raw", -7), ("production", 7), ("guided", 0)]
    assert down["other"] == [("raw", 0), ("production", 0)]
