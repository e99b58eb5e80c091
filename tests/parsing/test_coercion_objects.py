"""Arguments that almost fit, as a whole: blanks, wrappers, alternatives, references."""

import json
from typing import Any

import pytest

from surecall.values.types import JSON
from tests.support.generated import (
    ARRAY,
    BOOLEAN,
    INTEGER,
    INTEGERS,
    NULL,
    OBJECT,
    POINT,
    SEARCH,
    STRING,
    any_of,
    assert_becomes,
    assert_stays,
    tool_parameters,
)

CAT = {"properties": {"kind": {"const": "cat"}, "lives": INTEGER}, "required": ["kind"]}
DOG = {"properties": {"kind": {"const": "dog"}, "lives": STRING}, "required": ["kind"]}


# Optional properties


@pytest.mark.parametrize("schema", [STRING, INTEGER, any_of(STRING, ARRAY), {"enum": ["a"]}])
def test_null_for_an_optional_property_that_is_never_null_is_dropped(schema: JSON) -> None:
    before = {"x": None, "y": 1}
    assert_becomes(
        before, tool_parameters(schema, required=False), {"y": 1}, "null_optional_dropped"
    )
    assert_stays(before, tool_parameters(schema))


@pytest.mark.parametrize("schema", [{}, NULL, any_of(STRING, NULL), {"enum": ["a", None]}])
def test_null_stays_where_null_may_stand(schema: JSON) -> None:
    assert_stays({"x": None}, tool_parameters(schema, required=False))


def test_null_is_dropped_from_declared_properties_only() -> None:
    assert_stays({"x": None}, {"additionalProperties": STRING})
    assert_stays({"x": [None]}, tool_parameters(INTEGERS, required=False))


@pytest.mark.parametrize(
    "schema",
    [
        INTEGER,
        ARRAY,
        {"enum": ["a", "b"]},
        {"const": "a"},
        {"type": "string", "minLength": 1},
        {"type": "string", "format": "date-time"},
        {"allOf": [STRING, {"minLength": 2}]},
        any_of(INTEGER, {"enum": ["auto"]}),
        any_of({"type": "string", "format": "uuid"}, NULL),
        *(
            {"type": "string", "pattern": pattern}
            for pattern in (
                "^[a-z0-9]([-a-z0-9]*)?$",
                r"^\d{4}-\d{2}$",
                "a",
                r"\.txt$",
                "^.",
                r"[\w-]+",
            )
        ),
    ],
)
def test_an_empty_text_for_an_optional_property_that_refuses_it_is_dropped(schema: JSON) -> None:
    before = {"x": "", "y": 1}
    assert_becomes(
        before, tool_parameters(schema, required=False), {"y": 1}, "empty_optional_dropped"
    )
    assert_stays(before, tool_parameters(schema))


@pytest.mark.parametrize(
    "schema",
    [
        STRING,
        {},
        {"enum": ["", "a"]},
        {"minLength": 0},
        {"minLength": "1"},
        {"format": "uri-reference"},
        {"format": ["date"]},
        any_of({"minLength": 1}, STRING),
        *(
            {"type": "string", "pattern": pattern}
            for pattern in (
                *(
                    "",
                    "^",
                    "^$",
                    "[a-z]*",
                    "^a?",
                    "a?1?",
                    "a{0,3}",
                    "a|",
                    "(a|b)",
                    r"\b",
                    "\\",
                    "[",
                ),
                *("[^]a]*", r"[a\]]*", "[[a]]*", r"\d*"),
            )
        ),
        {"pattern": 5},
    ],
)
def test_an_empty_text_stays_where_it_may_be_meant(schema: JSON) -> None:
    assert_stays({"x": ""}, tool_parameters(schema, required=False))


# Wrappers


@pytest.mark.parametrize(
    "key", ["args", "arguments", "input", "kwargs", "parameters", "params", "properties"]
)
def test_a_wrapper_around_the_arguments_is_taken_off(key: str) -> None:
    inner = {"city": "Paris", "limit": 2}
    assert_becomes({key: inner}, SEARCH, inner, "unwrapped")
    assert_becomes({key: json.dumps(inner)}, SEARCH, inner, "unwrapped")


def test_what_was_wrapped_is_fitted_as_well() -> None:
    before = {"arguments": '{"city": "Paris", "limit": "2"}'}
    steps = ("unwrapped", "number_from_text")
    assert_becomes(before, SEARCH, {"city": "Paris", "limit": 2}, *steps)


