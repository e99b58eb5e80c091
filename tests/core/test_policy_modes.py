"""When tools are offered, when one must be called, and what an empty answer leads to."""

import asyncio
from typing import Any

import pytest

from surecall.core.outcome import RequestFailed, RunResult, ToolUseError
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.config import FINAL_ANSWER_REQUEST, ToolCallingConfig, all_settings
from surecall.settings.connection import RetryPolicy
from surecall.settings.presets import default_tool_calling, raw
from surecall.testing import Item, RecordingObserver, ScriptedModel, calls, calls_many, says
from surecall.testing import failure as answers_with
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode, ToolError
from surecall.values.events import (
    FinalEvent,
    FixEmptyFinalEvent,
    LlmRequestErrorEvent,
    LlmRequestRetryEvent,
)
from surecall.values.types import JSON, Assistant
from tests.support.spec import proves

NO_TOOLS = answers_with(404, {"error": {"message": "No endpoints found that support tool use."}})
ENFORCED = {"tool_use_mode": "enforced"}
TOLERATED = ENFORCED | {"tool_failure_policy": "tolerated"}


def get(size: int = 1) -> str:
    """Read so many characters."""
    return "x" * size


def patch(value: str) -> JSON:
    """Write a value; only `good` is accepted."""
    if value != "good":
        raise ToolError("only good is accepted")
    return {"written": value}


def runner(model: ScriptedModel, *tools: Any, **settings: Any) -> ToolLoopRunner:
    return ToolLoopRunner(
        client=model,
        model="m",
        registry=ToolRegistry(tools),
        config=raw(ToolCallingConfig.from_mapping(settings)),
        retry=RetryPolicy(attempts=1),
    )


def run(model: ScriptedModel, **settings: Any) -> RunResult:
    return asyncio.run(runner(model, get, patch, **settings).run("hi"))


def fails(*script: Item, **settings: Any) -> ToolUseError:
    with pytest.raises(ToolUseError) as failed:
        run(ScriptedModel(*script), **settings)
    return failed.value


@proves("C55", "C56")
@pytest.mark.parametrize("word", ["disabled", "DISABLED"])
def test_disabled_sends_no_tools_and_needs_nothing_that_could_run_them(word: str) -> None:
    model = ScriptedModel(says("hello"))
    mapping = {"tool_use_mode": word, "request_overrides": {"parallel_tool_calls": False}}
    result = asyncio.run(runner(model, {"name": "idle"}, **mapping).run("hi"))
    assert result.assistant_text == "hello"
    assert [request.keys() for request in model.requests] == [{"model", "messages"}]


@proves("C57")
def test_calls_that_come_although_tools_are_disabled_are_counted_and_ignored() -> None:
    eager = calls("patch", "c9", value="good")
    eager["choices"][0]["message"]["content"] = "hello"
    model = ScriptedModel(eager)
    result = run(model, tool_use_mode="disabled")
    assert result.assistant_text == "hello"
    (turn,) = result.trace.turns
    assert (turn.tool_calls, turn.ignored_tool_calls_count) == ((), 1)
    assert turn.ignored_tool_calls[0].id == "c9"
    assert turn.tool_results == ()
    ended = result.trace[-1]
    assert isinstance(ended, FinalEvent)
    assert not ended.any_tool_calls_seen


@proves("C58")
def test_relaxed_without_calls_succeeds() -> None:
    model = ScriptedModel(says("hello"))
    assert run(model).stop_reason == "final"
    assert len(model.requests[0]["tools"]) == 2


@proves("C59")
def test_enforced_without_calls_fails_with_all_that_was_said() -> None:
    failed = fails(says("hello"), **ENFORCED)
    assert failed.code is ErrorCode.NO_TOOL_CALLS
    assert failed.result.assistant_text == "hello"
    assert failed.result.history[-1] == Assistant("hello", finish_reason="stop")
    assert len(failed.result.trace.turns) == 1


@proves("C59")
def test_enforced_still_leaves_the_choice_of_tools() -> None:
    model = ScriptedModel(calls("get"), says("x"))
    assert run(model, **ENFORCED).assistant_text == "x"
    assert [request["tool_choice"] for request in model.requests] == ["auto", "auto"]


