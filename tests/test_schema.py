"""Schemas from signatures, made portable, compiled: what the model is told, and what is checked."""

import copy
import dataclasses
import datetime as dt
import enum
import functools
import socket
import sys
import time
import uuid
from collections.abc import Callable
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Required, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.docstrings import parameter_texts, summary
from surecall.errors import ConfigError, ErrorCode, ToolError
from surecall.schema import bind_function, compile_schema, describe_function, portable, schema_of
from surecall.types import JSON


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


@dataclasses.dataclass
class Place:
    """A place on the map."""

    city: str
    unit: Unit = Unit.C


class Patch(TypedDict, total=False):
    path: Required[str]
    value: int


class Point(NamedTuple):
    x: int
    y: int = 0


class Node(msgspec.Struct):
    name: str
    below: "list[Node]" = []


class Guest(pydantic.BaseModel):
    """Somebody who comes."""

    name: str
    age: int = 0


class Family(pydantic.BaseModel):
    name: str
    children: "list[Family]" = []


class Opaque:
    pass


def parameters(fn: Callable[..., Any]) -> JSON:
    return describe_function(fn).parameters


def hinted(hint: Any) -> Callable[..., Any]:
    def tool(x: Any) -> None: ...

    tool.__annotations__ = {"x": hint}
    return tool


def property_of(hint: Any) -> Any:
    return parameters(hinted(hint))["properties"]["x"]


# Describing


def test_a_function_is_described_by_its_name_first_paragraph_and_parameters() -> None:
    def weather(city: str, days: int = 3) -> str:
        """Look up
        the weather.

        This is not told.
        """
        return f"{city} {days}"

    described = describe_function(weather)
    assert (described.name, described.description) == ("weather", "Look up the weather.")
    assert described.parameters == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
        "required": ["city"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        ("int", {"type": "integer"}),
        (list[object], {"type": "array", "items": {}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1], {"enum": [1, "a"]}),
        (Unit, {"type": "string", "enum": ["celsius", "fahrenheit"]}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Decimal, {"type": "string", "format": "decimal"}),
        (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
        (
            Annotated[dt.datetime | None, "When."],
            {
                "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}],
                "description": "When.",
            },
        ),
        (
            Patch,
            {
                "type": "object",
                "properties": {"path": {"type": "string"}, "value": {"type": "integer"}},
                "required": ["path"],
            },
        ),
        (
            Point,
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "integer", "default": 0}],
                "minItems": 1,
                "maxItems": 2,
            },
        ),
    ],
    ids=str,
)
def test_a_hint_becomes_a_schema(hint: Any, schema: JSON) -> None:
    assert property_of(hint) == schema


def test_a_dataclass_is_inlined_with_its_own_description() -> None:
    assert property_of(Place) == {
        "description": "A place on the map.",
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        },
        "required": ["city"],
    }


def test_a_pydantic_model_is_asked_for_its_schema() -> None:
    guest = {
        "description": "Somebody who comes.",
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 0}},
        "required": ["name"],
    }
    assert property_of(Guest) == guest
    assert property_of(list[Guest]) == {"type": "array", "items": guest}
    assert property_of(Guest | None) == {"anyOf": [guest, {"type": "null"}]}


def test_recursive_types_keep_their_definitions_even_when_two_share_a_name() -> None:
    def tool(left: Family, right: list[Family], node: Node) -> None: ...

    written = parameters(tool)
    assert set(written["$defs"]) == {"Family", "Family_", "Node"}
    assert written["properties"]["node"] == {"$ref": "#/$defs/Node"}
    check = compile_schema(written)
    good = {"name": "a", "children": [{"name": "b", "children": []}]}
    assert check({"left": good, "right": [good], "node": {"name": "n"}}) == ()
    bad = {"name": "a", "children": [{"name": 1}]}
    assert check({"left": good, "right": [bad], "node": {"name": "n"}}) == (
        'right[0].children[0].name: 1 is not of type "string"',
    )


def test_two_different_classes_of_one_name_are_told_apart() -> None:
    other = dataclasses.make_dataclass("Place", [("street", str)])

    def tool(here: Any, there: Any) -> None: ...

    tool.__annotations__ = {"here": Place, "there": other}
    written = parameters(tool)["properties"]
    assert set(written["here"]["properties"]) == {"city", "unit"}
    assert set(written["there"]["properties"]) == {"street"}


