"""Content in parts: text, thoughts, and what is only kept."""

from typing import Any

import pytest

from surecall.wire.content_parts import is_opaque, kept_parts, text_of, thoughts_in, with_text

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

    assert thoughts_in(parts) == "Hm.abc"


@pytest.mark.parametrize("part", [TEXT, CALL, "a", {"text": "a"}, {"type": 7}, None])
def test_text_and_calls_are_not_opaque(part: Any) -> None:
    assert not is_opaque(part)
    assert kept_parts([part]) == []


def test_parts_are_kept_where_one_is_opaque_but_calls_go_back_as_calls() -> None:
    assert kept_parts([THOUGHT, TEXT, CALL]) == [THOUGHT, TEXT]
    assert kept_parts("Hello") == []


def test_parts_go_back_as_they_came_if_they_say_the_same() -> None:
    assert with_text([TEXT, THOUGHT], "Hello") == [TEXT, THOUGHT]
    assert with_text([TEXT, THOUGHT], "") == [THOUGHT]
    assert with_text([TEXT, THOUGHT], "Bye") == [THOUGHT, {"type": "text", "text": "Bye"}]
