"""Readings of whole arguments: which are taken, and which only raise a doubt."""

from typing import Any

import pytest

from surecall.parsing.coercion import coercer
from surecall.parsing.readings import Expected, only_reading
from surecall.tools.validation import compile_schema
from surecall.values.types import JSON
from tests.support.steps import LINEAR, growth

READ: JSON = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
NONE: JSON = {"type": "object", "properties": {}, "additionalProperties": False}
OPTIONAL: JSON = READ | {"required": []}
LISTS: JSON = NONE | {"properties": {"tags": {"type": "array"}}}
A = '{"path":"a"}'


def expected(schema: JSON) -> Expected:
    fit, disproofs = coercer(schema), compile_schema(schema).disproofs
    return Expected("read".__eq__, tuple(schema["properties"]), fit, disproofs)


@pytest.mark.parametrize(
    ("schema", "raw", "value", "steps"),
    [
        (READ, f"{A}<|im_end|>", {"path": "a"}, ("control_tokens",)),
        (READ, f"```json\n{A}</s>\n```", {"path": "a"}, ("code_fence", "control_tokens")),
        (READ, f"{A}}}", {"path": "a"}, ("closers_too_many",)),
        (READ, f"{{{A}{A}"[1:] + "]", {"path": "a"}, ("repeated_object", "closers_too_many")),
        (READ, "{'path': 'a'}}", {"path": "a"}, ("python_literals", "closers_too_many")),
        (READ, f"[{A}]", {"path": "a"}, ("sole_item",)),
        (READ, f"[{A}, ]", {"path": "a"}, ("sole_item",)),
        (READ, [{"path": "a"}], {"path": "a"}, ("sole_item",)),
        (READ, f"{{}}{A}", {"path": "a"}, ("empty_object_beside",)),
        (READ, f"{A}{{ }}{{}}", {"path": "a"}, ("empty_object_beside",)),
        (NONE, "[]", {}, ("no_arguments",)),
        (NONE, [], {}, ("no_arguments",)),
        (NONE, '""', {}, ("double_encoded", "no_arguments")),
        (NONE, "undefined", {}, ("no_arguments",)),
        (NONE, "{}}", {}, ("closers_too_many",)),
        (OPTIONAL, "[]", {}, ("no_arguments",)),
        (LISTS, '""', {}, ("double_encoded", "no_arguments")),
        (READ, f'[{{"name":"read","arguments":{A}}}]', {"path": "a"}, None),
    ],
)
def test_what_has_one_meaning_is_read(schema: JSON, raw: Any, value: JSON, steps: Any) -> None:
    found = only_reading(raw, None, expected(schema))

    assert found is not None
    assert found.value == value
    assert found.steps == (steps or ("sole_item", "call_in_arguments"))


@pytest.mark.parametrize(
    ("schema", "raw"),
    [
        (READ, f"{A} and then"),
        (READ, f'{A}{{"path":"b"}}'),
        (READ, f'{A}}}{{"path":"b"}}'),
        (READ, f"[{A}, {A}]"),
        (READ, f"[[{A}]]"),
        (READ, [{"path": "a"}, {"path": "b"}]),
        (READ, [1]),
        (READ, object()),
        (READ, "[]"),
        (READ, "[1]"),
        (READ, '"'),
        (READ, '"text"'),
        (READ, '{"path":"a'),
        (OPTIONAL, f"{{}}{A}"),
        (OPTIONAL, '""'),
        (LISTS, "[]"),
        (LISTS | {"required": ["tags"]}, "[]"),
    ],
)
def test_what_may_mean_two_things_is_not_read(schema: JSON, raw: Any) -> None:
    assert only_reading(raw, None, expected(schema)) is None


@pytest.mark.parametrize(
    "straight",
    [
        {"name": "read", "arguments": {"path": "a"}},
        {"tool": "read", "input": A, "id": "1"},
        {"type": "function", "function": {"name": "read", "parameters": {"path": "a"}}},
    ],
)
def test_a_call_of_the_tool_itself_is_taken_for_its_arguments(straight: JSON) -> None:
    found = only_reading("", straight, expected(READ))

    assert found is not None
    assert (found.value, found.steps) == ({"path": "a"}, ("call_in_arguments",))


@pytest.mark.parametrize(
    "straight",
    [
        {"name": "write", "arguments": {"path": "a"}},
        {"name": ["read"], "arguments": {"path": "a"}},
        {"name": "read", "arguments": {"path": "a"}, "mode": "r"},
        {"name": "read", "arguments": {"path": "a"}, "input": {"path": "b"}},
        {"name": "read", "arguments": "path: a"},
        {"name": "read"},
        {"function": {"name": "read", "arguments": {"path": "a"}}, "mode": "r"},
    ],
)
def test_anything_else_is_no_call_of_it(straight: JSON) -> None:
    assert only_reading("", straight, expected(READ)) is None


@pytest.mark.parametrize(
    ("raw", "straight", "is_read"),
    [
        ('{"path": 0}', {"path": 0}, True),
        ('{"path": -0}', {"path": 0}, False),
        ('{"path" : -0 }', {"path": 0}, False),
        ('{"path": -7}', {"path": -7}, True),
        ({"path": 0}, {"path": 0}, True),
    ],
)
def test_a_number_is_made_a_text_only_in_the_spelling_that_it_had(
    raw: Any, straight: JSON, *, is_read: bool
) -> None:
    assert (only_reading(raw, straight, expected(READ)) is not None) is is_read


@pytest.mark.parametrize("unit", ["}", "{}", "[", "<|a|>", '"', A, f"{A},", "\\n", "`"])
def test_arguments_of_any_length_take_linear_time(unit: str) -> None:
    known = expected(READ)

    def read(size: int) -> object:
        return only_reading(A + unit * (size // len(unit)), None, known)

    assert growth(read, 2_000) < LINEAR