OVERSIZED = (calls_many(calls("get", size=900), calls("patch", value="good")), says("done"))


@proves("C60")
def test_enforced_and_fatal_names_the_tool_whose_output_was_too_large() -> None:
    failed = fails(*OVERSIZED, **ENFORCED, max_tool_output_bytes=500)
    assert failed.code is ErrorCode.TOOL_ERROR
    assert "get" in str(failed)
    assert "patch" not in str(failed)
    assert failed.details == {
        "tool_failure_policy": "fatal",
        "failed_tools": ["get"],
        "superseded_tools": [],
    }
    assert len(failed.result.trace.turns) == 2
    assert len(failed.result.history) == 5


@proves("C61")
def test_enforced_and_tolerated_accepts_the_same_script() -> None:
    result = run(ScriptedModel(*OVERSIZED), **TOLERATED, max_tool_output_bytes=500)
    assert result.assistant_text == "done"
    assert [item.ok for item in result.run.results] == [False, True]


@proves("C62")
def test_enforced_and_tolerated_needs_one_success() -> None:
    failed = fails(calls("patch", value="bad"), says("done"), **TOLERATED)
    assert failed.code is ErrorCode.TOOL_ERROR
    assert failed.details["failed_tools"] == ["patch"]


@proves("C63")
def test_enforced_and_fatal_forgives_what_a_later_call_repairs() -> None:
    script = (calls("patch", value="bad"), calls("patch", value="good"), says("done"))
    assert run(ScriptedModel(*script), **ENFORCED).assistant_text == "done"


def test_a_success_of_another_call_before_the_failure_repairs_nothing() -> None:
    both = calls_many(calls("patch", value="good"), calls("patch", value="bad"))
    assert fails(both, says("done"), **ENFORCED).details["failed_tools"] == ["patch"]


@proves("C64")
def test_relaxed_forgives_failing_tools() -> None:
    assert run(ScriptedModel(calls("patch", value="bad"), says("done"))).stop_reason == "final"


@proves("I1")
def test_an_unknown_tool_does_not_poison_an_enforced_and_fatal_run() -> None:
    script = (calls("delete"), calls("patch", value="good"), says("done"))
    result = run(ScriptedModel(*script), **ENFORCED)
    assert result.assistant_text == "done"
    assert result.run.results[0].error_codes == ("TOOL_NOT_ALLOWED",)


@pytest.mark.parametrize("settings", [ENFORCED, TOLERATED])
def test_an_unknown_tool_alone_is_no_success_either(settings: JSON) -> None:
    assert fails(calls("delete"), says("done"), **settings).code is ErrorCode.TOOL_ERROR


@pytest.mark.parametrize("wrong", [{}, {"value": 7}])
def test_a_call_that_did_not_run_for_its_arguments_is_a_failure(wrong: JSON) -> None:
    script = (calls("patch", **wrong), calls("get"), says("done"))
    assert fails(*script, **ENFORCED).details["failed_tools"] == ["patch"]


def test_a_tool_that_ran_cannot_excuse_itself_with_our_words() -> None:
    def clever() -> JSON:
        """Fail in somebody else's words."""
        return {"ok": False, "errors": [{"code": "TOOL_NOT_ALLOWED", "message": "no"}] * 9}

    model = ScriptedModel(calls("clever"), says("done"))
    with pytest.raises(ToolUseError) as failed:
        asyncio.run(runner(model, clever, **ENFORCED).run("hi"))
    assert failed.value.details["failed_tools"] == ["clever"]


@proves("C65")
def test_relaxed_with_a_budget_asks_again_without_the_tools_that_were_refused() -> None:
    model = ScriptedModel(NO_TOOLS, says("hello"))
    settings = {"fallback_retry_count": 1, "request_overrides": {"parallel_tool_calls": True}}
    result = run(model, **settings)
    assert result.assistant_text == "hello"
    first, second = model.requests
    assert {"tools", "tool_choice", "parallel_tool_calls"} <= first.keys()
    assert second.keys() == {"model", "messages"}
    assert second["messages"] == first["messages"]
    (retried,) = [event for event in result.trace if isinstance(event, LlmRequestRetryEvent)]
    assert (retried.attempt, retried.wait_s, retried.tools_enabled) == (1, 0.0, False)


