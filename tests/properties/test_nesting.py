"""Nesting: what is too deep is refused alike, whatever Python would do with it."""

from typing import Any

import pytest

from surecall.core.conversation_state import Stored, decode_state
from surecall.parsing.arguments import parse_arguments
from surecall.runtime.conversation import _checked_extras
from surecall.runtime.recording import parse_trace
from surecall.settings.contract import Contract, Need
from surecall.tools.signatures import parse_signature
from surecall.values.errors import ConfigError
from surecall.values.types import ToolResult
from surecall.wire.apis.adapter import InvalidRequest, decode_request
from surecall.wire.chat_format import decode, parse_message
from tests.support.costly_inputs import DEPTHS, nested, nested_text


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_a_caller_gives_is_refused(depth: int) -> None:
    deep = nested(depth)
    with pytest.raises(ConfigError, match="extras must be JSON: nested too deeply"):
        _checked_extras({"a": deep})
    with pytest.raises(ConfigError, match="contract: all_of: nested too deeply"):
        Contract(all_of=(Need("f", {"a": deep}),))

    def function(a: Any = deep) -> None: ...

    (parameter,) = parse_signature(function).parameters
    assert parameter.default == {}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_what_was_stored_or_sent_is_refused(opening: str, depth: int) -> None:
    for text in (nested_text(depth, opening), opening * depth):
        data = text.encode()
        with pytest.raises(ConfigError, match=r"not an event \(nested too deeply"):
            parse_trace(data + b"\n{}\n", None, "a.jsonl")
        with pytest.raises(ConfigError, match="cannot be read: nested too deeply"):
            decode_state("key", Stored(1, b"{}", (data,)))
        with pytest.raises(ConfigError, match="cannot be read: nested too deeply"):
            decode_state("key", Stored(1, data, ()))
        with pytest.raises(InvalidRequest, match="nested too deeply: more than 256 levels"):
            decode_request(b'{"messages":' + data + b"}")


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("rest", ["", " and more", ", 'b': 1}"])
def test_what_a_model_wrote_is_refused_for_its_depth(opening: str, rest: str, depth: int) -> None:
    for text in (nested_text(depth, opening) + rest, opening * depth + rest):
        read_back = parse_arguments(text, 10**9)
        assert read_back.value is None
        assert read_back.problem is not None
        assert "nested too deeply" in read_back.problem.message
        with pytest.raises(ValueError, match="nested too deeply"):
            decode(text.encode())


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_result_in_a_history_that_is_too_deep_is_a_text(depth: int) -> None:
    text = '{"ok": false, "data": ' + nested_text(depth) + "}"
    message = parse_message({"role": "tool", "tool_call_id": "c", "content": text})
    assert isinstance(message, ToolResult)
    assert (message.ok, message.content) == (True, text)