def test_a_wrapper_is_seen_once_the_blanks_beside_it_are_gone() -> None:
    before = {"limit": None, "input": {"city": "Paris"}}
    assert_becomes(before, SEARCH, {"city": "Paris"}, "null_optional_dropped", "unwrapped")


def test_a_wrapper_around_nothing_is_taken_off_where_it_may_not_be() -> None:
    assert_becomes({"input": {}}, {"additionalProperties": False}, {}, "unwrapped")


@pytest.mark.parametrize(
    "value",
    [
        {"city": "Paris", "arguments": {"city": "Rome"}},
        {"arguments": {"city": "Paris"}, "input": {"city": "Rome"}},
        {"payload": {"city": "Paris"}},
        {"arguments": {"town": "Paris"}},
        {"arguments": ["city", "Paris"]},
        {"arguments": "city"},
        {"arguments": ""},
        {"arguments": None},
        {"arguments": '{"city": "Paris"'},
        {},
    ],
)
def test_what_is_not_plainly_a_wrapper_is_left_alone(value: JSON) -> None:
    assert_stays(value, SEARCH)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"city": STRING, "input": OBJECT}, "required": ["city"]},
        {
            "properties": {"city": STRING},
            "required": ["city"],
            **any_of(tool_parameters({}), {"properties": {"input": {}}}),
        },
        {"properties": {"city": STRING}},
    ],
    ids=["declared", "declared-in-an-alternative", "additional-properties-are-welcome"],
)
def test_a_key_that_the_tool_may_have_is_no_wrapper(schema: JSON) -> None:
    assert_stays({"input": {"city": "Paris"}}, schema)


# Alternatives


def test_an_optional_container_is_fitted_like_a_declared_one() -> None:
    assert_becomes(
        {"x": ["1", "a"]},
        tool_parameters(any_of(INTEGERS, NULL)),
        {"x": [1, "a"]},
        "number_from_text",
    )
    steps = ("container_from_text", "number_from_text", "null_optional_dropped")
    before = {"x": '{"n": "1", "s": null}'}
    assert_becomes(before, tool_parameters({"oneOf": [NULL, POINT]}), {"x": {"n": 1}}, *steps)


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_the_alternative_is_chosen_by_what_cannot_be_changed(key: str) -> None:
    schema = tool_parameters({"type": "object", key: [CAT, DOG]})
    cat, dog = {"kind": "cat", "lives": "9"}, {"kind": "dog", "lives": "1"}
    assert_becomes({"x": cat}, schema, {"x": cat | {"lives": 9}}, "number_from_text")
    assert_stays({"x": dog}, schema)
    assert_stays({"x": cat | {"kind": "cow"}}, schema)
    assert_stays({"x": {"lives": "9"}}, schema)


@pytest.mark.parametrize(
    "other",
    [
        {"type": "object", "required": ["y"]},
        {"type": "object", "properties": {"y": {}}, "additionalProperties": False},
        {"properties": {"n": BOOLEAN}},
        {"properties": {"n": {"enum": ["a", "b"]}}},
        {"properties": {"n": {"minLength": 1, "type": "array"}}},
        {"additionalProperties": BOOLEAN},
        {"type": "array"},
        any_of({"required": ["y"]}, ARRAY),
        {"allOf": [{}, {"required": ["y"]}]},
        {"$ref": "#/$defs/other"},
    ],
)
def test_an_alternative_that_cannot_be_meant_does_not_count(other: JSON) -> None:
    schema = tool_parameters(any_of(other, POINT)) | {"$defs": {"other": {"required": ["y"]}}}
    assert_becomes({"x": {"n": "1"}}, schema, {"x": {"n": 1}}, "number_from_text")


def test_an_alternative_that_refuses_an_empty_text_does_not_count() -> None:
    other = {"properties": {"s": {"minLength": 1}}, "required": ["s"]}
    after = {"x": {"n": 1, "s": ""}}
    assert_becomes(
        {"x": {"n": "1", "s": ""}}, tool_parameters(any_of(other, POINT)), after, "number_from_text"
    )


@pytest.mark.parametrize(
    "other",
    [
        OBJECT,
        {},
        True,
        {"properties": {"n": STRING}},
        {"properties": {"n": STRING}, "additionalProperties": False},
        any_of({"required": ["y"]}, OBJECT),
    ],
)
def test_what_one_alternative_accepts_is_left_alone(other: Any) -> None:
    assert_stays({"x": {"n": "1"}}, tool_parameters(any_of(POINT, other)))


