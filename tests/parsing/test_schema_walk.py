"""A schema changed everywhere: each place where a schema may be, and nothing else."""

import pytest

from surecall.parsing.schema_walk import is_untyped, rewritten
from surecall.values.types import JSON


def test_untyped_schemas_are_found_wherever_a_schema_may_stand() -> None:
    deep = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {}}, "b": {"anyOf": [{"title": "x"}]}},
        "additionalProperties": {"description": "more"},
    }
    changed = rewritten(deep, lambda part: {"const": 1} if is_untyped(part) else part)

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

    rewritten(schema, note)
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
    counted = rewritten(schema, lambda part: part | {"depth": str(part).count("depth")})

    assert counted["items"]["items"]["depth"] == 0
    assert (counted["items"]["depth"], counted["depth"]) == (1, 2)


def test_a_change_that_changes_nothing_gives_the_same_schema() -> None:
    schema = {
        "properties": {"a": {"anyOf": [{"type": "null"}, True]}},
        "additionalProperties": {"type": "string"},
    }

    assert rewritten(schema, lambda part: part) is schema


def test_a_change_leaves_the_schema_that_was_given_as_it_was() -> None:
    schema: JSON = {"properties": {"a": {"title": "x"}, "b": {"type": "null"}}}
    kept = schema["properties"]["b"]

    changed = rewritten(schema, lambda part: part | {"const": 1} if is_untyped(part) else part)

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
