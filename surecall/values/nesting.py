"""Limits on how deeply JSON is nested, checked before it is decoded or encoded.

The interpreter's own limit is no substitute: it depends on the version of Python (about 1,000
levels in 3.11, 10,000 in 3.13, the size of the stack in 3.14) and on the depth of the call stack.
"""

import json
import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Final, TypeVar, overload

import msgspec

# For a value from outside. Every step between reading and writing it needs some stack.
MAX_DEPTH: Final = 128
# For what holds such values: requests, traces, and stored conversations.
MAX_WRAPPED_DEPTH: Final = 2 * MAX_DEPTH
_IS_CONTAINER: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
# Brackets as steps down (1) and up (-1, as a signed byte).
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
# Everything but brackets and quotes. Without it, what is between quotes takes next to no memory.
_OTHER: Final = bytes(set(range(256)) - set(b'[{]}"'))
_CONTAINERS: Final = (dict, list, tuple, set, frozenset, msgspec.Struct)
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
# A level that is wider is searched for what it holds twice.
_WIDE: Final = 1_000

T = TypeVar("T")
Text = TypeVar("Text", bytes, str)


class TooDeep(ValueError):
    """JSON that is nested more deeply than it may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"nested too deeply: more than {limit} levels")


def check_depth(data: bytes | str, limit: int = MAX_DEPTH) -> None:
    """Raise `TooDeep` if JSON has more levels of lists and objects than the limit."""
    if isinstance(data, str):
        if data.count("[") + data.count("{") <= limit:
            return
        data = data.encode("utf-8", "replace")
    elif data.count(b"[") + data.count(b"{") <= limit:
        return
    # Anything else, such as a page of HTML, has no levels.
    if not _IS_CONTAINER.match(data):
        return
    # Without its escapes, every second part between quotes is a text.
    kept = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _OTHER)
    steps = memoryview(b"".join(kept.split(b'"')[::2]).translate(_STEPS)).cast("b")
    if max(accumulate(steps), default=0) > limit:
        raise TooDeep(limit)


@overload
def decode_json(data: bytes | str, *, limit: int = MAX_DEPTH) -> Any: ...
@overload
def decode_json(data: bytes | str, kind: type[T], *, limit: int = MAX_DEPTH) -> T: ...
def decode_json(data: bytes | str, kind: Any = Any, *, limit: int = MAX_DEPTH) -> Any:
    """Decode JSON; raise a ValueError if it is malformed or too deep."""
    check_depth(data, limit)
    return msgspec.json.decode(data, type=kind)


def decode_prefix(
    decoder: json.JSONDecoder, text: str, at: int = 0, *, limit: int = MAX_DEPTH
) -> tuple[Any, int]:
    """Decode the JSON that begins here; return it and where it ends.

    Raises `TooDeep` if it is too deep before its end or before what is malformed in it.
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
    """Encode a value; raise `TooDeep` if it is too deep, or contains itself."""
    if _is_deeper(value, limit):
        raise TooDeep(limit)
    try:
        data = encoder(value)
    except RecursionError:  # in a value that the walk does not look into, such as a dataclass
        raise TooDeep(limit) from None
    check_depth(data, limit)
    return data


def _is_deeper(value: Any, limit: int) -> bool:
    """Walk a value level by level, without recursion.

    What occurs twice in a wide level is visited once: a value with 200 levels that each hold the
    next one twice is small, but its JSON is not.
    """
    level = [value]
    for _ in range(limit):
        level = [child for item in level for child in _children(item) if type(child) not in _PLAIN]
        if not level:
            return False
        if len(level) > _WIDE:
            level = list({id(child): child for child in level}.values())
    return any(isinstance(item, _CONTAINERS) for item in level)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return ()
