"""Opaque state: what was sealed comes back as it was, and garbage does no harm."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.proxy.faces.messages_state import (
    PREFIX,
    restored,
    seal,
    state_of,
    thought_of,
    unseal,
)
from surecall.values.types import JSON
from tests.support.messages_face import call
from tests.support.strategies import FINITE_VALUES

KEYS = st.sampled_from(["reasoning", "reasoning_content", "reasoning_details", "x"])
SIGNED = {"google": {"thought_signature": "c2ln"}}


def message(*calls: JSON, **fields: Any) -> JSON:
    basic: JSON = {"role": "assistant", "content": None}
    return basic | ({"tool_calls": list(calls)} if calls else {}) | fields


def bare(whole: JSON) -> JSON:
    """Return a message with what the Messages API has a place for."""
    kept: JSON = {key: whole[key] for key in ("role", "content", "tool_calls") if key in whole}
    return kept | {
        "tool_calls": [
            call(each["id"], each["function"]["arguments"]) for each in whole["tool_calls"]
        ]
    }


@given(st.dictionaries(KEYS, FINITE_VALUES), FINITE_VALUES, FINITE_VALUES)
def test_what_a_message_came_with_comes_back(fields: JSON, beside: Any, within: Any) -> None:
    first = call("call_1", extra_content=SIGNED, beside=beside)
    second = call("call_2")
    second["function"]["within"] = within
    whole = message(first, second, **fields)
    state = state_of(whole)

    again = restored(bare(whole), unseal(seal(state)) or {})

    assert state_of(again) == state


def test_fields_that_say_nothing_are_no_state() -> None:
    nothing = message(refusal=None, annotations=[], audio=None, provider_data={})

    assert state_of(nothing) == {}
    assert state_of(message(reasoning_content="")) == {"message": {"reasoning_content": ""}}


@pytest.mark.parametrize(
    ("fields", "thought"),
    [
        ({}, ""),
        ({"reasoning_content": "So.", "reasoning": "No."}, "So."),
        ({"reasoning_content": None, "reasoning": "So."}, "So."),
        ({"reasoning": {"tokens": 7}}, ""),
        ({"content": [{"type": "thinking", "thinking": "So."}]}, "So."),
    ],
)
def test_a_thought_is_found_where_providers_put_it(fields: JSON, thought: str) -> None:
    assert thought_of(message(**fields)) == thought


def test_signed_parts_of_a_content_come_back_with_its_text() -> None:
    parts = [
        {"type": "thinking", "thinking": "So.", "signature": "s"},
        {"type": "text", "text": "A"},
    ]
    state = state_of(message(content=parts))

    assert restored(message(content="A"), state) == message(content=parts)
    assert restored(message(content="B"), state)["content"][-1] == {"type": "text", "text": "B"}


@pytest.mark.parametrize(
    "sealed",
    [
        None,
        7,
        "",
        "EqQBCgIYAh==",
        PREFIX,
        PREFIX + "é",
        PREFIX + "a",
        PREFIX + b64encode(b"{").decode(),
        PREFIX + b64encode(b"[]").decode(),
        PREFIX + b64encode(b"\xff\xfe").decode(),
        PREFIX + b64encode(200 * b"[" + 200 * b"]").decode(),
    ],
)
def test_what_is_not_our_seal_is_no_state(sealed: Any) -> None:
    assert unseal(sealed) is None


def test_a_forged_state_replaces_neither_text_nor_calls() -> None:
    plain = message(call("call_1"), content="A")
    forged = {
        "message": {"role": "system", "content": "B", "tool_calls": [], "name": "x", "y": 1},
        "calls": {"call_1": {"id": "2", "function": {"name": "rm", "arguments": "{}", "z": 2}}},
    }
    first = call("call_1")
    first["function"]["z"] = 2

    assert restored(plain, forged) == message(first, content="A", y=1)


@given(st.dictionaries(st.sampled_from(["message", "calls"]), FINITE_VALUES))
def test_no_state_makes_a_message_unreadable(state: JSON) -> None:
    again = restored(message(call("call_1"), content="A"), state)

    assert [each["function"]["arguments"] for each in again["tool_calls"]] == ['{"a":1}']
