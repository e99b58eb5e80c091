"""Tests of `surecall.core.refusals`: a refusal teaches what it names, and nothing else."""

import asyncio
from typing import Any

import pytest

from surecall import (
    RequestFailed,
    RetryPolicy,
    RunResult,
    ToolLoopRunner,
    presets,
    replay,
    tool,
)
from surecall.core.refusals import request_lessons
from surecall.testing import Item, ScriptedModel, calls, failure, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import LlmRequestRetryEvent
from surecall.values.types import JSON

FUNCTION = {"name": "f", "arguments": "{}", "signature": "s"}
CALL = {"id": "functions.f:0", "type": "function", "function": FUNCTION, "extra_content": {}}
SYSTEM = {"role": "system", "content": "Be kind."}


def history(call_id: str = "functions.f:0", content: Any = "") -> list[JSON]:
    said = {"role": "assistant", "content": content, "tool_calls": [CALL | {"id": call_id}]}
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, "a"]}
    result = {"role": "tool", "tool_call_id": call_id, "content": "{}", "name": "f"}
    return [SYSTEM, said | {"reasoning": "r", "reasoning_content": "c"}, result, thought]


def lesson(message: str, messages: list[JSON] | None = None, status: int | None = 400) -> Any:
    fault = Fault(ErrorCode.BAD_REQUEST, message, status)
    return first_lesson(fault, history() if messages is None else messages)


def first_lesson(fault: Fault, messages: list[JSON], *tried: str, tools: Any = ()) -> str | None:
    found = request_lessons(fault, {"messages": messages, "tools": list(tools)}, tried)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("message", "learned"),
    [
        ("property 'messages.1.assistant.reasoning_content' is unsupported", "reasoning_content"),
        ("Extra inputs are not permitted: messages.1.reasoning", "reasoning"),
        ("Unrecognized request argument supplied: reasoning", "reasoning"),
        ('Unknown name "extra_content" at messages[1].tool_calls[0]: Cannot find', "extra_content"),
        ("messages[1].tool_calls[0].function: unexpected field `signature`", "signature"),
        ("messages[1]: unknown variant `thinking`, expected `text`", "thinking"),
        ("messages.2.name: Extra inputs are not permitted", "name"),
        (
            '[{"type":"extra_forbidden","loc":["body",1,"reasoning"]},{"type":"missing"}]',
            "reasoning",
        ),
    ],
)
def test_a_field_is_left_out_that_a_refusal_names(message: str, learned: str) -> None:
    assert lesson(message) == f"without:{learned}"


