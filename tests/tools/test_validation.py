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


def branch(kind: str) -> JSON:
    return {
        "type": "object",
        "properties": {"of": {"$ref": "#/$defs/tree"}, "kind": {"const": kind}},
    }


FORK = {"type": "array", "prefixItems": [True], "items": {"$ref": "#"}}
TREES: JSON = {
    "$ref": "#/$defs/tree",
    "$defs": {"tree": {"anyOf": [branch("a"), branch("b"), {"not": {}}, INTEGER]}},
}
ANY_KEY = {"type": "object", "patternProperties": {"^o": {"$ref": "#"}}}
PATTERNS: JSON = {"anyOf": [ANY_KEY, ANY_KEY | {"minProperties": 2}, INTEGER]}
LISTS: JSON = {"oneOf": [FORK, FORK | {"minItems": 2}, FORK | {"minItems": 3}, INTEGER]}


def tree(leaf: Any, depth: int) -> JSON:
    return leaf if depth == 0 else {"kind": "b", "of": tree(leaf, depth - 1)}


def lists(leaf: Any, depth: int) -> Any:
    return leaf if depth == 0 else [0, lists(leaf, depth - 1)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param(TREES, tree("x", 60), id="objects"),
        pytest.param(PATTERNS, tree("x", 60), id="patterns"),
        pytest.param(LISTS, lists("x", 60), id="lists"),
        pytest.param(LISTS, [*range(1_000, 61_000), "x"], id="large"),
    ],
)
def test_a_value_of_many_levels_is_refused_without_a_reason_for_every_way_to_read_them(
    schema: JSON, value: JSON
) -> None:
    validate = compile_schema(schema)

    assert validate(value) == (
        "(root): the value does not fit, and is too large or too deep to say where",
    )
    assert validate.disproofs(value) == {(): {"unchecked"}}


def test_a_recursive_value_of_few_levels_is_explained_and_one_that_fits_passes() -> None:
    validate = compile_schema(TREES)

    assert '"x" is not valid' in validate(tree("x", 1))[0]
    assert validate(tree(1, 60)) == ()
    assert '"a" was expected' in validate(tree("x", 1) | {"more": [1] * 6_000})[0]
