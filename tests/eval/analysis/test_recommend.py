"""Advice: two rules, notes from figures alone, and the verdicts people once wrote by hand."""

from typing import Any

import msgspec
import pytest

from surecall import presets
from surecall.eval.analysis.recommend import (
    PRODUCTION,
    Candidate,
    Recommendation,
    candidates,
    decide,
    observed_verdict,
    original_row,
    recommend,
)
from surecall.eval.analysis.snapshot import HandVerdict, snapshot
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.summary import summarise
from surecall.eval.running.cells import Column, Fallback, Model, planned_cell
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.trial import CONTROL, Cell
from surecall.settings.catalog import CatalogModel, ModelCatalog
from surecall.settings.sampling import SamplingCatalog, SamplingProfile
from tests.support.trials import series, trial

RECORD = snapshot()
ADVICE = {advice.model: advice for advice in recommend(RECORD.cells)}
# Chosen by hand against the figures.
HAND_PICKED = {"x-ai/grok-4.1-fast", "z-ai/glm-4.7-flash:nitro"}


def candidate(k: int = 40, n: int = 40, **fields: Any) -> Candidate:
    base: dict[str, Any] = {"model": "m", "profile": "default", "tool": Rate(k, n)}
    return Candidate(**(base | fields))


def advise(*found: Candidate, **settings: Any) -> Recommendation:
    (advice,) = recommend(found, **settings)
    return advice


def test_the_record_holds_every_cell_and_adds_up() -> None:
    assert len(RECORD.cells) == 29
    assert len({cell.model for cell in RECORD.cells}) == 17
    assert RECORD.tool == Rate(1002, 1160)
    assert RECORD.control == Rate(196, 290)
    assert snapshot() is RECORD


def test_the_record_by_scenario_adds_up_to_the_record_by_cell() -> None:
    tool = [each for each in RECORD.scenarios if each.id != CONTROL]
    (control,) = [each for each in RECORD.scenarios if each.id == CONTROL]

    assert sum(each.k for each in tool) == RECORD.tool.k
    assert sum(each.n for each in tool) == RECORD.tool.n
    assert Rate(control.k, control.n) == RECORD.control
    assert sum(each.k for each in RECORD.scenarios) == 1198


@pytest.mark.parametrize("scenario", RECORD.scenarios[:-1], ids=lambda each: each.id)
def test_the_misses_listed_for_cells_fit_the_record_by_scenario(scenario: Any) -> None:
    missed = scenario.n - scenario.k
    listed = sum(cell.misses.get(scenario.id, 0) for cell in RECORD.cells)
    unlisted = sum(
        cell.tool.n - cell.tool.k - sum(cell.misses.values())
        for cell in RECORD.cells
        if scenario.id not in cell.misses
    )

    assert listed <= missed <= listed + unlisted


@pytest.mark.parametrize("cell", RECORD.cells, ids=lambda cell: f"{cell.model} {cell.profile}")
def test_no_cell_lists_more_misses_than_it_has(cell: Candidate) -> None:
    missed = cell.tool.n - cell.tool.k

    assert sum(cell.misses.values()) <= missed
    assert sum(cell.causes.values()) <= missed
    assert bool(cell.misses) == bool(cell.causes) == bool(missed)


@pytest.mark.parametrize("hand", RECORD.verdicts, ids=lambda hand: hand.model)
def test_the_observed_rule_gives_the_verdict_written_by_hand(hand: HandVerdict) -> None:
    advice = ADVICE[hand.model]

    assert advice.verdict == hand.verdict
    assert advice.label == hand.label


def test_the_observed_rule_gives_fifteen_of_the_seventeen_profiles_chosen_by_hand() -> None:
    differing = {
        each.model for each in RECORD.verdicts if ADVICE[each.model].profile != each.profile
    }

    assert len(RECORD.verdicts) == 17
    assert differing == HAND_PICKED
    assert {each.model for each in RECORD.verdicts if each.remark} == HAND_PICKED


