"""Parses the signatures, type hints, and docstrings of functions.

    Google                      NumPy                       Sphinx
    Args:                       Parameters                  :param city: Where to look.
        city: Where to look.    ----------
                                city : str
                                    Where to look.

Docstring sections in other layouts are ignored. A signature that cannot be called with named
arguments raises `ConfigError`.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from surecall.tools.context import Context, check_context_name, check_context_parameter
from surecall.tools.grounded import grounds_in
from surecall.values.errors import ConfigError
from surecall.values.nesting import encode_json
from surecall.values.types import FIRST_INEXACT_FLOAT, JSON

_MISSING = inspect.Parameter.empty
_UNIONS = (Union, UnionType)
_JSON_TYPES = (str, int, float, bool, type(None), list, dict, object, Any)
_DATE_TIME = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
_GOOGLE_HEADERS = frozenset({"Args:", "Arguments:", "Keyword Args:", "Parameters:", "Params:"})
_NUMPY_HEADERS = frozenset({"Parameters", "Other Parameters"})
_DESCRIBE_ADVICE = (
    "if the model should set this argument, describe it, as in "
    '`{}: Annotated[str, "The words around it."]`'
)
_SPHINX_FIELDS = (":param ", ":parameter ", ":arg ", ":argument ", ":key ", ":keyword ")


class ToolParameter(msgspec.Struct, frozen=True):
    """One named parameter; `default` is `{"default": …}` where JSON can express it."""

    name: str
    hint: Any
    description: str | None
    required: bool
    default: JSON
    grounds: tuple[str, ...] | None = None


class ToolSignature(msgspec.Struct, frozen=True):
    """A function that can be called with named arguments."""

    name: str
    summary: str
    parameters: tuple[ToolParameter, ...]
    accepts_extra: bool


def parse_signature(fn: Callable[..., Any]) -> ToolSignature:
    """Parse a function's signature; raise `ConfigError` if a parameter is unsupported."""
    target = _underlying_function(fn)
    name = getattr(target, "__name__", "__call__")
    name = type(fn).__name__ if name == "__call__" else name
    doc = inspect.getdoc(target) or ""
    try:
        found = inspect.signature(fn).parameters.values()
    except (NameError, TypeError, ValueError) as problem:
        raise ConfigError(f"{name}(): cannot inspect the signature: {problem}") from problem
    texts = parameter_descriptions(doc)
    read = (
        _build_parameter(target, one, texts, f"{name}(): parameter {one.name!r}") for one in found
    )
    parameters = tuple(one for one in read if one is not None)
    takes_more = any(one.kind is one.VAR_KEYWORD for one in found)
    return ToolSignature(name, docstring_summary(doc), parameters, takes_more)


def context_parameter(fn: Callable[..., Any], described: Collection[str], where: str) -> str | None:
    """Return the name of the parameter that takes the run's context, if there is one.

    `described` are the names of the parameters in the schema.
    """
    target, found = _underlying_function(fn), list[str]()
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (NameError, TypeError, ValueError):
        return None
    for one in parameters:
        place = f"{where}: parameter {one.name!r}"
        hint = _hint_or_none(target, one.annotation)
        check_context_parameter(one, hint, place)
        if hint is Context:
            found.append(one.name)
        elif one.name not in described:
            check_context_name(one.name, place, "otherwise rename the parameter")
    if len(found) > 1:
        raise ConfigError(f"{where}: {' and '.join(found)} are both `Context`; keep only one")
    if found and found[0] in described:
        raise ConfigError(
            f"{where}: {found[0]!r} is a property of the schema and also the name of the handler's "
            "`Context`; rename one of them."
        )
    return found[0] if found else None


def converter(hint: Any) -> Callable[[Any], Any] | None:
    """Return the conversion of decoded JSON to the annotated type; None if none is needed."""
    if _is_json_type(hint):
        kinds = _union_members(hint)
        return _as_integer if int in kinds and float not in kinds else None
    return type_decoder(hint)


