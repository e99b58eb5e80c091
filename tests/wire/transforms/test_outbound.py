"""Outbound transforms, one by one: what is added, what is left out, and what stays."""

from typing import Any

import pytest

from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON
from surecall.wire.transforms import TOOL
from tests.support.healing import ask, heal, shown
from tests.support.spec import proves

NULL_CONTENT = "assistant_tool_calls_content_null_if_blank"
REASONING = "assistant_tool_calls_reasoning_content_empty_if_missing"
SIGNATURE = "assistant_tool_calls_signature_skip_validator_if_missing"
STRIP = "openai_tools_strip_function_descriptions"
COMPACT = "tool_result_compact_envelope"


@proves("C88")
def test_an_empty_reasoning_content_is_added_to_call_turns_alone() -> None:
    model = ScriptedModel(calls("add", a=1, b=2), says("3"))

    ask(model, raw(message_transforms=(REASONING,)))

    user, turn, result = model.requests[1]["messages"]
    assert turn["reasoning_content"] == ""
    assert "reasoning_content" not in user | result


@proves("C88")
def test_a_reasoning_content_that_is_there_stays() -> None:
    message = {"tool_calls": [{}], "reasoning_content": "because"}

    assert heal("message_transforms", REASONING, message) is message


@proves("C89")
def test_blank_content_beside_calls_becomes_null() -> None:
    model = ScriptedModel(calls("add", a=1, b=2), says("3"))

    ask(model, raw(message_transforms=(NULL_CONTENT,)))

    assert model.requests[1]["messages"][1]["content"] is None


@proves("C89")
@pytest.mark.parametrize(
    "message",
    [
        {"content": "", "tool_calls": []},
        {"content": ""},
        {"content": "x", "tool_calls": [{}]},
        {"content": None, "tool_calls": [{}]},
    ],
)
def test_content_that_says_something_or_stands_alone_stays(message: JSON) -> None:
    assert heal("message_transforms", NULL_CONTENT, message) is message


@proves("C90")
def test_a_signature_placeholder_is_added_to_every_call_that_has_none() -> None:
    signed = calls("add", a=3, b=4)
    signed["choices"][0]["message"]["tool_calls"][0]["signature"] = "real"
    model = ScriptedModel(calls_many(calls("add", a=1, b=2), signed), says("3"))

    ask(model, raw(message_transforms=(SIGNATURE,)))

    sent = model.requests[1]["messages"][1]["tool_calls"]
    assert [call["signature"] for call in sent] == ["skip_thought_signature_validator", "real"]


@proves("C91")
def test_descriptions_are_stripped_from_tools_but_not_from_parameters() -> None:
    parameters = {"type": "object", "properties": {"a": {"description": "first"}}}
    function = {"name": "add", "description": "Add.", "parameters": parameters}

    healed = heal("tool_transforms", STRIP, {"type": "function", "function": function})

    assert healed["function"] == {"name": "add", "parameters": parameters}


@proves("C91")
def test_stripped_descriptions_are_not_sent() -> None:
    model = ScriptedModel(says("3"))

    ask(model, raw(tool_transforms=(STRIP,)))

    assert model.requests[0]["tools"][0]["function"].keys() == {"name", "parameters"}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "custom", "function": {"description": "x"}},
        {"type": "function", "function": 1},
        {"type": "function", "function": {"name": "x"}},
    ],
)
def test_a_tool_of_another_kind_or_without_a_description_is_left_alone(item: JSON) -> None:
    assert heal("tool_transforms", STRIP, item) is item


@proves("C97")
def test_the_compact_envelope_leaves_out_what_is_empty() -> None:
    model = ScriptedModel(calls("add", a=1, b=2), says("3"))

    ask(model, raw(tool_result_transforms=(COMPACT,)))

    assert shown(model) == {"ok": True, "tool_name": "add", "data": {"value": 3}}


@proves("C97")
def test_the_compact_envelope_keeps_what_only_looks_empty() -> None:
    envelope: JSON = {"ok": True, "data": 0, "warnings": [""], "errors": []}

    healed = heal("tool_result_transforms", COMPACT, envelope)

    assert healed == {"ok": True, "data": 0, "warnings": [""]}


def test_an_envelope_in_which_nothing_is_empty_is_left_alone() -> None:
    envelope: JSON = {"ok": True, "data": 0}

    assert heal("tool_result_transforms", COMPACT, envelope) is envelope


@proves("C98")
def test_the_compact_envelope_keeps_what_a_failure_must_say() -> None:
    model = ScriptedModel(calls("subtract", a=1), says("I cannot"))

    result = ask(model, raw(tool_result_transforms=(COMPACT,)))

    envelope = shown(model)
    assert envelope.keys() == {"ok", "tool_name", "errors"}
    assert (envelope["ok"], envelope["tool_name"]) == (False, "subtract")
    assert [error["code"] for error in envelope["errors"]] == ["TOOL_NOT_ALLOWED"]
    assert result.run.results[0].error_codes == ("TOOL_NOT_ALLOWED",)


def test_a_tool_with_types_goes_to_llama_cpp_as_it_is() -> None:
    definition = {"type": "function", "function": {"name": "f", "parameters": TYPED}}

    assert TOOL["openai_tools_untyped_to_any_type"](definition) is definition


@pytest.mark.parametrize(
    "bent", [{}, {"function": 1}, {"function": {}}, {"function": {"parameters": {}}}]
)
def test_a_tool_without_a_schema_goes_to_llama_cpp_as_it_is(bent: Any) -> None:
    assert TOOL["openai_tools_untyped_to_any_type"](bent) is bent


TYPED = {
    "type": "object",
    "properties": {
        "a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "b": {"type": "array", "items": {"$ref": "#/$defs/c"}},
        "d": True,
    },
    "$defs": {"c": {"enum": [1, 2]}},
}
