"""Tool schemas are rewritten for endpoints that accept only a subset, and never reject more."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.types import JSON
from surecall.wire.schema_flavors import is_known_flavor, rewrite_parameters

FLAVORS = (
    *("$ref", "$defs", "const", "oneOf", "allOf", "type-list", "typed", "any-of-alone"),
    *("plain-root", "depth:3", "depth:1", "simple", "format", "additionalProperties"),
    *("complete", "kinds"),
)


def argument(**keywords: Any) -> JSON:
    return {"type": "object", "properties": {"a": keywords}}


def rewritten(flavor: str, **keywords: Any) -> Any:
    return rewrite_parameters(argument(**keywords), flavor)["properties"]["a"]


@pytest.mark.parametrize(
    ("flavor", "given_schema", "expected"),
    [
        ("const", {"const": "x"}, {"enum": ["x"]}),
        ("oneOf", {"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ("oneOf", {"oneOf": [{}], "anyOf": [{}]}, {"anyOf": [{}]}),
        (
            "allOf",
            {"allOf": [{"properties": {"x": {}}, "required": ["x"]}, True, {"required": ["y"]}]},
            {"properties": {"x": {}}, "required": ["x", "y"]},
        ),
        ("allOf", {"allOf": "odd"}, {"allOf": "odd"}),
        ("type-list", {"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            "type-list",
            {"type": ["string", "integer"]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        ("type-list", {"type": ["null"]}, {"nullable": True}),
        ("typed", {"properties": {"x": {"type": "string"}}}, {"type": "object"}),
        ("typed", {"items": {"type": "string"}}, {"type": "array"}),
        ("typed", {"enum": [True]}, {"type": "boolean"}),
        (
            "typed",
            {"description": "d"},
            {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]},
        ),
        ("typed", {"enum": [1, 2]}, {"type": "integer"}),
        ("typed", {"enum": [1, 2.5]}, {"type": "number"}),
        ("typed", {"enum": ["a", 1]}, {"type": "string"}),
        (
            "any-of-alone",
            {"type": "object", "description": "d", "anyOf": [{"required": ["x"]}, False]},
            {"anyOf": [{"type": "object", "description": "d", "required": ["x"]}]},
        ),
        ("simple", {"type": "string", "pattern": "x", "default": "y"}, {"type": "string"}),
        ("format", {"type": "string", "format": "date"}, {"type": "string"}),
        ("$ref", {"anyOf": [{"$ref": "#/nowhere"}]}, {"anyOf": [{"type": "object"}]}),
        ("complete", {"type": "array"}, {"type": "array", "items": {}}),
        (
            "complete",
            {"type": ["object", "array"], "items": None, "default": None, "title": None},
            {"type": ["object", "array"], "items": {}, "default": None, "properties": {}},
        ),
        (
            "complete",
            {"type": "object", "properties": {"x": {}}, "required": ["y", "x"]},
            {"required": ["x"]},
        ),
        ("complete", {"type": "object", "properties": []}, {"properties": {}}),
        ("kinds", {"type": "string", "properties": {}, "required": []}, {"type": "string"}),
        ("kinds", {"type": ["array", "null"], "items": {}, "properties": {}}, {"items": {}}),
        ("kinds", {"enum": ["x"]}, {"enum": ["x"], "type": "string"}),
        ("kinds", {"type": "integer", "enum": [1]}, {"type": "integer"}),
        ("kinds", {"type": "string", "format": "enum", "enum": []}, {"type": "string"}),
    ],
)
def test_a_schema_is_rewritten(flavor: str, given_schema: JSON, expected: JSON) -> None:
    found = rewritten(flavor, **given_schema)

    assert {key: found[key] for key in expected} == expected
    assert found.keys() <= expected.keys() | given_schema.keys()


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_schema_without_the_feature_is_the_same_object(flavor: str) -> None:
    plain: JSON = {"type": "object", "properties": {"a": {"type": "string"}}}

    if flavor not in {"depth:1", "plain-root"}:
        assert rewrite_parameters(plain, flavor) is plain


@pytest.mark.parametrize("root", [{}, {"type": None}, {"properties": {"a": {"type": "string"}}}])
def test_the_root_of_a_complete_schema_is_an_object(root: JSON) -> None:
    complete = rewrite_parameters(root, "complete")

    assert complete["type"] == "object"
    assert complete["properties"] == root.get("properties", {})
    assert rewrite_parameters({}, "typed") == {"type": "object"}
    assert rewrite_parameters({"oneOf": [{}]}, "plain-root") == {"type": "object"}


def test_references_are_inlined_and_cycles_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    found = rewrite_parameters(
        argument(**{"$ref": "#/$defs/Node", "description": "d"}) | {"$defs": {"Node": node}},
        "$ref",
    )

    assert found == argument(
        type="object", properties={"next": {"type": "object"}}, description="d"
    )


def test_a_reference_that_leads_nowhere_allows_anything_that_is_an_object() -> None:
    for pointer in ("#/$defs/None", "other.json", "#/properties/a/type"):
        assert rewritten("$ref", **{"$ref": pointer}) == {"type": "object"}


def test_a_property_may_be_called_like_a_keyword() -> None:
    parameters = {"type": "object", "properties": {"$defs": {"type": "string"}, "const": {}}}

    for flavor in ("$ref", "const", "simple"):
        assert rewrite_parameters(parameters, flavor) is parameters


def test_references_that_multiply_are_bounded() -> None:
    levels = {
        f"L{level}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/L{level + 1}"} for name in "abcdefgh"},
        }
        for level in range(20)
    }
    found = rewrite_parameters(argument(**{"$ref": "#/$defs/L0"}) | {"$defs": levels}, "$ref")

    assert str(found).count("type") < 20_000


def test_a_chain_of_references_is_bounded_in_depth() -> None:
    chain = {f"L{n}": {"items": {"$ref": f"#/$defs/L{n + 1}"}} for n in range(5_000)}

    assert rewrite_parameters(argument(**{"$ref": "#/$defs/L0"}) | {"$defs": chain}, "$ref")


def test_alternatives_at_the_root_become_one_object() -> None:
    found = rewrite_parameters(
        {
            "anyOf": [
                {"properties": {"a": {}}, "required": ["a", "c"]},
                {"properties": {"b": {}}, "required": ["b", "c"]},
            ],
            "allOf": [{"required": ["d"]}, True],
            "required": ["e"],
        },
        "plain-root",
    )

    assert found == {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "required": ["e", "c", "d"],
    }


def test_what_is_nested_too_deep_is_unconstrained() -> None:
    deep: JSON = {"type": "string", "pattern": "x"}
    for _ in range(9):
        deep = {"type": "object", "properties": {"a": deep}, "description": "d"}
    found = rewrite_parameters(deep, "depth:2")

    assert found["properties"]["a"] == {"type": "object", "description": "d"}
    assert rewrite_parameters(deep, "depth:20") is deep
    assert rewrite_parameters({"type": "object"}, "depth:1") == {"type": "object"}


def test_only_flavors_that_keep_what_a_tool_needs_are_known() -> None:
    assert is_known_flavor("const")
    assert is_known_flavor("depth:5")
    assert not is_known_flavor("depth:five")
    assert not is_known_flavor("properties")


TYPES = st.sampled_from(["string", "integer", "object", "array", "boolean"])
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "const": st.sampled_from(["x", 1]),
        "enum": st.just(["x", 1]),
        "format": st.just("date"),
        "nullable": st.just(True),  # noqa: FBT003  # a value, not a switch
        "default": st.just("x"),
    },
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "properties": st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2),
            "items": inner,
        },
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.sampled_from(["x", 1, True, "2020-01-01"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y"]), inner),
    max_leaves=4,
)
# These only allow more, or the same; the others restate types that a model may choose among.
RELAXING = ("const", "oneOf", "depth:2", "simple", "format", "default", "$ref")


@given(SCHEMAS, VALUES, st.sampled_from(RELAXING))
def test_whatever_the_original_allows_is_still_allowed(
    schema: JSON, value: Any, flavor: str
) -> None:
    arguments = {"a": value}
    if jsonschema_rs.is_valid(argument(**schema), arguments):
        assert jsonschema_rs.is_valid(rewrite_parameters(argument(**schema), flavor), arguments)


@given(SCHEMAS, st.sampled_from(FLAVORS))
def test_rewriting_never_raises_never_mutates_and_ends(schema: JSON, flavor: str) -> None:
    parameters = argument(**schema)
    before = repr(parameters)
    once = rewrite_parameters(parameters, flavor)

    assert repr(parameters) == before
    assert rewrite_parameters(once, flavor) == once or flavor in {"allOf", "plain-root"}
