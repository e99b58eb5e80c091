"""Tests of `surecall.parsing.coercion`."""

import copy
from typing import Any

import pytest

from surecall.parsing.budget import WorkBudget
from surecall.parsing.coercion import Coercion, coercer, is_untyped, rewrite_schema
from surecall.values.types import JSON
from tests.support.generated import (
    ARRAY,
    BOOLEAN,
    INTEGER,
    INTEGERS,
    NULL,
    NUMBER,
    OBJECT,
    POINT,
    SEARCH,
    STRING,
    any_of,
    assert_becomes,
    assert_stays,
    tool_parameters,
)

# Arguments that almost fit: what is changed, by which step, and what is left alone


def test_arguments_that_fit_come_back_as_the_very_same_object() -> None:
    assert_stays({"city": "Paris", "limit": 3, "tags": ["a"]}, SEARCH)


@pytest.mark.parametrize(("number", "kind"), [(1.5, INTEGER), (2.0, STRING)])
def test_a_number_inside_decides_between_alternatives(number: float, kind: JSON) -> None:
    other = {"type": "object", "properties": {"a": kind, "b": INTEGER}}
    fits = {"type": "object", "properties": {"a": NUMBER, "b": INTEGER}}

    assert_becomes(
        {"x": {"a": number, "b": "3"}},
        tool_parameters(any_of(other, fits)),
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
        fit({"limit": "1"}) == fit({"limit": "1"}) == Coercion({"limit": 1}, ("number_from_text",))
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
    assert_becomes({"x": text}, tool_parameters(schema), {"x": number}, "number_from_text")


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
    assert_stays({"x": text}, tool_parameters(schema))


@pytest.mark.parametrize("text", ["2.5", "1e2", "1.0e2", "2.01", "9007199254740993.5", "1e-400"])
def test_a_text_that_is_not_plainly_whole_is_no_integer(text: str) -> None:
    assert_stays({"x": text}, tool_parameters(INTEGER))


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
    assert_stays({"x": text}, tool_parameters(schema) | {"$defs": {"text": STRING}})


@pytest.mark.parametrize("schema", [INTEGER, {"type": ["integer", "null"]}, any_of(INTEGER, NULL)])
def test_a_whole_float_is_an_integer_where_only_integers_are_declared(schema: JSON) -> None:
    assert_becomes({"x": 3.0}, tool_parameters(schema), {"x": 3}, "integer_from_float")


@pytest.mark.parametrize(
    ("value", "schema"),
    [(3.5, INTEGER), (3.0, NUMBER), (3.0, any_of(INTEGER, NUMBER)), (3.0, STRING), (3.0, {})],
)
def test_any_other_float_stays_a_float(value: float, schema: JSON) -> None:
    assert_stays({"x": value}, tool_parameters(schema))


def test_a_float_that_may_have_lost_digits_stays_a_float() -> None:
    assert_becomes(
        {"x": 2.0**53 - 1}, tool_parameters(INTEGER), {"x": 2**53 - 1}, "integer_from_float"
    )
    assert_stays({"x": 2.0**53}, tool_parameters(INTEGER))


# Booleans and null


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (text, text.lower() == "true")
        for text in ("true", "True", "TRUE", "false", "False", "FALSE")
    ],
)
def test_a_boolean_in_quotes_is_a_boolean(text: str, value: bool) -> None:  # noqa: FBT001
    assert_becomes({"x": text}, tool_parameters(BOOLEAN), {"x": value}, "boolean_from_text")


@pytest.mark.parametrize("text", ["1", "0", "yes", "no", "on", "tRUE", " true", "true.0", "t", ""])
def test_no_other_text_is_a_boolean(text: str) -> None:
    assert_stays({"x": text}, tool_parameters(BOOLEAN))


def test_a_command_called_true_stays_a_command() -> None:
    assert_stays({"command": "true"}, {"properties": {"command": STRING}})


def test_null_in_quotes_is_null_only_where_null_is_declared() -> None:
    nullable = {"type": ["integer", "null"]}
    assert_becomes({"x": "null"}, tool_parameters(nullable), {"x": None}, "null_from_text")
    assert_becomes(
        {"x": "null"}, tool_parameters(nullable, required=False), {"x": None}, "null_from_text"
    )
    assert_stays({"x": "null"}, tool_parameters(INTEGER, required=False))
    assert_stays({"x": "None"}, tool_parameters(nullable))


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
    schema = tool_parameters(schema) | {"$defs": {"point": POINT}}
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
    assert_stays({"x": text}, tool_parameters({"type": ["array", "object"]}))


def test_a_container_of_the_wrong_kind_is_left_alone() -> None:
    assert_stays({"x": "[1]"}, tool_parameters(OBJECT))
    assert_stays({"x": "{}"}, tool_parameters(ARRAY))


def test_what_was_in_quotes_is_fitted_inside_too() -> None:
    schema = tool_parameters({"type": "array", "items": POINT})
    steps = ("container_from_text", "number_from_text")
    assert_becomes({"x": '[{"n": "2", "s": "2"}]'}, schema, {"x": [{"n": 2, "s": "2"}]}, *steps)
    assert_becomes({"x": ['{"n": "2"}']}, schema, {"x": [{"n": 2}]}, *steps)


def test_the_parts_of_objects_and_arrays_are_fitted_in_place() -> None:
    before = {"x": {"n": "1", "s": "1", "free": "1"}}
    assert_becomes(
        before, tool_parameters(POINT), {"x": before["x"] | {"n": 1}}, "number_from_text"
    )
    assert_becomes({"x": [1, "2"]}, tool_parameters(INTEGERS), {"x": [1, 2]}, "number_from_text")


