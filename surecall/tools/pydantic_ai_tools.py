"""Tools of pydantic-ai: `Tool(function)`, read by their attributes.

Arguments are validated by the tool's own validator. What needs an agent's run is refused, because
it could not be honoured: a `RunContext`, `prepare`, an `args_validator`, an approval.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from surecall.tools.schema import FunctionSchema
from surecall.tools.sources import ToolSource, is_named
from surecall.tools.validation import line
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON

_PACKAGE = "pydantic_ai"
# What a tool may ask for that only an agent of pydantic-ai can give, and what to do instead.
_NEEDS = {
    "takes_ctx": "takes a RunContext, which only its agents have: write a function with a "
    "parameter `context: Context`",
    "prepare": "has a `prepare` function, which only its agents call: write a tool policy that "
    "says when it is visible",
    "args_validator": "has an `args_validator`, which only its agents call: check the arguments "
    "in the function itself",
    "requires_approval": "requires approval, which its agents would ask for: pass its function "
    "as `tool(destructive=True)(function)`, and `tool_policy=AskFirst()`",
}


def pydantic_ai_source(tool: Any) -> ToolSource:
    """Read a tool of pydantic-ai."""
    for attribute, need in _NEEDS.items():
        if getattr(tool, attribute, None):
            raise ConfigError(f"the pydantic-ai tool {tool.name!r} {need}")
    schema = tool.function_schema
    function = schema.function

    def handler(**arguments: Any) -> Any:
        positional, named = _validated(schema, arguments)
        with _told():
            return _returned(function(*positional, **named))

    async def async_handler(**arguments: Any) -> Any:
        positional, named = _validated(schema, arguments)
        with _told():
            return _returned(await function(*positional, **named))

    described = FunctionSchema(tool.name, tool.description or "", schema.json_schema)
    runs = async_handler if schema.is_async else handler
    return ToolSource(described, runs, timeout_s=tool.timeout, serial=bool(tool.sequential))


def _validated(schema: Any, arguments: JSON) -> tuple[list[Any], JSON]:
    """Return what the function is called with, by position and by name."""
    try:
        named = dict(schema.validator.validate_python(arguments))
    except ValueError as problem:
        raise ToolError(_words(problem)) from problem
    positional = [named.pop(name) for name in schema.positional_fields]
    if schema.var_positional_field:
        positional += named.pop(schema.var_positional_field)
    return positional, named


def _words(problem: ValueError) -> str:
    """Say what is wrong in a line each, without the addresses that pydantic adds."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem)
    return "; ".join(line(error["loc"], error["msg"]) for error in errors(include_url=False))


@contextmanager
def _told() -> Iterator[None]:
    """Tell the model what the tool raised for it to hear."""
    try:
        yield
    except Exception as error:
        if is_named(error, _PACKAGE, "ModelRetry"):
            raise ToolError(str(error)) from error
        if is_named(error, _PACKAGE, "ToolFailed"):
            raise ToolError(str(error), retry=False) from error
        if is_named(error, _PACKAGE, "ApprovalRequired", "CallDeferred"):
            raise ToolError(
                "The tool wants a person to approve this call first, and was not carried out.",
                retry=False,
            ) from error
        raise


def _returned(value: Any) -> Any:
    """Return what the model is shown; what a tool says beside its result is part of it."""
    if getattr(value, "kind", None) != "tool-return":
        return value
    result, beside = value.return_value, value.content
    if beside is None:
        return result
    shown = dict(result) if isinstance(result, Mapping) else {"return_value": result}
    return shown | {"content": beside}
