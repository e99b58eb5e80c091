"""Requests that chance has bent: bytes of the head, and values of the body."""

import copy
import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from proof.hostile_requests import ASKED, HOST, LENGTH, MARKS, TOOL

JUNK: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 10**15, "", "x", "\x00", "é", "a" * 300, [], {}, [1], ["x"]),
    *({"a": 1}, [[]], [{}], {"type": "x"}, {"type": ["x"]}, {"function": {"name": [1]}}),
)
BYTES: Final = (
    *(b"\0", b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b"\xff", b"\x7f", b"/", b"%", b"@", b","),
    *(b"0", b"-", b"chunked", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Host: other\r\n", b"HTTP/1.1", b"\r\n\r\n", b"Connection: upgrade\r\n", b"\x1b"),
)
_USER: Final = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
_CALL: Final = {"name": "get_weather", "arguments": '{"city":"Oslo"}'}
_OWN: Final = TOOL["function"]
REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "/v1/chat/completions": {
        **ASKED,
        "messages": [
            {"role": "system", "content": "s"},
            _USER,
            {
                "role": "assistant",
                "content": "c",
                "reasoning_content": "r",
                "tool_calls": [{"id": "c1", "type": "function", "function": _CALL}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "12", "name": "get weather"},
        ],
        "tools": [TOOL, {"type": "function", "function": {"name": "get weather!"}}],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "stream": False,
        "stream_options": {"include_usage": True},
        "n": 1,
        "response_format": {"type": "text"},
    },
    "/v1/responses": {
        "model": "m",
        "instructions": "i",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "t"}]},
            {"type": "function_call", "call_id": "c1", **_CALL},
            {"type": "function_call_output", "call_id": "c1", "output": "12"},
        ],
        "tools": [{"type": "function", **_OWN}, {"type": "custom", "name": "p"}],
        "tool_choice": "auto",
        "stream": False,
        "reasoning": {"effort": "low"},
    },
    "/v1/messages": {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            _USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "O"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "12"}],
            },
        ],
        "tools": [{"name": "get_weather", "input_schema": _OWN["parameters"]}],
        "tool_choice": {"type": "tool", "name": "get_weather"},
        "stream": False,
    },
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Name every place inside a value."""
    keys: Any = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield (*path, key)
        if isinstance(value[key], dict | list):
            yield from places(value[key], (*path, key))


def bent_body(chance: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body in which a few values are others, or missing."""
    bent = copy.deepcopy(body)
    for _ in range(chance.choice((1, 1, 2, 3))):
        *path, last = chance.choice(list(places(bent)) or [("model",)])
        inner: Any = bent
        for key in path:
            inner = inner[key]
        if chance.random() < 0.15:
            inner.pop(last, None) if isinstance(inner, dict) else inner.pop(last)
        else:
            inner[last] = copy.deepcopy(chance.choice(JUNK))
    return bent


def _bent_head(chance: random.Random, head: bytes) -> bytes:
    """Insert, replace or take out a few bytes."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(head) + 1)
        end = at + chance.choice((0, 0, 1, 3))
        head = head[:at] + chance.choice((b"", *BYTES)) + head[end:]
    return head


def bent_request(chance: random.Random) -> bytes:
    """Return a request with a bent head or a bent body."""
    path = chance.choice(tuple(REQUESTS))
    bends_body = chance.random() < 0.5
    body = bent_body(chance, REQUESTS[path]) if bends_body else REQUESTS[path]
    data = msgspec.json.encode(body)
    line = f"POST {path} HTTP/1.1\r\n".encode()
    head = line + HOST + MARKS + LENGTH % len(data) + b"\r\n"
    return (head if bends_body else _bent_head(chance, head)) + data
