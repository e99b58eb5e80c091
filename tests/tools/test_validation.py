"""What a schema refuses, by place: in unions, the places that no alternative allows."""

from typing import Any

import pytest

from surecall.parsing.budget import WorkBudget
from surecall.tools.validation import compile_schema
from surecall.values.errors import ConfigError
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
    assert compile_schema(schema).rejections(value) == expected


def test_what_cannot_be_checked_is_not_right() -> None:
    validate = compile_schema(of(a=TEXT))

    assert validate.rejections({"a": object()}) == {(): {"unchecked"}}
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
        "(root): the value does not match the schema, and is too large or too deep to say why",
    )
    assert validate.rejections(value) == {(): {"unchecked"}}


def test_a_recursive_value_of_few_levels_is_explained_and_one_that_fits_passes() -> None:
    validate = compile_schema(TREES)

    assert '"x" is not valid' in validate(tree("x", 1))[0]
    assert validate(tree(1, 60)) == ()
    assert '"a" was expected' in validate(tree("x", 1) | {"more": [1] * 6_000})[0]


def test_a_budget_is_asked_before_each_check_and_for_each_explanation() -> None:
    validate = compile_schema(of(a=TEXT))
    exact, none = WorkBudget(1), WorkBudget(0)

    assert (validate({"a": "x"}, exact), exact.remaining, exact.is_exhausted) == ((), 0, False)
    assert "too much to check" in validate({"a": "x"}, none)[0]
    assert none.is_exhausted
    assert "too large or too deep to say why" in validate({"a": 1}, WorkBudget(5))[0]
    assert "too large or too deep to say why" in validate({"a": 1}, WorkBudget(20))[0]


def test_a_value_with_many_errors_is_told_the_first() -> None:
    enum = {"enum": [f"v{number}" for number in range(4_000)]}
    validate = compile_schema(of(a={"type": "array", "items": enum}))

    (told,) = validate({"a": ["x"] * 4_000})

    assert told.startswith('a[0]: "x" is not one of')


def test_patterns_that_are_too_large_are_refused_before_they_are_compiled() -> None:
    with pytest.raises(ConfigError, match=r"have 500501 states.*the limit is 50000"):
        compile_schema({"pattern": "(a{1,1000}){1,500}$"})


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "integer"}, 9007199254740993.0, False),
        ({"type": "integer"}, 9007199254740993, True),
        ({"type": "integer"}, 3.0, True),
        ({"type": "number"}, 9007199254740993.0, True),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, -1e300, False),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, -1e300, True),
        ({"items": {"type": "integer"}}, [1.0, "x"], False),
        ({"items": {"type": "integer"}}, [1.0, 2e16], False),
        ({"enum": [9007199254740992], "type": ["integer", "number"]}, 9007199254740992.0, True),
    ],
)
def test_a_float_that_may_be_two_integers_is_none(schema: JSON, value: Any, *, fits: bool) -> None:
    validate = compile_schema({"type": "object", "properties": {"n": schema}})

    assert (validate({"n": value}) == ()) is fits
    assert (validate.rejections({"n": value}) == {}) is fits


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"enum": [1]}, "x", '"x" is not one of 1'),
        ({"enum": [1, 2]}, True, "true is not one of 1 or 2"),
        ({"enum": [1, 2, 3]}, [1], "[1] is not one of 1, 2 or 3"),
        ({"enum": [1, 2, 3, 4]}, None, "null is not one of 1, 2 or 2 other candidates"),
        ({"enum": [{"a": 1}]}, {"a": 1.0}, ""),
        ({"const": {"a": [1]}}, {"a": [True]}, '{"a":[1]} was expected'),
        ({"const": 10**20}, 1e20, ""),
        ({"uniqueItems": True}, [1, True, 1.0], "[1,true,1.0] has non-unique elements"),
        ({"uniqueItems": True}, [0, False, "0", None, [], {}], ""),
        ({"uniqueItems": False}, [1, 1], ""),
        ({"uniqueItems": True}, "xx", ""),
    ],
)
def test_values_are_compared_as_in_json_schema(schema: JSON, value: Any, told: str) -> None:
    validate = compile_schema({"properties": {"n": schema}})

    assert validate({"n": value}) == ((f"n: {told}",) if told else ())
    refused = {("n",): {next(iter(schema))}} if told else {}
    assert validate.rejections({"n": value}) == refused


@pytest.mark.parametrize(
    ("schema", "items"),
    [
        ({"uniqueItems": True}, [{"k": number} for number in range(50_000)]),
        ({"uniqueItems": True}, [[[number]] for number in range(60_000)]),
        ({"uniqueItems": True}, [number + 0.5 for number in range(150_000)]),
        ({"uniqueItems": True}, [10**19 + number for number in range(20_000)]),
        ({"uniqueItems": True}, [2**62 + number for number in range(40_000)]),
        ({"items": {"multipleOf": 0.01}}, [number / 100 for number in range(60_000)]),
        ({"items": {"minimum": -0.5, "maximum": 1e6}}, [n / 100 for n in range(60_000)]),
    ],
)
def test_large_values_that_fit_are_not_refused(schema: JSON, items: list[Any]) -> None:
    assert compile_schema({"properties": {"a": schema}})({"a": items}) == ()


def test_integers_with_too_many_digits_are_refused_before_they_are_compiled() -> None:
    with pytest.raises(ConfigError, match="its strings or integers are too long"):
        compile_schema({"enum": [10**3_900 + number for number in range(200)]})
