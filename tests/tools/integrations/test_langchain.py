"""Tools of LangChain, the real ones: what the model is shown, what runs, what is refused."""

import asyncio
import threading
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from pydantic import AliasChoices, BaseModel, Field

from surecall import AskFirst, Decision, ToolLoopRunner
from surecall.testing import ScriptedModel, calls, says
from surecall.tools.integrations import langchain
from surecall.tools.registry import ToolRegistry, definition_of
from surecall.tools.registry import tool as own_tool
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from tests.support.tools import data_of, errors_of, run_of


class Place(BaseModel):
    city: str = Field(description="Where to look.")
    days: int = 1


class Forecast(BaseTool):
    """A tool as a class, as integrations write them."""

    name: str = "forecast"
    description: str = "Weather of a city."
    args_schema: Any = Place
    seen: list[int] = Field(default_factory=list)

    def _run(self, city: str, days: int, run_manager: object = None) -> JSON:
        self.seen.append(threading.get_ident())
        return {"city": city, "days": days, "traced": run_manager is not None}


class AsyncForecast(Forecast):
    async def _arun(self, city: str, days: int, run_manager: object = None) -> JSON:
        await asyncio.sleep(0)
        return self._run(city, days, run_manager)


class Configured(BaseTool):
    """A tool without a schema of its own, which gets a configuration."""

    name: str = "configured"
    description: str = "Tell who asks."

    def _run(self, what: str, config: RunnableConfig) -> str:
        return f"{what} for {config['configurable'].get('user')}"


@tool
def weather(city: str, days: int = 1) -> JSON:
    """Weather of a city."""
    return {"city": city, "days": days}


@tool
async def weather_later(city: str) -> str:
    """Weather of a city."""
    await asyncio.sleep(0)
    return f"clear in {city} ({threading.get_ident()})"


@tool
def who(what: str, config: RunnableConfig, desk: Annotated[str, InjectedToolArg] = "unset") -> str:
    """Tell who asks."""
    return f"{what} for {config['configurable'].get('user')}, {desk}"


