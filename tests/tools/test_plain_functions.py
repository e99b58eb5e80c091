"""Tools as plain functions: read by Python, LangChain and pydantic-ai, checked as in a run."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from langchain_core.tools import StructuredTool, ToolException
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from surecall.tools.context import Context
from surecall.tools.plain_functions import _type_hint
from surecall.tools.registry import ToolDefinition, tool
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON


@dataclass
class Guest:
    name: str
    age: int


@tool
def book(
    city: str,
    guests: list[Guest],
    days: int = 2,
    kind: Literal["hotel", "hut"] = "hotel",
    note: str | None = None,
) -> JSON:
    """Book a room.

    Args:
        city: Where to sleep.
        guests: Who comes.
        days: How many nights.
        kind: What roof.
        note: Anything else.

    """
    return {"city": city, "guests": guests, "days": days, "kind": kind, "note": note}


@tool
async def whoami(context: Context, greeting: Annotated[str, "What to say first."]) -> str:
    """Tell who asks."""
    await asyncio.sleep(0)
    return f"{greeting} {context['user']}"


@tool
def strict(number: int) -> int:
    """Take a number, but no large one."""
    if number > 9:
        raise ToolError("The number is too large.")
    return number


ADA = {"name": "Ada", "age": 36}


def written(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Return the types and defaults of a signature; `...` is no default."""
    found = inspect.signature(function).parameters.values()
    return {
        one.name: (one.annotation, ... if one.default is one.empty else one.default)
        for one in found
    }


def test_it_looks_like_a_function_that_somebody_wrote() -> None:
    function = book.as_function()

    assert function.__name__ == "book"
    assert inspect.getdoc(function) == (
        "Book a room.\n\nArgs:\n    city: Where to sleep.\n    guests: Who comes.\n"
        "    days: How many nights.\n    kind: What roof.\n    note: Anything else."
    )
    assert written(function) == {
        "city": (str, ...),
        "guests": (list[dict[str, Any]], ...),
        "days": (int, 2),
        "kind": (Literal["hotel", "hut"], "hotel"),
        "note": (str | None, None),
    }
    assert get_type_hints(function)["guests"] == list[dict[str, Any]]
    assert not inspect.iscoroutinefunction(function)


def test_arguments_are_fitted_and_converted_as_in_a_run() -> None:
    booked = book.as_function()("Rome", [ADA], days="3")

    assert booked == {
        "city": "Rome",
        "guests": [Guest("Ada", 36)],
        "days": 3,
        "kind": "hotel",
        "note": None,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"city": "Rome"}, "missing a required argument: 'guests'"),
        ({"city": "Rome", "guests": [{"name": "Ada"}]}, '"age" is a required property'),
        ({"city": "Rome", "guests": [], "kind": "tent"}, "kind: "),
        ({"city": "Rome", "guests": [], "extra": 1}, "unexpected keyword argument 'extra'"),
        ({"city": "Rome", "guests": [object()]}, "object cannot be encoded as JSON"),
        ({"city": None, "guests": []}, "city: "),
    ],
)
def test_what_is_wrong_with_arguments_is_a_tool_error(arguments: JSON, words: str) -> None:
    with pytest.raises(ToolError) as refused:
        book.as_function()(**arguments)
    assert words in str(refused.value)


def test_what_went_wrong_is_raised_as_the_other_framework_wants_it() -> None:
    function = strict.as_function(raises=ModelRetry)

    with pytest.raises(ModelRetry, match="The number is too large"):
        function(number=10)
    with pytest.raises(ToolError, match="The number is too large"):
        strict.as_function()(number=10)
    with pytest.raises(ModelRetry, match="number: "):
        function(number="ten")


def test_a_coroutine_stays_one_and_the_context_is_given_to_it() -> None:
    function = whoami.as_function(context={"user": "kim"})

    assert list(inspect.signature(function).parameters) == ["greeting"]
    assert inspect.iscoroutinefunction(function)
    assert asyncio.run(function(greeting="Hello")) == "Hello kim"


def test_a_model_of_the_caller_is_taken_apart() -> None:
    class TheirGuest(BaseModel):
        name: str
        age: int

    guest = TheirGuest(name="Ada", age=36)
    assert book.as_function()("Rome", [guest])["guests"] == [Guest("Ada", 36)]


