"""Converts validated arguments to the keyword arguments of a tool's handler."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, is_typeddict

import msgspec

from surecall.tools.schema import function_binder
from surecall.tools.signatures import context_parameter, converter
from surecall.values.errors import ToolError
from surecall.values.types import JSON, object_or_empty

Handler: TypeAlias = Callable[..., Any]
ArgumentBinder: TypeAlias = Callable[[JSON], dict[str, Any]]


def context_parameter_name(handler: Handler | None, schema: JSON, where: str) -> str | None:
    """Return the name of the handler's `Context` parameter, if it has one."""
    if handler is None:
        return None
    return context_parameter(handler, object_or_empty(schema.get("properties")), where)


def argument_binder(parameters: Any, handler: Handler, context: str | None) -> ArgumentBinder:
    """Return a function that converts validated arguments to the handler's keyword arguments."""
    own = isinstance(parameters, type) and _is_model_class(parameters)
    bind = _field_binder(parameters) if own else function_binder(handler)
    if context is None:
        return bind

    def bind_without_context(arguments: JSON) -> dict[str, Any]:
        # The schema may allow additional arguments, but never this one.
        if context in arguments:
            raise ToolError(f"{context}: the tool has no such parameter")
        return bind(arguments)

    return bind_without_context


def _field_binder(parameters: type[Any]) -> ArgumentBinder:
    """Return a binder that parses arguments with a class and passes its fields."""
    read = converter(parameters) or dict

    def bind(arguments: JSON) -> dict[str, Any]:
        try:
            return _field_values(read(arguments))
        except BaseException as problem:  # the application's code may raise anything
            # Only errors about values are meant for the model; others may leak internals.
            is_safe = isinstance(problem, ValueError)
            raise ToolError(str(problem) if is_safe else "not acceptable") from problem

    return bind


def _is_model_class(kind: type[Any]) -> bool:
    known = is_dataclass(kind) or is_typeddict(kind) or issubclass(kind, msgspec.Struct)
    return known or callable(getattr(kind, "model_validate", None))


def _field_values(value: Any) -> dict[str, Any]:
    """Return the fields of a parsed object as a dictionary."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return dict(value)  # a TypedDict, or a pydantic model, which iterates over its fields
