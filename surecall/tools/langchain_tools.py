"""Tools of LangChain: `BaseTool` objects, `@tool` functions, read by their attributes.

What a tool shows its own models is shown here, too. Arguments that LangChain injects are neither
shown nor taken from a model. A `RunnableConfig` is given the run's context as its `configurable`;
a tool that cannot run without any other injected argument is refused.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import msgspec

from surecall.tools.context import Context
from surecall.tools.schema import FunctionSchema, schema_of
from surecall.tools.sources import ToolSource, is_named
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON

_PACKAGE = "langchain_core"
_CONFIG = "RunnableConfig"
# LangChain gives these itself, whoever calls the tool.
_GIVEN = frozenset({"callbacks", "run_manager"})


class _Parameters(msgspec.Struct, frozen=True):
    """The parameters of the function behind a tool that the model is not asked for."""

    config: frozenset[str]
    hidden: frozenset[str]
    missing: tuple[str, ...]


def langchain_source(tool: Any) -> ToolSource:
    """Read a tool of LangChain."""
    schema = _schema(tool)
    shown = schema.get("properties", {})
    parameters = _parameters(tool, shown)
    if parameters.missing:
        raise ConfigError(
            f"the LangChain tool {tool.name!r} needs {', '.join(parameters.missing)}, which only "
            "LangGraph can give it: write a function with a parameter `context: Context`"
        )
    kept = {name: one for name, one in shown.items() if name not in parameters.config}
    required = [name for name in schema.get("required", ()) if name in kept]
    # A model must not set what it is not shown: LangChain would take it.
    closed = {"additionalProperties": False, **schema, "properties": kept, "required": required}
    return ToolSource(
        FunctionSchema(tool.name, tool.description, closed), _handler(tool, parameters)
    )


def _schema(tool: Any) -> JSON:
    if _takes_one_text(tool):
        return {"properties": tool.args, "required": list(tool.args)}
    try:
        schema = schema_of(tool.tool_call_schema)
    except Exception as problem:
        raise ConfigError(
            f"the LangChain tool {tool.name!r} has no JSON Schema: {problem}"
        ) from problem
    return {key: value for key, value in schema.items() if key != "description"}


def _takes_one_text(tool: Any) -> bool:
    """Whether it is a `Tool(func=…)` of the old kind, whose function gets one text."""
    return tool.args_schema is None and hasattr(tool, "func")


def _parameters(tool: Any, shown: JSON) -> _Parameters:
    try:
        found = list(inspect.signature(_function(tool)).parameters.values())
    except (TypeError, ValueError) as problem:
        raise ConfigError(
            f"the LangChain tool {tool.name!r} has a function without a signature: {problem}"
        ) from problem
    named = [one for one in found if one.kind not in {one.VAR_KEYWORD, one.VAR_POSITIONAL}]
    if _takes_one_text(tool):
        del named[:1]
    config = frozenset(one.name for one in named if _is_config(one.annotation))
    known = {*shown, *_GIVEN, *config}
    hidden = [one for one in named if one.name not in known]
    missing = tuple(repr(one.name) for one in hidden if one.default is one.empty)
    names = {one.name for one in hidden} | _fields(tool, known)
    return _Parameters(config, frozenset(names), missing)


def _fields(tool: Any, known: set[str]) -> set[str]:
    """Return the fields of the tool's own model that the model is not shown, under all names.

    A function that takes any keywords gets them all the same.
    """
    hidden: set[str] = set()
    for name, field in (getattr(tool.args_schema, "model_fields", None) or {}).items():
        other = getattr(field.validation_alias, "choices", [field.validation_alias])
        names = {name, *(one for one in (field.alias, *other) if isinstance(one, str))}
        hidden |= names if known.isdisjoint(names) else set()
    return hidden


def _function(tool: Any) -> Callable[..., Any]:
    own = tool._arun if _is_async(tool) else tool._run  # noqa: SLF001  # a subclass writes these
    found: Callable[..., Any] = (
        getattr(tool, "coroutine", None) or getattr(tool, "func", None) or own
    )
    return found


def _is_config(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return _CONFIG in annotation
    named = getattr(annotation, "__name__", None) == _CONFIG
    return named or any(map(_is_config, get_args(annotation)))


def _is_async(tool: Any) -> bool:
    """Whether a tool has a coroutine of its own; LangChain's would run it in a thread."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return not type(tool)._arun.__module__.startswith(_PACKAGE)  # noqa: SLF001  # see above


def _handler(tool: Any, parameters: _Parameters) -> Callable[..., Any]:
    def asked(arguments: JSON, context: Context) -> tuple[Any, Any]:
        if injected := sorted(parameters.hidden & arguments.keys()):
            raise ToolError(f"{injected[0]}: the tool has no such parameter")
        config = {"configurable": dict(context)} if parameters.config else None
        if not (tool.handle_tool_error or tool.handle_validation_error):
            return arguments, config
        # Only as a whole call is an error that the tool handles told apart from its result.
        whole = {"type": "tool_call", "id": tool.name, "name": tool.name, "args": arguments}
        return whole, config

    def handler(surecall_context: Context, **arguments: Any) -> Any:
        with _told():
            return _shown(tool.invoke(*asked(arguments, surecall_context)))

    async def async_handler(surecall_context: Context, **arguments: Any) -> Any:
        with _told():
            return _shown(await tool.ainvoke(*asked(arguments, surecall_context)))

    return async_handler if _is_async(tool) else handler


@contextmanager
def _told() -> Iterator[None]:
    """Tell the model what the tool raised for it to hear."""
    try:
        yield
    except Exception as error:
        if is_named(error, _PACKAGE, "ToolException"):
            raise ToolError(str(error)) from error
        raise


def _shown(value: Any) -> Any:
    """Return what the model is shown of a result: of a message its content."""
    if isinstance(value, list) and value and all(map(_is_message, value)):
        return [_shown(item) for item in value]
    if type(value).__module__.startswith("langgraph."):
        raise ToolError(
            "The tool ran, but its result is meant for a graph, and there is none.", retry=False
        )
    if not _is_message(value):
        return value
    if value.status == "error":
        raise ToolError(str(value.content))
    return value.content


def _is_message(value: Any) -> bool:
    return getattr(value, "type", None) == "tool" and hasattr(value, "tool_call_id")
