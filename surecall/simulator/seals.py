"""Seals: opaque state in every place where providers put some, which must come back unchanged.

A seal says by itself whether it was changed, so that nobody has to remember which were given out.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from surecall.values.types import JSON

_PARTS = 2
_THOUGHT = "It has to be done step by step."


def signature(nonce: str) -> str:
    """Return a signature that can be told from a changed one without remembering it."""
    return f"{nonce}.{hashlib.sha256(nonce.encode()).hexdigest()[:16]}"


def is_signature(text: Any) -> bool:
    """Whether a signature is one, and as it was made."""
    parts = text.split(".") if isinstance(text, str) else []
    return len(parts) == _PARTS and signature(parts[0]) == text


def sealed(message: JSON, nonce: str) -> JSON:
    """Return a turn with calls, sealed: the message, a part of its content, calls and functions."""
    seal = signature(nonce)
    thought = {"type": "thinking", "thinking": _THOUGHT, "signature": seal}
    calls = [
        call | {"seal": {"signature": seal}, "function": call["function"] | {"signature": seal}}
        for call in message["tool_calls"]
    ]
    return message | {
        "content": [thought],
        "thinking_blocks": [thought],
        "encrypted_content": seal,
        "tool_calls": calls,
    }


def broken_seals(message: JSON) -> list[str]:
    """Name the places of a turn with calls where a seal is missing or was changed."""
    return [where for where, seal in _seals(message) if not is_signature(seal)]


def _seals(message: JSON) -> Iterator[tuple[str, Any]]:
    yield "encrypted_content", message.get("encrypted_content")
    for key in ("content", "thinking_blocks"):
        first = message[key][0] if _is_filled(message.get(key)) else {}
        whole = isinstance(first, dict) and first.get("thinking") == _THOUGHT
        yield key, first.get("signature") if whole else None
    for position, call in enumerate(message["tool_calls"]):
        outer, function = call.get("seal"), call.get("function")
        for name, holder in (("seal", outer), ("function", function)):
            where = f"tool_calls[{position}].{name}"
            yield where, holder.get("signature") if isinstance(holder, dict) else None


def _is_filled(value: Any) -> bool:
    return isinstance(value, list) and bool(value)
