"""Transforms: what each one heals, and the laws that hold for all of them."""

import asyncio
import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall import (
    ConfigError,
    RetryPolicy,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    presets,
)
from surecall.settings.config import FAMILIES
from surecall.testing import ScriptedModel, calls, calls_many, raw, says
from surecall.values.types import JSON
from tests.support.spec import proves
from tests.support.tools import add

TEXTS = (
    "",
    " ",
    "add",
    "{}",
    "function",
    '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>',
    "`<tool_call>add</tool_call>` \\<tool_call>",
    "\ud800",
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(TEXTS)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[JSON]:
    """Build objects with some of these keys, each holding what it should or anything at all."""
    return st.fixed_dictionaries({}, optional={key: fields[key] | VALUES for key in fields})


FUNCTIONS = objects(name=SCALARS, arguments=VALUES, description=SCALARS, parameters=VALUES)
CALLS = objects(id=SCALARS, function=FUNCTIONS, signature=SCALARS, extra_content=VALUES)
OBJECTS = objects(
    type=st.just("function"),
    content=SCALARS,
    tool_calls=CALLS | st.lists(CALLS | VALUES, max_size=3),
    function_call=FUNCTIONS,
    function=FUNCTIONS,
    reasoning_content=SCALARS,
    data=VALUES,
    warnings=VALUES,
    errors=VALUES,
)
MEMBERS = [family[name] for family in FAMILIES.values() for name in family.names]
NAMES = [(field, name) for field, family in FAMILIES.items() for name in family.names]

NULL_CONTENT = "assistant_tool_calls_content_null_if_blank"
REASONING = "assistant_tool_calls_reasoning_content_empty_if_missing"
SIGNATURE = "assistant_tool_calls_signature_skip_validator_if_missing"
STRIP = "openai_tools_strip_function_descriptions"
LEGACY = "assistant_function_call_to_tool_calls"
HASH = "assistant_tool_calls_arguments_json_string_if_hash"
BLANK = "assistant_tool_calls_arguments_blank_to_empty_object"
COMPACT = "tool_result_compact_envelope"


def ask(model: ScriptedModel, config: ToolCallingConfig, **settings: Any) -> RunResult:
    registry = ToolRegistry([add])
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=registry,
        config=config,
        retry=RetryPolicy(attempts=1),
        **settings,
    )
    return asyncio.run(runner.run("1 + 2?"))


def heal(field: str, name: str, value: JSON) -> JSON:
    return FAMILIES[field][name](value)


def shown(model: ScriptedModel, turn: int = 1) -> JSON:
    """Return the newest tool result as the model was shown it."""
    decoded: JSON = json.loads(model.requests[turn]["messages"][-1]["content"])
    return decoded


def same(one: object, other: object) -> bool:
    """Compare to the letter: NaN equals itself, and 1 is not True."""
    return repr(one) == repr(other)


@proves("G8", "G9", "I13")
@given(OBJECTS)
@settings(max_examples=400)
def test_no_transform_mutates_its_input_or_raises(value: JSON) -> None:
    before = copy.deepcopy(value)

    for member in MEMBERS:
        assert isinstance(member(value), dict)
        assert same(value, before), member


@proves("G9")
@given(OBJECTS)
@settings(max_examples=400)
def test_equal_means_identical(value: JSON) -> None:
    for member in MEMBERS:
        healed = member(value)
        assert (healed is value) == same(healed, value), member


@given(OBJECTS)
@settings(max_examples=400)
def test_what_was_healed_needs_no_more_healing(value: JSON) -> None:
    for member in MEMBERS:
        healed = member(value)
        assert member(healed) is healed, member


@proves("C88")
def test_an_empty_reasoning_content_is_added_to_call_turns_alone() -> None:
    model = ScriptedModel(calls("add", a=1, b=2), says("3"))

    ask(model, ToolCallingConfig(message_transforms=(REASONING,)))

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

    ask(model, ToolCallingConfig(message_transforms=(NULL_CONTENT,)))

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

    ask(model, ToolCallingConfig(message_transforms=(SIGNATURE,)))

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

    ask(model, ToolCallingConfig(tool_transforms=(STRIP,)))

    assert model.requests[0]["tools"][0]["function"].keys() == {"name", "parameters"}


@pytest.mark.parametrize(
    "item",
    [{"type": "custom", "function": {"description": "x"}}, {"type": "function", "function": 1}],
)
def test_a_tool_of_another_kind_is_left_alone(item: JSON) -> None:
    assert heal("tool_transforms", STRIP, item) is item


@pytest.mark.parametrize(
    ("legacy", "others", "expected"),
    [
        ({"name": "add", "arguments": {"a": 1}}, {}, '{"a":1}'),
        ({"name": "add", "arguments": "{}"}, {"tool_calls": []}, "{}"),
        ({"name": "add"}, {"tool_calls": None}, None),
    ],
)
def test_a_legacy_call_is_lifted(legacy: JSON, others: JSON, expected: str | None) -> None:
    healed = heal("response_transforms", LEGACY, {"function_call": legacy} | others)

    function = {"name": "add", "arguments": expected}
    assert healed == {"tool_calls": [{"type": "function", "function": function}]}


