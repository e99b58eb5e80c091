"""Exports tools as plain functions with a signature and a docstring, for other frameworks.

    LangChain      tool(definition.as_function())
    pydantic-ai    Tool(definition.as_function())

The signature is built from the schema, so it has JSON types.
"""

import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Union

import msgspec

from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON, ToolSpec

_PYTHON_TYPES: dict[Any, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
_PYTHON_TYPES |= {"null": None, "object": dict[str, Any], "array": list[Any]}


def plain_function(
    spec: ToolSpec,
    handler: Callable[..., Any] | None,
    prepare: Callable[[JSON], JSON],
    raises: Callable[[str], Exception],
    *,
    is_async: bool,
) -> Callable[..., Any]:
    """Return a function that takes a model's arguments and calls the handler.

    `prepare` validates the arguments as a run does, and returns those for the handler.
    """
    if handler is None:
        raise ConfigError(f"tool {spec.name!r} has no handler to call")
    signature = _build_signature(spec)
    required = frozenset(spec.parameters.get("required", ()))

    def function(*args: Any, **kwargs: Any) -> Any:
        with _raise_as(raises):
            return handler(**prepare(_given_arguments(signature, required, args, kwargs)))

    async def async_function(*args: Any, **kwargs: Any) -> Any:
        with _raise_as(raises):
            return await handler(**prepare(_given_arguments(signature, required, args, kwargs)))

    chosen: Callable[..., Any] = async_function if is_async else function
    chosen.__name__ = chosen.__qualname__ = spec.name
    chosen.__doc__ = _docstring(spec)
    chosen.__signature__ = signature  # type: ignore[attr-defined]  # as `inspect` reads it
    hints = {name: one.annotation for name, one in signature.parameters.items()}
    chosen.__annotations__ = hints | {"return": Any}
    return chosen


@contextmanager
def _raise_as(build_exception: Callable[[str], Exception]) -> Iterator[None]:
    """Raise tool errors in the block as the exception of another framework."""
    try:
        yield
    except ToolError as error:
        if build_exception is ToolError:
            raise
        raise build_exception(str(error)) from error


def _given_arguments(
    signature: inspect.Signature, required: frozenset[str], args: tuple[Any, ...], kwargs: JSON
) -> JSON:
    """Return the arguments of a call as JSON, without defaults that a framework filled in."""
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError as problem:
        raise ToolError(str(problem)) from problem
    defaults = {name: one.default for name, one in signature.parameters.items()}
    # An optional argument that is None, like its default, counts as absent.
    return _to_json(
        {
            name: value
            for name, value in arguments.items()
            if value is not None or defaults[name] is not None or name in required
        }
    )


def _to_json(value: Any) -> JSON:
    """Return arguments as JSON; a framework may have converted them to objects."""
    plain: JSON = msgspec.to_builtins(value, enc_hook=_dump_model, str_keys=True)
    return plain


def _dump_model(value: Any) -> Any:
    """Return the JSON of a pydantic model; raise for other objects."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise ToolError(f"{type(value).__name__} cannot be encoded as JSON")


def _build_signature(spec: ToolSpec) -> inspect.Signature:
    """Build a signature from a schema; parameters with defaults come last, as required."""
    properties = spec.parameters["properties"]
    required = frozenset(spec.parameters.get("required", ()))
    parameters = [
        _build_parameter(spec.name, name, schema, required=name in required)
        for name, schema in properties.items()
    ]
    return inspect.Signature(sorted(parameters, key=lambda one: one.default is not one.empty))


def _build_parameter(tool: str, name: str, schema: Any, *, required: bool) -> inspect.Parameter:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(
            f"tool {tool!r} cannot be a function: {name!r} is not a valid parameter name"
        )
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    hint = _type_hint(schema)
    if required:
        return inspect.Parameter(name, kind, annotation=hint)
    default = schema.get("default") if isinstance(schema, Mapping) else None
    optional = _union_of([hint, None]) if default is None else hint
    return inspect.Parameter(name, kind, annotation=optional, default=default)


def _type_hint(schema: Any) -> Any:
    """Return the closest Python type for the values of a schema."""
    match schema:
        case {"enum": [*options]} if options and all(isinstance(one, str) for one in options):
            return Literal[tuple(options)]
        case {"anyOf": [*several]} | {"oneOf": [*several]} if several:
            return _union_of([_type_hint(one) for one in several])
        case {"type": [*kinds]} if kinds:
            return _union_of([_type_hint({**schema, "type": kind}) for kind in kinds])
        case {"type": "array", "items": items}:
            return list[_type_hint(items)]  # type: ignore[misc]  # made at run time
        case {"type": kind}:
            return _PYTHON_TYPES.get(kind, Any)
        case _:
            return Any


def _union_of(hints: list[Any]) -> Any:
    return Any if Any in hints else Union[tuple(hints)]  # noqa: UP007  # made at run time


def _docstring(spec: ToolSpec) -> str:
    """Describe the tool and its parameters in Google's layout, which every framework parses."""
    lines = [spec.description]
    texts = {
        name: schema["description"]
        for name, schema in spec.parameters["properties"].items()
        if isinstance(schema, Mapping) and schema.get("description")
    }
    if texts:
        lines += ["", "Args:"]
        lines += [f"    {name}: {' '.join(str(text).split())}" for name, text in texts.items()]
    return "\n".join(lines)
