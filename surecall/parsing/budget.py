"""Limits on the cost of parsing one response, checked before it is parsed.

    bytes    of a plain body, or of the stored part of a stream; each may take four in memory
    values   in decoded JSON: an empty list takes twenty times the memory of its two brackets
    calls    in a reply, and characters of a text that is searched for calls
    work     of coercing, validating, and explaining the arguments of a reply's calls

The limits are far above any genuine reply. A larger response fails with `RESPONSE_TOO_LARGE`. A
text that is too long to search for calls stays text, and the result records that.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from surecall.values.nesting import TooDeep, encode_json

MAX_BYTES = 4 * 1024 * 1024
# Most of a stream is framing around each word, which is not stored.
FRAMING_FACTOR = 8
MAX_VALUES = 200_000
MAX_CALLS = 1_000
MAX_TEXT = 1024 * 1024
# In units of about a microsecond. Work up to the first limit is done on the event loop.
MAX_QUICK_WORK = 5_000
MAX_WORK = 600_000
CHARS_PER_NODE = 64
# Exact arithmetic is slow with floats beyond these limits, because they have many digits.
EXTREME_FLOAT = 1e15
_TINY_FLOAT = 1e-15
_EXTREME_DIGITS = 1_024
_LIGHT_TYPES = frozenset({bool, float, int, type(None)})
# A string, terminated or not, or a mark that separates values outside of strings.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|[,\[{]', re.DOTALL)
_QUOTE = ord('"')


class TooManyValues(ValueError):
    """JSON holds more values than allowed."""


def value_count_bound(data: bytes) -> int:
    """Return an upper bound on the number of values in JSON, without parsing it."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def has_too_many_values(data: bytes, limit: int) -> bool:
    """Whether JSON holds `limit` values or more, without parsing it."""
    # Each value takes at least one byte.
    if len(data) < limit or value_count_bound(data) < limit:
        return False
    # A value has at most two strings: its key and itself.
    strings = values = 0
    for token in _TOKENS.finditer(data):
        if data[token.start()] == _QUOTE:
            strings += 1
        else:
            values += 1
        if values >= limit or strings > 2 * limit:
            return True
    return False


class StreamBudget:
    """How much of a stream may be stored. Spending never fails; check `is_exhausted`."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_values: int = MAX_VALUES) -> None:
        self._bytes = max_bytes
        self._values = max_values

    @property
    def is_exhausted(self) -> bool:
        """Whether more was stored than allowed."""
        return self._bytes < 0 or self._values < 0

    def spend_text(self, text: str) -> None:
        """Count a stored piece of text."""
        self._bytes -= len(text)
        self._values -= bool(text)

    def spend(self, value: Any) -> None:
        """Count a stored JSON value."""
        if isinstance(value, str):
            self.spend_text(value)
        elif value is not None:
            data = _encode_or_empty(value)
            self._bytes -= len(data)
            self._values -= value_count_bound(data)


def node_count(value: Any, limit: int) -> int:
    """Count the nodes of a value, long strings as several; stop beyond `limit`."""
    count, waiting = 1, heavy_values([value])
    while waiting and count <= limit:
        item = waiting.pop()
        if isinstance(item, str):
            count += len(item) // CHARS_PER_NODE
        elif isinstance(item, dict):
            count += len(item) + sum(map(len, item)) // CHARS_PER_NODE
            waiting += heavy_values(item.values())
        elif isinstance(item, list):
            count += len(item)
            waiting += heavy_values(item)
        elif isinstance(item, int):
            count += item.bit_length() // CHARS_PER_NODE
        elif isinstance(item, float):
            count += CHARS_PER_NODE
    return count


def heavy_values(values: Iterable[Any]) -> list[Any]:
    """Return the values that may count as several nodes: not small numbers and constants."""
    return [
        item
        for item in values
        if type(item) not in _LIGHT_TYPES
        or (type(item) is int and item.bit_length() >= CHARS_PER_NODE)
        or (type(item) is float and is_extreme(item))
    ]


def is_extreme(number: float) -> bool:
    """Whether exact arithmetic with a number is slow."""
    return number != 0 and not _TINY_FLOAT <= abs(number) < EXTREME_FLOAT


def extra_digit_visits(number: Any) -> int:
    """Return the extra cost of exact arithmetic with a number, in visits of about 20 ns.

    The digits of an integer beyond 64 bits are converted in quadratic time.
    """
    if isinstance(number, float):
        return _EXTREME_DIGITS if is_extreme(number) else 0
    words = number.bit_length() // CHARS_PER_NODE if isinstance(number, int) else 0
    return words * (24 + words)


class WorkBudget:
    """How much work the calls of one reply may take; spend it before doing the work.

    `is_exhausted` is set once some work was skipped because too little was left.
    """

    def __init__(self, units: int = MAX_WORK) -> None:
        self.remaining = units
        self.is_exhausted = False

    def spend(self, units: int) -> bool:
        """Take units from the budget; if too few are left, take none and return False."""
        if units > self.remaining:
            self.is_exhausted = True
            return False
        self.remaining -= units
        return True

    def exhaust(self) -> None:
        """Take all remaining units, for work that was aborted."""
        self.remaining, self.is_exhausted = 0, True


def _encode_or_empty(value: Any) -> bytes:
    """Encode a value as JSON; return no bytes if it is nested too deeply."""
    try:
        return encode_json(value, _encode)
    except TooDeep:  # rejected later, when the value is parsed
        return b""


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which this encoder escapes
        return json.dumps(value).encode()
