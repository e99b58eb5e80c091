"""Tools of pydantic-ai, the real ones: what the model is shown, what runs, what is refused."""

import asyncio
import threading
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry, RunContext, Tool, ToolReturn
from pydantic_ai.exceptions import ToolFailed

from surecall.testing import calls
from surecall.tools.integrations import pydantic_ai
from surecall.tools.registry import ToolRegistry, definition_of
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from tests.support.tools import data_of, errors_of, run_of


class Trip(BaseModel):
    city: str
    day: date
    guests: int = Field(default=1, le=9)


def book(trip: Trip) -> JSON:
    """Book a trip."""
    return {"trip": trip, "thread": threading.get_ident()}


async def weather(city: str, days: int = 1) -> str:
    """Weather of a city.

    Args:
        city: Where to look.
        days: How many days.

    """
    await asyncio.sleep(0)
    return f"{city}, {days}, {threading.get_ident()}"


def add(first: int, /, *others: int, **named: int) -> int:
    """Add numbers."""
    return first + sum(others) + sum(named.values())


def test_a_tool_is_offered_with_its_own_schema_and_awaited_where_the_run_is() -> None:
    result, model = run_of([Tool(weather)], calls("weather", city="Oslo", days="2"))

    assert model.requests[0]["tools"][0]["function"] == {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where to look."},
                "days": {"type": "integer", "default": 1, "description": "How many days."},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    assert data_of(result) == [{"value": f"Oslo, 2, {threading.get_ident()}"}]


def test_the_function_gets_what_its_own_validator_makes_of_the_arguments() -> None:
    result, _ = run_of([Tool(book)], calls("book", city="Rome", day="2026-11-17"))

    (data,) = data_of(result)
    assert data["trip"] == {"city": "Rome", "day": "2026-11-17", "guests": 1}
    assert data["thread"] != threading.get_ident()


def test_arguments_by_position_and_by_name_reach_their_places() -> None:
    result, _ = run_of([Tool(add)], calls("add", first=1, others=[2, 3], more=4))

    assert data_of(result) == [{"value": 10}]


def test_what_only_the_validator_can_refuse_is_told_in_a_line() -> None:
    def meet(day: date) -> str:
        """Meet."""
        return f"on {day}"

    loose = Tool(meet)
    loose.function_schema.json_schema["properties"]["day"] = {"type": "string"}
    result, _ = run_of([loose], calls("meet", day="tomorrow"))

    ((code, words),) = errors_of(result)
    assert (code, words.startswith("day: Input should be a valid date")) == ("ARGUMENT_ERROR", True)
    assert "https://" not in words


def test_a_validator_of_another_make_is_told_in_its_own_words() -> None:
    assert pydantic_ai._validation_text(ValueError("too big")) == "too big"


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (ModelRetry("Name a city."), "ARGUMENT_ERROR", "Name a city."),
        (ToolFailed("The office is closed."), "TOOL_UNAVAILABLE", "The office is closed."),
        (ApprovalRequired(), "TOOL_UNAVAILABLE", "This call needs human approval"),
        (CallDeferred(), "TOOL_UNAVAILABLE", "This call needs human approval"),
        (RuntimeError("password=hunter2"), "INTERNAL_ERROR", "The tool itself failed."),
    ],
    ids=lambda case: type(case).__name__,
)
@pytest.mark.parametrize("awaited", [True, False])
def test_what_a_tool_raises_for_the_model_is_told_to_it(
    raised: Exception,
    code: str,
    words: str,
    awaited: bool,  # noqa: FBT001
) -> None:
    def fail() -> None:
        """Fail."""
        raise raised

    async def fail_later() -> None:
        """Fail."""
        raise raised

    result, _ = run_of([Tool(fail_later if awaited else fail, name="fail")], calls("fail"))

    ((told, said),) = errors_of(result)
    assert told == code
    assert said.startswith(words)


def test_what_a_tool_says_beside_its_result_is_shown_and_its_metadata_is_not() -> None:
    returned: dict[str, Any] = {
        "bare": ToolReturn("fine", metadata={"cost": 3}),
        "text": ToolReturn("fine", content="It is Tuesday."),
        "mapping": ToolReturn({"sky": "clear"}, content=["It is", "Tuesday."]),
    }

    def look(how: str) -> Any:
        """Look."""
        return returned[how]

    result, _ = run_of([Tool(look)], *(calls("look", how=how) for how in returned))

    assert data_of(result) == [
        {"value": "fine"},
        {"return_value": "fine", "content": "It is Tuesday."},
        {"sky": "clear", "content": ["It is", "Tuesday."]},
    ]


def test_a_tool_from_a_schema_runs_with_what_the_schema_lets_through() -> None:
    def find(**given: Any) -> JSON:
        return given

    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    made = Tool.from_schema(find, "find", None, schema)
    result, model = run_of([made], calls("find", q="x"))

    assert model.requests[0]["tools"][0]["function"]["description"] == ""
    assert data_of(result) == [{"q": "x"}]


def test_time_limits_and_the_wish_to_run_alone_are_kept() -> None:
    limited = Tool(book, sequential=True)
    limited.timeout = 2.5
    definition = definition_of(limited)

    assert (definition.timeout_s, definition.serial) == (2.5, True)
    assert definition_of(Tool(book)).timeout_s is None


def with_context(ctx: RunContext[int], city: str) -> str:
    """Look."""
    return f"{ctx.deps}{city}"


async def never(*_: object) -> None:
    return None


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (Tool(with_context), "takes a RunContext, which"),
        (Tool(book, prepare=never), "has a `prepare` function, which"),
        (Tool(book, args_validator=never), "has an `args_validator`, which"),
        (Tool(book, requires_approval=True), "requires approval, which"),
    ],
)
def test_what_needs_an_agent_of_pydantic_ai_is_refused_in_one_sentence(
    made: Tool[Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^the pydantic-ai tool '\w+' {says}"):
        ToolRegistry([made])
