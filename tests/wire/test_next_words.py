"""Chunks of words: read in one step, and taken for nothing else."""

import json
from typing import Any

import pytest

from surecall.values.types import JSON
from surecall.wire.next_words import next_words

CHOICE: JSON = {"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}
CHUNK: JSON = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "system_fingerprint": None,
    "choices": [CHOICE],
}


def test_the_words_of_a_chunk_and_its_choice_are_read() -> None:
    words = next_words(json.dumps(CHUNK))
    assert words is not None
    assert (words.text, words.index, words.model) == ("Hello", 0, "m")


@pytest.mark.parametrize(
    "chunk",
    [
        "[DONE]",
        [CHUNK],
        CHUNK | {"object": "error"},
        CHUNK | {"error": None},
        CHUNK | {"usage": {}},
        CHUNK | {"x_groq": None},
        CHUNK | {"choices": []},
        CHUNK | {"choices": [CHOICE, CHOICE]},
        CHUNK | {"choices": [CHOICE | {"index": "0"}]},
        CHUNK | {"choices": [CHOICE | {"finish_reason": "stop"}]},
        CHUNK | {"choices": [CHOICE | {"message": None}]},
        CHUNK | {"choices": [CHOICE | {"delta": {}}]},
        CHUNK | {"choices": [CHOICE | {"delta": {"content": None}}]},
        CHUNK | {"choices": [CHOICE | {"delta": {"content": "Hi", "role": "assistant"}}]},
        CHUNK | {"choices": [CHOICE | {"delta": {"content": "Hi", "tool_calls": None}}]},
    ],
)
def test_anything_else_is_none(chunk: Any) -> None:
    assert next_words(chunk if isinstance(chunk, str) else json.dumps(chunk)) is None


def test_neither_is_what_cannot_be_read() -> None:
    assert next_words("{") is None
    assert next_words("[" * 100_000) is None
