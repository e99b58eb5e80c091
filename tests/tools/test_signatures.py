"""What a function says of itself: its signature, its docstring, its type hints."""

import datetime as dt
import json
from functools import cache, partial
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.tools.context import Context
from surecall.tools.signatures import (
    context_parameter,
    converter,
    docstring_summary,
    parameter_descriptions,
    parse_signature,
    with_date_format,
)
from surecall.values.errors import ConfigError
from surecall.values.types import JSON

GOOGLE = """Find it.
Args:
    a: The city,
        spelled out.
    b (Literal["a:b"], optional): What: exactly.

    *c: The rest.
    silent:
    no colon here
Returns:
    nothing: at all."""
NUMPY = """Find it.

Parameters
----------
a : str
    The city,
    spelled out.
b, c : int
    Both.
silent

Returns
-------
nothing : None
    At all."""
SPHINX = "Find it.\n:param a: The city,\n  spelled out.\n:arg int b: B.\n:returns: c\n:param d"


@pytest.mark.parametrize(
    ("doc", "first", "texts"),
    [
        (GOOGLE, "Find it.", {"b": "What: exactly.", "c": "The rest."}),
        (NUMPY, "Find it.", {"b": "Both.", "c": "Both."}),
        (NUMPY[:80], "Find it.", {}),
        (SPHINX, "Find it.", {"b": "B."}),
    ],
)
def test_parameters_are_read_from_every_usual_layout(doc: str, first: str, texts: JSON) -> None:
    assert parameter_descriptions(doc) == {"a": "The city, spelled out.", **texts}
    assert docstring_summary(doc) == first


@pytest.mark.parametrize("doc", ["", "Args:\n  x: A.", "Parameters\n---\nx", ":param x: A."])
def test_a_docstring_that_opens_with_its_parameters_has_no_summary(doc: str) -> None:
    assert docstring_summary(doc) == ""


@given(st.text(alphabet=" \n:-*()aArgs", max_size=60))
def test_no_docstring_makes_the_reader_raise(doc: str) -> None:
    assert "\n" not in docstring_summary(doc)
    assert all(parameter_descriptions("Args:\n " + doc).values())


def test_a_signature_is_the_parameters_with_what_is_said_of_each() -> None:
    def take(number: int, note: Annotated[str, "For the kitchen."] = "", **more: Any) -> None:
        """Take an order.

        Args:
            number: Which one.
            note: This is not told, for the annotation says it.
            **more: Anything else.

        """

    read = parse_signature(take)
    first, second = read.parameters

    assert (read.name, read.summary, read.accepts_extra) == ("take", "Take an order.", True)
    assert (first.name, first.hint, first.description) == ("number", int, "Which one.")
    assert (first.required, second.required, second.default) == (True, False, {"default": ""})
    assert second.description == "For the kitchen."


def test_the_run_s_context_is_no_parameter_of_the_signature() -> None:
    def take(number: int, context: Context) -> None:
        """Take an order."""

    assert [one.name for one in parse_signature(take).parameters] == ["number"]
    assert context_parameter(take, ["number"], "take()") == "context"


def test_the_context_is_found_by_its_type_and_not_by_its_name() -> None:
    def take(who: Context, number: int) -> None: ...
    def give(number: int) -> None: ...

    assert context_parameter(take, ["number"], "take()") == "who"
    assert context_parameter(give, ["number"], "give()") is None


def test_two_contexts_or_one_that_the_schema_asks_for_are_refused() -> None:
    def twice(a: Context, b: Context) -> None: ...
    def once(a: Context) -> None: ...

    with pytest.raises(ConfigError, match="a and b are both `Context`"):
        context_parameter(twice, [], "twice()")
    with pytest.raises(ConfigError, match="'a' is a property of the schema"):
        context_parameter(once, ["a"], "once()")


def test_a_bound_argument_is_not_asked_for_again() -> None:
    def take(number: int, note: str) -> None: ...

    assert [one.name for one in parse_signature(partial(take, 3)).parameters] == ["note"]
    assert [one.required for one in parse_signature(partial(take, note="x")).parameters] == [
        True,
        False,
    ]


def test_a_hint_is_resolved_where_its_function_was_written_also_behind_a_decorator() -> None:
    @cache
    def tool(moment: "dt.datetime") -> None: ...

    (parameter,) = parse_signature(tool).parameters
    assert parameter.hint is dt.datetime


@pytest.mark.parametrize(
    "hint", [str, Any, list[str], dict[str, int | float], Literal["a"], type(None)]
)
def test_decoded_json_that_already_has_its_type_is_not_converted(hint: Any) -> None:
    assert converter(hint) is None


@pytest.mark.parametrize(
    ("hint", "value", "converted"),
    [
        (int, 3.0, 3),
        (int | None, None, None),
        (int, 3.5, 3.5),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (tuple[int, int], [1, 2], (1, 2)),
        (dt.date, "2024-02-29", dt.date(2024, 2, 29)),
    ],
)
def test_what_json_has_no_type_for_is_converted(hint: Any, value: Any, converted: Any) -> None:
    convert = converter(hint)
    assert convert is not None
    result = convert(value)

    assert (result, type(result)) == (converted, type(converted))


@pytest.mark.parametrize(
    "hint", [dt.datetime, dt.datetime | None, Annotated[dt.datetime | None, "When."]]
)
def test_a_moment_has_a_format_wherever_it_is_in_a_hint(hint: Any) -> None:
    assert '"date-time"' in json.dumps(msgspec.json.schema(with_date_format(hint)))
    assert with_date_format(int) is int
