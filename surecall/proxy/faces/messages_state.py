"""Opaque state on its way through a client of the Messages API: sealed in a block, read again.

    message   what an assistant message has beside the documented keys: reasoning, signatures
    calls     what each of its calls has beside them, by id

A seal is the signature of a `thinking` block or the data of a `redacted_thinking` one: clients send
both back as they came. It is no secret and no proof. Whoever sends it could have written the same
into a chat completion, so what is read from it never replaces text, calls or their arguments.
"""

from base64 import b64decode, b64encode
from typing import Any, Final

from surecall.values.types import JSON
from surecall.wire.content_parts import text_of, thoughts_in, with_text
from surecall.wire.messages import decode, encode, raw_calls
from surecall.wire.opaque_state import (
    CONTENT,
    DOCUMENTED,
    DOCUMENTED_OF_CALL,
    DOCUMENTED_OF_FUNCTION,
    FUNCTION,
    call_extra,
    message_extra,
)

PREFIX: Final = "surecall1:"
_MESSAGE = "message"
_CALLS = "calls"
_THOUGHTS = ("reasoning_content", "reasoning")


def state_of(message: JSON) -> JSON:
    """Return the opaque state of a chat message; nothing if there is none."""
    extra = {
        key: value
        for key, value in message_extra(message, message).items()
        if value not in ([], {})
    }
    calls = {str(call.get("id")): call_extra(call) for call in raw_calls(message)}
    return _filled({_MESSAGE: extra, _CALLS: _filled(calls)})


def streamed_state(thoughts: JSON) -> JSON:
    """Return the state that is known while a message still comes: what was thought, by field."""
    return _filled({_MESSAGE: dict(thoughts)})


def _filled(mapping: JSON) -> JSON:
    return {key: value for key, value in mapping.items() if value}


def thought_of(message: JSON) -> str:
    """Return what the model thought, as a text."""
    for field in _THOUGHTS:
        if isinstance(message.get(field), str) and message[field]:
            return str(message[field])
    content = message.get(CONTENT)
    return thoughts_in(content) if isinstance(content, list) else ""


def seal(state: JSON) -> str:
    """Write a state as a text that a client sends back."""
    return PREFIX + b64encode(encode(state)).decode()


def unseal(sealed: Any) -> JSON | None:
    """Read a state; None if the text is not one of ours."""
    if not isinstance(sealed, str) or not sealed.startswith(PREFIX):
        return None
    try:
        state = decode(b64decode(sealed.removeprefix(PREFIX), validate=True))
    except ValueError:
        return None
    return state if isinstance(state, dict) else None


def restored(message: JSON, state: JSON) -> JSON:
    """Return a chat message with the state that it came with."""
    extra = _mapping(state, _MESSAGE)
    whole = _beyond(extra, DOCUMENTED) | message
    parts = extra.get(CONTENT)
    if isinstance(parts, list):
        whole[CONTENT] = with_text(parts, text_of(message[CONTENT]))
    if "tool_calls" in message:
        calls = _mapping(state, _CALLS)
        whole["tool_calls"] = [
            _restored_call(call, _mapping(calls, call["id"])) for call in message["tool_calls"]
        ]
    return whole


def _restored_call(call: JSON, extra: JSON) -> JSON:
    inner = _beyond(_mapping(extra, FUNCTION), DOCUMENTED_OF_FUNCTION)
    return _beyond(extra, DOCUMENTED_OF_CALL) | call | {FUNCTION: inner | call[FUNCTION]}


def _beyond(extra: JSON, documented: frozenset[str]) -> JSON:
    return {key: value for key, value in extra.items() if key not in documented}


def _mapping(holder: JSON, key: str) -> JSON:
    value = holder.get(key)
    return value if isinstance(value, dict) else {}
