"""A tool as a plain function that other frameworks can read: names, types, defaults, a docstring.

    LangChain      tool(definition.as_function())
    pydantic-ai    Tool(definition.as_function())

The signature is written from the schema, so its types are those of JSON.
"""

import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Union

import msgspec

from surecall.tools.context import Context
from surecall.values.errors import ConfigError, ToolError
from surecall.values.types import JSON, ToolSpec

if TYPE_CHECKING:
    from surecall.tools.registry import ToolDefinition

_TYPES: dict[Any, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
_TYPES |= {"null": None, "object": dict[str, Any], "array": list[Any]}


def plain_function(
    tool: "ToolDefinition", context: Context, raises: Callable[[str], Exception]
) -> Callable[..., Any]:
    """Return a function that checks its arguments as a run does, and calls the handler."""
    if tool.handler is None:
        raise ConfigError(f"tool {tool.name!r} has no handler, so there is nothing to call")
    signature = _signature(tool.spec)
    call = _Call(tool, signature, {} if tool.context is None else {tool.context: context})

    def function(*args: Any, **kwargs: Any) -> Any:
        with _raised_as(raises):
            return call.handler(**call.arguments(args, kwargs))

    async def async_function(*args: Any, **kwargs: Any) -> Any:
        with _raised_as(raises):
            return await call.handler(**call.arguments(args, kwargs))

    chosen: Callable[..., Any] = async_function if tool.is_async else function
    chosen.__name__ = chosen.__qualname__ = tool.name
    chosen.__doc__ = _docstring(tool.spec)
    chosen.__signature__ = signature  # type: ignore[attr-defined]  # as `inspect` reads it
    hints = {name: one.annotation for name, one in signature.parameters.items()}
    chosen.__annotations__ = hints | {"return": Any}
    return chosen


@contextmanager
def _raised_as(raises: Callable[[str], Exception]) -> Iterator[None]:
    try:
        yield
    except ToolError as error:
        if raises is ToolError:
            raise
        raise raises(str(error)) from error


class _Call:
    """What makes the handler's arguments of those that a function was called with."""

    def __init__(self, tool: "ToolDefinition", signature: inspect.Signature, given: JSON) -> None:
        self.handler: Any = tool.handler
        self._tool = tool
        self._signature = signature
        self._given = given
        self._required = frozenset(tool.spec.parameters.get("required", ()))

    def arguments(self, args: tuple[Any, ...], kwargs: JSON) -> JSON:
        try:
            told = self._signature.bind(*args, **kwargs).arguments
        except TypeError as problem:
            raise ToolError(str(problem)) from problem
        # Frameworks fill in what was left out.
        said = {name: value for name, value in told.items() if not self._is_left_out(name, value)}
        fitted = self._tool.coerce(_plain(said)).value
        if errors := self._tool.validate(fitted):
            raise ToolError("; ".join(errors))
        return self._tool.bind(fitted) | self._given

    def _is_left_out(self, name: str, value: Any) -> bool:
        """Whether an argument only says that there is none, where there need not be one."""
        default = self._signature.parameters[name].default
        return value is None and default is None and name not in self._required


def _plain(value: Any) -> JSON:
    """Return arguments as JSON has them; a framework may have made objects of them."""
    plain: JSON = msgspec.to_builtins(value, enc_hook=_dumped, str_keys=True)
    return plain


def _dumped(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise ToolError(f"{type(value).__name__} cannot be written as JSON")


def _signature(spec: ToolSpec) -> inspect.Signature:
    """Write a signature from a schema; what has a default comes last, as it must."""
    properties = spec.parameters["properties"]
    required = frozenset(spec.parameters.get("required", ()))
    parameters = [
        _parameter(spec.name, name, schema, required=name in required)
        for name, schema in properties.items()
    ]
    return inspect.Signature(sorted(parameters, key=lambda one: one.default is not one.empty))


def _parameter(tool: str, name: str, schema: Any, *, required: bool) -> inspect.Parameter:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(
            f"tool {tool!r} cannot be a function: {name!r} is no name for a parameter"
        )
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    hint = _hint(schema)
    if required:
        return inspect.Parameter(name, kind, annotation=hint)
    default = schema.get("default") if isinstance(schema, Mapping) else None
    optional = _union([hint, None]) if default is None else hint
    return inspect.Parameter(name, kind, annotation=optional, default=default)


def _hint(schema: Any) -> Any:
    """Return the type of the values that a schema describes, as closely as Python says it."""
    match schema:
        case {"enum": [*options]} if options and all(isinstance(one, str) for one in options):
            return Literal[tuple(options)]
        case {"anyOf": [*several]} | {"oneOf": [*several]} if several:
            return _union([_hint(one) for one in several])
        case {"type": [*kinds]} if kinds:
            return _union([_hint({**schema, "type": kind}) for kind in kinds])
        case {"type": "array", "items": items}:
            return list[_hint(items)]  # type: ignore[misc]  # made at run time
        case {"type": kind}:
            return _TYPES.get(kind, Any)
        case _:
            return Any


def _union(hints: list[Any]) -> Any:
    return Any if Any in hints else Union[tuple(hints)]  # noqa: UP007  # made at run time


def _docstring(spec: ToolSpec) -> str:
    """Describe the tool and its parameters in Google's layout, which every framework reads."""
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
