"""Schemas made portable, schema providers, and the check of arguments against a schema."""

import copy
import dataclasses
import socket
import subprocess
import sys
from types import MappingProxyType
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.tools.schema import portable_schema, schema_of
from surecall.tools.validation import compile_schema
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from tests.support.timing import steps
from tests.support.tools import Guest, Node, Opaque, Patch, Place, Point, hinted, properties

TEXT, INT, NULL, OBJECT = ({"type": kind} for kind in ("string", "integer", "null", "object"))


@dataclasses.dataclass
class _Adapter:
    answer: Any

    def to_json_schema(self) -> Any:
        return self.answer()


# Portable schemas


def test_what_providers_reject_is_dropped_but_properties_of_that_name_survive() -> None:
    inner = {**OBJECT, "required": [], "properties": {"$ref": {"title": "R"}}}
    data = {"default": {"title": "kept", "required": []}, "enum": ({"title": 1},)}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:x",
        "title": "Root",
        "properties": {"title": {**TEXT, "title": "T"}, "required": inner, "data": data},
        "required": [],
    }
    assert portable_schema(schema) == {
        "type": "object",
        "properties": {
            "title": TEXT,
            "required": {**OBJECT, "properties": {"$ref": {}}},
            "data": {"default": {"title": "kept", "required": []}, "enum": [{"title": 1}]},
        },
    }


@pytest.mark.parametrize(
    ("schema", "rest"),
    [
        ({}, {}),
        ({"type": ["object", "null"]}, {}),
        ({"description": "d"}, {"description": "d"}),
        ({"$ref": "#/$defs/a", "$defs": {"a": True}}, {}),
        ({"$ref": "#/$defs/a", "$defs": {"a": False}}, {"not": {}}),
        (
            {"$ref": "#/definitions/a", "definitions": {"a": {"properties": {"x": {}}}}},
            {"properties": {"x": {}}},
        ),
    ],
)
def test_the_root_is_always_an_object_with_properties(schema: JSON, rest: JSON) -> None:
    assert portable_schema(schema) == {"type": "object", "properties": {}, **rest}


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "objects"}, {"type": [5]}, [1]])
def test_a_root_that_is_no_object_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError, match="object, not"):
        portable_schema(schema)


SMALL = {**INT, "minimum": 3}


@pytest.mark.parametrize(
    ("beside", "written"),
    [
        ({}, SMALL),
        ({"description": "d"}, {**SMALL, "description": "d"}),
        ({"type": "integer"}, SMALL),
        ({"minimum": 1}, {"minimum": 1, "allOf": [SMALL]}),
        ({"type": "number"}, {"type": "number", "allOf": [SMALL]}),
        ({"allOf": [{"maximum": 9}]}, {"allOf": [SMALL, {"maximum": 9}]}),
    ],
)
def test_what_stands_beside_a_reference_still_counts(beside: JSON, written: JSON) -> None:
    reference = {"$ref": "#/$defs/n", **beside}
    schema = {"properties": {"x": reference}, "$defs": {"n": {**SMALL, "title": "N"}}}
    assert portable_schema(schema)["properties"]["x"] == written


@pytest.mark.parametrize(
    "pointer", ["#/$defs/a~1b", "#/%24defs/a%2Fb", "#/properties/list/prefixItems/0"]
)
def test_any_pointer_into_the_schema_is_followed(pointer: str) -> None:
    pair = {"type": "array", "prefixItems": [TEXT]}
    schema = {"properties": {"x": {"$ref": pointer}, "list": pair}, "$defs": {"a/b": TEXT}}
    assert portable_schema(schema)["properties"]["x"] == TEXT


@pytest.mark.parametrize(
    "pointer", ["#/$defs/no", "https://example.com/s.json", "other", "#anchor", "#/%zz", "#/x/0/y"]
)
def test_a_reference_to_nowhere_is_refused(pointer: str) -> None:
    with pytest.raises(ConfigError, match="cannot be resolved"):
        portable_schema({"properties": {"x": {"$ref": pointer}}, "x": [5]})


def test_recursive_definitions_keep_their_references() -> None:
    left = {"$ref": "#/$defs/Tree"}
    tree = {**OBJECT, "properties": {"left": left, "leaf": {"$ref": "#/$defs/Leaf"}}}
    schema = {**left, "$defs": {"Tree": tree, "Leaf": {**TEXT, "title": "L"}}}
    inlined = {**OBJECT, "properties": {"left": left, "leaf": TEXT}}
    assert portable_schema(schema) == {**inlined, "$defs": {"Tree": inlined}}


