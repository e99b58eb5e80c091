"""Advice: two rules, notes from figures alone, and the verdicts people once wrote by hand."""

from typing import Any

import msgspec
import pytest

from surecall.eval.analysis.recommend import (
    Candidate,
    Recommendation,
    candidates,
    decide,
    original_row,
    recommend,
)
from surecall.eval.analysis.snapshot import snapshot
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.summary import summarise
from surecall.eval.storage.trial import CONTROL, Cell
from surecall.settings.catalog import CatalogModel, ModelCatalog
from surecall.settings.sampling import SamplingCatalog, SamplingProfile
from tests.support.trials import series, trial

RECORD = snapshot()
ADVICE = {advice.model: advice for advice in recommend(RECORD.cells)}


def candidate(k: int = 40, n: int = 40, **fields: Any) -> Candidate:
    base: dict[str, Any] = {"model": "m", "profile": "default", "tool": Rate(k, n)}
    return Candidate(**(base | fields))


def advise(*found: Candidate, **settings: Any) -> Recommendation:
    (advice,) = recommend(found, **settings)
    return advice


@pytest.mark.parametrize(
    ("found", "verdict", "decision"),
    [
        (candidate(40), "Yes", "use"),
        (candidate(39), "Yes", "more trials"),
        (candidate(97, 100), "Yes", "use"),
        (candidate(96, 100), "Conditional", "use"),
        (candidate(38), "Conditional", "more trials"),
        (candidate(36), "Conditional", "more trials"),
        (candidate(89, 100), "No", "more trials"),
        (candidate(30), "No", "avoid"),
        (candidate(3, 3), "Yes", "more trials"),
        (candidate(0, 0, infra=4), "Unknown", "more trials"),
        (candidate(0, 0, skipped=1), "No", "avoid"),
    ],
)
def test_the_two_rules(found: Candidate, verdict: str, decision: str) -> None:
    advice = advise(found)

    assert (advice.verdict, advice.decision) == (verdict, decision)


def test_the_bar_moves_the_interval_rule_only() -> None:
    strict = advise(candidate(40), bar=0.95)

    assert (strict.verdict, strict.decision, strict.more_trials) == ("Yes", "more trials", 33)
    assert decide(candidate(40), 0.95) == "more trials"


@pytest.mark.parametrize(
    ("found", "more"),
    [
        (candidate(40), 0),
        (candidate(39), 22),
        (candidate(36), None),
        (candidate(0, 0, skipped=4), 0),
        (candidate(0, 0, infra=4), None),
    ],
)
def test_it_says_how_many_more_trials_would_decide(found: Candidate, more: int | None) -> None:
    assert advise(found).more_trials == more


def test_the_best_profile_has_the_best_rate_then_the_lower_p95() -> None:
    slow = candidate(39, profile="slow", p95_ms=9)
    quick = candidate(39, profile="quick", p95_ms=3)
    worse = candidate(30, profile="worse", p95_ms=1)
    untried = candidate(0, 0, profile="untried")

    advice = advise(untried, worse, slow, quick)

    assert advice.profile == advice.decided_profile == "quick"
    assert advice.p95_ms == 3
    assert advice.tool.counts == Rate(39, 40)


def test_the_interval_rule_prefers_what_is_known_better() -> None:
    few = candidate(10, 10, profile="few")
    many = candidate(98, 100, profile="many")

    advice = advise(few, many)

    assert (advice.profile, advice.decided_profile, advice.decision) == ("few", "many", "use")
    assert (advice.tool.counts, advice.decided_tool.counts) == (few.tool, many.tool)
    assert advice.notes == ("The surer choice, by lower bound, is many.",)


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (candidate(36, misses={"a": 4}), "Every miss was in a."),
        (candidate(39, misses={"a": 1}), "The one miss was in a."),
        (candidate(35, misses={"b": 3, "a": 2}), "Most misses were in b (3 of 5)."),
        (candidate(37, causes={"TIMEOUT": 3}), "The main cause: timeouts (3 of 3)."),
        (
            candidate(38, causes={"NO_TOOL_CALLS": 2, "TIMEOUT": 1}, infra=1),
            "The main cause: the model never called a tool (2 of 3).",
        ),
        (candidate(infra=1), "1 more run with tools was spoiled by infrastructure and not judged."),
        (
            candidate(infra=3),
            "3 more runs with tools were spoiled by infrastructure and not judged.",
        ),
        (
            candidate(control=Rate(0, 10)),
            "The control, an exact answer without tools, passed 0 of 10.",
        ),
        (candidate(0, 0, skipped=4), "Tools are switched off for this model."),
        (candidate(0, model="minimax/minimax-m2-her"), "Tools are switched off for this model."),
    ],
)
def test_notes_come_from_the_figures(found: Candidate, note: str) -> None:
    assert note in advise(found).notes


@pytest.mark.parametrize(
    "found",
    [
        candidate(40),
        candidate(40, control=Rate(9, 10)),
        candidate(36, misses={"a": 2, "b": 2}, causes={"X": 2, "Y": 2}),
        candidate(35, misses={"a": 2, "b": 2, "c": 1}, causes={"X": 2, "Y": 2, "Z": 1}),
    ],
)
def test_where_nothing_stands_out_there_is_no_note(found: Candidate) -> None:
    assert advise(found).notes == ()


