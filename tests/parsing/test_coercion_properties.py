"""Coercion: what holds for every value, every schema and every size."""

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall.parsing.coercion import coerce, coercer
from surecall.values.types import JSON
from tests.support.generated import (
    INTEGER,
    INTEGERS,
    JSON_VALUES,
    LEAVES,
    NAMES,
    NULL,
    OBJECTS,
    POINT,
    SCHEMAS,
    TYPES,
    VALUES,
    any_of,
    assert_becomes,
    assert_stays,
    fitting,
    objects,
    places,
    tool_parameters,
)
from tests.support.timing import LINEAR, growth, steps

# Steps. Without a bound the number of alternatives that double has no end.
ENDLESS = 10_000_000


KEYWORDS = ["type", "enum", "const", "properties", "required", "items", "prefixItems", "anyOf"]
KEYWORDS += ["oneOf", "allOf", "$ref", "additionalProperties", "minLength", "pattern", "format"]
NONSENSE = st.recursive(
    JSON_VALUES | TYPES | LEAVES,
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYWORDS) | NAMES, inner, max_size=4)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=12,
)


@given(OBJECTS | VALUES | JSON_VALUES, SCHEMAS | NONSENSE)
@settings(max_examples=300)
def test_nothing_raises_nothing_is_mutated_and_a_second_time_changes_nothing(
    value: Any, schema: Any
) -> None:
    before = copy.deepcopy((value, schema))
    fit = coercer(schema)
    once = fit(value)
    again = fit(once.value)

    assert (value, schema) == before
    assert (once.steps == ()) == (once.value is value)
    assert len(set(once.steps)) == len(once.steps)
    assert again.value is once.value
    assert again.steps == ()


@given(st.lists(OBJECTS | VALUES, min_size=1, max_size=8), SCHEMAS)
@settings(max_examples=200)
def test_what_the_schema_accepts_keeps_its_value(values: list[Any], schema: JSON) -> None:
    try:
        accepts = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
        accepted = [value for value in values if accepts(value)]
    except Exception:  # noqa: BLE001  a pattern, a loop or a surrogate that the validator refuses
        return
    for value in accepted:
        coerced = coerce(value, schema)
        # JSON Schema sees no difference between 3 and 3.0, but `range` does.
        assert set(coerced.steps) <= {"integer_from_float"}
        assert coerced.value == value
        assert accepts(coerced.value)


# What fits, bent in one of the known ways, comes back as it was


