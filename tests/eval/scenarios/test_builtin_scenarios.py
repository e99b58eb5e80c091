"""The nine scenarios: how they are selected, and how state, process and final are judged apart."""

import pytest

from surecall.eval.scenarios.builtin_scenarios import DONE_CHECK as IS_DONE
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS, VALUE_CHECK, WRONG_PATH
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Miss
from surecall.testing import calls, calls_many, says
from tests.support.scenario_packs import DONE, GET, chosen_ids, patch, play
from tests.support.spec import proves

ALL = [scenario.id for scenario in SCENARIOS]
DEFAULT = [
    "happy_path",
    "missing_workspace_id",
    "type_error_recovery",
    "long_arguments_guard",
    "injected_quote",
    "chat_only",
]


def test_the_nine_stand_in_their_order() -> None:
    assert ALL == [
        "happy_path",
        "partial_success_failure",
        "missing_workspace_id",
        "type_error_recovery",
        "happy_path_parallel",
        "long_arguments_guard",
        "tool_output_truncation",
        "injected_quote",
        "chat_only",
    ]
    assert [one.id for one in SCENARIOS if one.is_control] == ["chat_only"]
    assert [one.id for one in SCENARIOS if not one.uses_tools] == ["chat_only"]


@proves("C121")
@pytest.mark.parametrize(
    ("expression", "ids"),
    [
        ("", DEFAULT),
        (" , ", DEFAULT),
        ("default", DEFAULT),
        ("smoke", DEFAULT),
        ("TYPICAL", DEFAULT),
        ("simple", ["happy_path", "chat_only"]),
        ("extreme", [name for name in ALL if name != "happy_path_parallel"]),
        ("all", ALL),
        ("full", ALL),
        ("*", ALL),
        ("all,!chat_only", ALL[:-1]),
        ("!chat_only", ALL[:-1]),
        ("default,happy_path_parallel", [*DEFAULT[:3], "happy_path_parallel", *DEFAULT[3:]]),
        ("chat_only,happy_path", ["happy_path", "chat_only"]),
        ("happy*", ["happy_path", "happy_path_parallel"]),
    ],
)
def test_groups_ids_and_exclusions_select_in_the_order_of_the_table(
    expression: str, ids: list[str]
) -> None:
    assert chosen_ids(expression) == ids


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.id)
def test_no_scenario_caps_the_tokens(scenario: Scenario) -> None:
    options = scenario.options | scenario.config.get("request_overrides", {})
    assert not {"max_tokens", "max_completion_tokens"} & options.keys()


def test_the_happy_path_scores_all_three_parts() -> None:
    _, score = play("happy_path", GET, patch(), DONE)
    assert (score.ok, score.state, score.process, score.final) == (True, True, True, True)
    assert score.facts == {"read_first": True}


def test_wrong_words_and_a_wrong_state_are_told_apart() -> None:
    _, chatty = play("happy_path", GET, patch(), says("Done. Anything else?"))
    assert (chatty.state, chatty.final) == (True, False)
    assert chatty.misses == (Miss(IS_DONE, '"Done."', '"Done. Anything else?"', turn=2),)
    _, early = play("happy_path", GET, DONE)
    assert (early.state, early.final) == (False, True)
    assert early.misses == (Miss(VALUE_CHECK, '"bar"', "no value", turn=1),)


def test_a_skipped_read_is_a_matter_of_process_only() -> None:
    _, score = play("happy_path", patch(), DONE)
    assert (score.ok, score.process) == (True, False)
    _, nothing = play("happy_path", DONE)
    assert nothing.process is False


def test_a_mixed_turn_is_wanted_where_the_original_wanted_it() -> None:
    mixed = calls_many(GET, patch(path=WRONG_PATH))
    _, score = play("partial_success_failure", mixed, patch(), DONE)
    assert (score.ok, score.facts) == (True, {"mixed_turn": True})
    _, apart = play("partial_success_failure", GET, patch(), DONE)
    assert (apart.state, apart.final, apart.ok, apart.process) == (True, True, False, False)