def test_profiles_that_do_worse_are_named() -> None:
    notes = ADVICE["qwen/qwen3-235b-a22b-2507:nitro"].notes

    assert notes == ("With qwen_recommended it was only 75.0 %.",)
    assert "timeouts (3 of 3)" in " ".join(ADVICE["x-ai/grok-4.1-fast"].notes)


def test_the_reason_gives_counts_rate_and_interval() -> None:
    assert advise(candidate(39)).reason == "39 of 40 runs with tools passed: 97.5 % [87.1, 99.6]."
    assert advise(candidate(0, 0)).reason == "No run with tools was judged."


def test_a_brittle_control_restricts_a_yes_and_nothing_else() -> None:
    brittle = Rate(0, 10)

    assert advise(candidate(40, control=brittle)).label == "Yes (tool scenarios)"
    assert advise(candidate(37, control=brittle)).label == "Conditional"
    assert advise(candidate(0, 0)).label == "Unknown"


def test_a_stand_in_is_advised_under_its_name_with_the_needs_of_what_it_imitates() -> None:
    known = {"sim/like-flash": "google/gemini-2.5-flash:nitro"}

    advice = advise(candidate(model="sim/like-flash"), simulated=known)

    assert (advice.model, advice.simulated) == ("sim/like-flash", True)
    assert advice.workarounds == ("gemini_openrouter_compat",)
    assert advice.label == "Simulated: Yes"
    assert not advice.snippet


def test_other_catalogs_may_be_used() -> None:
    advice = advise(
        candidate(profile="cool"),
        catalog=ModelCatalog((CatalogModel("m", ("tool_use_disabled",)),)),
        profiles=SamplingCatalog((SamplingProfile("cool", options={"temperature": 0.1}),)),
    )

    assert advice.workarounds == ("tool_use_disabled",)
    assert advice.options == {"temperature": 0.1}


def test_a_row_has_the_columns_of_the_original() -> None:
    assert original_row(ADVICE["qwen/qwen3-30b-a3b-instruct-2507:nitro"]) == (
        "qwen/qwen3-30b-a3b-instruct-2507:nitro",
        "qwen_recommended (temperature=0.7 top_p=0.8 top_k=20 min_p=0)",
        "-",
        "Yes",
        "40 of 40 runs with tools passed: 100.0 % [91.2, 100.0].",
        "use",
        "+0",
    )
    assert original_row(ADVICE["google/gemini-3-pro-preview:nitro"])[1:3] == (
        "default (no overrides)",
        "gemini_openrouter_compat",
    )


def test_a_row_ends_with_what_the_interval_rule_says() -> None:
    few, many = candidate(9, 9, profile="few"), candidate(39, profile="many")

    assert original_row(advise(few, many))[-2:] == ("undecided (many)", "+22")
    assert original_row(advise(candidate(36)))[-2:] == ("undecided", "?")


def test_trials_of_today_become_candidates() -> None:
    trials = [
        *series("..xxi"),
        *series("....s", "long"),
        *series(".xi", CONTROL),
        trial("infra", 9, category="TIMEOUT"),
    ]

    (found,) = candidates(summarise(trials, scenarios=["long"]).cells)

    assert found.tool == Rate(6, 8)
    assert found.control == Rate(1, 2)
    assert found.misses == {"happy_path": 2}
    assert found.causes == {"ASSERTION_FAILED": 3, "TIMEOUT": 1}
    assert found.parts == (Rate(4, 4), Rate(2, 4))
    assert (found.infra, found.skipped) == (2, 1)
    assert found.p95_ms == 0


def test_the_scenarios_of_today_cluster_the_interval() -> None:
    uneven = [each for at in range(8) for each in series("." * 10 if at else "x" * 10, f"s{at}")]

    advice = advise(*candidates(summarise(uneven).cells))

    assert advice.decision == "more trials"
    assert advice.more_trials is None
    assert advice.tool.low < Rate(70, 80).interval[0]


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (("baseline", "production", "raw"), "production"),
        (("raw", "baseline"), "baseline"),
        (("raw",), "raw"),
        (("own", "mine"), "mine"),
        (("baseline+fallback_off", "production+fallback_on"), "production+fallback_on"),
        (("production+fallback_off", "production+fallback_on"), "production+fallback_on"),
        (("production+fallback_off", "baseline+fallback_on"), "production+fallback_off"),
        (("production", "production+fallback_off", "raw"), "production"),
    ],
)
def test_advice_is_about_the_fullest_strategy(present: tuple[str, ...], chosen: str) -> None:
    cells = summarise(
        [each for name in present for each in series(".", cell=Cell("m", strategy=name))]
    ).cells

    assert [each.strategy for each in candidates(cells)] == [chosen]
    assert [each.strategy for each in candidates(cells, present[0])] == [present[0]]


def test_nothing_gives_no_advice() -> None:
    assert candidates([]) == ()
    assert recommend([]) == ()


def test_advice_survives_json() -> None:
    advice = tuple(ADVICE.values())

    text = msgspec.json.encode(advice)

    assert msgspec.json.decode(text, type=tuple[Recommendation, ...]) == advice