def test_the_text_of_an_annotation_wins_over_the_docstring() -> None:
    def tool(
        a: Annotated[int, "From the text."],
        b: Annotated[int, 7, msgspec.Meta(description="From the meta.")],
        c: Annotated[int, pydantic.Field(description="From the field.")],
        d: Annotated[int, 7],
        e: Place,
    ) -> None:
        """Do.

        Args:
            a: Not this.
            b: Not this.
            c: Not this.
            d: From the docstring.
            e: From here, not from the class.
        """

    written = parameters(tool)["properties"]
    assert [one["description"] for one in written.values()] == [
        "From the text.",
        "From the meta.",
        "From the field.",
        "From the docstring.",
        "From here, not from the class.",
    ]


def test_only_defaults_that_json_can_express_are_told() -> None:
    def tool(  # noqa: PLR0913
        *,
        a: int | None = None,
        b: Unit = Unit.F,
        c: object = Opaque,
        d: float = float("nan"),
        e: Any = (1, 2),
        tool_call_id: str = "",
    ) -> None: ...

    written = parameters(tool)
    assert "required" not in written
    defaults = {
        name: one["default"] for name, one in written["properties"].items() if "default" in one
    }
    assert defaults == {"a": None, "b": "fahrenheit", "e": [1, 2], "tool_call_id": ""}


def test_unannotated_parameters_and_keyword_arguments_take_anything() -> None:
    def tool(x, **more):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003, ANN202
        return x, more

    written = parameters(tool)
    assert written["properties"] == {"x": {}}
    assert written["additionalProperties"] is True
    assert bind_function(tool)({"x": [1], "y": 2}) == {"x": [1], "y": 2}


def test_methods_partials_and_callable_objects_are_functions_too() -> None:
    class Greeter:
        def __call__(self, name: "str") -> str:
            """Greet."""
            return name

        def greet(self, name: str) -> str:
            return name

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    described = [
        describe_function(f) for f in (Greeter(), Greeter().greet, functools.partial(add, 1))
    ]
    assert [one.name for one in described] == ["Greeter", "greet", "add"]
    assert [one.description for one in described] == ["Greet.", "", "Add."]
    assert [list(one.parameters["properties"]) for one in described] == [["name"], ["name"], ["b"]]
    assert describe_function(Place).parameters["required"] == ["city"]


def test_a_positional_only_parameter_with_a_default_is_left_alone() -> None:
    def tool(a: int = 1, /, b: int = 2) -> int:
        return a + b

    assert list(parameters(tool)["properties"]) == ["b"]


def positional(a: int, /) -> int:
    return a


def variadic(*numbers: int) -> int:
    return sum(numbers)


def unresolved(ok: int, bad: "Nowhere") -> "Unknown":  # type: ignore[name-defined]  # noqa: F821
    return ok, bad


def opaque(thing: list[Opaque]) -> list[Opaque]:
    return thing


