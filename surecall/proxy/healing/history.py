"""The history of a request: what the client sent, made legal, with what it left out put back.

    messages ─► what was left out ─► values ─► a legal history ─► entries

An entry is a message as a value, which is judged, and as fields, which are sent. A message that
needed no change is sent as the client wrote it, byte for byte.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from surecall.proxy.healing.memory import Conversation, restored
from surecall.values.types import (
    JSON,
    UNMATCHED_RESULT,
    Assistant,
    Message,
    ToolResult,
    User,
)
from surecall.wire.history import label_of, legal_places
from surecall.wire.messages import WireStyle, parse_fields, raw_calls, render_message, whole_text

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
# Fields that only a tool message may have.
_OF_RESULTS: Final = frozenset({"tool_call_id", "name"})
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
        return User(whole_text(fields.get("content")))  # somebody else's words
    return parse_fields(fields)


def _legal(value: Message, entry: Entry | None) -> Entry:
    """Write a message anew where it had to be changed; `entry` is what it was."""
    if entry is None:
        rendered = render_message(value, _PLAIN)
        return Entry(value, rendered or {})
    match value:
        case Assistant(calls=(_, *_)):
            return _turn_entry(value, entry)
        case ToolResult():
            return _result_entry(value, entry)
        case User(rung=rung) if rung == UNMATCHED_RESULT and isinstance(entry.value, ToolResult):
            return _labeled_entry(value, entry)
        case _:
            return entry


def _turn_entry(value: Assistant, entry: Entry) -> Entry:
    """Write the ids of a turn's calls as they are in the legal history."""
    given = entry.fields["tool_calls"]
    listed = given if isinstance(given, list) else [given]
    wanted = [call.id for call in value.calls]
    if listed is given and [call.get("id") for call in raw_calls(entry.fields)] == wanted:
        return msgspec.structs.replace(entry, value=value)
    ids = iter(wanted)
    # What is no object among the calls is left for the upstream to judge.
    named = [call | {"id": next(ids)} if isinstance(call, dict) else call for call in listed]
    return Entry(value, entry.fields | {"tool_calls": named})


def _result_entry(value: ToolResult, entry: Entry) -> Entry:
    if value.call_id == entry.fields.get("tool_call_id"):
        return msgspec.structs.replace(entry, value=value)
    return Entry(value, entry.fields | {"tool_call_id": value.call_id})


def _labeled_entry(value: User, entry: Entry) -> Entry:
    """Write a result that answers no call as a user message, its parts unchanged."""
    content = entry.fields.get("content")
    if isinstance(content, list) and isinstance(entry.value, ToolResult):
        label = {"type": "text", "text": label_of(entry.value)}
        value = msgspec.structs.replace(value, content=[label, *content])
    rest = {key: entry.fields[key] for key in entry.fields if key not in _OF_RESULTS}
    return Entry(value, rest | {"role": "user", "content": value.content})


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
