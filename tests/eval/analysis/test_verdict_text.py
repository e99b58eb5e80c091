"""Tests of `surecall.eval.analysis.verdict_text`."""

from typing import Any

import pytest

from surecall.eval.analysis.comparisons import Comparisons
from surecall.eval.analysis.recommendations import ProfileCandidate, recommend
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.summary import summarize
from surecall.eval.analysis.verdict_text import (
    compared_strategies,
    gain_over_first,
    group_by_decision,
    headline_strategy,
    headline_totals,
    model_gains,
    steps_sentence,
    verdict_json,
    verdict_sentence,
)
from surecall.eval.storage.trial import Cell, Trial
from tests.support.trials import series

# What strategies gained, model by model and in a sentence


NAMES = ("raw", "production", "guided_contract")


def ran(model: str, *patterns: str) -> list[Trial]:
    """Return the same conversations under one strategy after the other."""
    return [
        each
        for strategy, pattern in zip(NAMES, patterns, strict=False)
        for each in series(pattern, cell=Cell(model, strategy=strategy))
    ]


def compared(*runs: list[Trial]) -> Comparisons:
    return summarize([trial for each in runs for trial in each]).comparisons


GOOD, BAD = "." * 12, "x" * 12


def test_gains_are_told_step_by_step_largest_first() -> None:
    found = compared(ran("small", BAD, BAD, GOOD), ran("none", GOOD, GOOD, GOOD))
    first, second = model_gains(found)

    assert compared_strategies(found) == NAMES
    assert (first.model, first.has_changes, second.has_changes) == ("small", True, False)
    assert [(step.first, step.second, step.fixed) for step in first.steps] == [
        ("raw", "production", 0),
        ("production", "guided_contract", 12),
    ]
    assert (first.whole.first, first.whole.second) == ("raw", "guided_contract")


def test_a_model_that_was_judged_in_part_has_the_steps_that_there_are() -> None:
    (gain,) = model_gains(compared(ran("m", BAD, GOOD, "i" * 12)))

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
        ([ran("m", GOOD, GOOD)], "production over raw: no significant difference."),
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
                "guided_contract over production: no significant difference."
            ),
        ),
    ],
)
def test_the_sentence_says_whom_each_step_helps(runs: list[list[Trial]], said: str) -> None:
    assert steps_sentence(compared(*runs)) == said


def test_the_sentence_names_a_model_once_and_its_profiles_where_there_are_several() -> None:
    runs = [
        each
        for profile, before in (("default", BAD), ("cool", "..." + BAD[3:]))
        for strategy, pattern in (("raw", before), ("production", GOOD))
        for each in series(pattern, cell=Cell("m", profile, strategy))
    ]

    assert steps_sentence(compared(runs)) == (
        "production over raw: helps m (+100 points with default, +75 with cool)."
    )


# The verdict of a whole evaluation, in one sentence


WITH = " with production (profile default)."
EVEN = ", even with production (profile default)."


def found(model: str, k: int, n: int = 40, p95_ms: int = 0, **cell: Any) -> ProfileCandidate:
    profile = cell.pop("profile", "default")
    return ProfileCandidate(model=model, profile=profile, tool=Rate(k, n), p95_ms=p95_ms, **cell)