def test_giving_the_id_passes_but_the_process_says_so() -> None:
    left_out = calls("state_get")
    _, score = play("missing_workspace_id", left_out, patch(), DONE)
    assert (score.ok, score.process) == (True, True)
    _, given = play("missing_workspace_id", GET, patch(), DONE)
    assert (given.ok, given.facts) == (True, {"id_omitted": False})


def test_a_type_error_is_always_met_and_must_be_repaired() -> None:
    _, score = play("type_error_recovery", GET, patch(), patch(), DONE)
    assert (score.ok, score.facts) == (True, {"type_error_met": True, "repaired": True})
    result, gave_up = play("type_error_recovery", GET, patch(), DONE)
    assert result.stop_reason == "TOOL_ERROR"
    assert (gave_up.state, gave_up.facts["repaired"]) == (False, False)


def test_two_calls_must_run_in_one_turn() -> None:
    _, score = play("happy_path_parallel", calls_many(GET, patch()), DONE)
    assert (score.ok, score.process) == (True, True)
    _, serial = play("happy_path_parallel", GET, patch(), DONE)
    assert (serial.ok, serial.process, serial.state) == (False, False, True)


@proves("I30")
def test_the_guard_fires_and_the_recovery_are_reported_beside_the_result() -> None:
    _, score = play("long_arguments_guard", GET, patch("x" * 300), patch(), DONE)
    assert (score.ok, score.facts) == (True, {"guard_fired": True, "recovered": True})
    _, evaded = play("long_arguments_guard", GET, patch(), DONE)
    assert (evaded.ok, evaded.process) == (True, False)
    _, lost = play("long_arguments_guard", GET, patch("x" * 300), DONE)
    assert (lost.state, lost.final) == (False, True)
    assert lost.facts == {"guard_fired": True, "recovered": False}


def test_a_large_output_may_be_met_or_avoided_but_not_asked_for_again() -> None:
    some = calls("state_get", select=["/draft/foo"])
    _, met = play("tool_output_truncation", GET, patch(), DONE)
    assert (met.ok, met.process) == (True, True)
    _, avoided = play("tool_output_truncation", some, patch(), DONE)
    assert (avoided.ok, avoided.process, avoided.facts["avoided"]) == (True, True, True)
    _, narrowed = play("tool_output_truncation", GET, some, patch(), DONE)
    assert (narrowed.ok, narrowed.process) == (True, True)
    _, again = play("tool_output_truncation", GET, calls("state_get"), patch(), DONE)
    assert (again.ok, again.process, again.facts["read_again"]) == (True, False, True)
    _, never = play("tool_output_truncation", patch(), DONE)
    assert (never.ok, never.process, never.state) == (False, False, True)


def test_the_control_judges_words_alone_and_offers_no_tools() -> None:
    result, score = play("chat_only", DONE)
    assert (score.ok, score.state, score.process, score.final) == (True, None, None, True)
    assert result.run.tools == ()
    _, wrong = play("chat_only", says("Sure! Done."))
    assert wrong.misses == (Miss(IS_DONE, '"Done."', '"Sure! Done."', turn=0),)


def test_without_tools_the_state_is_not_judged() -> None:
    _, score = play("happy_path", DONE, mode="disabled")
    assert (score.ok, score.state, score.process) == (True, None, None)


def test_slips_are_warnings_and_a_tool_that_is_not_on_offer_is_noticed() -> None:
    invented = calls("facts_commit")
    placeholder = calls("state_get", workspace_id="workspace_id")
    _, score = play("happy_path", invented, placeholder, patch(), DONE)
    assert score.ok
    assert score.warnings == (
        "state_get: the word `workspace_id` itself was given as workspace_id",
        "facts_commit was called, but it is not exposed",
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.id)
def test_every_attempt_begins_in_a_fresh_world(scenario: Scenario) -> None:
    first, second = scenario.begin("ws_1"), scenario.begin("ws_1")
    first.draft["foo"] = "bar"
    assert "foo" not in second.draft
