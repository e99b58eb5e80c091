"""Converts LangChain tools (`BaseTool` instances, `@tool` functions) by their attributes.

The model sees the same schema as in LangChain. Arguments that LangChain injects are neither exposed
to the model nor accepted from it. A `RunnableConfig` gets the run's context as its `configurable`;
tools that require any other injected argument are rejected.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import msgspec

from surecall.tools.context import Context
from surecall.tools.schema import FunctionSchema, schema_of
from surecall.tools.sources import ToolSource, is_instance_by_name
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON

_PACKAGE = "langchain_core"
_CONFIG = "RunnableConfig"
# LangChain itself provides these.
_FRAMEWORK_PROVIDED = frozenset({"callbacks", "run_manager"})


class _Parameters(msgspec.Struct, frozen=True):
    """The parameters of the function behind a tool that are hidden from the model."""

    config: frozenset[str]
    hidden: frozenset[str]
    missing: tuple[str, ...]


def source_of(tool: Any) -> ToolSource:
    """Return the source of a LangChain tool."""
    schema = _tool_schema(tool)
    shown = schema.get("properties", {})
    parameters = _inspect_parameters(tool, shown)
    if parameters.missing:
        raise ConfigError(
            f"the LangChain tool {tool.name!r} needs {', '.join(parameters.missing)}, which only "
            "LangGraph can provide: write a function with a parameter `context: Context`"
        )
    kept = {name: one for name, one in shown.items() if name not in parameters.config}
    required = [name for name in schema.get("required", ()) if name in kept]
    # The model must not set hidden parameters, which LangChain would accept.
    closed = {"additionalProperties": False, **schema, "properties": kept, "required": required}
    return ToolSource(
        FunctionSchema(tool.name, tool.description, closed), _build_handler(tool, parameters)
    )


def _tool_schema(tool: Any) -> JSON:
    """Return the parameter schema of a tool."""
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
    """Whether this is a legacy `Tool(func=…)`, whose function takes one string."""
    return tool.args_schema is None and hasattr(tool, "func")


def _inspect_parameters(tool: Any, schema_properties: JSON) -> _Parameters:
    """Return the parameters of a tool's function that its schema does not show."""
    try:
        found = list(inspect.signature(_underlying_function(tool)).parameters.values())
    except (TypeError, ValueError) as problem:
        raise ConfigError(
            f"the LangChain tool {tool.name!r} has a function without a signature: {problem}"
        ) from problem
    named = [one for one in found if one.kind not in {one.VAR_KEYWORD, one.VAR_POSITIONAL}]
    if _takes_one_text(tool):
        del named[:1]
    config = frozenset(one.name for one in named if _is_runnable_config(one.annotation))
    known = {*schema_properties, *_FRAMEWORK_PROVIDED, *config}
    hidden = [one for one in named if one.name not in known]
    missing = tuple(repr(one.name) for one in hidden if one.default is one.empty)
    names = {one.name for one in hidden} | _hidden_fields(tool, known)
    return _Parameters(config, frozenset(names), missing)


def _hidden_fields(tool: Any, known: set[str]) -> set[str]:
    """Return the hidden fields of the tool's argument class, under all aliases.

    A function with `**kwargs` would receive them.
    """
    hidden: set[str] = set()
    for name, field in (getattr(tool.args_schema, "model_fields", None) or {}).items():
        other = getattr(field.validation_alias, "choices", [field.validation_alias])
        names = {name, *(one for one in (field.alias, *other) if isinstance(one, str))}
        hidden |= names if known.isdisjoint(names) else set()
    return hidden


def _underlying_function(tool: Any) -> Callable[..., Any]:
    own = tool._arun if _is_async(tool) else tool._run  # noqa: SLF001  # a subclass writes these
    found: Callable[..., Any] = (
        getattr(tool, "coroutine", None) or getattr(tool, "func", None) or own
    )
    return found


def _is_runnable_config(annotation: Any) -> bool:
    """Whether an annotation is a `RunnableConfig`, or contains one."""
    if isinstance(annotation, str):
        return _CONFIG in annotation
    named = getattr(annotation, "__name__", None) == _CONFIG
    return named or any(map(_is_runnable_config, get_args(annotation)))


def _is_async(tool: Any) -> bool:
    """Whether a tool has its own coroutine; LangChain's default runs the tool in a thread."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return not type(tool)._arun.__module__.startswith(_PACKAGE)  # noqa: SLF001  # see above


def _build_handler(tool: Any, parameters: _Parameters) -> Callable[..., Any]:
    """Return a handler that invokes the tool with a run's context."""

    def invoke_arguments(arguments: JSON, context: Context) -> tuple[Any, Any]:
        if injected := sorted(parameters.hidden & arguments.keys()):
            raise ToolError(f"{injected[0]}: the tool has no such parameter")
        config = {"configurable": dict(context)} if parameters.config else None
        if not (tool.handle_tool_error or tool.handle_validation_error):
            return arguments, config
        # Only with a complete call does the result show whether the tool handled an error.
        call = {"type": "tool_call", "id": tool.name, "name": tool.name, "args": arguments}
        return call, config

    def handler(surecall_context: Context, **arguments: Any) -> Any:
        with _translate_errors():
            return _result_for_model(tool.invoke(*invoke_arguments(arguments, surecall_context)))

    async def async_handler(surecall_context: Context, **arguments: Any) -> Any:
        with _translate_errors():
            return _result_for_model(
                await tool.ainvoke(*invoke_arguments(arguments, surecall_context))
            )

    return async_handler if _is_async(tool) else handler


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert LangChain exceptions that are meant for the model to `ToolError`."""
    try:
        yield
    except Exception as error:
        if is_instance_by_name(error, _PACKAGE, "ToolException"):
            raise ToolError(str(error)) from error
        raise


def _result_for_model(value: Any) -> Any:
    """Return the result for the model; for a message, its content."""
    if isinstance(value, list) and value and all(map(_is_message, value)):
        return [_result_for_model(item) for item in value]
    if type(value).__module__.startswith("langgraph."):
        raise ToolError(
            "The tool ran, but its result can only be used inside a LangGraph graph.", retry=False
        )
    if not _is_message(value):
        return value
    if value.status == "error":
        raise ToolError(str(value.content))
    return value.content


def _is_message(value: Any) -> bool:
    return getattr(value, "type", None) == "tool" and hasattr(value, "tool_call_id")