VERDICT_SENTENCE_GOOD, VERDICT_SENTENCE_BAD, CLOSE = found("a", 40), found("b", 10), found("c", 37)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((), ""),
        ((VERDICT_SENTENCE_GOOD,), f"Use a{WITH}"),
        ((VERDICT_SENTENCE_BAD,), f"Avoid b{EVEN}"),
        ((CLOSE,), f"c needs more trials{WITH}"),
        (
            (VERDICT_SENTENCE_BAD, CLOSE, VERDICT_SENTENCE_GOOD),
            f"Use a{WITH} Avoid b{EVEN} c needs more trials{WITH}",
        ),
        ((CLOSE, found("d", 37)), f"c and d need more trials{WITH}"),
        ((CLOSE, found("d", 36)), f"c needs more trials{WITH} d is too close to call{WITH}"),
        ((found("d", 36), found("e", 36)), f"d and e are too close to call{WITH}"),
        ((found("d", 0, 0), VERDICT_SENTENCE_GOOD), f"Use a{WITH} d was not measured."),
        ((found("d", 0, 0), found("e", 0, 0)), "d and e were not measured."),
        ([found(name, 40) for name in "abcde"], f"Use a, b, c, d, and e{WITH}"),
        ([found(name, 40) for name in "abcdef"], f"Use a, b, c, d, and 2 more{WITH}"),
    ],
)
def test_it_names_each_group(rows: list[ProfileCandidate], said: str) -> None:
    assert verdict_sentence(recommend(rows)) == said


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((VERDICT_SENTENCE_GOOD,), f"Simulated: a is handled{WITH}"),
        (
            (VERDICT_SENTENCE_GOOD, found("d", 40), VERDICT_SENTENCE_BAD),
            f"Simulated: a and d are handled{WITH} b is not handled{EVEN}",
        ),
        ((CLOSE,), f"Simulated: c needs more trials{WITH}"),
    ],
)
def test_a_simulated_model_is_handled_or_not_and_never_used(
    rows: tuple[ProfileCandidate, ...], said: str
) -> None:
    advice = recommend(rows, simulated={name: name for name in "abcd"})

    assert verdict_sentence(advice) == said
    assert not any(each.snippet for each in advice)
    assert all(each.label.startswith("Simulated: ") for each in advice)


def test_models_with_another_strategy_or_profile_have_their_own_part() -> None:
    rows = (
        found("a", 40),
        found("b", 50, 50, strategy="guided_contract"),
        found("c", 60, 60, profile="cool"),
        found("d", 40),
    )

    assert verdict_sentence(recommend(rows)) == (
        f"Use a and d{WITH} Use b with guided_contract (profile default). "
        "Use c with production (profile cool)."
    )


def test_many_combinations_are_named_beside_each_model() -> None:
    rows = [found(name, 40, profile=name.upper()) for name in "abcdefg"]

    assert verdict_sentence(recommend(rows)) == (
        "Use a (production, profile A), b (production, profile B), c (production, profile C), "
        "d (production, profile D), and 3 more."
    )


def test_the_verdict_of_every_model_has_its_sentence_strategy_and_profile_as_json() -> None:
    advice = recommend((VERDICT_SENTENCE_BAD, found("g", 50, 50, strategy="guided_contract")))
    whole = verdict_json(advice)
    good, bad = whole["models"]

    assert whole["sentence"] == verdict_sentence(advice)
    assert whole["sentence"] == f"{good['sentence']} {bad['sentence']}"
    assert (good["verdict"], good["strategy"], good["sampling_profile"]) == (
        "use",
        "guided_contract",
        "default",
    )
    assert (bad["verdict"], bad["tool_ok"], bad["tool_runs"]) == ("avoid", 10, 40)
    assert verdict_json(()) == {"sentence": "", "models": []}


def test_groups_are_best_first() -> None:
    rows = (found("slow", 40, p95_ms=9), found("fast", 40, p95_ms=1), found("more", 98, 100))

    assert [each.model for each in group_by_decision(recommend(rows))["use"]] == [
        "fast",
        "slow",
        "more",
    ]


def test_every_row_is_in_one_group() -> None:
    groups = group_by_decision(
        recommend(
            (
                found("none", 0, 0),
                found("even", 36),
                CLOSE,
                VERDICT_SENTENCE_BAD,
                VERDICT_SENTENCE_GOOD,
            )
        )
    )

    assert {decision: [each.model for each in rows] for decision, rows in groups.items()} == {
        "use": ["a"],
        "avoid": ["b"],
        "more trials": ["c"],
        "too close": ["even"],
        "not measured": ["none"],
    }


# The headline is about one strategy, and says which


RAW, PRODUCTION = Cell("m", strategy="raw"), Cell("m", strategy="production")


def test_the_figures_of_the_fullest_strategy_are_those_of_the_headline() -> None:
    summary = summarize([*series("xxxx", cell=RAW), *series("...x", cell=PRODUCTION)])

    assert headline_strategy(summary) == "production"
    assert headline_totals(summary) == summary.strategies["production"]
    assert headline_totals(summary).tool.as_rate.k == 3


def test_without_any_cell_there_is_no_strategy_to_name() -> None:
    assert headline_strategy(summarize([])) == ""
    assert headline_totals(summarize([])).tool.n == 0