def test_the_two_other_choices_are_not_supported_by_the_figures() -> None:
    by_place = {(cell.model, cell.profile): cell for cell in RECORD.cells}
    grok = by_place["x-ai/grok-4.1-fast", "grok_default"]
    flash = by_place["z-ai/glm-4.7-flash:nitro", "glm_4_7_flash_tool_calling"]

    assert observed_verdict(grok) == "No"
    assert flash.tool == by_place[flash.model, "default"].tool
    assert flash.p95_ms > by_place[flash.model, "default"].p95_ms


def test_the_record_agrees_with_the_catalog() -> None:
    builtin = ModelCatalog.builtin()
    for hand in RECORD.verdicts:
        entry = builtin.find(hand.model)
        assert entry is not None
        assert entry.recommended == hand.verdict.casefold()
        assert entry.profiles == (hand.profile,)
        assert ADVICE[hand.model].workarounds == entry.workarounds


def test_ten_cells_of_the_record_leave_the_interval_rule_undecided() -> None:
    undecided = [cell for cell in RECORD.cells if decide(cell) == "more trials"]

    assert len(undecided) == 10


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
        (candidate(37, causes={"TIMEOUT": 3}), "The main cause was timeouts (3 of 3)."),
        (
            candidate(38, causes={"NO_TOOL_CALLS": 2, "TIMEOUT": 1}, infra=1),
            "The main cause was NO_TOOL_CALLS (2 of 3).",
        ),
        (candidate(infra=1), "1 more run was spoiled by infrastructure and not judged."),
        (candidate(infra=3), "3 more runs were spoiled by infrastructure and not judged."),
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


def run(snippet: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(snippet, names)  # noqa: S102 - it is what users will do with it
    return names


@pytest.mark.parametrize("advice", ADVICE.values(), ids=ADVICE)
def test_a_snippet_builds_the_configuration_that_was_judged(advice: Recommendation) -> None:
    built = run(advice.snippet)

    assert built["config"] == presets.resolve(provider="openrouter", model=advice.model)
    assert built.get("llm_options_defaults", {}) == advice.options
    assert all(name in advice.snippet for name in advice.workarounds)
    assert "strategy" not in advice.snippet


def test_a_snippet_names_another_strategy_and_provider() -> None:
    model = 'a"b\\\n"); raise SystemExit  #'
    advice = advise(candidate(model=model, strategy="baseline"), provider="groq")

    assert advice.workarounds == ()
    assert run(advice.snippet)["config"] == presets.resolve(
        provider="groq", model=model, strategy="baseline"
    )


@pytest.mark.parametrize("fallback", ["fallback_on", "fallback_off"])
def test_a_snippet_builds_the_fallback_that_was_judged(fallback: Fallback) -> None:
    model, strategy = "deepseek/deepseek-chat-v3-0324:nitro", PRODUCTION
    column = Column(Model(model), SamplingProfile("default"), strategy, fallback)
    judged = planned_cell(column, Settings(timeout=None), ModelCatalog.builtin()).config

    advice = advise(candidate(model=model, strategy=f"{strategy}+{fallback}"))
    config = run(advice.snippet)["config"]

    assert config.response_transforms == judged.response_transforms
    assert config.text_calls == judged.text_calls
    assert advice.workarounds


def test_a_stand_in_is_advised_under_its_name_with_the_needs_of_what_it_imitates() -> None:
    known = {"sim/like-flash": "google/gemini-2.5-flash:nitro"}

    advice = advise(candidate(model="sim/like-flash"), known_as=known)

    assert advice.model == "sim/like-flash"
    assert advice.workarounds == ("gemini_openrouter_compat",)
    assert 'model="google/gemini-2.5-flash:nitro"' in advice.snippet


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

    assert original_row(advise(few, many))[-2:] == ("more trials (many)", "+22")
    assert original_row(advise(candidate(36)))[-2:] == ("more trials", "?")


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
