"""Tests of `surecall.wire.transforms.request_transforms`."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON
from surecall.wire.transforms import MESSAGE, TOOL
from surecall.wire.transforms.request_transforms import MAX_ID_LENGTH
from tests.support.spec import proves
from tests.support.tools import ask, heal, shown

# Outbound transforms, one by one: what is added, what is left out, and what stays


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


# Outbound transforms for single providers: ids, reasoning, texts and schemas they can take


IDS = MESSAGE["call_ids_short_if_odd"]
SPACE = MESSAGE["assistant_tool_calls_reasoning_content_space_if_blank"]
TEXT = MESSAGE["content_text_parts_to_text"]
TYPES = TOOL["openai_tools_types_into_any_of"]


@pytest.mark.parametrize("given_id", ["functions.add:0", "a|b", "x" * 41, "", "käse", "a b"])
def test_an_odd_id_is_sent_short_on_both_sides(given_id: str) -> None:
    turn = IDS({"tool_calls": [{"id": given_id}, {"id": "call_1-A"}]})
    result = IDS({"role": "tool", "tool_call_id": given_id, "content": ""})

    sent, plain = (call["id"] for call in turn["tool_calls"])
    assert sent == result["tool_call_id"] != given_id
    assert sent.isascii()
    assert sent.isalnum()
    assert len(sent) <= MAX_ID_LENGTH
    assert plain == "call_1-A"


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"id": "x" * MAX_ID_LENGTH}, {"id": None}, {}, None, 3]},
        {"tool_calls": "text"},
        {"tool_call_id": "toolu_01"},
        {"tool_call_id": None},
        {"role": "user"},
    ],
)
def test_other_ids_stay(message: JSON) -> None:
    assert IDS(message) is message


def test_ids_still_pair_in_a_run() -> None:
    two = calls_many(calls("add", "functions.add:0", a=1, b=2), calls("add", "ok_1", a=3, b=4))
    model = ScriptedModel(two, says("done"))
    ask(model, raw(message_transforms=("call_ids_short_if_odd",)))

    _, turn, *results = model.requests[1]["messages"]
    assert [call["id"] for call in turn["tool_calls"]] == [one["tool_call_id"] for one in results]


@pytest.mark.parametrize("given_reasoning", [{}, {"reasoning_content": ""}])
def test_a_space_stands_for_reasoning_that_is_not_there(given_reasoning: JSON) -> None:
    assert SPACE({"tool_calls": [{}]} | given_reasoning)["reasoning_content"] == " "


@pytest.mark.parametrize(
    "message", [{"tool_calls": [{}], "reasoning_content": "because"}, {"content": "x"}]
)
def test_real_reasoning_and_turns_without_calls_stay(message: JSON) -> None:
    assert SPACE(message) is message


def test_a_list_of_texts_becomes_a_text() -> None:
    parts = [{"type": "text", "text": "Hello, "}, {"type": "text", "text": "you."}]

    assert TEXT({"role": "user", "content": parts})["content"] == "Hello, you."


@pytest.mark.parametrize(
    "content",
    [
        [],
        "text",
        None,
        [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}],
        [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
        [{"type": "text", "text": None}],
        ["a"],
    ],
)
def test_a_list_that_says_more_than_text_stays(content: Any) -> None:
    message = {"role": "user", "content": content}

    assert TEXT(message) is message


def definition(schema: Any) -> JSON:
    parameters = {"type": "object", "properties": {"a": schema}}
    return {"type": "function", "function": {"name": "ping", "parameters": parameters}}


def sent(schema: Any) -> Any:
    return TYPES(definition(schema))["function"]["parameters"]["properties"]["a"]


def test_a_type_beside_any_of_goes_into_it() -> None:
    schema = {"type": "object", "description": "d", "anyOf": [{"required": ["x"]}, {}]}

    assert sent(schema) == {
        "description": "d",
        "anyOf": [
            {"type": "object", "required": ["x"]},
            {"type": "object"},
        ],
    }


def test_a_choice_with_a_type_of_its_own_keeps_it() -> None:
    schema = {"type": ["string", "null"], "anyOf": [{"type": "string"}, {"minLength": 2}]}

    assert sent(schema)["anyOf"] == [
        {"type": "string"},
        {"type": ["string", "null"], "minLength": 2},
    ]


def test_a_schema_without_a_type_may_be_any() -> None:
    named = sent({"description": "what it is."})

    assert named["description"] == "what it is."
    assert {"type": "array"} in named["anyOf"]
    assert {"type": "null"} in named["anyOf"]


def test_the_arguments_stay_an_object() -> None:
    tool = definition({})
    tool["function"]["parameters"]["anyOf"] = [{"required": ["a"]}, {"required": ["b"]}]

    assert TYPES(tool)["function"]["parameters"]["type"] == "object"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "string", "anyOf": [{"type": "integer"}, {"$ref": "#/$defs/x"}]},
        {"type": "string", "anyOf": [{"anyOf": [{"type": "string"}]}]},
        {"type": "string", "anyOf": [True]},
        {"type": "string", "anyOf": "text"},
        {"enum": [1, "a"]},
        {"$ref": "#/$defs/x"},
        True,
    ],
)
def test_what_is_right_or_cannot_be_said_otherwise_stays(schema: Any) -> None:
    tool = definition(schema)

    assert TYPES(tool) is tool


KINDS = ("string", "number", "integer", "boolean", "object", "array", "null")
KIND = st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), min_size=1, unique=True)
CHOICE = st.fixed_dictionaries(
    {}, optional={"type": KIND, "minLength": st.just(2), "minimum": st.just(1)}
)
SCHEMA = st.fixed_dictionaries(
    {}, optional={"type": KIND, "anyOf": st.lists(CHOICE, min_size=1, max_size=3)}
)
VALUES: tuple[Any, ...] = (None, True, 0, 1, 1.5, "", "a", "ab", [], [1], {}, {"a": 1})


@given(SCHEMA)
def test_a_schema_means_the_same_afterwards(schema: JSON) -> None:
    before, after = (jsonschema_rs.validator_for(each) for each in (schema, sent(schema)))

    assert [before.is_valid(value) for value in VALUES] == [
        after.is_valid(value) for value in VALUES
    ]
