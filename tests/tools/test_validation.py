"""What a schema refuses, by place: in unions, the places that no alternative allows."""

from typing import Any

import pytest

from surecall.tools.validation import compile_schema
from surecall.values.types import JSON

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
NULL = {"type": "null"}
SIGN = {"type": "string", "enum": ["<", ">"]}


def of(**properties: Any) -> JSON:
    return {"type": "object", "properties": properties, "required": [*properties]}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (of(a=TEXT), {"a": "x"}, {}),
        (of(a=TEXT), {"a": 1}, {("a",): {"type"}}),
        (of(a={"type": "array", "items": TEXT}), {"a": ["x", 1]}, {("a", 1): {"type"}}),
        (of(a=TEXT), {}, {(): {"required"}}),
        (of(a={"anyOf": [SIGN, NULL]}), {"a": "&gt;"}, {("a",): {"enum"}}),
        (of(a={"anyOf": [TEXT, NULL]}), {"a": 1}, {("a",): {"type"}}),
        (of(a={"anyOf": [of(b=SIGN), NULL]}), {"a": {"b": "x"}}, {("a", "b"): {"enum"}}),
        # What one alternative allows is not what is wrong.
        (
            of(a={"anyOf": [of(b=SIGN, c=TEXT), of(b=SIGN, c=INTEGER)]}),
            {"a": {"b": "&gt;", "c": 5}},
            {("a", "b"): {"enum"}},
        ),
        (
            of(a={"anyOf": [of(b={"const": 1}), of(c={"const": 2})]}),
            {"a": {"b": 3, "c": 3}},
            {("a",): {"anyOf"}},
        ),
        (of(a={"oneOf": [TEXT, {"minLength": 1}]}), {"a": "x"}, {("a",): {"oneOf"}}),
    ],
)
def test_each_refused_place_is_named_with_the_keywords(
    schema: JSON, value: JSON, expected: dict[Any, Any]
) -> None:
    assert compile_schema(schema).disproofs(value) == expected


def test_what_cannot_be_checked_is_not_right() -> None:
    validate = compile_schema(of(a=TEXT))

    assert validate.disproofs({"a": object()}) == {(): {"unchecked"}}
    assert "cannot be checked" in validate({"a": object()})[0]
