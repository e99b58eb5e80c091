"""How a tool is defined: every accepted form, what its handler receives, and what is refused."""

import asyncio
import functools
import json
from dataclasses import dataclass
from datetime import date
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from surecall import presets
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, says
from surecall.tools.registry import ToolDefinition, ToolRegistry, tool
from surecall.tools.signatures import is_async_callable
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from tests.support.spec import proves

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}


@proves("C37")
def test_empty_lists_of_required_properties_are_left_out_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"required": {"type": "string"}}, "required": []}
    schema = {"type": "object", "properties": {"filter": inner}, "required": []}
    model = ScriptedModel(says("done"))
    registry = ToolRegistry([ToolDefinition("find", parameters=schema, handler=lambda **_: 1)])
    runner = ToolLoopRunner(client=model, model="m", registry=registry, config=presets.raw())
    asyncio.run(runner.run("go"))
    sent = model.requests[0]["tools"][0]["function"]["parameters"]

    assert '"required":[]' not in json.dumps(sent).replace(" ", "")
    assert sent["properties"]["filter"]["properties"] == {"required": {"type": "string"}}


@proves("C38")
@pytest.mark.parametrize("item", [None, 5, "state_get", ["state_get"], object()])
def test_a_registry_item_that_is_no_tool_is_an_error(item: Any) -> None:
    with pytest.raises(ConfigError, match="a tool must be"):
        ToolRegistry([item])


class Booking(pydantic.BaseModel):
    """A stay in a city."""

    city: str
    nights: int = pydantic.Field(1, gt=0)
    start: date | None = None
    kind: str = pydantic.Field("room", alias="class")

    @pydantic.field_validator("city")
    @classmethod
    def known(cls, value: str) -> str:
        if value == "Atlantis":
            raise ValueError("no such city")
        if value == "R'lyeh":
            raise RuntimeError("the stars are wrong")
        return value


class StrictVisit(pydantic.BaseModel):
    """A model that takes a text for a date only from JSON."""

    model_config = pydantic.ConfigDict(strict=True)
    city: str
    start: date


@dataclass
class Stay:
    city: str
    start: date = date(2030, 1, 1)


class Trip(msgspec.Struct, rename="camel"):
    first_city: str
    start: date = date(2030, 1, 1)


class Visit(TypedDict):
    city: str
    start: date


class Provider:
    """Offers a JSON Schema, but cannot read values."""

    def to_json_schema(self) -> JSON:
        return CITY


def received(parameters: Any, **arguments: Any) -> Any:
    """Return what the handler of a tool with such parameters is called with, or the error."""
    seen: list[JSON] = []
    definition = ToolDefinition("book", parameters=parameters, handler=lambda **k: seen.append(k))
    dispatcher = ToolDispatcher(ToolRegistry([definition]), raw())
    result = asyncio.run(dispatcher.execute("book", arguments))
    assert result.executed is bool(seen)
    return seen[0] if seen else result.envelope["errors"][0]["message"]


@proves("C39")
@pytest.mark.parametrize("parameters", [CITY, Provider(), Booking, Stay, Trip, Visit])
def test_objects_that_offer_a_json_schema_are_accepted_as_parameters(parameters: Any) -> None:
    schema = ToolDefinition("book", parameters=parameters).spec.parameters

    assert schema["type"] == "object"
    assert {"city", "firstCity"} & schema["properties"].keys()


def test_a_strict_pydantic_model_reads_its_arguments_as_json() -> None:
    given = received(StrictVisit, city="Rome", start="2030-01-02")

    assert given == {"city": "Rome", "start": date(2030, 1, 2)}


@proves("C39")
@pytest.mark.parametrize("parameters", [5, "city", object(), int, ["city"]])
def test_other_objects_are_refused_as_parameters(parameters: Any) -> None:
    with pytest.raises(ConfigError, match="schema provider"):
        ToolDefinition("book", parameters=parameters)


@pytest.mark.parametrize("parameters", [CITY, Provider()])
def test_with_a_schema_the_handler_gets_the_models_json_as_keywords(parameters: Any) -> None:
    assert received(parameters, city="Rome") == {"city": "Rome"}


@pytest.mark.parametrize(
    ("parameters", "arguments", "keywords"),
    [
        (Booking, {"city": "Rome"}, {"nights": 1, "start": None, "kind": "room"}),
        (Booking, {"city": "Rome", "class": "tent"}, {"nights": 1, "start": None, "kind": "tent"}),
        (Booking, {"city": "Rome", "start": "2031-02-03"}, {"start": date(2031, 2, 3)}),
        (Stay, {"city": "Rome"}, {"city": "Rome", "start": date(2030, 1, 1)}),
        (Trip, {"firstCity": "Rome"}, {"first_city": "Rome", "start": date(2030, 1, 1)}),
        (Visit, {"city": "Rome", "start": "2031-02-03"}, {"start": date(2031, 2, 3)}),
    ],
)
def test_with_a_class_the_handler_gets_its_fields_as_keywords_read_by_the_class(
    parameters: Any, arguments: JSON, keywords: JSON
) -> None:
    assert received(parameters, **arguments).items() >= keywords.items()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"city": "Rome", "nights": 0}, "nights"),
        ({"city": "Atlantis"}, "city: Value error, no such city"),
        ({"city": "R'lyeh"}, "not acceptable"),
    ],
)
def test_what_a_class_refuses_is_told_to_the_model_and_the_handler_does_not_run(
    arguments: JSON, told: str
) -> None:
    message = received(Booking, **arguments)
    assert told in message
    assert "stars" not in message


