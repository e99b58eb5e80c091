"""The rows of verdicts: best first, why beside or below, and nothing cut."""

import pytest

from surecall.cli.verdict_table import verdict_lines
from surecall.eval.analysis.recommend import Recommendation, candidates, recommend
from surecall.eval.analysis.summary import CellSummary, summarise
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from tests.support.terminals import assert_aligned, assert_fits, assert_whole
from tests.support.trials import series, trial

LONG = "a-maker-with-a-name/a-model-with-a-very-long-name-that-goes-on"
GOOD, BAD, FEW = "." * 50, "x" * 30, "." * 6


def judged(
    trials: list[Trial], *simulated: str
) -> tuple[tuple[Recommendation, ...], tuple[CellSummary, ...]]:
    cells = summarise(trials).cells
    return recommend(candidates(cells), simulated=dict.fromkeys(simulated, "sim")), cells


def lines_of(trials: list[Trial], width: int | None = None, *simulated: str) -> list[str]:
    return verdict_lines(*judged(trials, *simulated), 0.9, width)


def trials_of(model: str, strategies: tuple[str, ...] = ("production",)) -> list[Trial]:
    return [
        each
        for strategy in strategies
        for scenario, how in (
            ("happy_path", "...xi"),
            ("a_scenario_whose_name_is_rather_long", "..xxi"),
            (CONTROL, "....i"),
        )
        for profile in ("default", "a_profile_with_a_long_name")
        for each in series(how, scenario, Cell(model, profile, strategy))
    ]


def test_rows_are_in_the_order_of_the_sentence_with_their_figures() -> None:
    trials = [*series(FEW, cell=Cell("few")), *series(BAD, cell=Cell("bad"))]
    head, *rows = lines_of([*trials, *series(GOOD, cell=Cell("good"))])

    assert head == "verdict      model  tool pass     interval       0%           bar 90% 100%"
    assert [row.split("  ")[0] for row in rows] == ["✓ use", "✗ avoid", "? undecided"]
    assert rows[0] == ("✓ use        good     50/50 100%  [92.9, 100.0]  ······················┼─●")
    assert "  +29 runs would decide" in rows[2]


def test_a_simulated_model_is_handled_or_not_and_called_simulated() -> None:
    trials = [*series(GOOD, cell=Cell("sim/a")), *series(BAD, cell=Cell("sim/b"))]
    head, good, bad = lines_of(trials, None, "sim/a", "sim/b")

    assert "  simulated model  " in head
    assert good.startswith("✓ handled      sim/a ")
    assert bad.startswith("✗ not handled  sim/b ")


def test_other_profiles_follow_the_one_that_was_judged() -> None:
    few, many = Cell("m", "few"), Cell("m", "many")
    trials = [*series(FEW, cell=few), *series("i", "two", few), *series(GOOD * 2 + "x", cell=many)]
    _, first, second = lines_of(trials)

    assert first.split()[:4] == ["✓", "use", "m", "many"]
    assert second.split()[:3] == ["m", "few", "6/6"]
    assert "spoiled" not in first + second


def test_what_to_use_is_explained_by_its_figures_and_a_failed_control_is_a_caution() -> None:
    (line,) = lines_of([*series("." * 40), *series("x" * 10, CONTROL)])[1:]

    assert line.startswith("✓ use ")
    assert line.endswith(
        "  0/10     caution, beside tools: the control, an exact answer, passed only 0 of 10"
    )


def test_early_answers_and_times_are_told_of_the_judged_cell() -> None:
    (line,) = lines_of([trial(false_finals=2, elapsed_ms=1500)])[1:]

    assert "  1.5 s  " in line
    assert line.endswith("; 2 early answers")


def test_nothing_to_judge_makes_no_table() -> None:
    assert verdict_lines((), (), 0.9) == []


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("model", ["m", LONG])
@pytest.mark.parametrize("strategies", [("production",), ("raw", "guided_contract")])
def test_on_a_terminal_every_row_fits_and_no_reason_is_lost(
    width: int, model: str, strategies: tuple[str, ...]
) -> None:
    trials = [*trials_of(model, strategies), *series(GOOD, cell=Cell("good", strategy="raw"))]
    found = "\n".join(lines_of(trials, width))

    assert_fits(found, width)
    assert_aligned(found)
    assert_whole(found, "\n".join(lines_of(trials)))
    told = " ".join(found.split())
    assert "2 more runs with tools were spoiled by infrastructure and not judged" in told


def test_elsewhere_every_profile_has_one_line() -> None:
    assert len(lines_of(trials_of(LONG))) == 3
