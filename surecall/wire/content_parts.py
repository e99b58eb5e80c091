"""Content that comes in parts: the text in it, what the model thought, and what is only kept.

A part that is neither text nor a call is opaque: a signed thought, say, which the endpoint that
made it wants back as it came.
"""

from collections.abc import Sequence
from typing import Any, Final

from surecall.values.types import JSON
from surecall.wire.calls_in_content import call_of

_TEXT_PARTS: Final = frozenset({"text", "output_text"})


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or the text parts joined."""
    match content:
        case str():
            return content
        case list():
            return "".join(_part_text(part) for part in content)
        case dict():
            return _part_text(content)
        case _:
            return ""


def _part_text(part: Any) -> str:
    match part:
        case str():
            return part
        case {"type": "text" | "output_text", "text": str(text)}:
            return text
        case {"type": _}:
            return ""
        case {"text": str(text)} | {"content": str(text)}:
            return text
        case _:
            return ""


def thoughts_in(parts: Sequence[Any]) -> str:
    """Return what the model thought, in parts that say so."""
    return "".join(map(_thought, parts))


def _thought(part: Any) -> str:
    match part:
        case {"type": "thinking", "thinking": str() | list() as thought}:
            return text_of(thought)
        case {"type": "thinking" | "reasoning", "text": str(text)}:
            return text
        case _:
            return ""


def is_opaque(part: Any) -> bool:
    """Whether a part is neither text nor a call."""
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and kind not in _TEXT_PARTS and call_of(part) is None


def kept_parts(content: Any) -> list[Any]:
    """Return the parts that go back, without calls; none if no part of them is opaque."""
    if not isinstance(content, list) or not any(map(is_opaque, content)):
        return []
    # Calls go back as calls; a part that says one once more is neither run nor sent.
    return [part for part in content if call_of(part) is None]


def with_text(parts: Sequence[Any], text: str) -> list[Any]:
    """Return parts that say this text: as they came if they do, else the opaque ones before it."""
    if text_of(list(parts)) == text:
        return list(parts)
    written: list[JSON] = [{"type": "text", "text": text}] if text else []
    return [*filter(is_opaque, parts), *written]