def forecast(city: str, days: int = 1) -> str:
    """Tell the weather."""
    return f"{city} {days}"


async def forecast_soon(city: str, days: int = 1) -> str:
    """Tell the weather."""
    return forecast(city, days)


class Forecast:
    """Tells the weather."""

    def __call__(self, city: str, days: int = 1) -> str:
        return forecast(city, days)

    def method(self, city: str, days: int = 1) -> str:
        return forecast(city, days)


OPENAI = {"name": "forecast", "description": None, "parameters": CITY, "strict": True}


@pytest.mark.parametrize(
    "item",
    [
        forecast,
        forecast_soon,
        Forecast(),
        Forecast().method,
        functools.partial(forecast, days=1),
        functools.partial(Forecast()),
        tool(forecast),
        tool(name="weather", description="x", timeout_s=5)(forecast),
        {"name": "forecast", "parameters": CITY, "handler": forecast},
        {"type": "function", "function": OPENAI, "handler": forecast},
        {"type": "function", "function": OPENAI | {"handler": forecast_soon}},
        {"type": "function", "handler": forecast} | OPENAI,
        {"name": "forecast", "parameters": Stay, "handler": lambda city, **_: f"{city} 1"},
    ],
)
def test_every_form_of_a_tool_runs_alike(item: Any) -> None:
    registry = ToolRegistry([item])
    dispatcher = ToolDispatcher(registry, raw())
    result = asyncio.run(dispatcher.execute(registry.names[0], '{"city": "Rome"}'))

    assert result.envelope["data"] == {"value": "Rome 1"}


def test_settings_beside_openais_form_count() -> None:
    registry = ToolRegistry([{"type": "function", "function": OPENAI, "exposed_to_model": False}])
    assert registry.names == ("forecast",)
    assert registry.definitions == ()


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"name": "t", "descriptions": "x"}, "did you mean.*description"),
        ({"description": "x"}, "name"),
        ({"name": 5}, "name"),
        ({"name": "t", "exposed_to_model": "false"}, "exposed_to_model"),
        ({"name": "t", "exposed_to_model": None}, "exposed_to_model"),
        ({"name": "t", "timeout_s": "5"}, "timeout_s"),
        ({"name": "t", "timeout_s": 0}, "timeout_s"),
        ({"name": "t", "timeout_s": float("nan")}, "timeout_s"),
        ({"name": "t", "description": 5}, "description"),
        ({"name": "t", "handler": "print"}, "handler"),
        ({"name": "t", "handler": lambda city, /: city}, "position"),
        ({"name": "t", "parameters": {"type": "array"}}, "object"),
        ({"name": "get weather"}, "illegal tool name"),
        ({"type": "web_search"}, "function"),
        ({"type": "function", "function": "t"}, "function"),
    ],
)
def test_a_bad_definition_is_refused_by_name(item: JSON, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ToolRegistry([item])


def test_a_schema_that_is_none_is_found_before_the_first_request() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "strnig"}}}
    registry = ToolRegistry([{"name": "forecast", "parameters": schema, "handler": forecast}])
    with pytest.raises(ConfigError, match=r"tool 'forecast': .*strnig"):
        ToolLoopRunner(client=ScriptedModel(), model="m", registry=registry)


def test_a_definition_can_be_called_and_named_like_the_function_it_was() -> None:
    assert tool(forecast)("Rome") == "Rome 1"
    assert repr(tool(forecast)) == "<ToolDefinition forecast>"
    with pytest.raises(TypeError, match="has no handler"):
        ToolDefinition("forecast")()


def _looks(item: str) -> str:
    """Look."""
    return item


@pytest.mark.parametrize("made", [ToolDefinition("look", "Look."), tool(_looks), tool()(_looks)])
def test_a_tool_that_says_nothing_promises_nothing(made: ToolDefinition) -> None:
    spec = made.spec
    assert (spec.read_only, spec.idempotent, spec.repeatable) == (False, False, False)
    assert (spec.destructive, made.serial, made.exposed_to_model) == (False, False, True)


def test_what_is_awaited_is_known_through_partials_and_objects() -> None:
    async def wait() -> None:
        """Wait."""

    class Waiting:
        async def __call__(self) -> None:
            """Wait."""

    assert [is_async_callable(each) for each in (wait, functools.partial(wait), Waiting())] == [
        True,
        True,
        True,
    ]
    assert is_async_callable(_looks) is False


def test_a_tool_that_only_reads_cannot_destroy() -> None:
    with pytest.raises(ConfigError, match="both read-only and destructive"):
        ToolDefinition("look", read_only=True, destructive=True)
