"""How faults of shape are written: each part of a reply is reached, and nothing is mutated."""

import copy
from typing import Any

import pytest

from surecall.simulator.faults.shape_fault import (
    PARALLEL_WRAPPER,
    Sample,
    decode_arguments,
    encode_json,
    on_call,
    on_calls,
    on_choice,
    on_function,
    on_message,
    on_text,
    on_values,
)
from surecall.testing import calls, calls_many, says
from surecall.values.types import JSON

SCHEMA: JSON = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL: JSON = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}
PARTS = [on_choice, on_message, on_calls, on_call, on_function, on_text, on_values]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_not_changed_leaves_the_same_body(part: Any) -> None:
    same = part(lambda value, _sample: value)
    for body in (calls("add", a=1), says("3"), {}, {"choices": [{"message": None}]}):
        assert same(body, Sample()) is body


@pytest.mark.parametrize("part", PARTS[2:])
def test_a_changed_part_is_in_a_new_body(part: Any) -> None:
    fresh = {on_calls: [], on_text: "x", on_values: {"b": 2}}.get(part, {"id": "x"})
    body = calls("add", a=1)
    before = copy.deepcopy(body)
    changed = part(lambda _value, _sample: fresh)(body, Sample())

    assert changed != body == before


def test_only_calls_that_the_model_meant_are_changed() -> None:
    body = calls_many(calls(PARALLEL_WRAPPER), calls("add", a=1), calls("name<arg_key>"))
    changed = on_call(lambda call, _sample: call | {"id": "x"})(body, Sample())

    ids = [call["id"] for call in changed["choices"][0]["message"]["tool_calls"]]
    assert ids == ["call_1", "x", "call_3"]


def test_a_sample_varies_by_its_seed_and_knows_the_schemas_of_its_tools() -> None:
    assert [Sample(seed).pick("ab") for seed in range(3)] == ["a", "b", "a"]
    sample = Sample(tools=({"function": None}, TOOL))
    assert sample.for_tool("add").schema == SCHEMA
    assert sample.for_tool("other") is sample


@pytest.mark.parametrize(
    ("arguments", "values"),
    [('{"a":1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("[1]", None), ("{", None), (None, None)],
)
def test_only_clean_arguments_are_read(arguments: object, values: JSON | None) -> None:
    assert decode_arguments(arguments) == values


def test_json_is_written_compactly_and_escaped_only_where_it_must_be() -> None:
    assert encode_json({"a": "é", "b": [1, 2]}) == '{"a":"é","b":[1,2]}'
    assert encode_json("\ud800") == '"\\ud800"'
