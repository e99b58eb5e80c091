"""Tests of `surecall.eval.analysis.recommendations`."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.recommendations import (
    DEFAULT_THRESHOLD,
    SIMULATED_VERDICT_LABELS,
    VERDICT_LABELS,
    IntervalDecision,
    ProfileCandidate,
    Recommendation,
    interval_decision,
    is_control_unreliable,
    profile_candidates,
    recommend,
    recommendation_json,
    recommendation_row,
    trials_needed,
    verdict_labels,
)
from surecall.eval.analysis.stats import Rate, StoppingRule, always_valid_interval
from surecall.eval.analysis.summary import summarize
from surecall.eval.analysis.verdict_text import verdict_sentence
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from surecall.settings.catalog import CatalogModel, ModelCatalog, SamplingCatalog, SamplingProfile
from tests.support.reports import ADVICE, advise, candidate
from tests.support.trials import series, trial

# Advice: two rules, notes from figures alone, and the verdicts people once wrote by hand


def test_the_best_profile_has_the_best_rate_then_the_lower_p95() -> None:
    slow = candidate(39, profile="slow", p95_ms=9)
    quick = candidate(39, profile="quick", p95_ms=3)
    worse = candidate(30, profile="worse", p95_ms=1)
    untried = candidate(0, 0, profile="untried")

    advice = advise(untried, worse, slow, quick)

    assert advice.profile == advice.decided_profile == "quick"
    assert advice.p95_ms == 3
    assert advice.tool.as_rate == Rate(39, 40)


def test_the_interval_rule_prefers_what_is_known_better() -> None:
    few = candidate(10, 10, profile="few")
    many = candidate(98, 100, profile="many")

    advice = advise(few, many)

    assert (advice.profile, advice.decided_profile, advice.decision) == ("few", "many", "use")
    assert (advice.tool.as_rate, advice.decided_tool.as_rate) == (few.tool, many.tool)
    assert advice.notes == ("By its lower bound, many is the safer choice.",)


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
    row = recommendation_json(advice)

    assert (row["decision"], row["verdict"], row["label"]) == (word, word, f"Simulated: {word}")
    assert (row["workarounds"], row["on"]) == ([], ["gemini_openrouter_compat"])
    assert recommendation_row(advice)[4] == word
    assert not {"use", "avoid", "Yes", "No", "more trials"} & {*recommendation_row(advice)}


def test_advice_about_a_real_model_is_plain_as_it_is() -> None:
    row = recommendation_json(advise(candidate(40)))

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
    assert recommendation_row(ADVICE["qwen/qwen3-30b-a3b-instruct-2507:nitro"]) == (
        "qwen/qwen3-30b-a3b-instruct-2507:nitro",
        "qwen_recommended (temperature=0.7 top_p=0.8 top_k=20 min_p=0)",
        "-",
        "Yes",
        "40 of 40 tool runs passed: 100.0% [91.2, 100.0].",
        "use",
        "-",
    )
    assert recommendation_row(ADVICE["google/gemini-3-pro-preview:nitro"])[1:3] == (
        "default (no overrides)",
        "gemini_openrouter_compat",
    )


def test_a_row_ends_with_what_the_interval_rule_says() -> None:
    few, many = candidate(9, 9, profile="few"), candidate(39, profile="many")

    assert recommendation_row(advise(few, many))[-2:] == ("undecided (many)", "+22")
    assert recommendation_row(advise(candidate(36)))[-2:] == ("too close to call", "-")


def test_trials_of_today_become_candidates() -> None:
    trials = [
        *series("..xxi"),
        *series("....s", "long"),
        *series(".xi", CONTROL),
        trial("infra", 9, category="TIMEOUT"),
    ]

    (found,) = profile_candidates(summarize(trials, scenarios=["long"]).cells)

    assert found.tool == Rate(6, 8)
    assert found.control == Rate(1, 2)
    assert found.misses == {"happy_path": 2}
    assert found.causes == {"ASSERTION_FAILED": 3, "TIMEOUT": 1}
    assert found.parts == (Rate(4, 4), Rate(2, 4))
    assert (found.infra, found.skipped) == (2, 1)
    assert found.p95_ms == 0


def test_the_scenarios_of_today_cluster_the_interval() -> None:
    uneven = [each for at in range(8) for each in series("." * 10 if at else "x" * 10, f"s{at}")]

    advice = advise(*profile_candidates(summarize(uneven).cells))

    assert advice.decision == "too close"
    assert advice.more_trials is None
    assert advice.notes[0] == "More runs would not decide if the rates stay the same."
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
    cells = summarize(
        [each for name in present for each in series(".", cell=Cell("m", strategy=name))]
    ).cells

    assert [each.strategy for each in profile_candidates(cells)] == [chosen]
    assert [each.strategy for each in profile_candidates(cells, present[0])] == [present[0]]


def under(strategy: str, pattern: str) -> list[Trial]:
    return series(pattern, cell=Cell("m", strategy=strategy))


def of_strategies(trials: list[Trial]) -> Recommendation:
    (advice,) = recommend(profile_candidates(summarize(trials).cells))
    return advice


@pytest.mark.parametrize(
    ("production", "note"),
    [
        (
            "." * 46 + "x" * 4,
            (
                "guided_contract is the best strategy: 50 of 50 runs passed instead of 46 of 50 "
                "with production; the difference is not significant after correction."
            ),
        ),
        (
            "i" * 50,
            "guided_contract is the best strategy; no run with production was scored.",
        ),
    ],
)
def test_the_verdict_is_that_of_the_best_strategy_and_says_what_is_not_known(
    production: str, note: str
) -> None:
    trials = [
        *under("production", production),
        *under("guided_contract", "." * 50),
    ]
    advice = of_strategies(trials)

    assert (advice.decision, advice.decided_strategy) == ("use", "guided_contract")
    assert advice.notes[0] == note
    assert verdict_sentence((advice,)) == "Use m with guided_contract (profile default)."


@pytest.mark.parametrize(
    ("production", "best"), [("." * 39 + "x", "production"), ("x" * 40, "raw")]
)
def test_less_than_production_needs_evidence(production: str, best: str) -> None:
    trials = [*under("production", production), *under("raw", "." * 40)]

    assert of_strategies(trials).decided_strategy == best


def test_nothing_gives_no_advice() -> None:
    assert profile_candidates([]) == ()
    assert recommend([]) == ()


def test_advice_survives_json() -> None:
    advice = tuple(ADVICE.values())

    text = msgspec.json.encode(advice)

    assert msgspec.json.decode(text, type=tuple[Recommendation, ...]) == advice


# The two rules: what was seen, and what is known. Every state of the second has one name


LOOKING = StoppingRule(sequential=True, max_trials=100)


@pytest.mark.parametrize(
    ("found", "verdict", "decision"),
    [
        (candidate(40), "Yes", "use"),
        (candidate(39), "Yes", "more trials"),
        (candidate(97, 100), "Yes", "use"),
        (candidate(96, 100), "Conditional", "use"),
        (candidate(38), "Conditional", "more trials"),
        (candidate(36), "Conditional", "too close"),
        (candidate(89, 100), "No", "more trials"),
        (candidate(30), "No", "avoid"),
        (candidate(3, 3), "Yes", "more trials"),
        (candidate(0, 0, infra=4), "Unknown", "not measured"),
        (candidate(0, 0, skipped=1), "No", "avoid"),
    ],
)
def test_the_two_rules(found: ProfileCandidate, verdict: str, decision: str) -> None:
    advice = advise(found)

    assert (advice.verdict, advice.decision) == (verdict, decision)


def test_the_bar_moves_the_interval_rule_only() -> None:
    strict = advise(candidate(40), threshold=0.95)

    assert (strict.verdict, strict.decision, strict.more_trials) == ("Yes", "more trials", 33)
    assert interval_decision(candidate(40), 0.95) == "more trials"


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
def test_it_says_how_many_more_trials_would_decide(
    found: ProfileCandidate, more: int | None
) -> None:
    assert advise(found).more_trials == more


@pytest.mark.parametrize(
    ("found", "decision"),
    [
        # By one look at 40 of 40 or at 97 of 100 it would be decided.
        (candidate(40, stopping=LOOKING), "more trials"),
        (candidate(50, 50, stopping=LOOKING), "use"),
        (candidate(97, 100, stopping=LOOKING), "more trials"),
        (candidate(30, stopping=LOOKING), "more trials"),
        (candidate(20, stopping=LOOKING), "avoid"),
    ],
)
def test_who_looks_many_times_must_see_more(found: ProfileCandidate, decision: str) -> None:
    assert interval_decision(found) == decision
    assert found.tool_interval[0] <= always_valid_interval(found.tool.k, found.tool.n)[0]


def test_at_the_limit_it_is_too_close_to_call() -> None:
    before = candidate(460, 500, stopping=LOOKING)
    there = candidate(460, 500, stopping=LOOKING, at_limit=True)

    assert interval_decision(before) == "more trials"
    assert (trials_needed(before) or 0) > 0
    assert interval_decision(there) == "too close"
    assert trials_needed(there) is None
    assert interval_decision(candidate(500, 500, stopping=LOOKING, at_limit=True)) == "use"
    assert trials_needed(candidate(500, 500, stopping=LOOKING, at_limit=True)) == 0


@given(
    st.integers(0, 300),
    st.integers(0, 300),
    st.sampled_from([(StoppingRule(), False), (LOOKING, False), (LOOKING, True)]),
    st.integers(0, 2),
    st.sampled_from([0.5, DEFAULT_THRESHOLD, 0.97]),
)
def test_each_state_means_one_thing(
    k: int, missed: int, limits: tuple[StoppingRule, bool], skipped: int, bar: float
) -> None:
    stopping, at_limit = limits
    found = candidate(k, k + missed, stopping=stopping, at_limit=at_limit, skipped=skipped)
    decision, more = interval_decision(found, bar), trials_needed(found, bar)

    assert (decision in {"use", "avoid"}) == (more == 0)
    assert (decision == "more trials") == (more is not None and more > 0)
    assert (decision in {"too close", "not measured"}) == (more is None)
    assert (decision == "not measured") == (not found.tool.n and not skipped)


def test_what_would_decide_does_decide() -> None:
    found = candidate(96, 100, stopping=LOOKING, parts=(Rate(48, 50), Rate(48, 50)))
    more = trials_needed(found) or 0
    grown = candidate(96 + round(0.96 * more), 100 + more, stopping=LOOKING)

    assert more > 0
    assert interval_decision(grown) == "use"


# Why: sentences that come from the figures alone


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (candidate(36, misses={"a": 4}), "All failures were in a."),
        (candidate(39, misses={"a": 1}), "The only failure was in a."),
        (candidate(35, misses={"b": 3, "a": 2}), "Most failures were in b (3 of 5)."),
        (candidate(37, causes={"TIMEOUT": 3}), "Main cause: timeouts (3 of 3)."),
        (
            candidate(38, causes={"NO_TOOL_CALLS": 2, "TIMEOUT": 1}, infra=1),
            "Main cause: the model never called a tool (2 of 3).",
        ),
        (candidate(infra=1), "1 more tool run was not scored because of infrastructure errors."),
        (
            candidate(infra=3),
            "3 more tool runs were not scored because of infrastructure errors.",
        ),
        (candidate(0, 0, skipped=4), "Tools are disabled for this model."),
        (candidate(0, model="minimax/minimax-m2-her"), "Tools are disabled for this model."),
    ],
)
def test_notes_come_from_the_figures(found: ProfileCandidate, note: str) -> None:
    assert note in advise(found).notes


@pytest.mark.parametrize(
    "found",
    [
        candidate(40),
        candidate(40, control=Rate(0, 10)),
        candidate(38, misses={"a": 1, "b": 1}, causes={"X": 1, "Y": 1}),
        candidate(35, misses={"a": 2, "b": 2, "c": 1}, causes={"X": 2, "Y": 2, "Z": 1}),
    ],
)
def test_where_nothing_stands_out_there_is_no_note(found: ProfileCandidate) -> None:
    assert advise(found).notes == ()


def test_profiles_that_do_worse_are_named() -> None:
    notes = ADVICE["qwen/qwen3-235b-a22b-2507:nitro"].notes

    assert notes == ("With the profile qwen_recommended, only 75.0% passed.",)
    assert "timeouts (3 of 3)" in " ".join(ADVICE["x-ai/grok-4.1-fast"].notes)


def test_the_reason_gives_counts_rate_and_interval() -> None:
    assert advise(candidate(39)).reason == "39 of 40 tool runs passed: 97.5% [87.1, 99.6]."
    assert advise(candidate(0, 0)).reason == "No tool run was scored."


def test_a_verdict_is_never_explained_by_the_control() -> None:
    advice = advise(candidate(40, control=Rate(0, 10)))

    assert advice.decision == "use"
    assert advice.explanation == ("All 40 tool runs passed.",)
    assert advice.cautions == (
        "The control (an exact answer without tools) passed only 0 of 10 runs.",
    )
    assert advise(candidate(39, control=Rate(9, 10))).cautions == ()
    assert advise(candidate(39, misses={"a": 1})).explanation == ("The only failure was in a.",)


def test_a_control_is_brittle_below_ninety_percent() -> None:
    assert is_control_unreliable(Rate(8, 10))
    assert not is_control_unreliable(Rate(9, 10))
    assert not is_control_unreliable(Rate(0, 0))


def test_what_is_too_close_to_call_says_why_it_ends() -> None:
    many = candidate(
        450, 500, stopping=StoppingRule(sequential=True, max_trials=100), at_limit=True
    )

    assert advise(many).notes[0] == "Undecided after 500 runs, and no more are planned."
    assert advise(candidate(36)).notes == (
        "More runs would not decide if the rates stay the same.",
    )


# What decisions are called


def test_every_decision_has_a_sign_and_a_word_of_its_own() -> None:
    assert set(VERDICT_LABELS) == set(get_args(IntervalDecision))
    assert len(set(VERDICT_LABELS.values())) == len(VERDICT_LABELS)
    assert all(len(sign) == 1 and word for sign, word in VERDICT_LABELS.values())


def test_nothing_simulated_is_called_usable() -> None:
    words = {word for _, word in SIMULATED_VERDICT_LABELS.values()}

    assert set(SIMULATED_VERDICT_LABELS) == set(get_args(IntervalDecision))
    assert len(words) == len(SIMULATED_VERDICT_LABELS)
    assert not words & {"use", "avoid"}
    assert verdict_labels(simulated=True) is SIMULATED_VERDICT_LABELS
    assert verdict_labels(simulated=False) is VERDICT_LABELS