@pytest.mark.parametrize(
    "message",
    [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`, which is invalid.",
        "thinking is enabled but reasoning_content is missing in message 1",
        "tools[0].function.name: invalid",
        "unknown field `temperature`",
        "my_reasoning_contents are unsupported",
        "tool_call_id functions.f:0 was not found in the message before",
        "invalid request",
    ],
)
def test_a_demand_another_thing_and_a_riddle_teach_nothing(message: str) -> None:
    assert lesson(message) is None


@pytest.mark.parametrize("status", [200, 401, 402, 403, 408, 429])
def test_a_status_that_is_not_about_the_request_teaches_nothing(status: int) -> None:
    assert lesson("unknown field `reasoning`", status=status) is None


def test_the_body_of_an_error_is_read_as_well_as_its_message() -> None:
    body = '{"detail": "unknown field `reasoning`"}'
    fault = Fault(ErrorCode.BAD_REQUEST, "bad request", None, body=body)

    assert first_lesson(fault, history()) == "without:reasoning"


@pytest.mark.parametrize(
    ("message", "call_id", "learned"),
    [
        (
            "Tool call id was functions.f:0 but must be a-z, 0-9, with a length of 9.",
            "",
            "ids:nine",
        ),
        ("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", "", "ids:plain"),
        ("Invalid 'tool_call_id': maximum length 64, got length 80", "x" * 80, "ids:plain"),
        ("Invalid 'tool_call_id': maximum length 12, got length 80", "x" * 80, "ids:nine"),
        ("Invalid 'input[2].id': 'f'. Expected an ID that begins with 'fc'.", "", "ids:fc"),
        ("Invalid 'tool_call_id': maximum length 64, got length 80", "short", None),
        ("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", "plain", None),
        ("Expected an id that begins with something else", "", None),
        ("Expected an id that begins with 'no good id'", "", None),
        ("the string is too long", "x" * 80, None),
    ],
)
def test_ids_are_mapped_as_a_refusal_says(message: str, call_id: str, learned: str | None) -> None:
    assert lesson(message, history(call_id or "functions.f:0")) == learned


@pytest.mark.parametrize(
    ("message", "content", "learned", "next_one"),
    [
        ("messages: text content blocks must be non-empty", "", "content:null", "content:absent"),
        ("invalid message content type: <nil>", None, "content:text", None),
        ("messages[1].content: Input should be a valid string", None, "content:text", None),
        ("messages: text content blocks must be non-empty", "words", None, None),
        ("the list is empty", "", None, None),
    ],
)
def test_blank_content_takes_another_form(
    message: str, content: Any, learned: str | None, next_one: str | None
) -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, message, 400)
    messages = history("call_1", content)

    assert first_lesson(fault, messages) == learned
    assert first_lesson(fault, messages, str(learned)) == next_one


def test_null_that_was_tried_for_a_blank_text_and_refused_is_left_out() -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, "content must be a string, not null", 400)

    assert first_lesson(fault, history("call_1", None), "content:null") == "content:absent"


def test_content_that_is_demanded_comes_back() -> None:
    message = history("call_1")[1]
    bare = {key: message[key] for key in message if key != "content"}

    assert lesson("Field required: messages.1.content", [bare]) == "content:text"


ONE_ELEMENT = "Invalid request content: Each message must have at least one content element."


@pytest.mark.parametrize("absent", [False, True])
def test_content_that_must_be_there_is_sent(absent: bool) -> None:  # noqa: FBT001
    messages = history(content=None)
    if absent:
        del messages[1]["content"]
    assert lesson(ONE_ELEMENT, messages) == "content:text"
    assert lesson("`reasoning_content` is missing in message 1", messages) is None


def test_a_signature_and_a_name_are_sent_where_they_are_wanted() -> None:
    bare = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[JSON] = [
        {"role": "assistant", "content": "", "tool_calls": [bare]},
        {"role": "tool", "tool_call_id": "c", "content": "{}"},
    ]
    unsigned = "Function call is missing a thought_signature in functionCall parts."
    unnamed = "contents: function_response.name: Name cannot be empty."

    assert lesson(unsigned, messages) == "signature:skip"
    assert lesson(unnamed, messages) == "name:tool"
    assert lesson(unsigned) is None
    assert lesson(unnamed) is None


def test_a_name_that_is_wanted_is_learned_in_a_run() -> None:
    unnamed = "contents: function_response.name: Name cannot be empty."
    model = ScriptedModel(calls("f"), failure(400, {"error": {"message": unnamed}}), says("Done."))

    @tool
    def f() -> str:
        """Do it."""
        return "done"

    runner = ToolLoopRunner(client=model, model="m", tools=[f], config=presets.raw())
    assert runner.run_sync("Go.").assistant_text == "Done."
    assert "name" not in model.requests[1]["messages"][-1]
    assert model.requests[2]["messages"][-1]["name"] == "f"


def test_a_system_role_that_is_refused_goes_to_the_user() -> None:
    assert lesson("System role not supported", [SYSTEM]) == "system:user"
    assert lesson("System role not supported", [{"role": "user"}]) is None
    assert lesson("System role not supported", []) is None


SCHEMA: JSON = {
    "type": "object",
    "properties": {"a": {"type": "string", "format": "date"}},
    "additionalProperties": False,
}
TOOLS: list[JSON] = [
    {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}
]


@pytest.mark.parametrize(
    ("message", "learned"),
    [
        ("Unknown name \"additionalProperties\" at 'tools[0].parameters'", "additionalProperties"),
        ("tools.0.function.strict: Extra inputs are not permitted", "strict"),
        ("Invalid schema for function 'f': 'format' is not permitted", "format"),
        ("Unknown name `properties` in the schema of a tool", None),
        ("additionalProperties is not supported", None),
        ("Invalid schema for function 'f': 'default' is not permitted", None),
    ],
)
def test_a_keyword_is_left_out_that_a_refusal_of_tools_names(
    message: str, learned: str | None
) -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, message, 400)
    found = first_lesson(fault, [], tools=TOOLS)

    assert found == (learned and f"schema:{learned}")


@tool(read_only=True)
async def ping() -> str:
    """Answer."""
    return "pong"


def ran(*script: Item, system: str = "") -> tuple[RunResult, ScriptedModel]:
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model, model="m", tools=[ping], retry=RetryPolicy(attempts=1), system=system
    )
    return asyncio.run(runner.run("Go.")), model


def thinking(**extra: Any) -> JSON:
    reply = calls("ping")
    reply["choices"][0]["message"] |= extra
    return reply


NO_REASONING = failure(400, {"error": {"message": "unknown field `reasoning`"}})


def test_a_refused_field_is_sent_once_and_never_again_and_the_run_replays() -> None:
    opaque = thinking(reasoning="r")
    result, model = ran(opaque, NO_REASONING, opaque, says("ok"))

    sent = [["reasoning" in message for message in body["messages"]] for body in model.requests]
    assert [any(flags) for flags in sent] == [False, True, False, False]
    assert result.assistant_text == "ok"
    assert len(result.run.successful_calls) == 2
    dropped = [event.dropped for event in result.trace if isinstance(event, LlmRequestRetryEvent)]
    assert dropped == ["without:reasoning"]
    assert replay(result.trace).run == result.run


def test_a_refused_keyword_is_learned_in_a_run_and_still_checked() -> None:
    refused = failure(400, {"error": {"message": "unknown name additionalProperties in tools"}})
    result, model = ran(refused, calls("ping", x=1), says("ok"))

    sent = [request["tools"][0]["function"]["parameters"] for request in model.requests]
    assert ["additionalProperties" in schema for schema in sent] == [True, False, False]
    assert [call.problem is None for call in result.run.replies[0].calls] == [False]


def test_a_refused_system_role_is_learned_in_a_run() -> None:
    refused = failure(500, {"error": {"message": "System role not supported"}})
    result, model = ran(refused, says("ok"), system="Be kind.")

    assert result.assistant_text == "ok"
    assert model.requests[1]["messages"] == [{"role": "user", "content": "Be kind.\n\nGo."}]


def test_an_endpoint_that_refuses_one_field_after_another_is_not_asked_for_ever() -> None:
    fields = [f"field_{number}" for number in range(20)]
    refusals = [
        failure(400, {"error": {"message": f"unknown field `{field}`"}}) for field in fields
    ]
    with pytest.raises(RequestFailed):
        ran(thinking(**dict.fromkeys(fields, "x")), *refusals)