def type_decoder(hint: Any) -> Callable[[Any], Any]:
    """Return a function that converts decoded JSON to the annotated type or raises `ValueError`."""
    return partial(msgspec.convert, type=hint, str_keys=True, dec_hook=_decode_model)


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Whether a function, partial, or callable object must be awaited; others run in a thread."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004  # it is the method that is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def with_date_format(hint: Any) -> Any:
    """Add the `date-time` format to a hint, which msgspec omits."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _UNIONS:
        return Union[tuple(map(with_date_format, arguments))]  # noqa: UP007
    if origin is Annotated:
        return Annotated[with_date_format(arguments[0]), *arguments[1:]]
    return _DATE_TIME if hint is datetime else hint


def docstring_summary(doc: str) -> str:
    """Return the first paragraph of a docstring as one line."""
    words: list[str] = []
    lines = doc.strip().splitlines()
    for index, line in enumerate(lines):
        if not line.strip() or _is_section_start(lines, index):
            break
        words.append(line.strip())
    return " ".join(words)


def parameter_descriptions(doc: str) -> dict[str, str]:
    """Return the description of each parameter in a docstring."""
    lines = doc.splitlines()
    named = [*_google_parameters(lines), *_numpy_parameters(lines), *_sphinx_parameters(lines)]
    return {name.lstrip("*"): text for name, text in named if text}


# Signatures


def _underlying_function(fn: Callable[..., Any]) -> Any:
    """Return the function that a partial or callable object calls."""
    if isinstance(fn, partial):  # also a routine from Python 3.14 on
        return fn.func
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return fn
    return getattr(fn, "__call__", fn)  # noqa: B004


def _build_parameter(
    function: Any, parameter: inspect.Parameter, descriptions: dict[str, str], where: str
) -> ToolParameter | None:
    """Return a parameter for the model; None for one that the model cannot set."""
    required = parameter.default is _MISSING
    if parameter.kind is parameter.VAR_POSITIONAL or (
        parameter.kind is parameter.POSITIONAL_ONLY and required
    ):
        raise ConfigError(
            f"{where} can only be passed by position, but tools are called with named arguments"
        )
    if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_KEYWORD}:
        return None
    hint = _resolve_hint(function, parameter.annotation, where)
    check_context_parameter(parameter, hint, where)
    if hint is Context:
        return None
    text = _hint_description(hint) or descriptions.get(parameter.name)
    if not text:
        check_context_name(parameter.name, where, _DESCRIBE_ADVICE.format(parameter.name))
    return ToolParameter(
        parameter.name,
        hint,
        text,
        required,
        _json_default_field(parameter.default),
        grounds_in(hint),
    )


def _resolve_hint(target: Any, annotation: Any, where: str) -> Any:
    """Resolve one hint alone, so that an error names it and other hints still resolve."""
    if annotation is _MISSING:
        return Any

    def carrier() -> None: ...

    carrier.__annotations__ = {"hint": annotation}
    scope = getattr(inspect.unwrap(target), "__globals__", {})
    try:
        return get_type_hints(carrier, globalns=scope, include_extras=True)["hint"]
    except Exception as problem:
        raise ConfigError(
            f"{where}: the type hint {annotation!r} cannot be resolved ({problem}); "
            "define the type at module level."
        ) from problem


def _hint_or_none(target: Any, annotation: Any) -> Any:
    """Return a resolved hint; None if it cannot be resolved."""
    try:
        return _resolve_hint(target, annotation, "")
    except ConfigError:
        return None


def _hint_description(hint: Any) -> str | None:
    """Return the description in an `Annotated` hint: a string, or an object's `description`."""
    for extra in getattr(hint, "__metadata__", ()):
        text = extra if isinstance(extra, str) else getattr(extra, "description", None)
        if isinstance(text, str):
            return text
    return None


def _json_default_field(value: Any) -> JSON:
    """Return `{"default": value}`; empty if JSON cannot express the value."""
    try:
        default = msgspec.json.decode(encode_json(value, msgspec.json.encode))
    except (TypeError, ValueError):
        return {}
    # NaN and infinity are encoded as null.
    return {} if default is None and value is not None else {"default": default}