@pytest.mark.parametrize(
    "message",
    [
        {"function_call": {"name": " "}},
        {"function_call": None},
        {"function_call": {"name": "add"}, "tool_calls": [{"id": "real"}]},
    ],
)
def test_a_legacy_call_that_is_none_or_one_too_many_is_dropped(message: JSON) -> None:
    rest = {key: value for key, value in message.items() if key != "function_call"}

    assert heal("response_transforms", LEGACY, message) == rest


@pytest.mark.parametrize(
    ("arguments", "expected"), [("", "{}"), (" \n", "{}"), ("{}", "{}"), ("x", "x"), (None, None)]
)
def test_blank_argument_text_becomes_an_empty_object(arguments: object, expected: object) -> None:
    call = {"id": "c", "function": {"name": "add", "arguments": arguments}}

    healed = heal("tool_call_transforms", BLANK, call)

    assert healed == {"id": "c", "function": {"name": "add", "arguments": expected}}
    assert (healed is call) == (arguments == expected)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"é": [1, None, True]}, '{"é":[1,null,true]}'),
        ([], "[]"),
        ("{}", "{}"),
        (5, 5),
        ({"a": math.inf}, {"a": math.inf}),
        ({"a": 10**5000}, {"a": 10**5000}),
    ],
)
def test_object_arguments_become_text_unless_json_cannot_carry_them(
    arguments: object, text: object
) -> None:
    message = {"tool_calls": [{"function": {"name": "add", "arguments": arguments}}, None]}

    healed = heal("response_transforms", HASH, message)

    assert healed["tool_calls"] == [{"function": {"name": "add", "arguments": text}}, None]


def test_arguments_that_json_cannot_carry_are_refused_and_not_turned_into_null() -> None:
    bent = calls("add")
    function = bent["choices"][0]["message"]["tool_calls"][0]["function"]
    function["arguments"] = {"a": "MARK", "b": 2}
    body = json.dumps(bent).replace('"MARK"', "NaN").encode()
    model = ScriptedModel(raw(body), says("sorry"))

    ask(model, presets.default_tool_calling())

    assert shown(model)["errors"][0]["code"] == "ARGUMENTS_JSON_PARSE_ERROR"


@proves("C97")
def test_the_compact_envelope_leaves_out_what_is_empty() -> None:
    model = ScriptedModel(calls("add", a=1, b=2), says("3"))

    ask(model, ToolCallingConfig(tool_result_transforms=(COMPACT,)))

    assert shown(model) == {"ok": True, "tool_name": "add", "data": {"value": 3}}


@proves("C97")
def test_the_compact_envelope_keeps_what_only_looks_empty() -> None:
    envelope: JSON = {"ok": True, "data": 0, "warnings": [""], "errors": []}

    healed = heal("tool_result_transforms", COMPACT, envelope)

    assert healed == {"ok": True, "data": 0, "warnings": [""]}


@proves("C98")
def test_the_compact_envelope_keeps_what_a_failure_must_say() -> None:
    model = ScriptedModel(calls("subtract", a=1), says("I cannot"))

    result = ask(model, ToolCallingConfig(tool_result_transforms=(COMPACT,)))

    envelope = shown(model)
    assert envelope.keys() == {"ok", "tool_name", "errors"}
    assert (envelope["ok"], envelope["tool_name"]) == (False, "subtract")
    assert [error["code"] for error in envelope["errors"]] == ["TOOL_NOT_ALLOWED"]
    assert result.run.results[0].error_codes == ("TOOL_NOT_ALLOWED",)


@proves("C99", "C100", "I15")
@pytest.mark.parametrize("field", FAMILIES)
def test_an_unknown_transform_is_refused_when_the_config_is_built(field: str) -> None:
    known = FAMILIES[field].names[0]
    misspelt = known[:-1]
    changes: Any = {field: (known, misspelt)}
    message = f'transform "{misspelt}"; did you mean "{known}"'

    with pytest.raises(ConfigError, match=message):
        ToolCallingConfig(**changes)
    with pytest.raises(ConfigError, match=message):
        ToolCallingConfig().but(**changes)
    with pytest.raises(ConfigError, match=message):
        ToolCallingConfig.from_mapping({field: f"{known}, {misspelt}"})


@proves("C101")
@pytest.mark.parametrize(("field", "name"), NAMES)
def test_a_transform_may_be_spelt_in_any_case_and_with_hyphens(field: str, name: str) -> None:
    spelt = f" {name.upper().replace('_', '-')} "

    config = ToolCallingConfig().but(**{field: (spelt, name)})

    assert getattr(config, field) == (name,)


def test_a_run_says_which_transforms_fired() -> None:
    bent = calls("add", a=1, b=2)
    message = bent["choices"][0]["message"]
    message["tool_calls"] = message["tool_calls"][0]
    model = ScriptedModel(bent, says("3"))

    result = ask(model, presets.default_tool_calling())

    assert result.fired == ("assistant_tool_calls_object_to_array",)