def test_a_tagged_union_is_inlined_without_its_table_of_references() -> None:
    cat, dog = (msgspec.defstruct(name, [], tag=True) for name in ("Cat", "Dog"))
    tags = [{"type": {**TEXT, "enum": [name]}} for name in ("Cat", "Dog")]
    kinds = [{**OBJECT, "properties": tag, "required": ["type"]} for tag in tags]
    assert properties(hinted(cat | dog)) == {"x": {"anyOf": kinds}}


def test_a_reference_to_the_root_is_kept_unless_it_is_the_root() -> None:
    schema = {"properties": {"a": {"$ref": "#"}, "b": {"items": {"$ref": "#"}}}}
    assert portable_schema(schema) == {"type": "object", **schema}
    with pytest.raises(ConfigError, match="nested deeper"):
        portable_schema({"$ref": "#"})


def test_mutually_recursive_definitions_stay_small() -> None:
    names = [f"n{index}" for index in range(20)]
    any_of_them = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    definitions = {name: {**OBJECT, "additionalProperties": any_of_them} for name in names}
    written = portable_schema({"properties": {"x": any_of_them}, "$defs": definitions})
    assert written["$defs"] == definitions


def test_a_doubling_bomb_is_refused_quickly() -> None:
    twice = [[{"$ref": f"#/$defs/{n + 1}"}] * 2 for n in range(14)]
    definitions = {str(n): {"allOf": pair} for n, pair in enumerate(twice)}
    bomb = {"not": {"$ref": "#/$defs/0"}, "$defs": {**definitions, "14": {}}}

    def refused() -> None:
        with pytest.raises(ConfigError, match="more than 10000 nodes"):
            portable_schema(bomb)

    refused()  # once without the counter, which coverage cannot see through
    assert steps(refused) < 100 * 10_000


@pytest.mark.parametrize("keyword", ["not", "default"])
def test_deep_nesting_is_refused(keyword: str) -> None:
    schema: JSON = {}
    for _ in range(10_000):
        schema = {keyword: schema}
    with pytest.raises(ConfigError, match="nested deeper than 64 levels"):
        portable_schema(schema)


def test_odd_schemas_are_copied_for_the_compiler_to_judge() -> None:
    odd = {"properties": {"x": {"items": [{"title": "T"}], "anyOf": "no", "$ref": {}}}}
    assert portable_schema(odd)["properties"] == {"x": {"items": [{}], "anyOf": "no"}}


LEAVES = [{}, SMALL, {"enum": ["a", "b"], "title": "E"}, {"enum": ["a", 1]}, {"$ref": "#"}]
LEAVES += [{"$ref": "#/$defs/word"}, {"$ref": "#/$defs/word", "enum": ["a"]}]
LEAVES += [{"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/loop", "required": ["a"]}]
LOOP = {**OBJECT, "properties": {"a": {"$ref": "#/$defs/loop"}}, "required": []}
DEFINITIONS = {"word": {"enum": ["a", "c"], "title": "W"}, "loop": LOOP}
NAMES = st.sampled_from(["a", "title", "required", "$ref"])
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.fixed_dictionaries({"items": inner, "title": st.just("T")})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)})
        | st.fixed_dictionaries(
            {"properties": st.dictionaries(NAMES, inner), "required": st.lists(NAMES, unique=True)}
        )
    ),
    max_leaves=6,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(1, 4) | st.sampled_from("abc"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, SCHEMAS, max_size=3), st.dictionaries(NAMES, VALUES, max_size=3))
def test_a_portable_schema_accepts_what_the_original_accepts(fields: JSON, instance: JSON) -> None:
    schema = {"type": "object", "properties": fields, "$defs": DEFINITIONS}
    before = copy.deepcopy(schema)
    written = portable_schema(schema)
    assert schema == before
    assert bool(compile_schema(written)(instance)) == bool(compile_schema(schema)(instance))
    assert portable_schema(written) == written


# Providers


class _Dunder:
    json_schema = "not callable"

    @staticmethod
    def __json_schema__() -> JSON:
        return OBJECT


@pytest.mark.parametrize(
    "source",
    [MappingProxyType(OBJECT), pydantic.TypeAdapter(Guest), _Adapter(lambda: OBJECT), _Dunder],
)
def test_what_knows_its_schema_is_asked_for_it(source: object) -> None:
    assert schema_of(source)["type"] == "object"


@pytest.mark.parametrize(("source", "key"), [(Place, "city"), (Patch, "path"), (Node, "name")])
def test_a_class_of_records_is_a_provider(source: type[Any], key: str) -> None:
    assert key in portable_schema(schema_of(source))["properties"]
    assert compile_schema(schema_of(source))({}) == (f'(root): "{key}" is a required property',)


