"""What reading one answer may cost, counted before anything is parsed.

    bytes    of a plain body, or of what is kept of a stream; in memory each may take four
    values   that JSON becomes: a list of nothing takes twenty times the room of its two brackets
    calls    of a reply, and the characters of a text in which calls are looked for

A limit is for what no model says in one reply. What goes beyond it is refused with
`RESPONSE_TOO_LARGE`; a text that is too long to be searched stays text, and the reading says so.
"""

import json
import re
from typing import Any

import msgspec

from surecall.values.nesting import TooDeep, encode_json

MAX_BYTES = 4 * 1024 * 1024
# Most of a stream is the frame around each word, which is not kept.
FRAMING = 8
MAX_VALUES = 200_000
MAX_CALLS = 1_000
MAX_TEXT = 1024 * 1024
# A string, also one that never ends, or what parts values outside of strings.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|[,\[{]', re.DOTALL)
_QUOTE = ord('"')


class TooManyValues(ValueError):
    """JSON that holds more values than it may."""


def most_values(data: bytes) -> int:
    """Return how many values JSON can hold at most, at a glance."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def holds_too_many(data: bytes, most: int) -> bool:
    """Whether JSON holds so many values or more, told before it is read."""
    # Each value takes a byte at least.
    if len(data) < most or most_values(data) < most:
        return False
    # No value has more than two strings: its key and itself.
    strings = values = 0
    for token in _TOKENS.finditer(data):
        if data[token.start()] == _QUOTE:
            strings += 1
        else:
            values += 1
        if values >= most or strings > 2 * most:
            return True
    return False


class Budget:
    """How much of a stream may be kept. Spending never fails; `spent` tells when it is too much."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_values: int = MAX_VALUES) -> None:
        self._bytes = max_bytes
        self._values = max_values

    @property
    def spent(self) -> bool:
        """Whether more was kept than may be."""
        return self._bytes < 0 or self._values < 0

    def spend_text(self, text: str) -> None:
        """Keep a piece of text."""
        self._bytes -= len(text)
        self._values -= bool(text)

    def spend(self, value: Any) -> None:
        """Keep any JSON value."""
        if isinstance(value, str):
            self.spend_text(value)
        elif value is not None:
            data = _written(value)
            self._bytes -= len(data)
            self._values -= most_values(data)


def _written(value: Any) -> bytes:
    try:
        return encode_json(value, _encode)
    except TooDeep:  # whoever reads such a value refuses it
        return b""


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character; this writer escapes it
        return json.dumps(value).encode()
