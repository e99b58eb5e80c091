"""What a function says of itself: its signature, its type hints, its docstring.

    Google                      NumPy                       Sphinx
    Args:                       Parameters                  :param city: Where to look.
        city: Where to look.    ----------
                                city : str
                                    Where to look.

Docstrings are read tolerantly: what fits none of these layouts is left out. A signature that no
model could use is the caller's mistake.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from surecall.tools.context import Context, check_name, check_parameter
from surecall.tools.grounded import grounds_in
from surecall.values.errors import ConfigError
from surecall.values.nesting import encode_json
from surecall.values.types import JSON

_MISSING = inspect.Parameter.empty
_UNIONS = (Union, UnionType)
_PLAIN_TYPES = (str, int, float, bool, type(None), list, dict, object, Any)
_MOMENT = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
_GOOGLE_HEADERS = frozenset({"Args:", "Arguments:", "Keyword Args:", "Parameters:", "Params:"})
_NUMPY_HEADERS = frozenset({"Parameters", "Other Parameters"})
_DESCRIBE = (
    "for an argument that the model gives, describe it, as in "
    '`{}: Annotated[str, "The words around it."]`'
)
_SPHINX_FIELDS = (":param ", ":parameter ", ":arg ", ":argument ", ":key ", ":keyword ")


class Parameter(msgspec.Struct, frozen=True):
    """One named parameter; `default` is `{"default": …}` where JSON can express it."""

    name: str
    hint: Any
    text: str | None
    required: bool
    default: JSON
    grounds: tuple[str, ...] | None = None


class Signature(msgspec.Struct, frozen=True):
    """A function that can be called with named arguments."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    takes_more: bool


def read_signature(fn: Callable[..., Any]) -> Signature:
    """Read a function's signature, or say which parameter prevents it."""
    target = _underlying(fn)
    name = getattr(target, "__name__", "__call__")
    name = type(fn).__name__ if name == "__call__" else name
    doc = inspect.getdoc(target) or ""
    try:
        found = inspect.signature(fn).parameters.values()
    except (NameError, TypeError, ValueError) as problem:
        raise ConfigError(f"{name}(): the signature cannot be read: {problem}.") from problem
    texts = parameter_texts(doc)
    read = (_parameter(target, one, texts, f"{name}(): parameter {one.name!r}") for one in found)
    parameters = tuple(one for one in read if one is not None)
    takes_more = any(one.kind is one.VAR_KEYWORD for one in found)
    return Signature(name, summary(doc), parameters, takes_more)


def context_parameter(fn: Callable[..., Any], described: Collection[str], where: str) -> str | None:
    """Return the name of the parameter that takes the run's context, if there is one.

    `described` are the names of what `fn` gets otherwise.
    """
    target, found = _underlying(fn), list[str]()
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (NameError, TypeError, ValueError):
        return None
    for one in parameters:
        place = f"{where}: parameter {one.name!r}"
        hint = _hint_or_none(target, one.annotation)
        check_parameter(one, hint, place)
        if hint is Context:
            found.append(one.name)
        elif one.name not in described:
            check_name(one.name, place, "for anything else call it something else")
    if len(found) > 1:
        raise ConfigError(f"{where}: {' and '.join(found)} are both `Context`; keep one of them.")
    if found and found[0] in described:
        raise ConfigError(
            f"{where}: the schema asks the model for {found[0]!r}, which is also the name of the "
            "handler's `Context`; rename one of them."
        )
    return found[0] if found else None


def converter(hint: Any) -> Callable[[Any], Any] | None:
    """Return what turns decoded JSON into the annotated type; None where it already has it."""
    if _is_plain(hint):
        kinds = _alternatives(hint)
        return _whole if int in kinds and float not in kinds else None
    return reader(hint)


