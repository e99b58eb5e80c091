"""Calls that are parts of the content: every vendor's form, and what is none."""

from typing import Any

import pytest

from surecall.wire.calls_in_content import call_of, calls_in, parts_of

ARGUMENTS = {"city": "Oslo"}
FUNCTION = {"name": "get", "arguments": ARGUMENTS}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "tool_use", "id": "c1", "name": "get", "input": ARGUMENTS},
        {"type": "tool_call", "id": "c1", "name": "get", "args": ARGUMENTS},
        {"type": "tool-call", "toolCallId": "c1", "toolName": "get", "input": ARGUMENTS},
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": ARGUMENTS},
        {"type": "function_call", "id": "c1", "function_call": FUNCTION},
        {"type": "tool_call", "tool_call": {"id": "c1", "function": FUNCTION}},
        {"type": "tool_call", "id": "c1", "function": FUNCTION},
        {"type": "function", "id": "c1", "function": FUNCTION},
        {"functionCall": {"id": "c1", "name": "get", "args": ARGUMENTS}},
        {"toolUse": {"toolUseId": "c1", "name": "get", "input": ARGUMENTS}},
    ],
)
def test_every_form_is_the_same_call(part: Any) -> None:
    assert call_of(part) == {"type": "function", "id": "c1", "function": FUNCTION}


@pytest.mark.parametrize(
    "part",
    [
        "tool_use",
        None,
        {"type": "text", "text": "tool_use"},
        {"type": "thinking", "thinking": "get"},
        {"type": "server_tool_use", "id": "c1", "name": "web_search", "input": {}},
        {"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}},
        {"type": "function", "name": "get"},
        {"text": "a"},
        {"functionCall": "get"},
    ],
)
def test_other_parts_are_none(part: Any) -> None:
    assert call_of(part) is None


def test_a_piece_of_a_stream_has_its_index_and_perhaps_no_name() -> None:
    piece = {"type": "tool_use", "index": 1, "input": '{"ci'}

    assert call_of(piece) == {
        "type": "function",
        "index": 1,
        "function": {"name": "", "arguments": '{"ci'},
    }


@pytest.mark.parametrize(("content", "count"), [(None, 0), ("a", 0), ({"a": 1}, 1), ([1, 2], 2)])
def test_a_lone_part_is_a_list_of_one(content: Any, count: int) -> None:
    assert len(parts_of(content)) == count
    assert calls_in(content) == []