PLAIN: st.SearchStrategy[JSON] = st.sampled_from(
    [
        *({"type": name} for name in ("boolean", "integer", "number", "string")),
        {"type": ["integer", "null"]},
        any_of({"type": "boolean"}, NULL),
        {"enum": ["red", "2", "true"]},
    ]
)
TOOLS = objects(st.recursive(PLAIN, places, max_leaves=5))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change every part of a value from the inside out, but not the value itself."""
    if isinstance(value, dict):
        return {name: change(mapped(item, change)) for name, item in value.items()}
    return [change(mapped(item, change)) for item in value] if isinstance(value, list) else value


def scalars_in_quotes(value: Any, _: JSON) -> Any:
    keep = (str, list, dict)
    return mapped(value, lambda item: item if isinstance(item, keep) else json.dumps(item))


def containers_in_quotes(value: Any, _: JSON) -> Any:
    bend = (list, dict)
    return mapped(value, lambda item: json.dumps(item) if isinstance(item, bend) else item)


def everything_in_quotes(value: Any, _: JSON) -> Any:
    return mapped(value, lambda item: item if isinstance(item, str) else json.dumps(item))


def integers_as_floats(value: Any, _: JSON) -> Any:
    small = range(-(2**53) + 1, 2**53)
    return mapped(value, lambda item: float(item) if type(item) is int and item in small else item)


def wrapped(value: Any, _: JSON) -> Any:
    return {"arguments": value}


def wrapped_in_quotes(value: Any, _: JSON) -> Any:
    return {"parameters": json.dumps(value)}


def nulls_for_what_is_missing(value: Any, schema: JSON) -> Any:
    never_null = [name for name, child in schema["properties"].items() if "null" not in str(child)]
    return {**value, **{name: None for name in never_null if name not in value}}


def blanks_for_what_is_missing(value: Any, schema: JSON) -> Any:
    texts = [name for name, child in schema["properties"].items() if child == {"type": "string"}]
    missing = schema["properties"].keys() - value.keys() - set(texts)
    return {**value, **dict.fromkeys(missing, "")}


FAULTS = [
    scalars_in_quotes,
    containers_in_quotes,
    everything_in_quotes,
    wrapped,
    wrapped_in_quotes,
    nulls_for_what_is_missing,
    blanks_for_what_is_missing,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@given(st.data())
def test_what_was_bent_comes_back_as_it_was(
    fault: Callable[[Any, JSON], Any], data: st.DataObject
) -> None:
    schema = data.draw(TOOLS)
    value = data.draw(fitting(schema))
    coerced = coerce(fault(value, schema), schema)

    assert json.dumps(coerced.value) == json.dumps(value)


@given(st.data())
def test_integers_that_were_spelt_as_floats_come_back_as_integers(data: st.DataObject) -> None:
    schema = data.draw(TOOLS.filter(lambda schema: "number" not in str(schema)))
    value = data.draw(fitting(schema))
    coerced = coerce(integers_as_floats(value, schema), schema)

    assert json.dumps(coerced.value) == json.dumps(value)


# Limits


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"x": value}
    return value


def test_values_are_fitted_down_to_sixty_four_levels() -> None:
    schema = {"properties": {"x": {"$ref": "#"}, "n": INTEGER}}
    assert_becomes(nested({"n": "1"}, 31), schema, nested({"n": 1}, 31), "number_from_text")
    assert_stays(nested({"n": "1"}, 70), schema)
    assert_stays(nested({"n": "1"}, 900), schema)
    again = any_of({"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x", "title": "again"})
    assert_stays(
        nested({"n": "1"}, 70), again | {"$defs": {"x": tool_parameters({"$ref": "#/$defs/x"})}}
    )


def test_schemas_are_read_down_to_sixty_four_levels() -> None:
    schema: JSON = INTEGER
    for _ in range(70):
        schema = tool_parameters(schema)
    assert_stays(nested("1", 70), schema)


def test_schemas_are_read_up_to_ten_thousand_nodes() -> None:
    names = [f"p{number}" for number in range(12_000)]
    coerced = coerce(dict.fromkeys(names, "1"), {"properties": dict.fromkeys(names, INTEGER)})
    kept = list(coerced.value.values())
    assert kept == sorted(kept, key=lambda value: value == "1")
    assert 4_000 < kept.count(1) < 10_000


def doubling(key: str, end: JSON, levels: int = 50) -> JSON:
    """Return a schema that would be huge if each reference were followed."""
    names = [f"d{level}" for level in range(levels + 1)]
    below = [{"$ref": f"#/$defs/{name}"} for name in names[1:]]
    links = [{key: [reference, reference | {"title": "again"}]} for reference in below]
    definitions = dict(zip(names, [*links, end], strict=True))
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def test_references_that_double_are_followed_once() -> None:
    assert_becomes(
        {"x": "1"}, doubling("allOf", tool_parameters(INTEGER)), {"x": 1}, "number_from_text"
    )


@pytest.mark.slow
@pytest.mark.parametrize("value", [{"x": "1"}, {"x": 1}])
def test_alternatives_that_double_are_given_up(value: JSON) -> None:
    fit = coercer(doubling("anyOf", tool_parameters(INTEGER)))
    assert fit(value).value is value
    assert steps(lambda: fit(value)) < ENDLESS


def test_giving_up_changes_nothing_at_all() -> None:
    hard = doubling("anyOf", tool_parameters(INTEGER))
    schema = {"properties": {"n": INTEGER, "hard": hard}, "$defs": hard["$defs"]}
    assert_becomes(
        {"n": "1", "hard": {"x": 1}}, schema, {"n": 1, "hard": {"x": 1}}, "number_from_text"
    )
    assert_stays({"n": "1", "hard": {"x": "1"}}, schema)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "schema", "after"),
    [
        ("1", INTEGER, 1),
        ([], any_of(INTEGERS, NULL), []),
        ({"n": "1"}, any_of(POINT, {"type": "object", "required": ["y"]}), {"n": 1}),
        ("x" * 20, INTEGER, "x" * 20),
    ],
)
def test_large_arrays_are_fitted_in_linear_time(item: Any, schema: JSON, after: Any) -> None:
    def fitted(many: int) -> None:
        coerced = coerce({"x": [item] * many}, tool_parameters({"type": "array", "items": schema}))
        assert coerced.value == {"x": [after] * many}

    assert growth(fitted, 1_000) < LINEAR
    fitted(200_000 // (len(json.dumps(item)) + 2))
