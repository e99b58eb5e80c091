"""Strategies side by side, and what was gained."""

import pytest

from surecall.cli.strategy_table import strategy_lines
from surecall.eval.analysis.recommend import candidates, recommend
from surecall.eval.analysis.summary import summarise
from surecall.eval.storage.trial import Cell, Trial
from tests.support.terminals import assert_aligned, assert_fits, assert_whole
from tests.support.trials import series


def lines_of(trials: list[Trial], width: int | None = None) -> list[str]:
    summary = summarise(trials)
    return strategy_lines(recommend(candidates(summary.cells)), summary, width)


def under(strategy: str, how: str, model: str = "m", profile: str = "default") -> list[Trial]:
    return series(how, cell=Cell(model, profile, strategy))


TRIALS = [
    *under("raw", "x" * 12),
    *under("production", "x" * 4 + "." * 8),
    *under("guided_contract", "." * 12),
    *under("raw", "." * 12, "steady"),
    *under("guided_contract", "." * 12, "steady"),
    *under("production", "x" * 12, "alone"),
]


def test_each_model_has_its_rates_and_its_change() -> None:
    head, *rows = lines_of(TRIALS)

    assert head.split("  ")[0] == "model"
    assert head.endswith("change       from raw to guided_contract")
    found = {row.split()[0]: row.split()[1:] for row in rows}
    assert found["m"] == [
        *("0/12", "0%", "8/12", "67%", "12/12", "100%", "+100", "points"),
        *("▲", "better:", "12", "fixed,", "0", "broken"),
    ]
    assert found["steady"] == ["12/12", "100%", "12/12", "100%", "none"]
    assert found["alone"] == ["0/12", "0%", "not", "compared"]


def test_one_strategy_has_no_such_table() -> None:
    assert lines_of(under("raw", "..")) == []
    assert lines_of([]) == []


def test_profiles_are_named_where_there_are_several() -> None:
    trials = [*under("raw", "..", profile="warm"), *under("production", "..", profile="warm")]

    assert lines_of(trials)[0].startswith("model  profile  raw ")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_on_a_terminal_every_row_fits(width: int) -> None:
    long = [
        each for name in ("raw", "production") for each in under(name, ".x", "m" * 59, "p" * 30)
    ]
    found = "\n".join(lines_of([*TRIALS, *long], width))

    assert_fits(found, width)
    assert_aligned(found)
    assert_whole(found, "\n".join(lines_of([*TRIALS, *long])))
