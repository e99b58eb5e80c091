"""The type of a final answer: its schema, what is read, and what the type makes of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

from surecall import ConfigError
from surecall.parsing.arguments import ParsedValue
from surecall.tools.output import AnswerParser, answer_parser, typed_output
from surecall.values.types import JSON


@dataclass
class Weather:
    """A forecast."""

    city: str
    days: int = 1
    notes: list[str] = field(default_factory=list)


class Node(msgspec.Struct):
    """A thing that holds others like it."""

    value: int
    children: list["Node"] = []


class Point(TypedDict):
    """A place."""

    x: int
    y: int


class Size(Enum):
    """How large something is."""

    SMALL = "s"
    LARGE = "l"


class Order(BaseModel):
    """A strict model: it takes a date as text only from JSON."""

    model_config = ConfigDict(strict=True)
    number: int
    due: date
    parts: list["Order"] = []


class Loose(BaseModel):
    """A model that takes what it gets."""

    number: int


class Described:
    """An object that has a schema and nothing else."""

    def json_schema(self) -> JSON:
        """Return it."""
        return {"type": "array", "items": {"type": "integer"}}


def read(kind: Any, text: str, *, coerce: bool = True) -> Any:
    """Read a text as a type, all the way; or return what is wrong with it."""
    output = typed_output(kind)
    found = answer_parser(output.answer_format.schema).parse(text, coerce=coerce)
    return f"! {found.problem}" if found.problem else output.parse(found.value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Weather, '{"city": "Rome", "notes": ["dry"]}', Weather("Rome", 1, ["dry"])),
        (Node, '{"value": 1, "children": [{"value": 2}]}', Node(1, [Node(2)])),
        (Point, '{"x": 1, "y": 2}', {"x": 1, "y": 2}),
        (Size, '"s"', Size.SMALL),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (int | None, "null", None),
        (UUID, '"12345678-1234-5678-1234-567812345678"', UUID("12345678" + "12345678" * 3)),
        (Any, '{"a": [1]}', {"a": [1]}),
        (Described(), "[1]", [1]),
        (Annotated[Loose, "A note."], '{"number": 1}', Loose(number=1)),
        ({"type": "object", "required": ["a"]}, '{"a": 1}', {"a": 1}),
    ],
)
def test_json_becomes_a_value_of_the_type(kind: Any, text: str, value: Any) -> None:
    assert read(kind, text) == value


def test_a_pydantic_model_reads_itself_even_a_strict_one_that_holds_itself() -> None:
    text = '{"number": 1, "due": "2026-11-17", "parts": [{"number": 2, "due": "2026-11-18"}]}'
    part = Order(number=2, due=date(2026, 11, 18))
    order = Order(number=1, due=date(2026, 11, 17), parts=[part])

    assert read(Order, text) == order
    assert read(list[Order], f"[{text}]") == [order]


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (Weather, '{"city": 5}', 'city: 5 is not of type "string"'),
        (Weather, '{"days": 1}', '(root): "city" is a required property'),
        (list[int], '[1, "x"]', '[1]: "x" is not of type "integer"'),
        (Size, '"m"', '(root): "m" is not one of "l" or "s"'),
        (Size, "m", '(root): "m" is not one of "l" or "s"'),
    ],
)
def test_what_does_not_fit_the_schema_is_told_with_its_place(
    kind: Any, text: str, problem: str
) -> None:
    assert read(kind, text) == f"! {problem}"


def test_no_more_than_three_problems_are_told_and_not_at_length() -> None:
    wrong = msgspec.json.encode(["x" * 500] * 9).decode()
    problem = read(list[int], wrong)

    assert problem.startswith('! [0]: "xxx')
    assert len(problem) < 410


@pytest.mark.parametrize(
    ("kind", "text", "value", "steps"),
    [
        (Weather, '{"city": "Rome", "days": "2"}', Weather("Rome", 2), ("number_from_text",)),
        (list[int], "[3.0]", [3], ("integer_from_float",)),
        (list[int], '"[1]"', [1], ("container_from_text",)),
    ],
)
def test_what_can_be_fitted_without_loss_is_and_is_named(
    kind: Any, text: str, value: Any, steps: tuple[str, ...]
) -> None:
    output = typed_output(kind)
    found = answer_parser(output.answer_format.schema).parse(text, coerce=True)

    assert (output.parse(found.value), found.repairs) == (value, steps)


def test_without_fitting_the_value_is_taken_as_it_came() -> None:
    assert read(Weather, '{"city": "Rome", "days": "2"}', coerce=False).startswith("! days: ")


def test_a_number_that_the_type_does_not_take_is_its_objection() -> None:
    with pytest.raises(ValueError, match="Expected `int`"):
        read(list[int], "[3.0]", coerce=False)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Literal["yes", "no"], " yes\n", "yes"),
        (Size, "s", Size.SMALL),
        (str, "It is 5 o'clock.", "It is 5 o'clock."),
        (str, "5", "5"),
        (str, '"quoted"', "quoted"),
    ],
)
def test_where_only_a_text_can_be_meant_it_may_come_without_quotation_marks(
    kind: Any, text: str, value: Any
) -> None:
    assert read(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Literal["yes", "no"], '"yes'),
        (str, '{"answer": "cut'),
        (str | int, "hello"),
        (str | None, "hello"),
    ],
)
def test_a_text_that_may_be_something_else_is_not_taken_for_one(kind: Any, text: str) -> None:
    assert read(kind, text).startswith("! ")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (5, "the output 5 has no JSON Schema"),
        (Weather("Rome"), "the output is an instance of Weather: pass the class"),
        (Node(1), "the output is an instance of Node: pass the class"),
        (Order(number=1, due=date(2026, 1, 1)), "the output is an instance of Order"),
        (list[Callable[[], None]], "has no JSON Schema"),
        ({"type": "nope"}, "invalid schema"),
        ({"$ref": "#/nowhere"}, "cannot be resolved"),
    ],
)
def test_what_is_no_type_is_the_callers_error(kind: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        typed_output(kind)


def test_an_endpoint_is_asked_to_bind_objects_only() -> None:
    assert typed_output(Weather, binds=True).answer_format.bound
    assert not typed_output(Weather).answer_format.bound
    assert not typed_output(list[int], binds=True).answer_format.bound


def test_a_schema_that_comes_again_has_the_same_reader() -> None:
    assert answer_parser({"type": "array"}) is answer_parser({"type": "array"})


def test_a_reader_takes_a_schema_that_allows_everything() -> None:
    assert AnswerParser({}).parse("[1]", coerce=True) == ParsedValue([1])