def test_the_schema_of_additional_properties_counts_for_undeclared_names_only() -> None:
    schema = {"properties": {"a": STRING}, "additionalProperties": INTEGER}
    assert_becomes({"a": "1", "b": "1"}, schema, {"a": "1", "b": 1}, "number_from_text")
    # Whether the pattern matches is not looked at, so nothing is known.
    assert_stays({"b": "1"}, schema | {"patternProperties": {"^b": STRING}})


def test_the_first_items_may_have_schemas_of_their_own() -> None:
    schema = tool_parameters({"prefixItems": [STRING, True, BOOLEAN], "items": INTEGER})
    before, after = ["1", "1", "true", "1", "1"], ["1", "1", True, 1, 1]
    assert_becomes({"x": before}, schema, {"x": after}, "boolean_from_text", "number_from_text")
    pair = tool_parameters({"prefixItems": [INTEGER]})
    assert_becomes({"x": ["1", "1"]}, pair, {"x": [1, "1"]}, "number_from_text")
    either = {"type": ["string", "integer"]}
    both = {"prefixItems": [STRING], "items": either, "allOf": [{"prefixItems": [{}, INTEGER]}]}
    assert_becomes(
        {"x": ["1", "1", "1"]}, tool_parameters(both), {"x": ["1", 1, "1"]}, "number_from_text"
    )


def test_a_value_stays_as_it_is_if_too_little_is_left_of_the_budget() -> None:
    fit = coercer({"type": "object", "properties": {"n": {"type": "integer"}}})
    little = WorkBudget(2)

    assert fit({"n": "1"}, little) == Coercion({"n": "1"})
    assert little.is_exhausted
    assert fit({"n": "1"}, WorkBudget()).value == {"n": 1}


# A schema changed everywhere: each place where a schema may be, and nothing else


def test_untyped_schemas_are_found_wherever_a_schema_may_stand() -> None:
    deep = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {}}, "b": {"anyOf": [{"title": "x"}]}},
        "additionalProperties": {"description": "more"},
    }
    changed = rewrite_schema(deep, lambda part: {"const": 1} if is_untyped(part) else part)

    assert changed == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"const": 1}},
            "b": {"anyOf": [{"const": 1}]},
        },
        "additionalProperties": {"const": 1},
    }


def numbered(schema: JSON) -> list[JSON]:
    """List the schemas that a change is made to, in order."""
    seen: list[JSON] = []

    def note(part: JSON) -> JSON:
        seen.append(part)
        return part

    rewrite_schema(schema, note)
    return seen


@pytest.mark.parametrize("keyword", ["properties", "patternProperties", "$defs", "definitions"])
def test_a_map_of_schemas_is_walked_by_its_values(keyword: str) -> None:
    # The name of a property may be that of a keyword.
    below: JSON = {"items": {"type": "string"}, "enum": {"type": "null"}, "any": True}

    assert numbered({keyword: below})[:-1] == [{"type": "string"}, {"type": "null"}]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf", "prefixItems"])
def test_a_list_of_schemas_is_walked(keyword: str) -> None:
    assert numbered({keyword: [{"type": "null"}, False]})[:-1] == [{"type": "null"}]


@pytest.mark.parametrize("keyword", ["items", "additionalProperties"])
def test_a_single_schema_is_walked_unless_it_is_a_yes_or_a_no(keyword: str) -> None:
    assert numbered({keyword: {"type": "null"}})[:-1] == [{"type": "null"}]
    assert numbered({keyword: False})[:-1] == []


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples", "description"])
def test_values_that_only_look_like_schemas_are_not_touched(keyword: str) -> None:
    for value in ({"title": "x"}, [{"title": "x"}]):
        schema = {"type": "object", keyword: value}

        assert numbered(schema) == [schema]


def test_what_is_below_is_changed_first() -> None:
    schema = {"items": {"items": {"title": "inner"}}}
    counted = rewrite_schema(schema, lambda part: part | {"depth": str(part).count("depth")})

    assert counted["items"]["items"]["depth"] == 0
    assert (counted["items"]["depth"], counted["depth"]) == (1, 2)


def test_a_change_that_changes_nothing_gives_the_same_schema() -> None:
    schema = {
        "properties": {"a": {"anyOf": [{"type": "null"}, True]}},
        "additionalProperties": {"type": "string"},
    }

    assert rewrite_schema(schema, lambda part: part) is schema


def test_a_change_leaves_the_schema_that_was_given_as_it_was() -> None:
    schema: JSON = {"properties": {"a": {"title": "x"}, "b": {"type": "null"}}}
    kept = schema["properties"]["b"]

    changed = rewrite_schema(schema, lambda part: part | {"const": 1} if is_untyped(part) else part)

    assert schema == {"properties": {"a": {"title": "x"}, "b": {"type": "null"}}}
    assert changed["properties"]["a"] == {"title": "x", "const": 1}
    assert changed["properties"]["b"] is kept


@pytest.mark.parametrize(
    ("schema", "untyped"),
    [
        ({}, True),
        ({"title": "t", "description": "d", "default": 1}, True),
        ({"type": "string"}, False),
        ({"enum": [1]}, False),
        ({"$ref": "#/$defs/a"}, False),
        ({"anyOf": []}, False),
        ({"not": {}}, False),
    ],
)
def test_a_schema_is_untyped_when_nothing_says_what_it_wants(
    schema: JSON, *, untyped: bool
) -> None:
    assert is_untyped(schema) is untyped
