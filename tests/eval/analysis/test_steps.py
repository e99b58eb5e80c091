"""What strategies gained, model by model and in a sentence."""

import pytest

from surecall.eval.analysis.paired import Comparisons
from surecall.eval.analysis.steps import gain_over_first, gains, steps_sentence, strategies_of
from surecall.eval.analysis.summary import summarise
from surecall.eval.storage.trial import Cell, Trial
from tests.support.trials import series

NAMES = ("raw", "production", "guided_contract")


def ran(model: str, *patterns: str) -> list[Trial]:
    """Return the same conversations under one strategy after the other."""
    return [
        each
        for strategy, pattern in zip(NAMES, patterns, strict=False)
        for each in series(pattern, cell=Cell(model, strategy=strategy))
    ]


def compared(*runs: list[Trial]) -> Comparisons:
    return summarise([trial for each in runs for trial in each]).comparisons


GOOD, BAD = "." * 12, "x" * 12


def test_gains_are_told_step_by_step_largest_first() -> None:
    found = compared(ran("small", BAD, BAD, GOOD), ran("none", GOOD, GOOD, GOOD))
    first, second = gains(found)

    assert strategies_of(found) == NAMES
    assert (first.model, first.changed, second.changed) == ("small", True, False)
    assert [(step.first, step.second, step.fixed) for step in first.steps] == [
        ("raw", "production", 0),
        ("production", "guided_contract", 12),
    ]
    assert (first.whole.first, first.whole.second) == ("raw", "guided_contract")


def test_a_model_that_was_judged_in_part_has_the_steps_that_there_are() -> None:
    (gain,) = gains(compared(ran("m", BAD, GOOD, "i" * 12)))

    assert [step.second for step in gain.steps] == ["production"]
    assert gain.whole.second == "production"


def test_the_gain_of_a_cell_is_that_over_the_first_strategy() -> None:
    found = compared(ran("m", BAD, GOOD))
    gain = gain_over_first(found, "m", "default", "production")

    assert gain is not None
    assert gain.fixed == 12
    assert gain_over_first(found, "m", "default", "raw") is None
    assert gain_over_first(Comparisons(), "m", "default", "production") is None


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([], ""),
        ([ran("m", GOOD)], ""),
        ([ran("m", GOOD, GOOD)], "production over raw: no evidence of a gain."),
        ([ran("m", BAD, GOOD)], "production over raw: helps m (+100 points)."),
        ([ran("m", GOOD, BAD)], "production over raw: harms m (\u2212100 points)."),
        (
            [ran("a", BAD, GOOD), ran("b", GOOD, BAD), ran("c", "..." + BAD[3:], GOOD)],
            "production over raw: helps a (+100 points) and c (+75), harms b (\u2212100 points).",
        ),
        (
            [ran("m", BAD, GOOD, GOOD)],
            (
                "production over raw: helps m (+100 points). "
                "guided_contract over production: no evidence of a gain."
            ),
        ),
    ],
)
def test_the_sentence_says_whom_each_step_helps(runs: list[list[Trial]], said: str) -> None:
    assert steps_sentence(compared(*runs)) == said