CLOSED = dataclasses.make_dataclass("CLOSED", [("thing", Opaque)])
FAILING = [_Adapter(lambda: [1]), _Adapter({}.popitem), CLOSED]


@pytest.mark.parametrize("source", [5, Opaque, Opaque(), Point, Place("a"), *FAILING])
def test_anything_else_is_no_schema_provider(source: object) -> None:
    with pytest.raises(ConfigError, match="schema provider"):
        schema_of(source)


# Validation

FIELDS = {
    "days": INT,
    "ops": {"items": {"properties": {"path": TEXT}}},
    "unit": {"anyOf": [TEXT, NULL]},
    "many": {"items": TEXT},
    "code": {**TEXT, "pattern": "^(a+)+$"},
    "one": {"oneOf": [INT, {"minimum": 1}]},
}
CHECK = compile_schema({"type": "object", "properties": FIELDS, "required": ["city"]})
HERE = {"city": "Bern"}


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ({**HERE, "days": 3}, ()),
        ({**HERE, "days": "x"}, ('days: "x" is not of type "integer"',)),
        ({}, ('(root): "city" is a required property',)),
        ({**HERE, "ops": [{"path": 2}]}, ('ops[0].path: 2 is not of type "string"',)),
        ({**HERE, "unit": 5}, ('unit: 5 is not of type "string", or 5 is not of type "null"',)),
        ([], ('(root): [] is not of type "object"',)),
    ],
)
def test_an_error_is_one_sentence_with_its_path(value: Any, messages: tuple[str, ...]) -> None:
    assert CHECK(value) == messages


def test_a_value_that_fits_two_exclusive_alternatives_is_told_so() -> None:
    (told,) = CHECK({**HERE, "one": 5})
    assert told.startswith("one: 5 is valid under more than one")


def test_many_errors_are_counted_and_long_ones_cut_in_the_middle() -> None:
    told = CHECK({**HERE, "many": list(range(20))})
    assert (len(told), told[-1]) == (9, "and 12 more")
    (long,) = CHECK({**HERE, "days": "x" * 500})
    assert len(long) <= 200
    assert (long[:10], long[-24:]) == ('days: "xxx', 'is not of type "integer"')


LARGE = {"items": list(range(100_000)), "text": [1, 2, "x" * 10**6], "deep": [1, {"a": [0] * 9999}]}


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_value_is_told_its_first_error_only(kind: str) -> None:
    value = {**HERE, "many": LARGE[kind]}
    (told,) = CHECK(value)
    assert steps(lambda: CHECK(value)) < 3_000_000
    assert told == 'many[0]: {} is not of type "string"'.format(0 if kind == "items" else 1)


def test_a_pattern_that_backtracks_without_end_elsewhere_is_matched() -> None:
    assert CHECK({**HERE, "code": "a" * 100_000 + "b"}) != ()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"x": {"type": "bogus"}}}, "properties.x.type: "),
        ({"properties": []}, 'properties: [] is not of type "object"'),
        ({"pattern": "(?=a)"}, "look-around and back-references are refused"),
        ({"$ref": "#/$defs/none"}, "(root): Pointer '/$defs/none' does not exist"),
        ({"enum": ["\ud800"]}, "(root): "),
        (5, "(root): "),
    ],
    ids=ascii,
)
def test_an_invalid_schema_is_refused_in_one_line(schema: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_schema(schema)
    assert str(caught.value).startswith("invalid schema: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("uri", ["http://{}/s.json", "file:///{}"])
def test_a_remote_reference_is_refused_without_a_connection(uri: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)  # noqa: FBT003  the parameter has no name
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(ConfigError, match="Retrieval is disabled"):
            compile_schema({"properties": {"a": {"$ref": uri.format(host)}}})
        with pytest.raises(BlockingIOError):
            listener.accept()


HOSTILE = [{"days": "\ud800"}, {"\ud800": 1}, {"days": float("nan")}, {"days": object()}, {1: 2}]
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(sorted(FIELDS))
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.builds(pow, st.just(10), st.just(5000))
    | st.floats()
    | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=12,
)


@given(st.sampled_from(HOSTILE) | ANY_JSON)
def test_no_value_makes_validation_raise(value: Any) -> None:
    told = CHECK(value)
    assert len(told) <= 9
    assert all(len(one) <= 200 and one.encode() and "\n" not in one for one in told)
    assert told or "city" in value


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_value_is_a_message(value: Any) -> None:
    assert len(CHECK({**HERE, **value})) == 1


@pytest.mark.processes
def test_the_validator_is_loaded_only_when_something_is_compiled() -> None:
    code = "import sys, surecall.tools.schema; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
