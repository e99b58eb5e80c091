"""Advice: two rules, notes from figures alone, and the verdicts people once wrote by hand."""

from typing import Any

import msgspec
import pytest

from surecall.eval.analysis.candidate import Candidate
from surecall.eval.analysis.recommend import (
    Recommendation,
    candidates,
    original_row,
    plain_row,
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
    assert advice.label == "Simulated: handled"
    assert not advice.snippet


@pytest.mark.parametrize(
    ("passed", "word"), [(40, "handled"), (0, "not handled"), (39, "undecided")]
)
def test_nothing_simulated_is_recommended(passed: int, word: str) -> None:
    known = {"sim/like-flash": "google/gemini-2.5-flash:nitro"}
    advice = advise(candidate(passed, model="sim/like-flash"), simulated=known)
    row = plain_row(advice)

    assert (row["decision"], row["verdict"], row["label"]) == (word, word, f"Simulated: {word}")
    assert (row["workarounds"], row["on"]) == ([], ["gemini_openrouter_compat"])
    assert original_row(advice)[4] == word
    assert not {"use", "avoid", "Yes", "No", "more trials"} & {*original_row(advice)}


def test_advice_about_a_real_model_is_plain_as_it_is() -> None:
    row = plain_row(advise(candidate(40)))

    assert (row["decision"], row["verdict"], "on" in row) == ("use", "Yes", False)


def test_what_was_never_measured_has_no_preset_to_copy() -> None:
    assert advise(candidate(1, 1)).snippet
    assert not advise(candidate(0, 0)).snippet


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
        "-",
    )
    assert original_row(ADVICE["google/gemini-3-pro-preview:nitro"])[1:3] == (
        "default (no overrides)",
        "gemini_openrouter_compat",
    )


def test_a_row_ends_with_what_the_interval_rule_says() -> None:
    few, many = candidate(9, 9, profile="few"), candidate(39, profile="many")

    assert original_row(advise(few, many))[-2:] == ("undecided (many)", "+22")
    assert original_row(advise(candidate(36)))[-2:] == ("too close to call", "-")


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

    assert advice.decision == "too close"
    assert advice.more_trials is None
    assert advice.notes[0] == "No number of further runs would decide if the rates stay."
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