def two_models(who: Guest | Family) -> object:
    return who


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (positional, "positional(): parameter 'a' can only be passed by position"),
        (variadic, "variadic(): parameter 'numbers' can only be passed by position"),
        (unresolved, "unresolved(): parameter 'bad': the type hint 'Nowhere' cannot be resolved"),
        (opaque, "opaque(): parameter 'thing' has no JSON Schema: type"),
        (two_models, "two_models(): parameter 'who' has no JSON Schema"),
        (5, "int(): the signature cannot be read"),
    ],
)
def test_a_function_no_model_could_call_is_refused_by_name(fn: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        describe_function(fn)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_an_unknown_return_type_does_not_matter() -> None:
    def tool(x: "int") -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
        return x

    assert parameters(tool)["properties"] == {"x": {"type": "integer"}}


# Docstrings

GOOGLE = """Find a place.
Args:
    city: The city,
        spelled out.
    kind (Literal["a:b"], optional): What: exactly.

    *rest: The rest.
    undescribed:
    no colon here
Returns:
    nothing: at all.
"""

NUMPY = """Find a place.

Parameters
----------
city : str
    The city,
    spelled out.
x, y : int
    Coordinates.
plain

Returns
-------
nothing : None
    At all.
"""

SPHINX = """Find a place.
:param city: The city,
    spelled out.
:param int days: How many.
:returns: nothing
:param lonely
"""


@pytest.mark.parametrize(
    ("doc", "texts"),
    [
        (
            GOOGLE,
            {"city": "The city, spelled out.", "kind": "What: exactly.", "rest": "The rest."},
        ),
        (NUMPY, {"city": "The city, spelled out.", "x": "Coordinates.", "y": "Coordinates."}),
        (SPHINX, {"city": "The city, spelled out.", "days": "How many."}),
        ("", {}),
        ("Args:", {}),
        ("Parameters", {}),
    ],
)
def test_parameters_are_read_from_every_usual_layout(doc: str, texts: dict[str, str]) -> None:
    assert parameter_texts(doc) == texts
    assert summary(doc) in {"", "Find a place.", "Parameters"}


def test_a_docstring_that_opens_with_its_parameters_has_no_summary() -> None:
    assert summary("Args:\n    x: One.") == ""
    assert summary("Parameters\n----------\nx : int") == ""
    assert summary(":param x: One.") == ""


@given(st.text(alphabet=" \n:-*()[]aArgsP\t", max_size=80))
def test_no_docstring_makes_the_reader_raise(doc: str) -> None:
    assert "\n" not in summary(doc)
    assert all(isinstance(text, str) and text for text in parameter_texts(doc).values())


# Binding


@pytest.mark.parametrize(
    ("hint", "value", "bound"),
    [
        (Unit, "celsius", Unit.C),
        (Place, {"city": "Bern", "unit": "celsius"}, Place("Bern")),
        (set[int], [1, 2, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (Point, [1], Point(1)),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dt.date, "2024-02-29", dt.date(2024, 2, 29)),
        (
            uuid.UUID,
            "12345678123456781234567812345678",
            uuid.UUID(int=0x12345678123456781234567812345678),
        ),
        (Decimal, "1.50", Decimal("1.50")),
        (Patch, {"path": "/a"}, {"path": "/a"}),
        (Node, {"name": "n", "below": [{"name": "m"}]}, Node("n", [Node("m")])),
        (Guest, {"name": "Ada"}, Guest(name="Ada")),
        (list[Guest], [{"name": "Ada"}], [Guest(name="Ada")]),
        (Guest | None, None, None),
        (set[object], ["a"], {"a"}),
        (int, 3.0, 3),
        (int | None, 3.0, 3),
        (Annotated[int | None, "n"], 3.0, 3),
        (int, True, True),
        (int, 3.5, 3.5),
    ],
    ids=str,
)
def test_arguments_become_what_the_annotation_says(hint: Any, value: Any, bound: Any) -> None:
    (result,) = bind_function(hinted(hint))({"x": value}).values()
    assert result == bound
    assert type(result) is type(bound)


@pytest.mark.parametrize(
    "hint",
    [str, float, int | float, list[int], dict[str, list[str]], Literal["a"], Any, str | None, list],
    ids=str,
)
def test_plain_json_is_passed_through_untouched(hint: Any) -> None:
    value = ["unchanged"]
    assert bind_function(hinted(hint))({"x": value})["x"] is value


class Picky(pydantic.BaseModel):
    n: int

    @pydantic.model_validator(mode="after")
    def check(self) -> "Picky":
        if self.n == 0:
            raise ValueError("zero is taken")
        if self.n == 1:
            raise KeyError("internal")
        return self


class Plainspoken:
    @classmethod
    def model_json_schema(cls) -> JSON:
        return {"type": "object"}

    @classmethod
    def model_validate(cls, value: object) -> "Plainspoken":
        raise ValueError(f"no {value}")


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (Unit, "kelvin", "x: Invalid enum value 'kelvin'"),
        (Unit, "\ud800", "x: 'utf-8' codec can't encode character '\\ud800'"),
        (Place, {"city": 1}, "x: Expected `str`, got `int` - at `$.city`"),
        (dt.datetime, "tomorrow", "x: Invalid RFC3339 encoded datetime"),
        (Picky, {"n": "many"}, "x: n: Input should be a valid integer"),
        (Picky, {"n": 0}, "x: Value error, zero is taken"),
        (Picky, {"n": 1}, "x: not acceptable"),
        (list[Picky], [{"n": 2}, {}], "x: n: Field required - at `$[1]`"),
        (Plainspoken, 1, "x: no 1"),
        (Opaque, 1, "x: Expected `Opaque`, got `int`"),
    ],
    ids=str,
)
def test_a_value_that_does_not_convert_is_told_to_the_model(
    hint: Any, value: Any, message: str
) -> None:
    with pytest.raises(ToolError) as caught:
        bind_function(hinted(hint))({"x": value})
    assert str(caught.value).startswith(message)
    assert caught.value.code == ErrorCode.ARGUMENT_ERROR


