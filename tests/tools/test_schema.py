"""Schemas from signatures, made portable, compiled: what the model is told, what is checked."""

import dataclasses
import datetime as dt
import functools
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from surecall.tools.schema import describe_function, function_binder
from surecall.tools.validation import compile_schema
from surecall.values.errors import ConfigError, ErrorCode, ToolError
from surecall.values.types import JSON
from tests.support.tools import Guest, Node, Opaque, Patch, Place, Point, Unit, hinted, properties

TEXT, INT, NULL, OBJECT = ({"type": kind} for kind in ("string", "integer", "null", "object"))


class _Family(pydantic.BaseModel, extra="forbid"):
    name: str
    children: "list[_Family]" = []


class _Blunt:
    json_schema = "not callable"

    @classmethod
    def model_json_schema(cls) -> JSON:
        return OBJECT

    @classmethod
    def model_validate(cls, value: object) -> "_Blunt":
        raise ValueError(f"no {value}")


def test_a_function_is_described_by_its_name_first_paragraph_and_parameters() -> None:
    def weather(city: str, days: int = 3) -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
        """Look up the weather.

        This is not told.
        """

    described = describe_function(weather)
    assert (described.name, described.description) == ("weather", "Look up the weather.")
    assert described.parameters == {
        "type": "object",
        "properties": {"city": TEXT, "days": {**INT, "default": 3}},
        "required": ["city"],
        "additionalProperties": False,
    }


UNIT = {**TEXT, "enum": ["celsius", "fahrenheit"]}
MOMENT = {**TEXT, "format": "date-time"}
GUEST_FIELDS = {"name": TEXT, "age": {**INT, "default": 0}}
GUEST = {**OBJECT, "properties": GUEST_FIELDS, "required": ["name"]}
PLACE_FIELDS = {"city": TEXT, "unit": {**UNIT, "default": "celsius"}}
PLACE = {**OBJECT, "properties": PLACE_FIELDS, "required": ["city"]}
PAIR = {"prefixItems": [INT, {**INT, "default": 0}], "minItems": 1, "maxItems": 2}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, NULL),
        (object, {}),
        ("int", INT),
        (list[object], {"type": "array", "items": {}}),
        (dict[str, int], {**OBJECT, "additionalProperties": INT}),
        (set[int], {"type": "array", "items": INT, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": INT}),
        (int | None, {"anyOf": [INT, NULL]}),
        (Literal["a", "b"], {**TEXT, "enum": ["a", "b"]}),
        (Literal["a", 1], {"enum": [1, "a"]}),
        (Unit, UNIT),
        (dt.date, {**TEXT, "format": "date"}),
        (dt.datetime, MOMENT),
        (Annotated[dt.datetime | None, "Hi"], {"anyOf": [MOMENT, NULL], "description": "Hi"}),
        (uuid.UUID, {**TEXT, "format": "uuid"}),
        (Decimal, {**TEXT, "format": "decimal"}),
        (Annotated[int, msgspec.Meta(ge=1)], {**INT, "minimum": 1}),
        (Place, {**PLACE, "description": "A place on the map."}),
        (Patch, {**OBJECT, "properties": {"path": TEXT}, "required": ["path"]}),
        (Point, {"type": "array", **PAIR}),
        (Guest, GUEST),
        (list[Guest], {"type": "array", "items": GUEST}),
        (Guest | None, {"anyOf": [GUEST, NULL]}),
    ],
    ids=str,
)
def test_a_hint_becomes_a_schema(hint: Any, schema: JSON) -> None:
    assert properties(hinted(hint)) == {"x": schema}


def test_recursive_types_keep_their_definitions_even_when_two_share_a_name() -> None:
    def tool(left: _Family, right: list[_Family], node: Node) -> None: ...

    written = describe_function(tool).parameters
    assert set(written["$defs"]) == {"_Family", "_Family_", "Node"}
    assert written["properties"]["node"] == {"$ref": "#/$defs/Node"}
    bad = {"name": "a", "children": [{"name": 1}]}
    told = compile_schema(written)({"left": {"name": "b"}, "right": [bad], "node": {"name": "n"}})
    assert told == ('right[0].children[0].name: 1 is not of type "string"',)


def test_two_different_classes_of_one_name_are_told_apart() -> None:
    def tool(here: Any, there: Any) -> None: ...

    other = dataclasses.make_dataclass("Place", [("street", str)])
    tool.__annotations__ = {"here": Place, "there": other}
    assert set(properties(tool)["there"]["properties"]) == {"street"}
    assert set(properties(tool)["here"]["properties"]) == {"city", "unit"}


def test_the_text_of_an_annotation_wins_over_the_docstring() -> None:
    def tool(
        a: Annotated[int, "text"],
        b: Annotated[int, 7, msgspec.Meta(description="meta")],
        c: Annotated[int, pydantic.Field(description="field")],
        d: Annotated[Place, 7],
    ) -> None: ...

    tool.__doc__ = "Do.\n\nArgs:\n  a: no\n  b: no\n  c: no\n  d: docstring"
    told = [one["description"] for one in properties(tool).values()]
    assert told == ["text", "meta", "field", "docstring"]


