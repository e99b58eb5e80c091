"""Converts pydantic-ai tools (`Tool(function)`) by their attributes.

Arguments are validated by the tool's own validator. Tools with features that need a pydantic-ai
agent are rejected: a `RunContext`, `prepare`, an `args_validator`, or an approval.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from surecall.tools.schema import FunctionSchema
from surecall.tools.sources import ToolSource, is_instance_by_name
from surecall.tools.validation import problem_line
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON

_PACKAGE = "pydantic_ai"
# Features that need a pydantic-ai agent, and what to use instead.
_UNSUPPORTED = {
    "takes_ctx": "takes a RunContext, which only pydantic-ai agents have: write a function with a "
    "parameter `context: Context`",
    "prepare": "has a `prepare` function, which only pydantic-ai agents call: write a tool policy "
    "that decides when the tool is visible",
    "args_validator": "has an `args_validator`, which only pydantic-ai agents call: check the "
    "arguments in the function itself",
    "requires_approval": "requires approval, which only pydantic-ai agents request: pass its "
    "function as `tool(destructive=True)(function)`, and `tool_policy=AskFirst()`",
}


def source_of(tool: Any) -> ToolSource:
    """Return the source of a pydantic-ai tool."""
    for attribute, need in _UNSUPPORTED.items():
        if getattr(tool, attribute, None):
            raise ConfigError(f"the pydantic-ai tool {tool.name!r} {need}")
    schema = tool.function_schema
    function = schema.function

    def handler(**arguments: Any) -> Any:
        positional, named = _validate_arguments(schema, arguments)
        with _translate_errors():
            return _result_for_model(function(*positional, **named))

    async def async_handler(**arguments: Any) -> Any:
        positional, named = _validate_arguments(schema, arguments)
        with _translate_errors():
            return _result_for_model(await function(*positional, **named))

    described = FunctionSchema(tool.name, tool.description or "", schema.json_schema)
    runs = async_handler if schema.is_async else handler
    return ToolSource(described, runs, timeout_s=tool.timeout, serial=bool(tool.sequential))


def _validate_arguments(schema: Any, arguments: JSON) -> tuple[list[Any], JSON]:
    """Return the positional and keyword arguments of the function."""
    try:
        named = dict(schema.validator.validate_python(arguments))
    except ValueError as problem:
        raise ToolError(_validation_text(problem)) from problem
    positional = [named.pop(name) for name in schema.positional_fields]
    if schema.var_positional_field:
        positional += named.pop(schema.var_positional_field)
    return positional, named


def _validation_text(problem: ValueError) -> str:
    """Return the validation errors, without the URLs that pydantic adds."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem)
    return "; ".join(
        problem_line(error["loc"], error["msg"]) for error in errors(include_url=False)
    )


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert pydantic-ai exceptions that are meant for the model to `ToolError`."""
    try:
        yield
    except Exception as error:
        if is_instance_by_name(error, _PACKAGE, "ModelRetry"):
            raise ToolError(str(error)) from error
        if is_instance_by_name(error, _PACKAGE, "ToolFailed"):
            raise ToolError(str(error), retry=False) from error
        if is_instance_by_name(error, _PACKAGE, "ApprovalRequired", "CallDeferred"):
            raise ToolError(
                "This call needs human approval first and was not run.",
                retry=False,
            ) from error
        raise


def _result_for_model(value: Any) -> Any:
    """Return the result for the model, including the content that a tool adds to it."""
    if getattr(value, "kind", None) != "tool-return":
        return value
    result, beside = value.return_value, value.content
    if beside is None:
        return result
    shown = dict(result) if isinstance(result, Mapping) else {"return_value": result}
    return shown | {"content": beside}