def test_a_failed_conversion_is_told_in_one_short_encodable_line() -> None:
    with pytest.raises(ToolError) as caught:
        bind_function(hinted(Unit))({"x": "long\n" * 1000})
    assert len(str(caught.value).encode()) <= 210
    assert "\n" not in str(caught.value)


def test_an_argument_without_a_parameter_is_told_to_the_model() -> None:
    with pytest.raises(ToolError, match="^y: the tool has no such parameter$"):
        bind_function(hinted(int))({"y": 1})


# Portable


def test_what_providers_reject_is_dropped_but_properties_of_that_name_survive() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:x",
        "title": "Root",
        "properties": {
            "title": {"title": "Title", "type": "string"},
            "required": {"type": "object", "required": [], "properties": {"$ref": {"title": "R"}}},
            "data": {"default": {"title": "kept", "required": []}, "enum": ({"title": 1},)},
        },
        "required": [],
    }
    assert portable(schema) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "required": {"type": "object", "properties": {"$ref": {}}},
            "data": {"default": {"title": "kept", "required": []}, "enum": [{"title": 1}]},
        },
    }


@pytest.mark.parametrize(
    ("schema", "root"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
        ({"description": "d"}, {"type": "object", "properties": {}, "description": "d"}),
        ({"$ref": "#/$defs/a", "$defs": {"a": True}}, {"type": "object", "properties": {}}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": False}},
            {"type": "object", "properties": {}, "not": {}},
        ),
        (
            {"$ref": "#/definitions/a", "definitions": {"a": {"properties": {"x": {}}}}},
            {"type": "object", "properties": {"x": {}}},
        ),
    ],
)
def test_the_root_is_always_an_object_with_properties(schema: JSON, root: JSON) -> None:
    assert portable(schema) == root


@pytest.mark.parametrize(
    "schema", [{"type": "array"}, {"type": "objects"}, {"type": ["null"]}, [1]]
)
def test_a_root_that_is_no_object_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError, match="object, not"):
        portable(schema)


@pytest.mark.parametrize(
    ("beside", "written"),
    [
        ({}, {"type": "integer", "minimum": 3}),
        ({"description": "d"}, {"type": "integer", "minimum": 3, "description": "d"}),
        ({"type": "integer"}, {"type": "integer", "minimum": 3}),
        ({"minimum": 1}, {"minimum": 1, "allOf": [{"type": "integer", "minimum": 3}]}),
        (
            {"allOf": [{"maximum": 9}]},
            {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 9}]},
        ),
    ],
)
def test_what_stands_beside_a_reference_still_counts(beside: JSON, written: JSON) -> None:
    schema = {
        "properties": {"x": {"$ref": "#/$defs/n", **beside}},
        "$defs": {"n": {"title": "N", "type": "integer", "minimum": 3}},
    }
    assert portable(schema)["properties"]["x"] == written


@pytest.mark.parametrize(
    "pointer",
    ["#/$defs/a~1b", "#/%24defs/a%2Fb", "#/properties/list/prefixItems/0", "#/$defs/a~1b/not/not"],
)
def test_any_pointer_into_the_schema_is_followed(pointer: str) -> None:
    schema = {
        "properties": {
            "x": {"$ref": pointer},
            "list": {"type": "array", "prefixItems": [{"type": "string"}]},
        },
        "$defs": {"a/b": {"type": "string", "not": {"not": {"type": "string"}}}},
    }
    assert portable(schema)["properties"]["x"]["type"] == "string"


@pytest.mark.parametrize(
    "pointer",
    [
        "#/$defs/none",
        "https://example.com/s.json",
        "other.json",
        "#anchor",
        "#/%zz",
        "#/properties/x/$ref/y",
    ],
)
def test_a_reference_to_nowhere_is_refused(pointer: str) -> None:
    with pytest.raises(ConfigError, match="refers to nothing"):
        portable({"properties": {"x": {"$ref": pointer}}})