def test_only_defaults_that_json_can_express_are_told() -> None:
    nan = float("nan")

    def tool(a: Any = None, b: Any = Unit.F, c: Any = Opaque, *, d: Any = nan) -> None: ...

    assert "required" not in describe_function(tool).parameters
    described = {"a": {"default": None}, "b": {"default": "fahrenheit"}, "c": {}, "d": {}}
    assert properties(tool) == described


def test_unannotated_parameters_and_keyword_arguments_take_anything() -> None:
    def tool(a=1, /, x=2, **more): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003, ANN202

    assert properties(tool) == {"x": {"default": 2}}
    assert describe_function(tool).parameters["additionalProperties"] is True
    assert function_binder(tool)({"x": [1], "y": 2}) == {"x": [1], "y": 2}


def test_methods_partials_classes_and_callable_objects_are_functions_too() -> None:
    class Greeter:
        def __call__(self, name: "str") -> None:
            """Greet."""

    def add(a: int, b: int) -> None: ...

    told = [describe_function(f) for f in (Greeter(), functools.partial(add, 1), Place)]
    names = [(one.name, list(one.parameters["properties"])) for one in told]
    assert names == [("Greeter", ["name"]), ("add", ["b"]), ("Place", ["city", "unit"])]
    assert [one.description for one in told] == ["Greet.", "", "A place on the map."]
    assert list(properties(Greeter().__call__)) == ["name"]


def positional(a: int, /) -> None: ...
def variadic(*numbers: int) -> None: ...
def unresolved(bad: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (positional, "positional(): parameter 'a' can only be passed by position"),
        (variadic, "variadic(): parameter 'numbers' can only be passed by position"),
        (unresolved, "unresolved(): parameter 'bad': the type hint 'Nowhere' cannot be resolved"),
        (hinted(list[Opaque]), "tool(): parameter 'x' has no JSON Schema: type"),
        (hinted(Guest | _Family), "tool(): parameter 'x' has no JSON Schema: Type unions"),
        (5, "int(): cannot inspect the signature"),
    ],
)
def test_a_function_no_model_could_call_is_refused_by_name(fn: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        describe_function(fn)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("hint", "value", "bound"),
    [
        (Unit, "celsius", Unit.C),
        (Place, {"city": "Bern"}, Place("Bern")),
        (set[int], [1, 2, 2], {1, 2}),
        (Point, [1], Point(1)),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dt.date, "2024-02-29", dt.date(2024, 2, 29)),
        (Node, {"name": "n", "below": [{"name": "m"}]}, Node("n", [Node("m")])),
        (Guest, {"name": "Ada"}, Guest(name="Ada")),
        (list[Guest], [{"name": "Ada"}], [Guest(name="Ada")]),
        (set[object], ["a"], {"a"}),
        (Annotated[int | None, "n"], 3.0, 3),
        (int, True, True),
        (int, 3.5, 3.5),
    ],
)
def test_arguments_become_what_the_annotation_says(hint: Any, value: Any, bound: Any) -> None:
    result = function_binder(hinted(hint))({"x": value})
    assert result == {"x": bound}
    assert type(result["x"]) is type(bound)


@pytest.mark.parametrize("hint", [str, int | float, dict[str, list[int]], Literal["a"], Any])
def test_plain_json_is_passed_through_untouched(hint: Any) -> None:
    value = [3.0]
    assert function_binder(hinted(hint))({"x": value})["x"] is value


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (Unit, "\ud800", "x: 'utf-8' codec can't encode character '\\ud800'"),
        (Unit, "long\n" * 999, "x: Invalid enum value 'long"),
        (Place, {"city": 1}, "x: Expected `str`, got `int` - at `$.city`"),
        (Guest, {"name": "A", "age": "old"}, "x: age: Input should be a valid integer"),
        (Guest, {"name": "A", "age": -1}, "x: Value error, too young"),
        (Guest, {"name": "A", "age": -2}, "x: not acceptable"),
        (list[Guest], [{}], "x: name: Field required - at `$[0]`"),
        (_Blunt, 1, "x: no 1"),
        (Opaque, 1, "x: Expected `Opaque`, got `int`"),
    ],
    ids=ascii,
)
def test_a_failed_conversion_is_told_in_one_short_line(hint: Any, value: Any, message: str) -> None:
    with pytest.raises(ToolError) as caught:
        function_binder(hinted(hint))({"x": value})
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) <= 200
    assert "\n" not in str(caught.value)
    assert caught.value.code == ErrorCode.ARGUMENT_ERROR


def test_an_argument_without_a_parameter_is_told_to_the_model() -> None:
    with pytest.raises(ToolError, match="y: the tool has no such parameter"):
        function_binder(hinted(int))({"y": 1})
