"""Messages in the JSON of the conventions: roles, and parts of a few types."""

import json
from typing import Any

import pytest

from surecall.otel.messages import (
    UNWRITABLE,
    answer_of,
    as_json,
    definitions_of,
    message_of,
    outputs_of,
    reply_of,
    said_by_user,
    written,
)
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import (
    Assistant,
    Message,
    Refusal,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)

CALL = ToolCall("c1", "add", {"a": 1})
CALLED = {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}}


def parts(message: Message) -> list[dict[str, Any]]:
    read = json.loads(message_of(message))
    found: list[dict[str, Any]] = read["parts"]
    return found


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


@pytest.mark.parametrize(
    ("message", "role", "said"),
    [
        (System("Be brief."), "system", [words("Be brief.")]),
        (User("hi"), "user", [words("hi")]),
        (Assistant("hm", (CALL,)), "assistant", [words("hm"), CALLED]),
        (Assistant("", (CALL,)), "assistant", [CALLED]),
        (
            ToolResult("c1", "add", ok=True, content='{"ok":true}'),
            "tool",
            [{"type": "tool_call_response", "id": "c1", "response": {"ok": True}}],
        ),
        (
            ToolResult("c1", "add", ok=True, content="not JSON"),
            "tool",
            [{"type": "tool_call_response", "id": "c1", "response": "not JSON"}],
        ),
    ],
)
def test_a_message_has_a_role_and_parts(
    message: Message, role: str, said: list[dict[str, Any]]
) -> None:
    assert json.loads(message_of(message)) == {"role": role, "parts": said}


def test_what_was_never_sent_is_not_written() -> None:
    assert message_of(Refusal(Fault(ErrorCode.AUTH, "no"))) == ""


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("hi", words("hi")),
        ({"type": "text", "text": "hi"}, words("hi")),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "uri", "modality": "image", "uri": "https://example.org/a.png"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "blob", "modality": "audio", "content": "AAAA"},
        ),
        ({"type": "image_url"}, {"type": "unknown", "modality": "image"}),
        ({"type": "file", "file": {"file_id": "f"}}, {"type": "file", "file": {"file_id": "f"}}),
        (7, {"type": "unknown", "content": 7}),
    ],
)
def test_every_part_of_what_a_user_says_has_a_type(given: Any, part: dict[str, Any]) -> None:
    assert parts(User([given])) == [part]


def test_a_reply_is_a_message_and_with_its_end_an_output() -> None:
    reply = Reply("hm", (CALL,), "tool_calls")
    message = {"role": "assistant", "parts": [words("hm"), CALLED]}

    assert json.loads(reply_of(reply)) == message
    assert json.loads(outputs_of(reply)) == [message | {"finish_reason": "tool_calls"}]
    assert json.loads(outputs_of(Reply("hm")))[0]["finish_reason"] == "error"


def test_what_the_loop_says_and_what_a_run_answers() -> None:
    assert json.loads(said_by_user("again")) == {"role": "user", "parts": [words("again")]}
    assert json.loads(answer_of("3")) == [
        {"role": "assistant", "parts": [words("3")], "finish_reason": "stop"}
    ]


def test_tools_are_written_with_what_the_model_sees_of_them() -> None:
    spec = ToolSpec("add", "Add.", {"type": "object"}, destructive=True)

    assert json.loads(definitions_of([spec])) == [
        {
            "type": "function",
            "name": "add",
            "description": "Add.",
            "parameters": {"type": "object"},
        }
    ]


def test_half_a_character_is_replaced_and_what_cannot_be_written_is_said_so() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert json.loads(written("half \ud800")) == "half \ufffd"
    assert written(deep) == written(object()) == UNWRITABLE
    assert json.loads(message_of(ToolResult("c", "t", ok=True, content='"\ud800"'))) != ""
    assert as_json("[" * 100_000) == "[" * 100_000
