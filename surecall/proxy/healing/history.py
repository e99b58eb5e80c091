"""The history of a request: what the client sent, made legal, with what it left out put back.

    messages ─► what was left out ─► values ─► a legal history ─► entries

An entry is a message as a value, which is judged, and as fields, which are sent. A message that
needed no change is sent as the client wrote it, byte for byte.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from surecall.proxy.healing.memory import Conversation, restored
from surecall.values.types import JSON, Assistant, Message, ToolCall, ToolResult, User
from surecall.wire.content_parts import text_of
from surecall.wire.history import legal_places
from surecall.wire.messages import WireStyle, parse_fields, raw_calls, render_message

# Ids of calls that were read from text begin so: the conversation itself says where they are from.
FROM_TEXT: Final = "text_"
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
_PLAIN: Final = WireStyle(keep_text_beside_calls=True)


class Entry(msgspec.Struct, frozen=True):
    """One message. `place` says where it stands, unchanged, in the request of the client."""

    value: Message
    fields: JSON
    place: int | None = None


def entries(
    messages: Sequence[JSON], known: Conversation, renamed: Mapping[str, str]
) -> tuple[Entry, ...]:
    """Return the history that the upstream is sent."""
    given = list(_whole(messages, known, renamed))
    placed = legal_places([entry.value for entry in given])
    return tuple(_legal(value, None if at is None else given[at]) for value, at in placed)


def _whole(
    messages: Sequence[JSON], known: Conversation, renamed: Mapping[str, str]
) -> Iterator[Entry]:
    """Put back what the client left out, and read what it says."""
    waiting: list[JSON] = []
    for place, fields in enumerate(messages):
        if waiting and fields.get("role") != "tool":
            yield from map(_made, waiting)
            waiting = []
        sent = _renamed(fields, renamed) if renamed else fields
        if fields.get("role") == "assistant" and (turn := known.find(fields)) is not None:
            sent = restored(sent, turn)
            waiting = [aside.answer for aside in turn.aside]
        yield Entry(_value(sent), sent, place if sent is fields else None)
    yield from map(_made, waiting)


def _made(fields: JSON) -> Entry:
    return Entry(_value(fields), fields)


def _value(fields: JSON) -> Message:
    role = fields.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        return User(text_of(fields.get("content")))  # somebody else's words
    value = parse_fields(fields)
    if isinstance(value, Assistant) and any(call.id.startswith(FROM_TEXT) for call in value.calls):
        return msgspec.structs.replace(value, calls=tuple(map(_marked, value.calls)))
    return value


def _marked(call: ToolCall) -> ToolCall:
    return msgspec.structs.replace(call, from_text=call.id.startswith(FROM_TEXT))


def _legal(value: Message, entry: Entry | None) -> Entry:
    """Write a message anew where it had to be changed; `entry` is what it was."""
    if entry is None:
        rendered = render_message(value, _PLAIN)
        return Entry(value, rendered or {})
    if value == entry.value or not isinstance(value, Assistant | ToolResult):
        return entry
    if isinstance(value, ToolResult):
        if value.call_id == entry.fields.get("tool_call_id"):
            return msgspec.structs.replace(entry, value=value)
        return Entry(value, entry.fields | {"tool_call_id": value.call_id})
    calls = raw_calls(entry.fields)
    named = [call | {"id": judged.id} for call, judged in zip(calls, value.calls, strict=True)]
    return Entry(value, entry.fields | {"tool_calls": named})


def _renamed(fields: JSON, renamed: Mapping[str, str]) -> JSON:
    """Write the names of tools as the upstream knows them."""
    name = fields.get("name")
    if fields.get("role") == "tool" and isinstance(name, str) and name in renamed:
        return fields | {"name": renamed[name]}
    calls = fields.get("tool_calls")
    if not isinstance(calls, list) or not any(_name(call) in renamed for call in calls):
        return fields
    return fields | {"tool_calls": [_call_renamed(call, renamed) for call in calls]}


def _call_renamed(call: Any, renamed: Mapping[str, str]) -> Any:
    name = _name(call)
    if name not in renamed:
        return call
    return call | {"function": call["function"] | {"name": renamed[name]}}


def _name(call: Any) -> str:
    match call:
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return ""