def test_a_parameter_that_may_be_left_out_may_also_be_none() -> None:
    seen: list[JSON] = []
    odd = ToolDefinition(
        "odd",
        parameters={"properties": {"a": {"type": "string"}, "b": True, "c": {"type": "null"}}},
        handler=lambda **given: seen.append(given),
    )
    odd.as_function()(a=None, b=1)
    odd.as_function()("x")

    assert seen == [{"b": 1}, {"a": "x"}]
    assert written(odd.as_function()) == {
        "a": (str | None, None),
        "b": (Any, None),
        "c": (type(None), None),
    }


@pytest.mark.parametrize("name", ["from", "x-y", ""])
def test_a_parameter_that_python_cannot_name_is_refused(name: str) -> None:
    odd = ToolDefinition("odd", parameters={"properties": {name: {}}}, handler=lambda **_: 1)

    with pytest.raises(ConfigError, match=r"tool 'odd' cannot be a function: .* is not a valid"):
        odd.as_function()


def test_without_a_handler_there_is_no_function() -> None:
    with pytest.raises(ConfigError, match="tool 'bare' has no handler"):
        ToolDefinition("bare").as_function()


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": ["integer", "null"]}, int | None),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, str | list[Any]),
        ({"anyOf": [{"type": "string"}, {}]}, Any),
        ({"oneOf": [{"type": "boolean"}, {"type": "number"}]}, bool | float),
        ({"type": "array", "items": {"enum": ["a"]}}, list[Literal["a"]]),
        ({"enum": [1, 2], "type": "integer"}, int),
        ({"type": "nonsense"}, Any),
        ({"$ref": "#"}, Any),
        ({"anyOf": []}, Any),
        (False, Any),
    ],
)
def test_a_schema_is_a_type_as_closely_as_python_says_it(schema: Any, hint: Any) -> None:
    assert _type_hint(schema) == hint


def test_openai_is_told_of_a_tool_in_its_own_form() -> None:
    assert strict.openai_schema() == {
        "type": "function",
        "function": {
            "name": "strict",
            "description": "Take a number, but no large one.",
            "parameters": strict.spec.parameters,
        },
    }


# The other frameworks themselves


def test_langchain_takes_the_function_and_calls_it() -> None:
    theirs = langchain_tool(book.as_function(raises=ToolException), parse_docstring=True)

    assert theirs.description == "Book a room."
    assert theirs.args["city"]["description"] == "Where to sleep."
    assert theirs.invoke({"city": "Rome", "guests": [ADA]})["guests"] == [Guest("Ada", 36)]
    with pytest.raises(ToolException, match="age"):
        theirs.invoke({"city": "Rome", "guests": [{"name": "Ada"}]})


def test_langchain_takes_the_exact_schema_too() -> None:
    theirs = StructuredTool.from_function(
        book.as_function(), name="book", args_schema=book.spec.parameters
    )

    assert theirs.args == book.spec.parameters["properties"]
    assert theirs.invoke({"city": "Rome", "guests": [ADA]})["days"] == 2


def test_langchain_awaits_a_coroutine() -> None:
    theirs = langchain_tool(whoami.as_function(context={"user": "kim"}))

    assert asyncio.run(theirs.ainvoke({"greeting": "Hello"})) == "Hello kim"


def test_an_agent_of_pydantic_ai_calls_it_and_is_told_what_was_wrong() -> None:
    heard: list[str] = []
    shown: list[JSON] = []
    replies: list[ModelResponsePart] = [
        ToolCallPart("strict", {"number": 12}),
        ToolCallPart("strict", {"number": 4}),
        TextPart("done"),
    ]

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        heard.append(str(messages[-1].parts[-1]))
        shown.append(info.function_tools[0].parameters_json_schema)
        return ModelResponse([replies[len(heard) - 1]])

    theirs = Tool(strict.as_function(raises=ModelRetry), max_retries=2)
    result = asyncio.run(Agent(FunctionModel(model), tools=[theirs]).run("go"))

    assert result.output == "done"
    assert shown[0]["properties"] == {"number": {"type": "integer"}}
    assert "The number is too large." in heard[1]
    assert "content=4" in heard[2]
