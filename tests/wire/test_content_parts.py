"""Tests of `surecall.wire.content_parts`."""

from typing import Any

import pytest

from surecall.wire.content_parts import (
    call_of,
    calls_in,
    is_provider_state,
    parts_of,
    parts_to_echo,
    parts_with_text,
    reasoning_in,
    text_of,
)

# Content in parts: text, thoughts, and what is only kept


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
TEXT = {"type": "text", "text": "Hello"}
CALL = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        ([TEXT, "b", {"type": "output_text", "text": "c"}], "Hellobc"),
        ({"text": "d"}, "d"),
        ([{"content": "e"}, {"type": "x", "text": "f"}, 7, {}], "e"),
        (None, ""),
    ],
)
def test_the_text_of_a_content_is_what_is_said_in_it(content: Any, text: str) -> None:
    assert text_of(content) == text


def test_thoughts_are_read_from_parts_that_say_so() -> None:
    inner = {"type": "thinking", "thinking": [{"type": "text", "text": "a"}, "b"]}
    parts = [THOUGHT, inner, {"type": "reasoning", "text": "c"}, TEXT, "d"]

    assert reasoning_in(parts) == "Hm.abc"


@pytest.mark.parametrize("part", [TEXT, CALL, "a", {"text": "a"}, {"type": 7}, None])
def test_text_and_calls_are_not_opaque(part: Any) -> None:
    assert not is_provider_state(part)
    assert parts_to_echo([part]) == []


def test_parts_are_kept_where_one_is_opaque_but_calls_go_back_as_calls() -> None:
    assert parts_to_echo([THOUGHT, TEXT, CALL]) == [THOUGHT, TEXT]
    assert parts_to_echo("Hello") == []


def test_parts_go_back_as_they_came_if_they_say_the_same() -> None:
    assert parts_with_text([TEXT, THOUGHT], "Hello") == [TEXT, THOUGHT]
    assert parts_with_text([TEXT, THOUGHT], "") == [THOUGHT]
    assert parts_with_text([TEXT, THOUGHT], "Bye") == [THOUGHT, {"type": "text", "text": "Bye"}]


# Calls that are parts of the content: every vendor's form, and what is none


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
