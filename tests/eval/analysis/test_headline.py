"""The headline is about one strategy, and says which."""

from surecall.eval.analysis.headline import headline, headline_strategy
from surecall.eval.analysis.summary import summarise
from surecall.eval.storage.trial import Cell
from tests.support.trials import series

RAW, PRODUCTION = Cell("m", strategy="raw"), Cell("m", strategy="production")


def test_the_figures_of_the_fullest_strategy_are_those_of_the_headline() -> None:
    summary = summarise([*series("xxxx", cell=RAW), *series("...x", cell=PRODUCTION)])

    assert headline_strategy(summary) == "production"
    assert headline(summary) == summary.strategies["production"]
    assert headline(summary).tool.counts.k == 3


def test_without_any_cell_there_is_no_strategy_to_name() -> None:
    assert headline_strategy(summarise([])) == ""
    assert headline(summarise([])).tool.n == 0