def test_items_decide_between_arrays() -> None:
    schema = tool_parameters(
        any_of(INTEGERS, {"type": "array", "items": BOOLEAN}, {"prefixItems": [NULL]})
    )
    assert_becomes({"x": ["1", 2]}, schema, {"x": [1, 2]}, "number_from_text")
    assert_becomes({"x": ["true"]}, schema, {"x": [True]}, "boolean_from_text")
    assert_stays({"x": ["1", "true"]}, schema)


@pytest.mark.parametrize(
    ("value", "one", "other"),
    [
        pytest.param(
            {"a": "1", "b": "2"},
            {"properties": {"a": INTEGER, "b": STRING}},
            {"properties": {"a": STRING, "b": INTEGER}},
            id="objects",
        ),
        pytest.param(
            ["1", "2"],
            {"prefixItems": [INTEGER, STRING]},
            {"prefixItems": [STRING, INTEGER]},
            id="arrays",
        ),
    ],
)
def test_two_alternatives_with_different_readings_are_left_alone(
    value: Any, one: JSON, other: JSON
) -> None:
    assert_stays({"x": value}, tool_parameters(any_of(one, other)))


def test_two_alternatives_with_the_same_reading_agree() -> None:
    schema = tool_parameters(
        any_of(POINT, POINT | {"properties": {"n": {"type": ["integer", "null"]}}})
    )
    assert_becomes({"x": {"n": "1"}}, schema, {"x": {"n": 1}}, "number_from_text")


def test_passes_follow_until_nothing_changes() -> None:
    either = {"type": ["string", "array"], "items": INTEGER}
    schema = {"properties": {"x": either}, **any_of({"properties": {"x": ARRAY}})}
    steps = ("container_from_text", "number_from_text")
    assert_becomes({"x": '["1"]'}, schema, {"x": [1]}, *steps)


# References


def test_a_schema_may_refer_to_its_definitions_and_to_itself() -> None:
    node = {"properties": {"n": INTEGER, "next": {"$ref": "#/$defs/a~1b"}}}
    schema = {"$ref": "#/$defs/a~1b", "$defs": {"a/b": node}}
    before, after = {"n": "1", "next": {"next": {"n": "2"}}}, {"n": 1, "next": {"next": {"n": 2}}}
    assert_becomes(before, schema, after, "number_from_text")
    assert_becomes(
        before,
        node | {"properties": {"n": INTEGER, "next": {"$ref": "#"}}},
        after,
        "number_from_text",
    )


@pytest.mark.parametrize(
    "pointer", ["#/$defs/no", "#/$defs/a/b", "#a", "", "other.json#/a", 5, None]
)
def test_a_reference_to_nothing_known_demands_nothing(pointer: Any) -> None:
    assert_stays({"x": "1"}, tool_parameters({"$ref": pointer}) | {"$defs": {"a": 1}, "a": INTEGER})


@pytest.mark.parametrize("key", ["allOf", "anyOf"])
def test_a_schema_that_only_refers_to_itself_demands_nothing(key: str) -> None:
    assert_stays({"x": "1"}, {key: [{"$ref": "#"}, {"$ref": "#", "title": "again"}]})


def test_a_definition_that_only_refers_to_itself_demands_nothing() -> None:
    reference = {"$ref": "#/$defs/loop"}
    schema = tool_parameters(reference, required=False) | {"$defs": {"loop": any_of(reference)}}
    assert_stays({"x": ""}, schema)
    assert_stays({"x": None}, schema)


def test_what_stands_beside_a_reference_counts_too() -> None:
    schema = tool_parameters({"$ref": "#/$defs/any", "type": "integer"}) | {
        "$defs": {"any": {"minimum": 0}}
    }
    assert_becomes({"x": "1"}, schema, {"x": 1}, "number_from_text")
    split = {"allOf": [{"properties": {"x": INTEGER}}, {"required": ["x"]}]}
    assert_stays({"x": None}, split)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        {"type": 5},
        {"type": []},
        {"type": [["integer"]]},
        {"properties": []},
        {"properties": {"x": 5}},
        {"properties": {"x": {"type": ["integer", 5]}}},
        {"properties": {"x": {"enum": 5}}},
        {"items": 5, "required": "x", "allOf": 5, "anyOf": [], "oneOf": {}, "prefixItems": 5},
        {"required": [5, None], "additionalProperties": 5, "$ref": []},
    ],
)
def test_a_malformed_schema_changes_nothing(schema: Any) -> None:
    assert_stays({"x": "1"}, schema)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "1", [], ["1"]])
def test_what_is_no_object_meets_no_property(value: Any) -> None:
    assert_stays(value, SEARCH)
