"""Inbound transforms of arguments and of the calls that carry them in an older form."""

import json
import math

import pytest

from surecall import (
    presets,
)
from surecall.testing import ScriptedModel, calls, raw, says
from surecall.values.types import JSON
from tests.support.healing import ask, heal, shown

LEGACY = "assistant_function_call_to_tool_calls"
HASH = "assistant_tool_calls_arguments_json_string_if_hash"
BLANK = "assistant_tool_calls_arguments_blank_to_empty_object"


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