def test_a_refused_tool_list_is_left_out_in_either_style_of_doing_without() -> None:
    model = ScriptedModel(calls("get"), NO_TOOLS, says("hello"))
    run(model, fallback_retry_count=1, tools_off_style="tool_choice_none")
    assert "tools" not in model.requests[2]


def test_the_budget_is_spent_only_on_refused_tools() -> None:
    model = ScriptedModel(answers_with(400))
    with pytest.raises(RequestFailed) as failed:
        run(model, fallback_retry_count=1)
    assert failed.value.code is ErrorCode.BAD_REQUEST


@proves("C66", "C67")
@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        pytest.param({}, 1, id="no-budget"),
        pytest.param({"fallback_retry_count": 1}, 2, id="budget-spent"),
        pytest.param({"fallback_retry_count": 1} | ENFORCED, 1, id="enforced"),
    ],
)
def test_refused_tools_without_a_budget_are_raised(settings: JSON, asked: int) -> None:
    model, seen = ScriptedModel(NO_TOOLS, NO_TOOLS, says("no")), RecordingObserver()
    with pytest.raises(RequestFailed) as failed:
        asyncio.run(runner(model, get, **settings).run("hi", on_event=seen))
    assert (failed.value.code, failed.value.status) == (ErrorCode.NO_TOOL_USE_ENDPOINT, 404)
    assert len(model.requests) == asked
    assert sum(isinstance(event, LlmRequestErrorEvent) for event in seen.events) == asked
    assert seen.types[-3:] == ["LlmRequestErrorEvent", "RequestRefusedEvent", "RunFailedEvent"]


@proves("C68")
def test_a_tool_that_nothing_can_run_is_refused_at_construction() -> None:
    with pytest.raises(ConfigError, match="'idle' cannot run"):
        runner(ScriptedModel(), {"name": "idle"})


