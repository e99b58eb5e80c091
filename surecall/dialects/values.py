"""Two readers of values: an object somewhere in a text, and raw text typed by a schema."""

import json
import math
from typing import Any

import msgspec

from surecall.arguments import read_arguments
from surecall.dialects.found import NotACall
from surecall.dialects.loose import Loose
from surecall.dialects.source import Source
from surecall.dialects.spelling import CLOSERS
from surecall.lenient import Unusable
from surecall.types import JSON

_SHORT = 64
_MAX_DEPTH = 8
_SCALARS = ("integer", "number", "boolean")
# Reading in Python is that much slower than searching, and a failed reading is paid in full.
_LOOSE_COST = 24
_STRICT_COST = 4
_DEEP_COST = 50_000


class Value(msgspec.Struct, frozen=True):
    """A value, where it ends, whether the text ended first, and whether a key came twice."""

    value: Any
    end: int
    cut: bool = False
    twice: bool = False


class _Twice(Exception):  # caught four lines below
    """A key came twice with different values."""


def _pairs(pairs: list[tuple[str, Any]]) -> JSON:
    value = dict(pairs)
    if len(value) < len(pairs) and any(value[key] != item for key, item in pairs):
        raise _Twice
    return value


def _constant(word: str) -> Any:
    raise ValueError(word)


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_pairs, parse_constant=_constant)


def read_value(source: Source, at: int, *, bare: bool = False) -> Value:
    """Read the object or list that begins here: as JSON if it is JSON, else loosely."""
    text = source.text
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        # An unterminated string is reported where it begins, after a look at all that follows.
        reached = len(text) if error.msg.startswith("Unterminated") else error.pos
        # The error itself counts the lines of the whole text before it.
        source.pay(_STRICT_COST * (reached - at) + error.pos)
    except RecursionError:
        source.pay(_DEEP_COST)
        raise NotACall("the JSON is nested too deeply", at) from None
    except (ValueError, _Twice):
        source.pay(_STRICT_COST * (len(text) - at))
    else:
        return Value(value, end)
    return _read_loosely(source, at, bare=bare)


def _read_loosely(source: Source, at: int, *, bare: bool) -> Value:
    reader = Loose(source.text, at, stops=CLOSERS, bare=bare)
    try:
        value = reader.value()
    except Unusable as refusal:
        raise NotACall(f"the object cannot be read ({refusal})", reader.at) from None
    finally:
        source.pay(_LOOSE_COST * (reader.at - at))
    return Value(value, reader.at, reader.cut, reader.twice)


def read_call_arguments(source: Source, at: int, *, bare: bool = False) -> Value:
    """Read `(a=1, "b")`; the value is the named ones and the unnamed ones."""
    reader = Loose(source.text, at, stops=CLOSERS, bare=bare)
    try:
        value = reader.arguments()
    except Unusable as refusal:
        raise NotACall(f"the arguments cannot be read ({refusal})", reader.at) from None
    finally:
        source.pay(_LOOSE_COST * (reader.at - at))
    return Value(value, reader.at, reader.cut, reader.twice)


def decoded(arguments: object) -> Any:
    """Return what a model put under `arguments`: an object, or text that is not one."""
    match arguments:
        case dict():
            return arguments
        case None:
            return {}
        case str():
            read = read_arguments(arguments, 4 * len(arguments) + 1).value
            return arguments if read is None else read
        case _:
            return json.dumps(arguments)


def typed(text: str, schema: object, root: JSON, hint: str | None = None) -> Any:
    """Give raw text the type that the markup or the schema asks for; else it stays text."""
    wanted = (hint,) if hint else tuple(_types(schema, root, 0))
    if not wanted and schema is None:
        wanted = ("null", *_SCALARS, "array", "object")
    elif not wanted or wanted == ("string",):
        return text
    bare = text.strip()
    for kind in sorted(set(wanted), key=_ORDER.index):
        value = _CASTS[kind](bare, wanted)
        if value is not _NOTHING:
            return value
    return text


def retyped(value: Any, schema: object, root: JSON) -> Any:
    """Give the scalars of a compact object, in which nothing is quoted, their declared types."""
    declared = set(_types(schema, root, 0))
    match value:
        case str():
            return typed(value, schema, root) if schema is not None else value
        case bool() | int() | float() if declared == {"string"}:
            return json.dumps(value)
        case dict():
            inner = _part(schema, root, "properties")
            inner = inner if isinstance(inner, dict) else {}
            return {key: retyped(item, inner.get(key), root) for key, item in value.items()}
        case list():
            items = _part(schema, root, "items")
            return [retyped(item, items, root) for item in value]
        case _:
            return value


def resolved(schema: object, root: JSON) -> JSON:
    """Follow a `$ref` into the same document, a few steps at most."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found: object = root
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        schema = found
    return {}


def _part(schema: object, root: JSON, key: str) -> object:
    return resolved(schema, root).get(key)


def _types(schema: object, root: JSON, depth: int) -> list[str]:
    """Collect the types that a schema allows, through its alternatives and references."""
    schema = resolved(schema, root)
    if depth > _MAX_DEPTH:
        return []
    named = schema.get("type")
    found = [named] if isinstance(named, str) else list(named or ())
    if not found:
        values = schema["enum"] if isinstance(schema.get("enum"), list) else []
        values = [*values, schema["const"]] if "const" in schema else values
        found = [_KINDS[type(value)] for value in values if type(value) in _KINDS]
    for key in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(key) or ():
            found += _types(branch, root, depth + 1)
    return [kind for kind in found if kind in _ORDER]


_NOTHING = object()
_ORDER = ("null", "integer", "number", "boolean", "object", "array", "string")
_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _null(text: str, _: tuple[str, ...]) -> Any:
    return None if text in ("null", "None") else _NOTHING


def _integer(text: str, _: tuple[str, ...]) -> Any:
    value = _float(text)
    if value is _NOTHING or value != math.floor(value):
        return _NOTHING
    digits = text.removeprefix("+")
    return int(digits) if digits.removeprefix("-").isdigit() else int(value)


def _float(text: str) -> Any:
    plain = text.isascii() and len(text) <= _SHORT and "_" not in text
    try:
        value = float(text) if plain else math.nan
    except ValueError:
        return _NOTHING
    return value if math.isfinite(value) else _NOTHING


def _number(text: str, _: tuple[str, ...]) -> Any:
    value = _float(text)
    return int(text) if value is not _NOTHING and text.lstrip("-").isdigit() else value


def _boolean(text: str, wanted: tuple[str, ...]) -> Any:
    words = {"true": True, "false": False}
    if "integer" not in wanted and "number" not in wanted:
        words |= {"1": True, "0": False}
    return words.get(text.lower(), _NOTHING)


def _container(kind: type, opening: str) -> Any:
    def cast(text: str, _: tuple[str, ...]) -> Any:
        if not text.startswith(opening):
            return _NOTHING
        try:
            value = read_value(Source(text, ()), 0)
        except NotACall:
            return _NOTHING
        whole = value.end == len(text) and not value.cut and not value.twice
        return value.value if whole and isinstance(value.value, kind) else _NOTHING

    return cast


_CASTS = {
    "null": _null,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "object": _container(dict, "{"),
    "array": _container(list, "["),
    "string": lambda _text, _wanted: _NOTHING,
}
