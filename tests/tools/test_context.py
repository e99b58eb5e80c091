"""The run's context: which tools get it, how it is left out of the schema, and what is refused."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import pydantic
import pytest

from surecall import (
    ConfigError,
    Context,
    ToolCallingConfig,
    ToolDefinition,
    ToolLoopRunner,
    presets,
    tool,
)
from surecall.testing import ScriptedModel, calls, says
from surecall.tools.registry import ToolRegistry, check_exposed_tools
from surecall.values.types import JSON, ToolResult

SCHEMA: JSON = {"type": "object", "properties": {"order": {"type": "integer"}}}


def ran(
    given: Any,
    context: Mapping[str, Any] | None = None,
    config: ToolCallingConfig | None = None,
    **arguments: Any,
) -> ToolResult:
    """Let a model call the tool `cancel` once, and return what it was answered."""
    script = calls("cancel", **arguments), says("ok")
    runner = ToolLoopRunner(client=ScriptedModel(*script), model="m", tools=given, config=config)
    (answer,) = asyncio.run(runner.run("Go.", context=context)).run.results
    return answer


def cancel(order: int, who: Context) -> str:
    """Cancel an order."""
    return f"{order} for {who.get('user', 'nobody')}"


async def cancel_async(order: int, *, who: Context) -> str:
    """Cancel an order."""
    return cancel(order, who)


def cancel_any(who: Context, **arguments: Any) -> str:
    """Cancel an order."""
    return cancel(arguments["order"], who)


class Cancel:
    """Cancel an order."""

    def __call__(self, order: int, who: Context) -> str:
        return cancel(order, who)


@dataclass
class Order:
    order: int


class LooseOrder(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    order: int


TOOLS: dict[str, Any] = {
    "plain": cancel,
    "marked": tool(cancel),
    "async": tool(name="cancel")(cancel_async),
    "object": tool(name="cancel")(Cancel()),
    "any": tool(name="cancel")(cancel_any),
    "schema": ToolDefinition("cancel", parameters=SCHEMA, handler=cancel),
    "mapping": {"name": "cancel", "parameters": SCHEMA, "handler": cancel_async},
    "dataclass": ToolDefinition("cancel", parameters=Order, handler=cancel),
    "model": ToolDefinition("cancel", parameters=LooseOrder, handler=cancel),
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_gets_the_context_and_the_model_does_not_hear_of_it(name: str) -> None:
    answer = ran(TOOLS[name], {"user": "kim"}, order=3)
    (definition,) = ToolRegistry(TOOLS[name]).definitions

    assert answer.envelope["data"] == {"value": "3 for kim"}
    assert "who" not in str(definition.spec.parameters)


@pytest.mark.parametrize("name", TOOLS)
def test_without_a_context_in_the_run_it_is_empty(name: str) -> None:
    assert ran(TOOLS[name], order=3).envelope["data"] == {"value": "3 for nobody"}


@pytest.mark.parametrize("config", [None, presets.raw().replace(validate_arguments=False)])
@pytest.mark.parametrize("name", TOOLS)
def test_the_model_cannot_set_it(name: str, config: ToolCallingConfig | None) -> None:
    answer = ran(TOOLS[name], {"user": "kim"}, config, order=3, who={"user": "mallory"})

    assert (answer.ok, answer.executed) == (False, False)
    assert "mallory" not in answer.content


def test_a_tool_can_still_be_called_by_hand() -> None:
    assert tool(cancel)(3, Context({"user": "kim"})) == "3 for kim"


def test_it_can_be_read_but_not_changed_and_prints_its_keys_alone() -> None:
    given = {"user": "kim", "key": "secret"}
    context = Context(given)
    given["user"] = "root"

    assert context == {"user": "kim", "key": "secret"}
    assert (len(context), list(context), "key" in context) == (2, ["user", "key"], True)
    assert (repr(context), repr(Context())) == ("<Context: user, key>", "<Context: empty>")
    with pytest.raises(TypeError):
        context["user"] = "root"  # type: ignore[index]  # on purpose
    with pytest.raises(AttributeError):
        context.user = "root"  # type: ignore[attr-defined]  # on purpose


def test_what_one_run_was_given_is_not_seen_by_the_next() -> None:
    model = ScriptedModel(*[calls("cancel", order=1), says("ok")] * 2)
    runner = ToolLoopRunner(client=model, model="m", tools=cancel)
    first, second = (asyncio.run(runner.run("Go.", context=one)) for one in ({"user": "kim"}, None))

    assert first.run.results[0].envelope["data"] == {"value": "1 for kim"}
    assert second.run.results[0].envelope["data"] == {"value": "1 for nobody"}


def test_no_event_holds_it_but_for_the_keys_that_are_allowed() -> None:
    model = ScriptedModel(calls("cancel", order=1), says("ok"))
    config = {"event_context_keys": ["tenant"]}
    runner = ToolLoopRunner(client=model, model="m", tools=cancel, config=config)
    result = asyncio.run(runner.run("Go.", context={"tenant": "acme", "token": "s3cret"}))

    assert all(event.context == {"tenant": "acme"} for event in result.trace)
    assert "s3cret" not in repr(result.trace.events) + str(model.requests)


def test_an_executor_may_take_it_too() -> None:
    def execute(name: str, arguments: JSON, *, tool_call_id: str, run: Context) -> str:
        return f"{name} {arguments['order']} {tool_call_id} {run['user']}"

    model = ScriptedModel(calls("cancel", order=1), says("ok"))
    tools = {"name": "cancel", "parameters": SCHEMA}
    runner = ToolLoopRunner(client=model, model="m", tools=tools, executor=execute)
    (answer,) = asyncio.run(runner.run("Go.", context={"user": "kim"})).run.results

    assert answer.envelope["data"] == {"value": "cancel 1 call_1 kim"}


def optional(who: Optional[Context]) -> None: ...  # noqa: UP045  # as people write it
def union(who: Context | None) -> None: ...
def listed(who: list[Context]) -> None: ...
def annotated(who: Annotated[Context, "The user."]) -> None: ...
def defaulted(who: Context = Context()) -> None: ...  # noqa: B008  # that is the point
def twice(who: Context, whom: Context) -> None: ...
def by_position(who: Context, /) -> None: ...
def named(context: dict[str, Any]) -> None: ...
def shortened(ctx) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  # as people write it
def prefixed(run_context: Any = None) -> None: ...


class Mine(Context):
    """An application's own."""


