"""Limits on JSON nesting depth, checked before decoding or encoding.

The interpreter's own limit is no substitute: it depends on the Python version (about 1,000 levels
in 3.11, 10,000 in 3.13, the stack size in 3.14) and on the depth of the call stack.
"""

import json
import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Final, TypeVar, overload

import msgspec

# For values from outside. Every step between parsing and encoding them needs some stack.
MAX_DEPTH: Final = 128
# For containers of such values: requests, traces, and stored conversations.
MAX_WRAPPED_DEPTH: Final = 2 * MAX_DEPTH
_IS_CONTAINER: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
# Brackets as one level down (1) and one level up (-1, as a signed byte).
_DEPTH_CHANGES: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
# Everything but brackets and quotes. Deleting it first keeps strings from using much memory.
_NOT_STRUCTURAL: Final = bytes(set(range(256)) - set(b'[{]}"'))
_CONTAINERS: Final = (dict, list, tuple, set, frozenset, msgspec.Struct)
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
# Wider levels are deduplicated.
_WIDE_LEVEL: Final = 1_000

T = TypeVar("T")
Text = TypeVar("Text", bytes, str)


class TooDeep(ValueError):
    """JSON is nested more deeply than allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"nested too deeply: more than {limit} levels")


def check_depth(data: bytes | str, limit: int = MAX_DEPTH) -> None:
    """Raise `TooDeep` if JSON has more levels of lists and objects than `limit`."""
    if isinstance(data, str):
        if data.count("[") + data.count("{") <= limit:
            return
        data = data.encode("utf-8", "replace")
    elif data.count(b"[") + data.count(b"{") <= limit:
        return
    # Anything else, such as an HTML page, has no levels.
    if not _IS_CONTAINER.match(data):
        return
    # With escapes removed, every second part between quotes is a string.
    kept = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NOT_STRUCTURAL)
    steps = memoryview(b"".join(kept.split(b'"')[::2]).translate(_DEPTH_CHANGES)).cast("b")
    if max(accumulate(steps), default=0) > limit:
        raise TooDeep(limit)


@overload
def decode_json(data: bytes | str, *, limit: int = MAX_DEPTH) -> Any: ...
@overload
def decode_json(data: bytes | str, kind: type[T], *, limit: int = MAX_DEPTH) -> T: ...
def decode_json(data: bytes | str, kind: Any = Any, *, limit: int = MAX_DEPTH) -> Any:
    """Decode JSON; raise `ValueError` if it is malformed or nested too deeply."""
    check_depth(data, limit)
    return msgspec.json.decode(data, type=kind)


def decode_prefix(
    decoder: json.JSONDecoder, text: str, at: int = 0, *, limit: int = MAX_DEPTH
) -> tuple[Any, int]:
    """Decode the JSON value that starts at `at`; return it and the position where it ends.

    Raises `TooDeep` if the limit is exceeded before the value ends or turns out to be malformed.
    """
    try:
        value, end = decoder.raw_decode(text, at)
    except json.JSONDecodeError as error:
        check_depth(text[at : error.pos], limit)
        raise
    except RecursionError:  # the interpreter's limit is far above ours
        raise TooDeep(limit) from None
    check_depth(text[at:end], limit)
    return value, end


def encode_json(value: Any, encoder: Callable[[Any], Text], *, limit: int = MAX_DEPTH) -> Text:
    """Encode a value; raise `TooDeep` if it is nested too deeply or contains itself."""
    if type(value) not in _SCALARS and _is_deeper(value, limit):
        raise TooDeep(limit)
    try:
        data = encoder(value)
    except RecursionError:  # in a value that the walk skips, such as a dataclass
        raise TooDeep(limit) from None
    check_depth(data, limit)
    return data


def _is_deeper(value: Any, limit: int) -> bool:
    """Whether a value has more levels than `limit`; walks level by level, without recursion.

    Wide levels are deduplicated: a value with 200 levels that each hold the next one twice is
    small, but its JSON is not.
    """
    level = [value]
    for _ in range(limit):
        level = [
            child for item in level for child in _children(item) if type(child) not in _SCALARS
        ]
        if not level:
            return False
        if len(level) > _WIDE_LEVEL:
            level = list({id(child): child for child in level}.values())
    return any(isinstance(item, _CONTAINERS) for item in level)


def _children(value: Any) -> Iterable[Any]:
    """Return the values directly below a value."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return ()