@proves("C69")
@pytest.mark.parametrize("key", ["tool_use_mode", "tool_failure_policy"])
def test_an_unknown_mode_or_policy_is_an_error(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        ToolCallingConfig.from_mapping({key: "sometimes"})


@proves("I14")
def test_without_tools_none_are_sent() -> None:
    model = ScriptedModel(says("hello"))
    settings = {"tool_allowlist": [], "request_overrides": {"parallel_tool_calls": False}}
    run(model, **settings)
    assert model.requests[0].keys() == {"model", "messages"}


def test_calls_of_tools_that_nobody_offered_are_dropped() -> None:
    eager = calls("rm")
    eager["choices"][0]["message"]["content"] = "hello"
    result = run(ScriptedModel(eager), tool_allowlist=[])
    assert (result.assistant_text, result.run.results) == ("hello", ())
    assert result.trace.turns[0].ignored_tool_calls_count == 1


@proves("I14")
def test_enforced_without_tools_fails_before_any_request() -> None:
    model = ScriptedModel()
    with pytest.raises(ToolUseError) as failed:
        run(model, **ENFORCED, tool_allowlist=[])
    assert failed.value.code is ErrorCode.NO_TOOL_CALLS
    assert model.requests == []
    assert failed.value.result.trace[-1].turn == 0


@proves("C74", "I5")
def test_an_empty_answer_after_tools_is_asked_for_once_more_without_tools() -> None:
    model = ScriptedModel(calls("get"), says(""), says("x"))
    mapping = all_settings(default_tool_calling())
    assert mapping["request_overrides"] == {"parallel_tool_calls": False}
    result = run(model, **mapping)
    assert result.assistant_text == "x"
    _, before, last = model.requests
    assert last.keys() == {"model", "messages"}
    assert last["messages"][:-1] == before["messages"]
    assert last["messages"][-1] == {"role": "user", "content": FINAL_ANSWER_REQUEST}
    (retried,) = [event for event in result.trace if isinstance(event, FixEmptyFinalEvent)]
    assert (retried.turn, retried.disable_tools) == (1, True)
    assert retried.user_text_bytes == len(FINAL_ANSWER_REQUEST)


@proves("C75")
def test_the_words_and_the_tools_of_that_request_can_be_configured() -> None:
    model = ScriptedModel(calls("get"), says(""), says("x"))
    run(model, fix_empty_final_user_text="And?", fix_empty_final_disable_tools=False)
    assert model.requests[2]["messages"][-1] == {"role": "user", "content": "And?"}
    assert model.requests[2]["tools"] == model.requests[0]["tools"]
    assert model.requests[2]["tool_choice"] == "auto"


def test_tools_can_be_forbidden_instead_of_left_out() -> None:
    model = ScriptedModel(calls("get"), says(""), says("x"))
    run(model, tools_off_style="tool_choice_none")
    assert [request["tool_choice"] for request in model.requests] == ["auto", "auto", "none"]
    assert model.requests[2]["tools"] == model.requests[0]["tools"]


def test_tools_come_back_when_the_repeated_request_may_call_them() -> None:
    script = (calls("get"), says(""), calls("get", "c2", size=2), says("xx"))
    model = ScriptedModel(*script)
    result = run(model, fix_empty_final_disable_tools=False)
    assert [item.executed for item in result.run.results] == [True, True]


def test_a_call_in_place_of_the_final_answer_is_dropped() -> None:
    model = ScriptedModel(calls("get"), says(""), calls("get", "c2", size=2))
    with pytest.raises(ToolUseError) as failed:
        run(model)
    assert failed.value.code is ErrorCode.EMPTY_FINAL
    assert len(failed.value.result.run.results) == 1
    assert failed.value.result.trace.turns[2].ignored_tool_calls[0].id == "c2"


@proves("C76", "I6")
def test_a_second_empty_answer_is_no_success() -> None:
    model = ScriptedModel(calls("get"), says(""), says(""), says("late"))
    with pytest.raises(ToolUseError) as failed:
        run(model)
    assert failed.value.code is ErrorCode.EMPTY_FINAL
    assert len(model.requests) == 3
    assert failed.value.result.run.results[0].ok


@proves("C76")
def test_with_the_switch_off_the_blank_is_returned_and_flagged() -> None:
    model = ScriptedModel(calls("get"), says(" \n"))
    result = run(model, fix_empty_final=False)
    assert (result.assistant_text, result.stop_reason) == (" \n", "empty_final")
    assert len(model.requests) == 2


@proves("C77", "I6")
@pytest.mark.parametrize("mode", ["relaxed", "disabled"])
def test_an_empty_first_answer_is_asked_for_once_more(mode: str) -> None:
    cut = says(None, finish_reason="length")
    model = ScriptedModel(cut, cut)
    with pytest.raises(ToolUseError, match="token limit") as failed:
        run(model, tool_use_mode=mode)
    assert failed.value.code is ErrorCode.EMPTY_FINAL
    first, second = model.requests
    assert first.get("tools") == second.get("tools")


def test_what_is_said_to_an_empty_first_answer_becomes_part_of_what_the_user_said() -> None:
    model = ScriptedModel(says(""), calls("get"), says("x"))
    result = run(model)
    (asked,) = [event for event in result.trace if isinstance(event, FixEmptyFinalEvent)]
    roles = [[message["role"] for message in request["messages"]] for request in model.requests]
    assert roles == [["user"], ["user"], ["user", "assistant", "tool"]]
    first, second, _ = (request["messages"][0]["content"] for request in model.requests)
    assert second == f"{first}\n\n{asked.text}"
    assert (asked.disable_tools, asked.user_text_bytes) == (False, len(asked.text))


@proves("C78")
@pytest.mark.parametrize("blank", [" ", "\n\t ", "\u00a0"])
def test_white_space_counts_as_empty(blank: str) -> None:
    model = ScriptedModel(calls("get"), says(blank), says("x"))
    assert run(model).assistant_text == "x"
    assert [message["role"] for message in model.requests[2]["messages"]] == [
        *("user", "assistant", "tool", "user"),
    ]
