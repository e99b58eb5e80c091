"""JSON for programs and for people, written piece by piece: a long list is never held as text."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import msgspec

from surecall.values.types import JSON
from surecall.wire.messages import encode

T = TypeVar("T")
_INDENT = b"  "


class Rows(Sequence[JSON], Generic[T]):
    """A list of objects, each of which is made when it is read."""

    def __init__(self, items: Sequence[T], made: Callable[[T], JSON]) -> None:
        self._items = items
        self._made = made

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> JSON: ...
    @overload
    def __getitem__(self, place: slice) -> list[JSON]: ...
    def __getitem__(self, place: int | slice) -> JSON | list[JSON]:
        if isinstance(place, slice):
            return [self._made(item) for item in self._items[place]]
        return self._made(self._items[place])


def pretty(value: Any) -> Iterator[bytes]:
    """Write JSON with a line for each value; objects and lists may hold `Rows`."""
    yield from _written(value, b"\n")
    yield b"\n"


def _written(value: Any, line: bytes) -> Iterator[bytes]:
    """Write a value that begins in the middle of a line; `line` begins the next one."""
    if isinstance(value, dict) and value:
        begun = ((encode(key) + b": ", item) for key, item in value.items())
        yield from _enclosed(b"{", begun, b"}", line)
    elif isinstance(value, list | Rows) and value:
        yield from _enclosed(b"[", ((b"", item) for item in value), b"]", line)
    else:
        yield b"[]" if isinstance(value, Rows) else _plain(value, line)


def _enclosed(
    opening: bytes, items: Iterator[tuple[bytes, Any]], closing: bytes, line: bytes
) -> Iterator[bytes]:
    inner, before = line + _INDENT, opening
    for begun, item in items:
        yield before + inner + begun
        yield from _written(item, inner)
        before = b","
    yield line + closing


def _plain(value: Any, line: bytes) -> bytes:
    # No text in JSON has a line feed in it: those that are there are between values.
    return msgspec.json.format(encode(value)).replace(b"\n", line)