def subclassed(who: Mine) -> None: ...


REFUSED: dict[Callable[..., Any], str] = {
    optional: "`Context` alone; write `who: Context`",
    union: "`Context` alone; write `who: Context`",
    listed: "`Context` alone; write `who: Context`",
    annotated: "`Context` alone; write `who: Context`",
    subclassed: "`Context` alone; write `who: Context`",
    defaulted: "has a default, .* write `who: Context`",
    twice: "who and whom are both `Context`",
    by_position: "by position|passed by name",
    named: "for the run's context write `context: Context`",
    shortened: "for the run's context write `ctx: Context`",
    prefixed: "for the run's context write `run_context: Context`",
    functools.partial(cancel, who=Context()): "has a default",
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda one: getattr(one, "__name__", "partial"))
@pytest.mark.parametrize("parameters", [None, {}, Order], ids=["signature", "schema", "class"])
def test_what_only_looks_like_it_is_refused_when_the_tool_is_made(
    function: Callable[..., Any], parameters: Any
) -> None:
    define = functools.partial(ToolDefinition, parameters=parameters, handler=function)
    with pytest.raises(ConfigError, match=REFUSED[function]):
        _ = tool(name="t")(function) if parameters is None else define("t")


def about_words(word: str, context: Annotated[str, "The sentence that it stands in."]) -> str:
    """Explain a word."""
    return f"{word} in {context}"


def about_words_in_prose(word: str, context: str) -> str:
    """Explain a word.

    Args:
        word: The word.
        context: The sentence that it stands in.

    """
    return f"{word} in {context}"


@pytest.mark.parametrize("function", [about_words, about_words_in_prose])
def test_a_parameter_of_that_name_that_is_described_is_the_models(
    function: Callable[..., Any],
) -> None:
    schema = tool(function).spec.parameters

    assert schema["properties"]["context"]["description"] == "The sentence that it stands in."
    assert ToolDefinition("t", parameters=schema, handler=function).context is None


def test_a_schema_cannot_ask_the_model_for_the_context() -> None:
    schema = {"properties": {"order": {"type": "integer"}, "who": {"type": "object"}}}
    with pytest.raises(ConfigError, match="'who' is a property of the schema"):
        ToolDefinition("cancel", parameters=schema, handler=cancel)


def test_a_schema_without_sound_properties_is_told_of_as_before() -> None:
    broken = ToolDefinition("cancel", parameters={"properties": 5}, handler=cancel)
    with pytest.raises(ConfigError, match="invalid schema"):
        check_exposed_tools(ToolRegistry(broken), 1, 1_000)


def test_a_handler_without_a_signature_takes_no_context() -> None:
    assert ToolDefinition("t", parameters=Order, handler=max).context is None


def test_a_hint_that_cannot_be_resolved_is_no_context() -> None:
    def handler(order: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # on purpose

    assert ToolDefinition("t", parameters=Order, handler=handler).context is None


def unaware(name: str, arguments: JSON, context: Any) -> None: ...


@pytest.mark.parametrize(
    ("executor", "sentence"),
    [
        (unaware, "for the run's context write `context: Context`"),
        (5, "a function of a name and arguments, not int"),
        (cancel, "put `who: Context` after them"),
    ],
)
def test_an_executor_that_could_not_get_it_is_refused(executor: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ToolLoopRunner(client=ScriptedModel(), model="m", executor=executor)


@pytest.mark.parametrize("context", ["kim", ["kim"], 5])
def test_a_context_that_is_no_mapping_is_refused(context: Any) -> None:
    with pytest.raises(ConfigError, match="context must be a mapping"):
        ran(cancel, context, order=1)