def test_recursive_definitions_keep_their_references() -> None:
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#/$defs/Tree"}, "leaf": {"$ref": "#/$defs/Leaf"}},
    }
    written = portable(
        {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree, "Leaf": {"type": "string", "title": "L"}}}
    )
    inlined = {
        "type": "object",
        "properties": {"left": {"$ref": "#/$defs/Tree"}, "leaf": {"type": "string"}},
    }
    assert written == {**inlined, "$defs": {"Tree": inlined}}


def test_a_reference_to_the_root_is_kept() -> None:
    schema = {"properties": {"a": {"$ref": "#"}, "b": {"items": {"$ref": "#"}}}}
    assert portable(schema) == {"type": "object", **schema}


def test_a_reference_that_is_only_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="nested deeper"):
        portable({"$ref": "#"})


def test_mutually_recursive_definitions_stay_small() -> None:
    names = [f"n{index}" for index in range(20)]
    everything = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    definitions = {name: {"type": "object", "additionalProperties": everything} for name in names}
    written = portable({"properties": {"x": everything}, "$defs": definitions})
    assert set(written["$defs"]) == set(names)
    assert compile_schema(written)({"x": {"a": {"b": 1}}}) != ()


def test_a_doubling_bomb_is_refused_quickly() -> None:
    definitions = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(40)
    }
    started = time.monotonic()
    with pytest.raises(ConfigError, match="more than 10000 nodes"):
        portable({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**definitions, "d40": {}}})
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("keyword", ["not", "default"])
def test_deep_nesting_is_refused(keyword: str) -> None:
    schema: JSON = {}
    for _ in range(100_000):
        schema = {keyword: schema}
    with pytest.raises(ConfigError, match="nested deeper than 64 levels"):
        portable(schema)


def test_odd_schemas_are_copied_for_the_compiler_to_judge() -> None:
    odd = {"properties": {"x": {"items": [{"title": "T"}], "anyOf": "no", "$ref": 5}}, "allOf": {}}
    assert portable(odd)["properties"] == {"x": {"items": [{}], "anyOf": "no"}}


leaves = st.sampled_from(
    [
        {},
        {"type": "string", "title": "S"},
        {"type": "integer", "minimum": 2},
        {"enum": ["a", "b"]},
        {"enum": []},
        {"$ref": "#/$defs/word"},
        {"$ref": "#/$defs/loop"},
        {"$ref": "#/$defs/loop", "required": ["a"]},
        {"$ref": "#"},
    ]
)
names = st.sampled_from(["a", "title", "required", "$ref"])
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(
            lambda properties, needed: {"properties": properties, "required": needed, "title": "T"},
            st.dictionaries(names, inner, max_size=3),
            st.lists(names, unique=True, max_size=2),
        ),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=6,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "c", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
DEFINITIONS = {
    "word": {"enum": ["a", "c"], "title": "W"},
    "loop": {"type": "object", "properties": {"a": {"$ref": "#/$defs/loop"}}, "required": []},
}


@given(st.dictionaries(names, schemas, max_size=3), st.dictionaries(names, values, max_size=3))
def test_a_portable_schema_accepts_what_the_original_accepts(
    properties: JSON, instance: JSON
) -> None:
    schema = {"type": "object", "properties": properties, "$defs": DEFINITIONS}
    before = copy.deepcopy(schema)
    written = portable(schema)
    assert schema == before
    assert bool(compile_schema(written)(instance)) == bool(compile_schema(schema)(instance))
    assert portable(written) == written


# Providers


def test_a_mapping_is_its_own_schema() -> None:
    assert schema_of(MappingProxyType({"type": "object"})) == {"type": "object"}


class Adapter:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def to_json_schema(self) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Dunder:
    json_schema = "not callable"

    @staticmethod
    def __json_schema__() -> JSON:
        return {"type": "object"}


@pytest.mark.parametrize(
    "source", [Guest, pydantic.TypeAdapter(Guest), Adapter({"type": "object"}), Dunder]
)
def test_an_object_that_knows_its_schema_is_asked_for_it(source: object) -> None:
    assert schema_of(source)["type"] == "object"


@pytest.mark.parametrize("source", [Place, Patch, Node])
def test_a_class_of_records_is_a_provider(source: type[Any]) -> None:
    written = portable(schema_of(source))
    assert written["type"] == "object"
    assert set(written["properties"]) & {"city", "path", "name"}
    assert compile_schema(schema_of(source))({}) != ()