# Conversion


def _is_json_type(hint: Any) -> bool:
    """Whether decoded JSON already has the annotated type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_json_type(arguments[0])
    if origin is dict:
        return arguments[0] is str and _is_json_type(arguments[1])
    if origin is list or origin in _UNIONS:
        return all(map(_is_json_type, arguments))
    return origin is Literal or any(hint is plain for plain in _JSON_TYPES)


def _union_members(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Annotated:
        return _union_members(get_args(hint)[0])
    return get_args(hint) if get_origin(hint) in _UNIONS else (hint,)


def _as_integer(value: Any) -> Any:
    """Convert 3.0 to 3: both are integers in JSON Schema, but only one is in Python.

    A float that may stand for several integers stays a float.
    """
    is_exact = isinstance(value, float) and value.is_integer() and abs(value) < FIRST_INEXACT_FLOAT
    return int(value) if is_exact else value


def _decode_model(kind: type[Any], value: Any) -> Any:
    """Validate a value with a pydantic-style class, as JSON, where dates are strings."""
    if not callable(validate := getattr(kind, "model_validate", None)):
        return value
    from_json = getattr(kind, "model_validate_json", None)
    try:
        return from_json(msgspec.json.encode(value)) if callable(from_json) else validate(value)
    except ValueError as problem:
        if not callable(errors := getattr(problem, "errors", None)):
            raise
        first = errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from problem


# Docstrings


def _is_section_start(lines: Sequence[str], index: int) -> bool:
    line = lines[index].strip()
    return (
        line in _GOOGLE_HEADERS or line.startswith(_SPHINX_FIELDS) or _is_underlined(lines, index)
    )


def _is_underlined(lines: Sequence[str], index: int) -> bool:
    below = lines[index + 1].strip() if index + 1 < len(lines) else ""
    return len(below) > 1 and not below.strip("-")


def _google_parameters(lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield the name and description of each parameter."""
    for index, line in enumerate(lines):
        if line in _GOOGLE_HEADERS:
            for head, body in _entries(_indented_block(lines[index + 1 :])):
                name, text = _split_google_entry(head)
                yield name, f"{text} {body}".strip()


def _numpy_parameters(lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield the name and description of each parameter."""
    for index, line in enumerate(lines):
        if line in _NUMPY_HEADERS and _is_underlined(lines, index):
            for head, body in _entries(_section_lines(lines[index + 2 :])):
                names = head.partition(":")[0].split(",")
                yield from ((name.strip(), body) for name in names)


def _sphinx_parameters(lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield the name and description of each parameter."""
    for head, body in _entries(lines):
        if head.startswith(_SPHINX_FIELDS):
            field, _, text = head[1:].partition(":")
            yield field.split()[-1], f"{text.strip()} {body}".strip()


def _indented_block(lines: Sequence[str]) -> Iterable[str]:
    """Yield the lines up to the first one that is not indented."""
    for line in lines:
        if line.strip() and not line[0].isspace():
            return
        yield line


def _section_lines(lines: Sequence[str]) -> Iterable[str]:
    """Yield the lines up to the next underlined heading."""
    for index, line in enumerate(lines):
        if _is_underlined(lines, index):
            return
        yield line


def _entries(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Group lines into heads and the more deeply indented lines below them."""
    margin: int | None = None
    head, body = "", list[str]()
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        margin = indent if margin is None else margin
        if indent > margin:
            body.append(line.strip())
            continue
        if head:
            yield head, " ".join(body)
        head, body = line.strip(), []
    if head:
        yield head, " ".join(body)


def _split_google_entry(head: str) -> tuple[str, str]:
    """Split `name (type): text`. The type may hold colons, as in `Literal["a:b"]`."""
    depth = 0
    for index, char in enumerate(head):
        depth += (char in "([") - (char in ")]")
        if char == ":" and depth <= 0:
            name = head[:index].partition("(")[0]
            return name.strip(), head[index + 1 :].strip()
    return head, ""
