"""What it costs to validate a value, estimated before it is done."""

from typing import Any

import pytest

from surecall.parsing.budget import WorkBudget
from surecall.tools.validation import compile_schema
from surecall.tools.validation_cost import CostEstimator, TooCostly, ValidationCost, pattern_weight
from surecall.values.types import JSON

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
NULL = {"type": "null"}
SIGN = {"type": "string", "enum": ["<", ">"]}


def cost(schema: JSON, value: Any, most_steps: int = 10_000) -> ValidationCost:
    return CostEstimator(schema).estimate(value, most_steps)[0]


@pytest.mark.parametrize(
    ("schema", "larger"),
    [
        ({"items": INTEGER}, {"items": {"enum": [1, {"a": 1}]}}),
        ({"items": INTEGER}, {"items": {"const": {"a": 1}}}),
        ({"items": {"minimum": 1}}, {"items": {"minimum": 0.5}}),
        ({"items": {"minimum": 1}}, {"items": {"minimum": 10**30}}),
        ({"items": {"minimum": 1}}, {"items": {"minimum": 1, "exclusiveMaximum": 9}}),
        ({"items": INTEGER}, {"items": {"multipleOf": 2}}),
        ({"uniqueItems": False}, {"uniqueItems": True, "items": INTEGER}),
        ({"items": {"pattern": "a"}}, {"items": {"pattern": "(a{1,9}){1,99}"}}),
        ({"items": {"anyOf": [INTEGER]}}, {"items": {"anyOf": [INTEGER, TEXT, NULL]}}),
        ({"prefixItems": [INTEGER]}, {"prefixItems": [INTEGER, TEXT]}),
        ({"contains": INTEGER}, {"contains": {"allOf": [INTEGER, TEXT]}}),
        ({"allOf": [{"items": TEXT}]}, {"allOf": [{"items": TEXT}], "unevaluatedItems": False}),
    ],
)
def test_what_makes_the_validator_work_makes_a_list_cost_more(schema: JSON, larger: JSON) -> None:
    value = [*range(50), "abc" * 30, 2**400, 1.5, None]

    assert cost(larger, value).visits > cost(schema, value).visits


@pytest.mark.parametrize(
    ("schema", "larger"),
    [
        ({"properties": {"a": {}}}, {"properties": {"a": INTEGER, "b": TEXT}}),
        ({"patternProperties": {"a": True}}, {"patternProperties": {"^(a|b){1,99}$": INTEGER}}),
        ({"propertyNames": True}, {"propertyNames": {"pattern": "^[a-z]{1,99}$"}}),
        ({"propertyNames": TEXT}, {"propertyNames": TEXT, "allOf": [{"propertyNames": TEXT}]}),
        ({"required": ["a"]}, {"required": ["a", "b", "c", "d"]}),
        ({"dependentRequired": {"a": []}}, {"dependentRequired": {"a": ["b", "c"]}}),
        ({"dependentSchemas": {"a": True}}, {"dependentSchemas": {"a": {"allOf": [{}, {}]}}}),
        ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": {"anyOf": [{}, {}, {}, {}]}}}),
        ({"additionalProperties": True}, {"additionalProperties": {"type": "integer"}}),
    ],
)
def test_what_makes_the_validator_work_makes_an_object_cost_more(
    schema: JSON, larger: JSON
) -> None:
    value = {"a": 1, "b": {"c": "x"}, "more": [1]}

    assert cost(larger, value).visits > cost(schema, value).visits


def test_extreme_numbers_cost_more_to_divide() -> None:
    validate = compile_schema({"properties": {"a": {"items": {"multipleOf": 0.1}}}})
    usual, extreme, tiny = WorkBudget(), WorkBudget(), WorkBudget()

    assert validate({"a": [1.5] * 100}, usual) == ()
    assert validate({"a": [1e300] * 100}, extreme) == ()
    assert usual.remaining > extreme.remaining
    divided = compile_schema({"properties": {"a": {"items": {"multipleOf": 1e-300}}}})
    assert divided({"a": [1.5] * 100}, tiny) == ()
    assert usual.remaining > tiny.remaining
    assert cost({}, {"a": 1e300, "b": 1.5}).visits >= cost({}, {"a": 1.5, "b": 1.5}).visits


@pytest.mark.parametrize("pattern", [r"^[\s\S]{1,10000}$", r"^.{1,1000}", r"^[a-z ,.]+$"])
def test_one_run_of_one_class_is_cheap_to_match(pattern: str) -> None:
    assert compile_schema({"properties": {"a": {"pattern": pattern}}})({"a": "x" * 900}) == ()
    open_class = compile_schema({"properties": {"a": {"pattern": r"[^\x00]{3000}z"}}})
    assert "too much to check" in open_class({"a": "\xe9" * 20_000})[0]


def test_a_reference_costs_what_it_refers_to() -> None:
    tree = {"anyOf": [INTEGER, {"type": "object", "additionalProperties": {"$ref": "#/$defs/t"}}]}
    named = {"$ref": "#/$defs/t", "$defs": {"t": tree}}
    rooted: JSON = {"anyOf": [INTEGER, {"additionalProperties": {"$ref": "#"}}]}
    anchored = {"$dynamicAnchor": "t", "additionalProperties": {"$dynamicRef": "#t"}}

    for schema in (named, rooted, anchored):
        assert cost(schema, {"a": {"b": {"c": 1}}}).visits > cost(schema, {"a": 1}).visits


def test_each_level_of_what_is_unevaluated_multiplies_the_cost() -> None:
    schema: JSON = {"properties": {"a": INTEGER}}
    for _ in range(30):
        schema = {"allOf": [schema], "unevaluatedProperties": False}

    assert cost(schema, {"a": 1}).visits > 10**14
    assert "too much to check" in compile_schema(schema)({"a": 1})[0]
    assert compile_schema(schema).rejections({"a": 1}) == {(): {"unchecked"}}


def test_an_estimate_has_a_limit_of_its_own() -> None:
    alternatives = {"items": {"anyOf": [{"type": "integer", "minimum": n} for n in range(300)]}}
    keys = {"patternProperties": {f"^{n}": {"type": "integer"} for n in range(300)}}

    for schema, value in ((alternatives, [1]), (keys, {"a": 1}), ({}, [1] * 600)):
        with pytest.raises(TooCostly):
            cost(schema, value, most_steps=250)


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("abc", 3),
        ("a{3}", 3),
        ("(ab){2,5}", 15),
        ("\\w{2}\\.", 9),
        ("a{x}", 4),
        ("a)", 2),
        ("a{2,}", 2),
        ("a{ 0003 }", 4),
        ("a{999999999999}", 1_000_000),
        ("a{0}", 4),
        ("]" * 60_000, 60_000),
    ],
)
def test_the_states_of_a_pattern_are_counted_with_its_repetitions(
    pattern: str, states: int
) -> None:
    assert pattern_weight(pattern) == states
