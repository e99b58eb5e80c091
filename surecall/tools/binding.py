"""From checked arguments to a call: what the handler of a tool is called with."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, is_typeddict

import msgspec

from surecall.tools.schema import bind_function
from surecall.tools.signatures import context_parameter, converter
from surecall.values.errors import ToolError
from surecall.values.types import JSON

Handler: TypeAlias = Callable[..., Any]
Bind: TypeAlias = Callable[[JSON], dict[str, Any]]


def context_of(handler: Handler | None, schema: JSON, where: str) -> str | None:
    """Return the name under which a handler takes the run's context, if it does."""
    if handler is None:
        return None
    properties = schema.get("properties")
    return context_parameter(handler, properties if isinstance(properties, dict) else {}, where)


def binding(parameters: Any, handler: Handler, context: str | None) -> Bind:
    """Return what turns checked arguments into the handler's keyword arguments."""
    own = isinstance(parameters, type) and _reads_itself(parameters)
    bind = _bind_fields(parameters) if own else bind_function(handler)
    if context is None:
        return bind

    def bind_without_context(arguments: JSON) -> dict[str, Any]:
        # The schema may allow further arguments, but never this one.
        if context in arguments:
            raise ToolError(f"{context}: the tool has no such parameter")
        return bind(arguments)

    return bind_without_context


def _bind_fields(parameters: type[Any]) -> Bind:
    read = converter(parameters) or dict

    def bind(arguments: JSON) -> dict[str, Any]:
        try:
            return _fields(read(arguments))
        except BaseException as problem:  # a class of the application's is foreign code
            # Only errors about values are meant for the model; others may tell of our insides.
            told = isinstance(problem, ValueError)
            raise ToolError(str(problem) if told else "not acceptable") from problem

    return bind


def _reads_itself(kind: type[Any]) -> bool:
    known = is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, msgspec.Struct)
    return known or callable(getattr(kind, "model_validate", None))


def _fields(value: Any) -> dict[str, Any]:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return dict(value)  # a TypedDict, or a pydantic model, which iterates over its fields