def reader(hint: Any) -> Callable[[Any], Any]:
    """Return what turns decoded JSON into the annotated type, or raises `ValueError`."""
    return partial(msgspec.convert, type=hint, str_keys=True, dec_hook=_decoded)


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Whether a function is awaited, also through partials and objects; others run in a thread."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004  # it is the method that is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def dated(hint: Any) -> Any:
    """Name the format of a date-time, which msgspec leaves open."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _UNIONS:
        return Union[tuple(map(dated, arguments))]  # noqa: UP007
    if origin is Annotated:
        return Annotated[dated(arguments[0]), *arguments[1:]]
    return _MOMENT if hint is datetime else hint


def summary(doc: str) -> str:
    """Return the first paragraph as one line, without any list of parameters."""
    words: list[str] = []
    lines = doc.strip().splitlines()
    for index, line in enumerate(lines):
        if not line.strip() or _opens_section(lines, index):
            break
        words.append(line.strip())
    return " ".join(words)


def parameter_texts(doc: str) -> dict[str, str]:
    """Return what the docstring says about each parameter it names."""
    lines = doc.splitlines()
    named = [*_google(lines), *_numpy(lines), *_sphinx(lines)]
    return {name.lstrip("*"): text for name, text in named if text}


# Signatures


def _underlying(fn: Callable[..., Any]) -> Any:
    if isinstance(fn, partial):  # which is a routine, too, from Python 3.14 on
        return fn.func
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return fn
    return getattr(fn, "__call__", fn)  # noqa: B004


def _parameter(
    target: Any, one: inspect.Parameter, texts: dict[str, str], where: str
) -> Parameter | None:
    required = one.default is _MISSING
    if one.kind is one.VAR_POSITIONAL or (one.kind is one.POSITIONAL_ONLY and required):
        raise ConfigError(
            f"{where} can only be passed by position, and a tool is called with named arguments."
        )
    if one.kind in {one.POSITIONAL_ONLY, one.VAR_KEYWORD}:
        return None
    hint = _resolved(target, one.annotation, where)
    check_parameter(one, hint, where)
    if hint is Context:
        return None
    text = _note(hint) or texts.get(one.name)
    if not text:
        check_name(one.name, where, _DESCRIBE.format(one.name))
    return Parameter(one.name, hint, text, required, _default(one.default), grounds_in(hint))


def _resolved(target: Any, annotation: Any, where: str) -> Any:
    """Resolve one hint by itself, so that the message can name it and no other hint matters."""
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
            "define the type at the top of its module."
        ) from problem


def _hint_or_none(target: Any, annotation: Any) -> Any:
    try:
        return _resolved(target, annotation, "")
    except ConfigError:
        return None


def _note(hint: Any) -> str | None:
    """Return the description that an `Annotated` carries: a text, or something described."""
    for extra in getattr(hint, "__metadata__", ()):
        text = extra if isinstance(extra, str) else getattr(extra, "description", None)
        if isinstance(text, str):
            return text
    return None


def _default(value: Any) -> JSON:
    try:
        default = msgspec.json.decode(encode_json(value, msgspec.json.encode))
    except (TypeError, ValueError):
        return {}
    # What JSON has no number for (NaN, infinity) is encoded as null.
    return {} if default is None and value is not None else {"default": default}


# Conversion


def _is_plain(hint: Any) -> bool:
    """Say whether decoded JSON already has the annotated type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_plain(arguments[0])
    if origin is dict:
        return arguments[0] is str and _is_plain(arguments[1])
    if origin is list or origin in _UNIONS:
        return all(map(_is_plain, arguments))
    return origin is Literal or any(hint is plain for plain in _PLAIN_TYPES)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    return get_args(hint) if get_origin(hint) in _UNIONS else (hint,)


def _whole(value: Any) -> Any:
    """Turn 3.0 into 3: for JSON Schema both are integers, for Python only one is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _decoded(kind: type[Any], value: Any) -> Any:
    """Let a class of pydantic's shape read its own value: as JSON, in which a date is a text."""
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


def _opens_section(lines: Sequence[str], index: int) -> bool:
    line = lines[index].strip()
    return line in _GOOGLE_HEADERS or line.startswith(_SPHINX_FIELDS) or _underlined(lines, index)


def _underlined(lines: Sequence[str], index: int) -> bool:
    below = lines[index + 1].strip() if index + 1 < len(lines) else ""
    return len(below) > 1 and not below.strip("-")


def _google(lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    for index, line in enumerate(lines):
        if line in _GOOGLE_HEADERS:
            for head, body in _entries(_indented(lines[index + 1 :])):
                name, text = _google_entry(head)
                yield name, f"{text} {body}".strip()


def _numpy(lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    for index, line in enumerate(lines):
        if line in _NUMPY_HEADERS and _underlined(lines, index):
            for head, body in _entries(_until_next_section(lines[index + 2 :])):
                names = head.partition(":")[0].split(",")
                yield from ((name.strip(), body) for name in names)


def _sphinx(lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    for head, body in _entries(lines):
        if head.startswith(_SPHINX_FIELDS):
            field, _, text = head[1:].partition(":")
            yield field.split()[-1], f"{text.strip()} {body}".strip()


def _indented(lines: Sequence[str]) -> Iterable[str]:
    for line in lines:
        if line.strip() and not line[0].isspace():
            return
        yield line


def _until_next_section(lines: Sequence[str]) -> Iterable[str]:
    for index, line in enumerate(lines):
        if _underlined(lines, index):
            return
        yield line


def _entries(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Group lines into heads and the more deeply indented lines below each."""
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


def _google_entry(head: str) -> tuple[str, str]:
    """Split `name (type): text`. The type may hold colons, as in `Literal["a:b"]`."""
    depth = 0
    for index, char in enumerate(head):
        depth += (char in "([") - (char in ")]")
        if char == ":" and depth <= 0:
            name = head[:index].partition("(")[0]
            return name.strip(), head[index + 1 :].strip()
    return head, ""
