"""JSON for programs and for people, written piece by piece: a long list is never held as text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    inner = line + _INDENT
    match value:
        case dict():
            named = ((encode(key) + b": ", _written(item, inner)) for key, item in value.items())
            yield from _enclosed(b"{", named, b"}", line)
        case list():
            listed = ((b"", _written(item, inner)) for item in value)
            yield from _enclosed(b"[", listed, b"]", line)
        case Rows():
            rows = ((b"", (_plain(item, inner),)) for item in value)
            yield from _enclosed(b"[", rows, b"]", line)
        case _:
            yield _plain(value, line)


def _enclosed(
    opening: bytes, items: Iterable[tuple[bytes, Iterable[bytes]]], closing: bytes, line: bytes
) -> Iterator[bytes]:
    inner, before = line + _INDENT, opening
    for begun, pieces in items:
        yield before + inner + begun
        yield from pieces
        before = b","
    yield opening + closing if before == opening else line + closing


def _plain(value: Any, line: bytes) -> bytes:
    # No text in JSON has a line feed in it: those that are there are between values.
    return msgspec.json.format(encode(value)).replace(b"\n", line)
