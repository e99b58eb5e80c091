"""Laws and limits of coercion: what holds for every value, every schema and every size."""

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
from tests.parsing.test_coercion import (
    INTEGER,
    INTEGERS,
    NULL,
    POINT,
    any_of,
    assert_becomes,
    assert_stays,
    tool,
)
from tests.support.steps import LINEAR, growth, steps
from tests.support.strategies import JSON_VALUES

# Steps. Without a bound the number of alternatives that double has no end.
ENDLESS = 10_000_000
NAMES = st.sampled_from(["a", "b", "c", "arguments", "input"])
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
TEXTS = st.sampled_from(
    [
        *[
            "",
            "x",
            "1",
            "2.0",
            "2.5",
            "1e2",
            "001",
            " 2",
            "true",
            "null",
            "[1]",
            '["1"]',
            '[["1"]]',
        ],
        *['{"a": 1}', '{"a": "1"}', '{"arguments": {"a": "1"}}', "9007199254740993.0", "\ud800"],
    ]
)
SCALARS = st.none() | st.booleans() | st.sampled_from([0, 1, 2.0, 2.5, -0.0, 1e300]) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)
PATTERNS = st.lists(
    st.sampled_from(
        [*"ab1^$.?*+|()[]{}-", "[a-z]", "[^a]", "\\d", "\\w", "\\b", "{2}", "{0,1}", "\\-"]
    ),
    max_size=5,
).map("".join)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[JSON]:
    """Return schemas of up to four keywords."""
    some = st.lists(inner, min_size=1, max_size=3)
    keywords = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minLength": st.sampled_from([0, 1, 2.0]),
        "pattern": PATTERNS,
        "format": st.sampled_from(["date", "uri", "uri-reference", "uuid", "unheard-of"]),
        "not": inner,
        "properties": st.dictionaries(NAMES, inner, min_size=1, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.just("a|input"), inner),
        "items": inner,
        "prefixItems": some,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "$ref": st.sampled_from(["#", "#/$defs/x"]),
    }
    pairs = [st.tuples(st.just(name), value) for name, value in keywords.items()]
    # Properties and types come more often, or little would be both demanded and there.
    return st.lists(st.one_of(*pairs, pairs[0], pairs[7], pairs[7]), max_size=4).map(dict)


LEAVES = st.booleans() | st.builds(lambda name: {"type": name}, TYPES)
SCHEMAS = st.builds(
    lambda root, x: {**root, "$defs": {"x": x}},
    schemas(LEAVES | schemas(LEAVES | schemas(LEAVES))),
    LEAVES | schemas(LEAVES),
)
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


def places(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    arrays = inner.map(lambda items: {"type": "array", "items": items})
    return arrays | arrays.map(lambda array: any_of(array, NULL)) | objects(inner)


def objects(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    return st.builds(
        lambda properties, required: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            "additionalProperties": False,
        },
        st.dictionaries(st.sampled_from("abcd"), inner, min_size=1),
        st.sets(st.sampled_from("abcd")),
    )


PLAIN: st.SearchStrategy[JSON] = st.sampled_from(
    [
        *({"type": name} for name in ("boolean", "integer", "number", "string")),
        {"type": ["integer", "null"]},
        any_of({"type": "boolean"}, NULL),
        {"enum": ["red", "2", "true"]},
    ]
)
TOOLS = objects(st.recursive(PLAIN, places, max_leaves=5))
FITTING = {
    "boolean": st.booleans(),
    "integer": st.integers() | st.integers(-(10**600), 10**600),
    "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(st.characters(exclude_categories=["Cs"])) | TEXTS.filter(str.isascii),
    "null": st.none(),
}


def fitting(schema: JSON) -> st.SearchStrategy[Any]:
    match schema:
        case {"anyOf": branches}:
            return st.one_of(*map(fitting, branches))
        case {"enum": options}:
            return st.sampled_from(options)
        case {"type": "array", "items": items}:
            return st.lists(fitting(items), max_size=3)
        case {"type": "object", "properties": properties, "required": required}:
            children = {name: fitting(child) for name, child in properties.items()}
            optional = {name: child for name, child in children.items() if name not in required}
            return st.fixed_dictionaries(
                {name: children[name] for name in required}, optional=optional
            )
        case {"type": [*names]}:
            return st.one_of(*(FITTING[name] for name in names))
        case _:
            return FITTING[schema["type"]]


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
    assert_stays(nested({"n": "1"}, 70), again | {"$defs": {"x": tool({"$ref": "#/$defs/x"})}})


def test_schemas_are_read_down_to_sixty_four_levels() -> None:
    schema: JSON = INTEGER
    for _ in range(70):
        schema = tool(schema)
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
    assert_becomes({"x": "1"}, doubling("allOf", tool(INTEGER)), {"x": 1}, "number_from_text")


@pytest.mark.slow
@pytest.mark.parametrize("value", [{"x": "1"}, {"x": 1}])
def test_alternatives_that_double_are_given_up(value: JSON) -> None:
    fit = coercer(doubling("anyOf", tool(INTEGER)))
    assert fit(value).value is value
    assert steps(lambda: fit(value)) < ENDLESS


def test_giving_up_changes_nothing_at_all() -> None:
    hard = doubling("anyOf", tool(INTEGER))
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
        coerced = coerce({"x": [item] * many}, tool({"type": "array", "items": schema}))
        assert coerced.value == {"x": [after] * many}

    assert growth(fitted, 1_000) < LINEAR
    fitted(200_000 // (len(json.dumps(item)) + 2))
