"""Clues: arguments from a schema and a text, and orders from instructions."""

from typing import Any

import msgspec
import pytest

from surecall.simulator.personas.clues import (
    Clues,
    SystemInstructions,
    arguments_for,
    parse_instructions,
)
from surecall.values.types import JSON
from tests.support.simulator import ASKED, LONG, TWO_CALLS, system_text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": 5}, 5),
        ({"enum": ["low", "high"]}, "high"),
        ({"enum": [1, 2]}, 1),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 42),
        ({"type": ["null", "boolean"]}, True),
        ({"type": []}, "Ada Lovelace"),
        ({"type": "null"}, None),
        ({"type": "number", "minimum": 0.5}, 42),
        ({"type": "string", "maxLength": 3}, "Ada"),
        ({"type": "string", "maxLength": "x", "minLength": 14}, "Ada Lovelacexx"),
        ({"$ref": "#/$defs/loop"}, "Ada Lovelace"),
        ({"$ref": "#/nowhere/at/all"}, "Ada Lovelace"),
        ({"type": "array", "minItems": 2, "items": {"type": "integer"}}, [42, 1]),
        ({"type": "array", "minItems": "x"}, ["Ada Lovelace"]),
        (
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            {"n": 42},
        ),
        ({"type": "object", "properties": 7, "required": 7}, {}),
    ],
)
def test_arguments_fit_their_schema(schema: JSON, value: Any) -> None:
    loop = {"loop": {"$ref": "#/$defs/loop"}}
    root = {"properties": {"key": schema}, "required": ["key"], "$defs": loop}
    assert arguments_for(root, Clues('Ask "Ada Lovelace" about 42 at high speed')) == {"key": value}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "key=7", 7),
        ({"type": "integer"}, "key=many", 1),
        ({"type": "integer", "minimum": "x"}, "key=many", 1),
        ({"type": "number"}, "key=2.5", 2.5),
        ({"type": "boolean"}, "key=no", False),
        ({"type": "array", "items": {"type": "integer"}}, "key=7", [7]),
        ({"enum": ["a", "b"]}, "key=b", "b"),
        ({"type": "string"}, "key=`x`", "x"),
    ],
)
def test_a_named_value_wins_over_everything_else(schema: JSON, text: str, value: Any) -> None:
    assert arguments_for({"properties": {"key": schema}}, Clues(text)) == {"key": value}


def test_optional_parameters_that_nobody_named_and_schemas_that_are_none_stay_empty() -> None:
    assert arguments_for({"properties": {"key": {"type": "string"}}}, Clues("key=")) == {}
    assert arguments_for(None, Clues("hello")) == {}


def test_a_schema_that_never_ends_is_cut_off() -> None:
    deep: JSON = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert msgspec.json.encode(arguments_for(deep, Clues(""))).count(b"{") < 12


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        ("Be kind.", SystemInstructions(is_given=True)),
        (LONG, SystemInstructions(is_given=True, min_length=300)),
        (
            "At least 3 words, at least 5 characters more.",
            SystemInstructions(is_given=True, min_length=5),
        ),
        ("It has at least 300", SystemInstructions(is_given=True)),
        (TWO_CALLS, SystemInstructions(is_given=True, at_once=True)),
        ("One fails on purpose: `/a/b`.", SystemInstructions(is_given=True, wrong_path="/a/b")),
        ("Be kind. Omit x.", SystemInstructions(is_given=True, omitted=frozenset({"Omit", "x"}))),
    ],
)
def test_orders_are_read_from_the_instructions(text: str, orders: SystemInstructions) -> None:
    assert (parse_instructions([system_text(text), ASKED]), parse_instructions([ASKED])) == (
        orders,
        SystemInstructions(),
    )