def test_a_tool_is_offered_as_langchain_would_offer_it_and_its_result_stays_data() -> None:
    result, model = run_of([weather], calls("weather", city="Paris", days="3"))

    assert model.requests[0]["tools"][0]["function"] == {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    assert data_of(result) == [{"city": "Paris", "days": 3}]


def test_a_single_tool_needs_no_list_around_it() -> None:
    assert ToolRegistry(weather).names == ("weather",)


def test_a_tool_of_a_class_runs_in_a_thread_of_ours_and_langchain_still_traces_it() -> None:
    forecast = Forecast(seen=[])
    result, _ = run_of([forecast], calls("forecast", city="Rome"))

    assert data_of(result) == [{"city": "Rome", "days": 1, "traced": True}]
    assert forecast.seen != [threading.get_ident()]
    properties = definition_of(forecast).spec.parameters["properties"]
    assert properties["city"] == {"type": "string", "description": "Where to look."}


def test_what_has_a_coroutine_of_its_own_is_awaited_where_the_run_is() -> None:
    forecast = AsyncForecast(seen=[])
    both = [weather_later, forecast]
    result, _ = run_of(both, calls("weather_later", city="Oslo"), calls("forecast", city="Rome"))

    assert data_of(result)[0] == {"value": f"clear in Oslo ({threading.get_ident()})"}
    assert forecast.seen == [threading.get_ident()]
    assert [definition_of(one).is_async for one in (*both, weather)] == [True, True, False]


def test_a_tool_of_one_text_is_asked_for_that_text() -> None:
    shout = Tool(name="shout", description="Say it loudly.", func=str.upper)
    result, model = run_of([shout], calls("shout", tool_input="hello"))

    shown = model.requests[0]["tools"][0]["function"]["parameters"]
    assert (shown["properties"], shown["required"]) == (
        {"tool_input": {"type": "string"}},
        ["tool_input"],
    )
    assert data_of(result) == [{"value": "HELLO"}]


def test_a_function_without_a_signature_which_langchain_cannot_call_either_is_refused() -> None:
    made = StructuredTool(name="made", description="Make it.", func=dict, args_schema=Place)

    with pytest.raises(ConfigError, match="the LangChain tool 'made' has a function without a sig"):
        ToolRegistry([made])


def test_a_schema_that_is_a_mapping_is_taken_as_it_is() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    find = StructuredTool.from_function(
        func=lambda **given: given, name="find", description="Find.", args_schema=schema
    )
    result, _ = run_of([find], calls("find", q="x"), calls("find", q="x", more=1))

    assert data_of(result)[0] == {"q": "x"}
    assert [code for code, _ in errors_of(result)] == ["ARGUMENT_ERROR"]


def test_a_runnable_config_is_not_shown_and_gets_the_context_of_the_run() -> None:
    script = (calls("who", what="tea"), calls("configured", what="milk"))
    result, model = run_of([who, Configured()], *script, context={"user": "kim"})

    shown = [item["function"]["parameters"]["properties"] for item in model.requests[0]["tools"]]
    assert [list(properties) for properties in shown] == [["what"], ["what"]]
    assert data_of(result) == [{"value": "tea for kim, unset"}, {"value": "milk for kim"}]


def test_a_model_cannot_set_what_is_injected() -> None:
    result, _ = run_of([who], calls("who", what="tea", desk="guessed"))

    ((code, words),) = errors_of(result)
    assert code == "ARGUMENT_ERROR"
    assert "desk" in words


def test_what_is_injected_stays_out_of_reach_where_a_schema_allows_more() -> None:
    def keep(what: str, desk: Annotated[str, InjectedToolArg] = "unset", **_: object) -> str:
        return f"{what}, {desk}"

    open_schema = {
        "type": "object",
        "properties": {"what": {"type": "string"}},
        "additionalProperties": True,
    }
    opened = StructuredTool.from_function(
        func=keep, name="keep", description="Keep.", args_schema=open_schema
    )
    result, _ = run_of(
        [opened], calls("keep", what="tea", desk="guessed"), calls("keep", what="tea", more=1)
    )

    assert errors_of(result) == [("ARGUMENT_ERROR", "desk: the tool has no such parameter")]
    assert data_of(result)[1] == {"value": "tea, unset"}


class Kept(BaseModel):
    what: str = Field(alias="item")
    desk: Annotated[str, InjectedToolArg] = Field("unset", validation_alias=AliasChoices("d", "e"))


class Keep(BaseTool):
    """Takes any keywords; its fields are those of a model."""

    name: str = "keep"
    description: str = "Keep."
    args_schema: Any = Kept

    def _run(self, **named: Any) -> str:
        return f"{named['what']}, {named['desk']}"


@pytest.mark.parametrize("name", ["desk", "d", "e"])
def test_a_field_that_is_injected_stays_out_of_reach_where_arguments_are_not_checked(
    name: str,
) -> None:
    script = (calls("keep", item="tea", **{name: "guessed"}), calls("keep", item="tea"), says("ok"))
    config = {"validate_arguments": False}
    runner = ToolLoopRunner(client=ScriptedModel(*script), model="m", tools=Keep(), config=config)
    result = runner.run_sync("Go.")

    assert errors_of(result) == [("ARGUMENT_ERROR", f"{name}: the tool has no such parameter")]
    assert data_of(result)[1] == {"value": "tea, unset"}


def test_a_tool_that_cannot_run_without_what_is_injected_is_refused_in_one_sentence() -> None:
    @tool
    def remember(
        what: str,
        state: Annotated[dict[str, Any], InjectedToolArg],
        call: Annotated[str, InjectedToolCallId],
    ) -> str:
        """Remember something."""
        return f"{what}{state}{call}"

    with pytest.raises(ConfigError) as refused:
        ToolRegistry([remember])
    assert str(refused.value) == (
        "the LangChain tool 'remember' needs 'state', 'call', which only LangGraph can provide: "
        "write a function with a parameter `context: Context`"
    )


def test_a_tool_exception_is_told_to_the_model_and_any_other_is_not() -> None:
    @tool
    def fail(how: str) -> str:
        """Fail."""
        if how == "politely":
            raise ToolException("There is no such city.")
        raise RuntimeError("password=hunter2")

    result, _ = run_of([fail], calls("fail", how="politely"), calls("fail", how="rudely"))

    polite, rude = errors_of(result)
    assert polite == ("ARGUMENT_ERROR", "There is no such city.")
    assert rude[0] == "INTERNAL_ERROR"
    assert "hunter2" not in rude[1]


@pytest.mark.parametrize("handled", [True, "Try another city."])
def test_an_error_that_the_tool_handles_is_still_an_error(handled: bool | str) -> None:  # noqa: FBT001
    @tool
    def fail(city: str) -> str:
        """Fail, unless it is Rome."""
        if city != "Rome":
            raise ToolException("There is no such city.")
        return "clear"

    fail.handle_tool_error = handled
    result, _ = run_of([fail], calls("fail", city="Atlantis"), calls("fail", city="Rome"))

    words = "There is no such city." if handled is True else handled
    assert errors_of(result) == [("ARGUMENT_ERROR", words)]
    assert data_of(result)[1] == {"value": "clear"}


def test_of_content_and_artifact_the_model_gets_the_content() -> None:
    @tool(response_format="content_and_artifact")
    def draw(what: str) -> tuple[str, bytes]:
        """Draw something."""
        return f"a picture of {what}", b"PNG"

    result, _ = run_of([draw], calls("draw", what="a cat"))

    assert data_of(result) == [{"value": "a picture of a cat"}]


def test_of_messages_the_model_gets_the_content_and_an_error_stays_one() -> None:
    @tool
    def answer(how: str) -> Any:
        """Answer with messages."""
        good = ToolMessage("fine", tool_call_id="1")
        bad = ToolMessage("no such thing", tool_call_id="1", status="error")
        return {"one": good, "two": [good, good], "bad": bad, "none": []}[how]

    script = [calls("answer", how=how) for how in ("one", "two", "bad", "none")]
    result, _ = run_of([answer], *script)

    shown = data_of(result)
    assert (shown[0], shown[1], shown[3]) == (
        {"value": "fine"},
        {"value": ["fine", "fine"]},
        {"value": []},
    )
    assert errors_of(result) == [("ARGUMENT_ERROR", "no such thing")]


def test_what_is_meant_for_a_graph_is_told_to_be_lost() -> None:
    command = type("Command", (), {"__module__": "langgraph.types"})

    @tool
    def move() -> Any:
        """Change the state of a graph."""
        return command()

    result, _ = run_of([move], calls("move"))

    ((code, words),) = errors_of(result)
    assert (code, words.startswith("The tool ran, but")) == ("TOOL_UNAVAILABLE", True)


def test_a_tool_whose_schema_cannot_be_written_is_refused_by_name() -> None:
    class Odd(BaseModel):
        what: threading.Thread
        model_config = {"arbitrary_types_allowed": True}

    odd = StructuredTool.from_function(
        func=lambda what: what, name="odd", description="Odd.", args_schema=Odd
    )
    with pytest.raises(ConfigError, match="the LangChain tool 'odd' has no JSON Schema: "):
        definition_of(odd)


def test_hints_are_unknown_until_the_application_says_them() -> None:
    plain = definition_of(weather).spec
    told = own_tool(name="get_weather", read_only=True, timeout_s=3.0)(weather)

    assert (plain.read_only, plain.idempotent, plain.destructive) == (False, False, False)
    assert (told.name, told.spec.read_only, told.timeout_s) == ("get_weather", True, 3.0)


def test_a_tool_of_unknown_effect_waits_for_a_person_where_writes_do() -> None:
    forecast = Forecast(seen=[])
    model = ScriptedModel(calls("forecast", city="Rome"), says("Clear."))
    policy: Any = AskFirst("writes")
    runner = ToolLoopRunner(client=model, model="m", tools=[forecast], tool_policy=policy)
    paused = asyncio.run(runner.run("go"))

    assert [call.name for call in paused.run.waiting] == ["forecast"]
    assert forecast.seen == []
    decisions = {call.id: Decision.approve() for call in paused.run.waiting}
    done = asyncio.run(runner.resume(paused.run, decisions=decisions))
    assert (done.assistant_text, len(forecast.seen)) == ("Clear.", 1)


def test_a_class_instead_of_an_object_is_a_mistake_that_is_named() -> None:
    with pytest.raises(ConfigError, match="Forecast is a LangChain tool class: pass an instance"):
        ToolRegistry([Forecast])


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        (RunnableConfig, True),
        ("RunnableConfig", True),
        (RunnableConfig | None, True),
        (dict[str, Any], False),
        ("str", False),
    ],
)
def test_a_config_is_known_however_it_is_annotated(annotation: object, told: bool) -> None:  # noqa: FBT001
    assert langchain._is_runnable_config(annotation) is told
