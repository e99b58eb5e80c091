"""Two readers of values: whatever begins somewhere in a text, and raw text typed by a schema."""

import json
import math
from typing import Any

import msgspec

from surecall.parsing.almost_json import Unusable
from surecall.parsing.arguments import read_arguments
from surecall.parsing.coercion import Shape
from surecall.values.nesting import TooDeep, check_depth, decode_prefix
from surecall.values.types import JSON
from surecall.wire.dialects.found import NotACall
from surecall.wire.dialects.loose import CALL, Loose
from surecall.wire.dialects.source import Source
from surecall.wire.dialects.spelling import CLOSERS

# Reading in Python is that much slower than searching, and a failed reading is paid in full.
_LOOSE_COST = 24
_STRICT_COST = 4
_DEEP_COST = 50_000
_KINDS = {bool: "boolean", int: "integer", float: "fraction", type(None): "null"}
_KINDS |= {dict: "object", list: "array"}
_WORDS = {"true": True, "false": False}
# How JSON begins that was escaped once more.
ESCAPED = ('{\\"', '"{\\"', '[{\\"', '"[{\\"')
_BITS = {"1": True, "0": False}


class Value(msgspec.Struct, frozen=True):
    """A value, where it ends, whether the text ended first, or (`mended`) a mark before it did."""

    value: Any
    end: int
    cut: bool = False
    mended: bool = False
    # What a key that comes twice was meant to say is for the model to tell, so it gets its text.
    twice: str | None = None

    @property
    def arguments(self) -> Any:
        """The value, or its own text where that says two things."""
        return self.value if self.twice is None else self.twice


class _Twice(Exception):  # caught in `read_value`
    """A key came twice with different values."""


def _pairs(pairs: list[tuple[str, Any]]) -> JSON:
    value = dict(pairs)
    if len(value) < len(pairs) and any(value[key] != item for key, item in pairs):
        raise _Twice
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(digits)
    return number


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_finite
)


def read_value(source: Source, at: int, *, bare: bool = False) -> Value:
    """Read what begins here: as JSON if it is JSON, else loosely.

    Of `(a=1, "b")` the value is what has a name, and what has none.
    """
    text = source.text
    if source.at(ESCAPED, at):
        return _read_escaped(source, at)
    try:
        value, end = decode_prefix(_DECODER, text, at)
    except json.JSONDecodeError as error:
        # An unterminated string is reported where it begins, after a look at all that follows.
        reached = len(text) if error.msg.startswith("Unterminated") else error.pos
        # The error itself counts the lines of the whole text before it.
        source.pay(_STRICT_COST * (reached - at) + error.pos)
    except TooDeep:
        source.pay(_DEEP_COST)
        raise NotACall("the JSON is nested too deeply", at) from None
    except (ValueError, _Twice):
        source.pay(_STRICT_COST * (len(text) - at))
    else:
        return Value(value, end)
    reader = Loose(text, at, bare=bare)
    try:
        value = reader.bracket(CALL) if source.at("(", at) else reader.value()
    except Unusable as refusal:
        raise NotACall(f"the arguments cannot be read ({refusal})", reader.at) from None
    finally:
        source.pay(_LOOSE_COST * (reader.at - at))
    twice = text[at : reader.at] if reader.twice else None
    return Value(value, reader.at, reader.cut, reader.mended, twice)


def _read_escaped(source: Source, at: int) -> Value:
    """Read JSON that was written as a string of JSON, with its quotes or without them."""
    text = source.text
    quoted = text[at] == '"'
    stop = source.first((*CLOSERS, "\n"), at) if not quoted else -1
    end = len(text) if stop < 0 else stop
    raw = text[at:end].rstrip()
    source.pay(_STRICT_COST * (end - at))
    try:
        inner, length = _DECODER.raw_decode(raw if quoted else f'"{raw}"')
        check_depth(inner)
        value = _DECODER.decode(inner)
    except (ValueError, _Twice):
        raise NotACall("the arguments cannot be read (escaped twice)", end) from None
    if not quoted and length < len(raw) + len('""'):
        raise NotACall("not all of the arguments is escaped twice", end)
    return Value(value, at + (length if quoted else len(raw)))


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


def typed(raw: str, shape: Shape | None) -> Any:
    """Give raw text the one reading that its schema allows; else it stays text."""
    kinds = shape.kinds if shape else Shape().kinds
    if kinds == Shape().kinds or kinds <= {"string"}:
        return raw
    bare = raw.strip()
    value = _WORDS.get(bare.lower(), _literal(bare))
    if isinstance(value, float) and value.is_integer() and "fraction" not in kinds:
        value = int(value)
    if "boolean" in kinds and "integer" not in kinds:
        value = _BITS.get(bare, value)
    return value if _KINDS.get(type(value)) in kinds else raw


def _literal(text: str) -> Any:
    """Read a text that is one JSON or Python literal and nothing else."""
    # With a line break after it, a last word is known to be whole.
    source = Source(f"{text}\n", ())
    try:
        found = read_value(source, 0)
    except NotACall:
        return text
    return found.value if found.end == len(text) and not found.cut and not found.twice else text


def retyped(value: Any, shape: Shape | None) -> Any:
    """Give the scalars of a compact object, in which nothing is quoted, their declared types."""
    match value:
        case str():
            return typed(value, shape)
        case bool() | int() | float() if shape and shape.kinds == {"string"}:
            return json.dumps(value)
        case dict():
            inner = shape.properties if shape else {}
            return {key: retyped(item, inner.get(key)) for key, item in value.items()}
        case list():
            return [retyped(item, shape.items if shape else None) for item in value]
        case _:
            return value
