"""An answer that comes too early: how it is met, how often, and what the run then fails with."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall import (
    ErrorCode,
    RunResult,
)
from surecall.core.loop import next_move, record_objection, record_reply, record_results
from surecall.core.policy import build_turn
from surecall.core.state import OBJECTION, AskModel, AwaitApproval, Fail, Finish, Run, RunTools
from surecall.settings.config import FINAL_ANSWER_REQUEST, REMIND
from surecall.settings.contract import Contract
from surecall.testing import Item, ScriptedModel, calls, calls_many, failure, says
from surecall.values.events import (
    FinalEvent,
    FixEmptyFinalEvent,
    ForcedContinuationEvent,
    RunFailedEvent,
)
from surecall.values.types import JSON, Reply, ToolCall, ToolResult, User
from tests.support.transcripts import (
    CODES,
    DONE,
    NAMES,
    SETTINGS,
    TOOLS,
    TURNS,
    Desk,
    begun,
    called,
    said,
    step,
)

PUT = Contract(all_of=("put",))


def forced(result: RunResult) -> list[tuple[str, str, tuple[str, ...]]]:
    events = [event for event in result.trace if isinstance(event, ForcedContinuationEvent)]
    return [(event.rung, event.code, event.tools) for event in events]


def last_words(model: ScriptedModel) -> str:
    words = model.requests[-1]["messages"][-1]
    assert words["role"] == "user"
    return str(words["content"])


def test_a_reminder_says_what_is_missing_and_the_run_goes_on() -> None:
    script = (DONE, calls("put", value="good"), says("Now it is."))
    result, model = Desk().run(*script, contract=PUT)

    assert (result.assistant_text, result.stop_reason) == ("Now it is.", "final")
    assert forced(result) == [("remind", "CONTRACT_UNMET", ("put",))]
    assert model.requests[1]["messages"][-1]["content"] == (
        "This is not finished. Still missing: a successful call of put. "
        "Make the call now, and answer when it has succeeded."
    )
    assert result.false_finals == 1
    assert isinstance(ended := result.trace[-1], FinalEvent)
    assert ended.false_finals == 1


def test_the_second_step_demands_the_call() -> None:
    result, model = Desk().run(DONE, DONE, calls("put", value="good"), DONE, contract=PUT)

    assert [request.get("tool_choice") for request in model.requests] == [
        "auto",
        "auto",
        {"type": "function", "function": {"name": "put"}},
        None,
    ]
    assert [tool["function"]["name"] for tool in model.requests[2]["tools"]] == ["put"]
    assert result.stop_reason == "final"


@pytest.mark.parametrize(
    ("settings", "script", "code"),
    [
        ({"contract": PUT}, (), ErrorCode.CONTRACT_UNMET),
        ({"tool_use_mode": "enforced"}, (), ErrorCode.NO_TOOL_CALLS),
        ({"tool_use_mode": "enforced"}, (calls("put", value="bad"),), ErrorCode.TOOL_ERROR),
    ],
)
def test_the_ladder_ends_with_the_code_of_what_is_owed(
    settings: JSON, script: tuple[Item, ...], code: ErrorCode
) -> None:
    result, model = Desk().run(*script, DONE, DONE, DONE, **settings)

    assert result.stop_reason == code
    assert [step for step, *_ in forced(result)] == ["remind", "require"]
    assert len(model.requests) == 3 + len(script)
    assert isinstance(stopped := result.trace[-1], RunFailedEvent)
    assert stopped.false_finals == result.false_finals == 3


@pytest.mark.parametrize("settings", [{"contract": PUT}, {"tool_use_mode": "enforced"}])
def test_without_a_ladder_the_first_answer_is_the_last(settings: JSON) -> None:
    result, model = Desk().run(DONE, **settings, final_ladder=())

    assert len(model.requests) == 1
    assert result.false_finals == 1


def test_a_relaxed_run_without_a_contract_owes_nothing() -> None:
    result, model = Desk().run(calls("put", value="bad"), DONE)

    assert result.stop_reason == "final"
    assert forced(result) == []
    assert len(model.requests) == 2


def test_a_failure_that_was_not_made_good_is_demanded_by_name() -> None:
    script = (calls("put", value="bad"), DONE, calls("put", value="good"), DONE)
    result, model = Desk().run(*script, tool_use_mode="enforced")

    assert result.stop_reason == "final"
    assert forced(result) == [("remind", "TOOL_ERROR", ("put",))]
    assert "a successful call of put." in str(model.requests[2]["messages"][-1]["content"])


def test_where_no_tool_is_named_any_will_do() -> None:
    _, model = Desk().run(DONE, calls("get"), DONE, tool_use_mode="enforced")

    assert "missing: a call of a tool." in str(model.requests[1]["messages"][-1]["content"])


def test_every_debt_is_met_with_the_whole_ladder() -> None:
    contract = Contract(in_order=("get", "put"))
    script = (DONE, DONE, calls("get"), DONE, DONE, calls("put", value="good"), DONE)
    result, _ = Desk().run(*script, contract=contract)

    assert result.stop_reason == "final"
    assert [(step, tools) for step, _, tools in forced(result)] == [
        ("remind", ("get",)),
        ("require", ("get",)),
        ("remind", ("put",)),
        ("require", ("put",)),
    ]


def test_a_call_that_changes_nothing_gets_no_second_ladder() -> None:
    script = (DONE, calls("get"), DONE, calls("get", key="b"), DONE)
    result, model = Desk().run(*script, contract=PUT)

    assert result.stop_reason == ErrorCode.CONTRACT_UNMET
    assert len(model.requests) == len(script)
    assert [step for step, *_ in forced(result)] == ["remind", "require"]


def test_an_empty_answer_is_met_like_any_other_while_something_is_owed() -> None:
    result, _ = Desk().run(says(""), calls("put", value="good"), DONE, contract=PUT)

    assert forced(result) == [("remind", "CONTRACT_UNMET", ("put",))]
    assert result.false_finals == 0, "nothing was claimed"


def test_an_answer_without_tools_is_not_asked_for_while_something_is_owed() -> None:
    script = (calls("get"), says(""), says(""), says(""))
    result, model = Desk().run(*script, contract=PUT)

    assert result.stop_reason == ErrorCode.CONTRACT_UNMET
    assert len(model.requests) == 4
    assert not [event for event in result.trace if isinstance(event, FixEmptyFinalEvent)]


def test_an_answer_with_tools_can_still_be_asked_for() -> None:
    script = (calls("get"), says(""), calls("put", value="good"), DONE)
    keeps = {"fix_empty_final_disable_tools": False}
    result, model = Desk().run(*script, contract=PUT, final_ladder=(), **keeps)

    assert result.stop_reason == "final"
    assert model.requests[2]["messages"][-1]["content"] == FINAL_ANSWER_REQUEST


def test_an_empty_answer_after_all_is_done_is_still_asked_for_once() -> None:
    script = (DONE, calls("put", value="good"), says(""), says("There."))
    result, model = Desk().run(*script, contract=PUT)

    assert result.assistant_text == "There."
    assert last_words(model) == FINAL_ANSWER_REQUEST
    assert [type(event) for event in result.trace].count(FixEmptyFinalEvent) == 1


def test_the_limit_of_turns_holds_on_the_ladder_and_the_debt_is_the_reason() -> None:
    result, model = Desk().run(DONE, DONE, contract=PUT, max_turns=2)

    assert result.stop_reason == ErrorCode.CONTRACT_UNMET
    assert len(model.requests) == 2


def test_an_endpoint_that_refuses_the_demand_is_asked_more_softly() -> None:
    refuses = failure(400, {"error": {"message": "tool_choice 'required' is unavailable here"}})
    script = (DONE, DONE, refuses, calls("put", value="good"), DONE)
    result, model = Desk().run(*script, contract=PUT)

    assert result.stop_reason == "final"
    assert model.requests[3]["tool_choice"] == "auto"
    assert [tool["function"]["name"] for tool in model.requests[3]["tools"]] == ["put"]


# What has just succeeded


def test_what_has_just_succeeded_does_not_run_again() -> None:
    desk = Desk()
    result, model = desk.run(calls("get"), calls("get"), DONE, block_repeated_success=True)

    assert desk.ran == ["get a"]
    assert [item.error_codes for item in result.run.results] == [(), ("REPEATED_CALL",)]
    assert "its result has not changed. Go on from there." in str(
        model.requests[2]["messages"][-1]["content"]
    )


def test_it_stays_blocked_while_nothing_else_was_called() -> None:
    desk = Desk()
    script = (calls("get"), calls("get"), says(""), calls("get"), says("a"))
    desk.run(*script, block_repeated_success=True, fix_empty_final_disable_tools=False)

    assert desk.ran == ["get a"]


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ((calls("get"), calls("put", value="x"), calls("get")), 3),
        ((calls("put", value="bad"), calls("put", value="bad")), 2),
        ((calls("poll"), calls("poll"), calls("poll"), calls("poll")), 4),
        ((calls("get"), calls_many(calls("get", key="b"), calls("get", key="c"))), 3),
        ((calls_many(calls("get"), calls("get", key="b")), calls("get", key="b")), 2),
    ],
)
def test_anything_else_runs(script: tuple[Item, ...], count: int) -> None:
    desk = Desk()
    desk.run(*script, DONE, block_repeated_success=True)

    assert len(desk.ran) == count


def test_without_the_setting_a_call_may_be_made_twice() -> None:
    desk = Desk()
    desk.run(calls("get"), calls("get"), DONE)

    assert desk.ran == ["get a", "get a"]


def test_a_call_that_waits_for_its_answer_has_not_succeeded() -> None:
    call = ToolCall("c1", "get", {})
    run = record_reply(begun(block_repeated_success=True), Reply("", (call,)))

    assert build_turn(run, Reply("", (call,))).calls[0].problem is None


# Properties


@given(SETTINGS, TURNS)
@settings(max_examples=300)
def test_no_path_accepts_an_answer_while_the_contract_is_unmet(
    chosen: JSON, turns: list[Any]
) -> None:
    run = begun(**chosen)
    for turn in turns:
        if not isinstance(next_move(run), AskModel):
            break
        run = step(run, turn)
        contract = run.config.contract
        if isinstance(next_move(run), Finish) and contract is not None:
            assert not contract.missing(run.successful_calls)


ADVERSARIES = st.lists(
    st.sampled_from(["Done.", ""])
    | st.tuples(st.sampled_from([*NAMES, "gone"]), st.booleans(), st.integers(0, 2)),
    min_size=1,
    max_size=4,
)


@given(chosen=SETTINGS, habits=ADVERSARIES, objects=st.booleans())
def test_the_ladder_ends_whatever_the_model_does_and_however_often_one_objects(
    chosen: JSON, habits: list[Any], *, objects: bool
) -> None:
    run = begun(**chosen)
    most = run.config.max_turns
    asked = 0
    while True:
        match next_move(run):
            case AskModel():
                run = step(run, habits[asked % len(habits)])
                asked += 1
            case Finish() if objects:
                run = record_objection(run, "No.")
            case Finish() | Fail():
                break
            case RunTools() | AwaitApproval():
                raise AssertionError("every call was answered")
    assert asked <= most
    rungs = [item.rung for item in run.own_messages if isinstance(item, User) and item.rung]
    assert rungs.count(OBJECTION) <= len(run.config.final_ladder)


@given(SETTINGS, st.sampled_from(["Done.", ""]))
def test_who_only_talks_is_met_with_each_step_once(chosen: JSON, text: str) -> None:
    run = begun(**chosen)
    asked = 0
    while isinstance(next_move(run), AskModel):
        run = said(run, text)
        asked += 1

    assert asked <= 1 + len(run.config.final_ladder) + (not text)


def test_an_objection_is_no_step_of_the_ladder() -> None:
    run = called(begun(tool_use_mode="enforced"), "get")
    run = record_objection(said(run, "Done."), "No.")
    call = ToolCall("c9", "put", {})
    run = record_results(
        record_reply(run, Reply("", (call,))),
        [ToolResult("c9", "put", ok=False, content="{}", executed=True, error_codes=CODES[False])],
    )

    last = said(run, "Done.").last_message
    assert isinstance(last, User)
    assert last.rung == REMIND


def test_a_run_on_the_ladder_can_be_written_down() -> None:
    run = said(begun(contract=PUT), "Done.", "Done.")

    assert Run.from_json(run.to_json()) == run
    assert next_move(Run.from_json(run.to_json())) == next_move(run)
    assert run.tools == TOOLS


ANNOUNCED = says("Good. Let me read the file:")


def test_a_text_that_only_announces_work_is_followed_up_once() -> None:
    result, model = Desk().run(ANNOUNCED, calls("put", value="good"), says("Now it is."))
    prompt = model.requests[1]["messages"][-1]

    assert result.assistant_text == "Now it is."
    assert prompt["role"] == "user"
    assert "ended before the work that it announces" in prompt["content"]
    assert model.requests[1]["tools"]
    assert any(isinstance(event, FixEmptyFinalEvent) for event in result.trace)


def test_a_second_announcement_is_the_answer() -> None:
    result, model = Desk().run(ANNOUNCED, ANNOUNCED)

    assert (len(model.requests), result.stop_reason) == (2, "final")
    assert result.assistant_text == "Good. Let me read the file:"


def test_an_announcement_after_a_new_result_is_followed_up_again() -> None:
    script = (ANNOUNCED, calls("put", value="good"), ANNOUNCED, says("Done now."))
    result, model = Desk().run(*script)

    assert (len(model.requests), result.assistant_text) == (4, "Done now.")


@pytest.mark.parametrize("options", [{"fix_empty_final": False}, {"tool_use_mode": "disabled"}])
def test_an_announcement_may_be_the_answer(options: JSON) -> None:
    result, model = Desk().run(ANNOUNCED, **options)

    assert len(model.requests) == 1
    assert result.assistant_text == "Good. Let me read the file:"


def test_a_word_that_the_user_asked_for_may_be_repeated() -> None:
    court = says("court " * 9)
    runner_result, model = Desk().run(court, says("No."))
    assert (len(model.requests), runner_result.assistant_text) == (2, "No.")
