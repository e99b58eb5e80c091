"""Texts of a schema are bounded: wherever they are, and only where nothing else bounds them."""

from typing import Any

import jsonschema_rs
import pytest

from surecall.values.types import (
    JSON,
)
from surecall.wire.protocols.bounded_schema import bounded

TEXT: JSON = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "short", "long"),
    [
        (TEXT, "abcde", "abcdef"),
        (TEXT | {"minLength": 7}, "abcdefg", "abcdefgh"),
        ({"description": "anything"}, "abcde", "abcdef"),
        ({"properties": {"a": TEXT, "b": True}}, {"a": "abc"}, {"a": "abcdef"}),
        ({"type": "array", "items": TEXT}, ["abc"], ["abcdef"]),
        ({"type": "object", "additionalProperties": TEXT}, {"a": "abc"}, {"a": "abcdef"}),
        ({"anyOf": [TEXT, {"type": "null"}, False]}, None, "abcdef"),
        ({"$ref": "#/$defs/d", "$defs": {"d": TEXT}}, "abc", "abcdef"),
    ],
)
def test_texts_are_bounded_wherever_they_stand(schema: JSON, short: Any, long: Any) -> None:
    before = jsonschema_rs.validator_for(schema)
    after = jsonschema_rs.validator_for(bounded(schema, 5))

    assert before.is_valid(short)
    assert before.is_valid(long)
    assert after.is_valid(short)
    assert not after.is_valid(long)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 9},
        {"enum": ["abcdefghi"]},
        {"type": "string", "const": "abcdefghi"},
        {"type": "string", "pattern": "^a"},
        {"type": "string", "format": "date"},
        {"type": "integer"},
        {"type": "object", "properties": {"a": {"type": "boolean"}}},
    ],
)
def test_what_says_more_about_itself_is_left_alone(schema: JSON) -> None:
    assert bounded(schema, 5) == schema


@pytest.mark.parametrize("value", [3, 2.5, True, None, [1], {"a": 1}, "abc"])
def test_what_may_be_anything_may_still_be_anything_short(value: Any) -> None:
    assert jsonschema_rs.validator_for(bounded({"description": "anything"}, 5)).is_valid(value)
