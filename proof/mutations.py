"""Random changes: of any node of a JSON value, of the bytes of a file, of a text."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    10**30,
    0.5,
    1e308,
    "",
    " ",
    "null",
    "{}",
    "[]",
    '{"a": 1}',
    "{'a': True, }",
    "```json\n{}\n```",
    "add",
    "functions.add",
    "call_1",
    "stop",
    "length",
    "tool_calls",
    "error",
    "\u0000",
    "\ud83c\udf78",
    "\ufffd",
    "<tool_call>",
    "</think>",
    "&quot;",
    "x" * 300,
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"name": "add", "arguments": {}},
    {"function": {"name": "add", "arguments": "{"}},
    {"error": {"code": 429, "message": "slow"}},
    {"type": "text", "text": "hi"},
)
ODD_KEYS: Final = (
    *("", "id", "name", "arguments", "function", "type", "index", "content", "tool_calls", "error"),
    *("choices", "message", "delta", "finish_reason", "role", "usage", "function_call", "text"),
    *("$ref", "properties", "required", "items", "anyOf", "enum", "additionalProperties"),
)
ODD_BYTES: Final = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b"\r\n", b'"', b"\\", b"{", b"}"),
    *(b"[", b"]", b",", b":", b"\\u", b"\\ud800", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"data: "),
    *(b"[DONE]", b"event: error", b": ", b"NaN", b"1e999", b"9" * 40, b"null", b"'", b"```"),
    *(
        b"<tool_call>",
        b"</tool_call>",
        b"<think>",
        b"<|",
        b"|>",
        b"<function=",
        b"&amp;",
        b"[" * 80,
    ),
)

Slot = tuple[Any, Any]


def slots_of(value: Any) -> list[Slot]:
    """List every place of a JSON value that holds something: its container, and key or index."""
    found: list[Slot] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            found += ((item, key) for key in item)
            waiting += item.values()
        elif isinstance(item, list):
            found += ((item, at) for at in range(len(item)))
            waiting += item
    return found


def _drop(_rng: random.Random, slot: Slot, _slots: Sequence[Slot]) -> None:
    container, place = slot
    del container[place]


def _duplicate(rng: random.Random, slot: Slot, _slots: Sequence[Slot]) -> None:
    container, place = slot
    if isinstance(container, list):
        container.insert(place, copied(container[place]))
    else:
        container[rng.choice(ODD_KEYS)] = copied(container[place])


def _swap(rng: random.Random, slot: Slot, slots: Sequence[Slot]) -> None:
    (one, here), (other, there) = slot, rng.choice(slots)
    # Copies, so that no value ever holds itself.
    one[here], other[there] = copied(other[there]), copied(one[here])


def _retype(rng: random.Random, slot: Slot, _slots: Sequence[Slot]) -> None:
    container, place = slot
    container[place] = copied(rng.choice(ODD_VALUES))


def _wrap(rng: random.Random, slot: Slot, _slots: Sequence[Slot]) -> None:
    container, place = slot
    value = container[place]
    container[place] = [value] if rng.random() < 0.5 else {rng.choice(ODD_KEYS): value}


def _stringify(_rng: random.Random, slot: Slot, _slots: Sequence[Slot]) -> None:
    container, place = slot
    container[place] = str(container[place])


def _graft(rng: random.Random, slot: Slot, _slots: Sequence[Slot]) -> None:
    container, _ = slot
    if isinstance(container, dict):
        container[rng.choice(ODD_KEYS)] = copied(rng.choice(ODD_VALUES))
    else:
        container.append(copied(rng.choice(ODD_VALUES)))


def _scratch(rng: random.Random, slot: Slot, _slots: Sequence[Slot]) -> None:
    container, place = slot
    if isinstance(container[place], str):
        container[place] = changed_text(rng, container[place])


_CHANGES: Final[tuple[Callable[[random.Random, Slot, Sequence[Slot]], None], ...]] = (
    *(_drop, _duplicate, _swap, _retype, _wrap, _stringify, _graft, _scratch),
)


def copied(value: Any) -> Any:
    """Copy a JSON value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def changed_value(rng: random.Random, value: Any, times: int) -> Any:
    """Return a copy with so many random changes, each anywhere in it."""
    root = [copied(value)]
    for _ in range(times):
        slots = slots_of(root)
        rng.choice(_CHANGES)(rng, rng.choice(slots), slots)
        if not root:
            root.append(None)
    return root[0]


def changed_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return bytes with a few flips, cuts, splices and insertions."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randint(0, len(changed))
        match rng.randrange(6):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                del changed[at : at + rng.randint(1, 40)]
            case 3:
                other = rng.choice(others)
                begin = rng.randint(0, len(other))
                changed[at:at] = other[begin : begin + rng.randint(1, 200)]
            case 4:
                begin = rng.randint(0, len(changed))
                changed[at:at] = changed[begin : begin + rng.randint(1, 60)]
            case _:
                changed[at:at] = rng.choice(ODD_BYTES)
    return bytes(changed)


def changed_text(rng: random.Random, text: str) -> str:
    """Return a text with a piece cut out, doubled, or something odd put in."""
    at, size = rng.randint(0, len(text)), rng.randint(1, 12)
    match rng.randrange(4):
        case 0:
            return text[:at] + text[at + size :]
        case 1:
            return text[:at] + text[at : at + size] + text[at:]
        case 2:
            return text[:at]
        case _:
            odd = rng.choice(ODD_BYTES).decode("utf-8", "replace")
            return text[:at] + odd + text[at:]
