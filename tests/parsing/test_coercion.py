"""Arguments that almost fit: what is changed, by which step, and what is left alone."""

import copy
import json
from typing import Any

import pytest

from surecall.parsing.coercion import Coerced, coerce, coercer
from surecall.values.types import JSON

INTEGER, NUMBER, BOOLEAN, STRING, NULL, ARRAY, OBJECT = (
    {"type": name} for name in ("integer", "number", "boolean", "string", "null", "array", "object")
)
INTEGERS = {"type": "array", "items": INTEGER}
POINT = {"type": "object", "properties": {"n": INTEGER, "s": STRING}, "required": ["n"]}
SEARCH: JSON = {
    "type": "object",
    "properties": {"city": STRING, "limit": INTEGER, "tags": {"type": "array", "items": STRING}},
    "required": ["city"],
    "additionalProperties": False,
}


def tool(schema: Any, *, required: bool = True) -> JSON:
    """Return the parameters of a tool with one property, `x`."""
    names = ["x"] if required else []
    return {"type": "object", "properties": {"x": schema}, "required": names}


def any_of(*branches: Any) -> JSON:
    return {"anyOf": list(branches)}


def assert_becomes(before: Any, schema: JSON, after: Any, *steps: str) -> None:
    original = copy.deepcopy(before)
    coerced = coerce(before, schema)
    # Compared as text, because 1, 1.0 and True are equal in Python and different in JSON.
    assert json.dumps(coerced.value) == json.dumps(after)
    assert coerced.steps == steps
    assert before == original


def assert_stays(value: Any, schema: Any) -> None:
    coerced = coerce(value, schema)
    assert coerced.value is value
    assert coerced.steps == ()


def test_arguments_that_fit_come_back_as_the_very_same_object() -> None:
    assert_stays({"city": "Paris", "limit": 3, "tags": ["a"]}, SEARCH)


@pytest.mark.parametrize(("number", "kind"), [(1.5, INTEGER), (2.0, STRING)])
def test_a_number_inside_decides_between_alternatives(number: float, kind: JSON) -> None:
    other = {"type": "object", "properties": {"a": kind, "b": INTEGER}}
    fits = {"type": "object", "properties": {"a": NUMBER, "b": INTEGER}}

    assert_becomes(
        {"x": {"a": number, "b": "3"}},
        tool(any_of(other, fits)),
        {"x": {"a": number, "b": 3}},
        "number_from_text",
    )


def test_every_step_is_named_once_and_in_order() -> None:
    before = {"city": "Paris", "limit": "3", "tags": '["a", "b"]', "on": "true", "max": "4"}
    more = {"on": BOOLEAN, "max": INTEGER}
    schema = SEARCH | {"properties": SEARCH["properties"] | more}

    after = {"city": "Paris", "limit": 3, "tags": ["a", "b"], "on": True, "max": 4}
    steps = ("number_from_text", "container_from_text", "boolean_from_text")
    assert_becomes(before, schema, after, *steps)


def test_a_prepared_schema_serves_many_values_and_ignores_later_changes() -> None:
    schema = copy.deepcopy(SEARCH)
    fit = coercer(schema)
    schema.clear()

    assert (
        fit({"limit": "1"}) == fit({"limit": "1"}) == Coerced({"limit": 1}, ("number_from_text",))
    )


# Numbers


@pytest.mark.parametrize(
    ("text", "schema", "number"),
    [
        ("2", INTEGER, 2),
        ("-7", INTEGER, -7),
        ("2", NUMBER, 2),
        ("2.5", NUMBER, 2.5),
        ("2.0", NUMBER, 2.0),
        ("1e2", NUMBER, 100.0),
        ("2.0", INTEGER, 2),
        ("-0.00", INTEGER, 0),
        ("9007199254740993.0", INTEGER, 9007199254740993),
        ("123456789012345678901234567890", INTEGER, 123456789012345678901234567890),
        ("2", {"type": ["integer", "null"]}, 2),
        ("2", any_of(INTEGER, NULL), 2),
        ("2", {"oneOf": [NUMBER, ARRAY]}, 2),
        ("2", {"enum": [1, 2]}, 2),
        ("2", {"const": 2}, 2),
        ("2", {"allOf": [{"type": ["string", "integer"]}, NUMBER]}, 2),
        ("2", {"type": ["string", "integer"], "enum": [1, 2]}, 2),
    ],
)
def test_a_number_in_quotes_is_a_number_where_no_string_is_declared(
    text: str, schema: JSON, number: float
) -> None:
    assert_becomes({"x": text}, tool(schema), {"x": number}, "number_from_text")