@dataclasses.dataclass
class Closed:
    thing: Opaque


@pytest.mark.parametrize(
    "source",
    [5, "text", Opaque, Opaque(), Point, Adapter([1]), Adapter(KeyError("x")), Closed, Place("a")],
    ids=repr,
)
def test_anything_else_is_no_schema_provider(source: object) -> None:
    with pytest.raises(ConfigError, match="schema provider"):
        schema_of(source)


# Validation

TRIP = {
    "type": "object",
    "properties": {
        "days": {"type": "integer"},
        "ops": {
            "type": "array",
            "items": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
        "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "many": {"type": "array", "items": {"type": "string"}},
        "code": {"type": "string", "pattern": "^(a+)+$"},
        "one": {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
    },
    "required": ["city"],
}


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ({"city": "Bern", "days": 3}, ()),
        ({"city": "Bern", "days": "x"}, ('days: "x" is not of type "integer"',)),
        ({}, ('(root): "city" is a required property',)),
        ({"city": 1, "ops": [{"path": 2}]}, ('ops[0].path: 2 is not of type "string"',)),
        (
            {"city": 1, "unit": 5},
            ('unit: 5 is not of type "string", or 5 is not of type "null"',),
        ),
        (
            {"city": 1, "one": 5},
            ("one: 5 is valid under more than one of the schemas listed in the 'oneOf' keyword",),
        ),
        ([], ('(root): [] is not of type "object"',)),
    ],
)
def test_an_error_is_one_sentence_with_its_path(value: Any, messages: tuple[str, ...]) -> None:
    assert compile_schema(TRIP)(value) == messages


def test_many_errors_are_counted_and_long_ones_cut_in_the_middle() -> None:
    check = compile_schema(TRIP)
    told = check({"city": 1, "many": list(range(20))})
    assert len(told) == 9
    assert told[-1] == "and 12 more"
    (long,) = check({"city": 1, "days": "x" * 500})
    assert len(long) <= 200
    assert long.startswith('days: "xxx')
    assert long.endswith('is not of type "integer"')


@pytest.mark.parametrize(
    "many",
    [list(range(100_000)), ["x" * 1_000_000, 1, 2], [{"a": [0] * 9_000}, 1]],
    ids=["items", "text", "deep"],
)
def test_a_large_value_is_told_its_first_error_in_no_time(many: list[Any]) -> None:
    check = compile_schema(TRIP)
    started = time.monotonic()
    told = check({"city": 1, "many": many})
    assert time.monotonic() - started < 0.5
    assert len(told) == 1
    assert told[0].startswith("many[")


def test_patterns_are_matched_in_linear_time() -> None:
    check = compile_schema(TRIP)
    started = time.monotonic()
    assert check({"city": 1, "code": "a" * 100_000 + "b"}) != ()
    assert time.monotonic() - started < 1


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
    assert str(caught.value).startswith("Invalid schema: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("uri", ["http://{}/s.json", "file:///{}"])
def test_a_remote_reference_is_refused_without_a_connection(uri: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)  # noqa: FBT003
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(ConfigError, match="Retrieval is disabled"):
            compile_schema({"properties": {"a": {"$ref": uri.format(host)}}})
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    "value",
    [
        {"days": "\ud800"},
        {"\ud800": 1},
        {"days": 10**5000, "unit": 10**5000},
        {"days": float("nan"), "unit": float("inf")},
        {"days": object()},
        {1: 2},
        None,
    ],
    ids=ascii,
)
def test_a_hostile_value_becomes_a_message_not_an_exception(value: Any) -> None:
    told = compile_schema(TRIP)(value)
    assert told
    for one in told:
        assert len(one.encode()) <= 210


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=())),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.sampled_from(sorted(TRIP["properties"])), inner)
    ),  # type: ignore[call-overload]
    max_leaves=12,
)
CHECK_TRIP = compile_schema(TRIP)


@given(json_values)
def test_no_value_makes_validation_raise(value: Any) -> None:
    told = CHECK_TRIP(value)
    assert len(told) <= 9
    assert all(len(one) <= 200 and one.encode() and "\n" not in one for one in told)


def test_the_validator_is_loaded_only_when_something_is_compiled() -> None:
    import subprocess

    code = "import sys, surecall.schema; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