@pytest.mark.parametrize("schema", [INTEGER, NUMBER])
@pytest.mark.parametrize(
    "text",
    [
        *["001", " 2", "2 ", "2\n", "1_000", "1,000", "0x1", "+1", ".5", "1.", "--1", "2px", "two"],
        *["1e400", "NaN", "Infinity", "-Infinity", "٣", "²", "", " ", "true", "null", '"2"', "[2]"],
        *["9" * 641, "\ud800", "1.0.0"],
    ],
)
def test_what_json_does_not_call_a_number_is_left_alone(text: str, schema: JSON) -> None:
    assert_stays({"x": text}, tool(schema))


@pytest.mark.parametrize("text", ["2.5", "1e2", "1.0e2", "2.01", "9007199254740993.5", "1e-400"])
def test_a_text_that_is_not_plainly_whole_is_no_integer(text: str) -> None:
    assert_stays({"x": text}, tool(INTEGER))


@pytest.mark.parametrize("text", ["001", "2", "true", "null", "[1]", '{"a": 1}', "3.0"])
@pytest.mark.parametrize(
    "schema",
    [
        STRING,
        {},
        True,
        {"type": ["integer", "string"]},
        any_of(INTEGER, BOOLEAN, ARRAY, STRING),
        {"oneOf": [INTEGER, any_of(OBJECT, {"$ref": "#/$defs/text"})]},
        {"properties": {"a": INTEGER}, "items": INTEGER},
        {"enum": ["a", 2]},
        {"type": "integer-ish"},
    ],
)
def test_a_text_stays_wherever_a_string_may_stand(text: str, schema: JSON) -> None:
    assert_stays({"x": text}, tool(schema) | {"$defs": {"text": STRING}})


@pytest.mark.parametrize("schema", [INTEGER, {"type": ["integer", "null"]}, any_of(INTEGER, NULL)])
def test_a_whole_float_is_an_integer_where_only_integers_are_declared(schema: JSON) -> None:
    assert_becomes({"x": 3.0}, tool(schema), {"x": 3}, "integer_from_float")


@pytest.mark.parametrize(
    ("value", "schema"),
    [(3.5, INTEGER), (3.0, NUMBER), (3.0, any_of(INTEGER, NUMBER)), (3.0, STRING), (3.0, {})],
)
def test_any_other_float_stays_a_float(value: float, schema: JSON) -> None:
    assert_stays({"x": value}, tool(schema))


def test_a_float_that_may_have_lost_digits_stays_a_float() -> None:
    assert_becomes({"x": 2.0**53 - 1}, tool(INTEGER), {"x": 2**53 - 1}, "integer_from_float")
    assert_stays({"x": 2.0**53}, tool(INTEGER))


# Booleans and null


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (text, text.lower() == "true")
        for text in ("true", "True", "TRUE", "false", "False", "FALSE")
    ],
)
def test_a_boolean_in_quotes_is_a_boolean(text: str, value: bool) -> None:  # noqa: FBT001
    assert_becomes({"x": text}, tool(BOOLEAN), {"x": value}, "boolean_from_text")


@pytest.mark.parametrize("text", ["1", "0", "yes", "no", "on", "tRUE", " true", "true.0", "t", ""])
def test_no_other_text_is_a_boolean(text: str) -> None:
    assert_stays({"x": text}, tool(BOOLEAN))


def test_a_command_called_true_stays_a_command() -> None:
    assert_stays({"command": "true"}, {"properties": {"command": STRING}})


def test_null_in_quotes_is_null_only_where_null_is_declared() -> None:
    nullable = {"type": ["integer", "null"]}
    assert_becomes({"x": "null"}, tool(nullable), {"x": None}, "null_from_text")
    assert_becomes({"x": "null"}, tool(nullable, required=False), {"x": None}, "null_from_text")
    assert_stays({"x": "null"}, tool(INTEGER, required=False))
    assert_stays({"x": "None"}, tool(nullable))


# Containers


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("[1]", ARRAY, [1]),
        ("\n [1, 2]\n", ARRAY, [1, 2]),
        ("[]", any_of(ARRAY, NULL), []),
        ('["a"]', {"oneOf": [{"type": "array", "items": STRING}, OBJECT]}, ["a"]),
        ('{"a": "1"}', OBJECT, {"a": "1"}),
        ("{}", any_of({"$ref": "#/$defs/point"}, NULL), {}),
    ],
)
def test_a_container_in_quotes_is_a_container(text: str, schema: JSON, value: Any) -> None:
    schema = tool(schema) | {"$defs": {"point": POINT}}
    assert_becomes({"x": text}, schema, {"x": value}, "container_from_text")


@pytest.mark.parametrize(
    "text",
    [
        *["[1", "[1,]", "[1] [2]", "(1,)", "['a']", '"[1]"', "1", "{}.0", "[NaN]", '["\\ud800"]'],
        *['{"a": 1, "a": 2}', '[{"a": 1}, {"b": 1, "b": 2}]', "[" * 65 + "]" * 65, "[" * 5_000],
        *['[1], "value": [1]', "[1]}", '["a\nb"]', f"[{'9' * 641}]", "[1e400]", "null"],
    ],
)
def test_a_text_that_could_not_be_read_as_arguments_is_left_alone(text: str) -> None:
    assert_stays({"x": text}, tool({"type": ["array", "object"]}))


def test_a_container_of_the_wrong_kind_is_left_alone() -> None:
    assert_stays({"x": "[1]"}, tool(OBJECT))
    assert_stays({"x": "{}"}, tool(ARRAY))


def test_what_was_in_quotes_is_fitted_inside_too() -> None:
    schema = tool({"type": "array", "items": POINT})
    steps = ("container_from_text", "number_from_text")
    assert_becomes({"x": '[{"n": "2", "s": "2"}]'}, schema, {"x": [{"n": 2, "s": "2"}]}, *steps)
    assert_becomes({"x": ['{"n": "2"}']}, schema, {"x": [{"n": 2}]}, *steps)


def test_the_parts_of_objects_and_arrays_are_fitted_in_place() -> None:
    before = {"x": {"n": "1", "s": "1", "free": "1"}}
    assert_becomes(before, tool(POINT), {"x": before["x"] | {"n": 1}}, "number_from_text")
    assert_becomes({"x": [1, "2"]}, tool(INTEGERS), {"x": [1, 2]}, "number_from_text")


def test_the_schema_of_additional_properties_counts_for_undeclared_names_only() -> None:
    schema = {"properties": {"a": STRING}, "additionalProperties": INTEGER}
    assert_becomes({"a": "1", "b": "1"}, schema, {"a": "1", "b": 1}, "number_from_text")
    # Whether the pattern matches is not looked at, so nothing is known.
    assert_stays({"b": "1"}, schema | {"patternProperties": {"^b": STRING}})


def test_the_first_items_may_have_schemas_of_their_own() -> None:
    schema = tool({"prefixItems": [STRING, True, BOOLEAN], "items": INTEGER})
    before, after = ["1", "1", "true", "1", "1"], ["1", "1", True, 1, 1]
    assert_becomes({"x": before}, schema, {"x": after}, "boolean_from_text", "number_from_text")
    pair = tool({"prefixItems": [INTEGER]})
    assert_becomes({"x": ["1", "1"]}, pair, {"x": [1, "1"]}, "number_from_text")
    either = {"type": ["string", "integer"]}
    both = {"prefixItems": [STRING], "items": either, "allOf": [{"prefixItems": [{}, INTEGER]}]}
    assert_becomes({"x": ["1", "1", "1"]}, tool(both), {"x": ["1", 1, "1"]}, "number_from_text")
