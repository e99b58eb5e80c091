"""Builds the upstream history: restores what clients drop, and corrects invalid sequences.

    messages ─► restored messages ─► parsed values ─► legal history ─► entries

Clients drop provider state and calls that were rejected. An entry holds a message both as a value,
which is validated, and as fields, which are sent. An unchanged message is sent byte for byte.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from surecall.values.types import (
    JSON,
    UNMATCHED_RESULT,
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    User,
)
from surecall.wire.chat_format import (
    WireStyle,
    content_as_text,
    encode,
    parse_message_fields,
    raw_call_id,
    raw_calls,
    render_message,
)
from surecall.wire.content_parts import is_provider_state, parts_with_text, text_of
from surecall.wire.history_repair import repair_with_positions, unmatched_result_label
from surecall.wire.provider_state import CONTENT, FUNCTION

# What the proxy stores between two requests, because clients do not send it back.
#
# For each turn with calls: provider state (reasoning, signatures), the rejected calls with the
# reason, and the searches for tools that led to it. With those, the next request begins like the
# last one, and the upstream can cache it. The key is the client's key, the first user message, and
# the call ids. The memory is bounded and lives in the process. Without it, a client that does not
# echo these fields gets the same results as without the proxy.

MAX_TURNS: Final = 20_000
MAX_MEMORY_BYTES: Final = 64 * 1024 * 1024


class RejectedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rejected call, or a search for tools, its position in its turn, and its result message."""

    position: int
    call: JSON
    answer: JSON
    found: tuple[str, ...] | None = None


class SearchMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of a turn that only searched for tools; `found` is that of a result."""

    fields: JSON
    found: tuple[str, ...] | None = None


class RememberedTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client may not send back of a turn; `calls` are by call id.

    `searches` are the messages before it that the client never got.
    """

    fields: JSON = {}
    calls: dict[str, JSON] = {}
    rejected: tuple[RejectedCall, ...] = ()
    searches: tuple[SearchMessage, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fields or self.calls or self.rejected or self.searches)


_DECODER = msgspec.json.Decoder(RememberedTurn)


class TurnMemory:
    """Stored turns, by what every client sends back of them. Bounded in number and bytes."""

    def __init__(self, max_turns: int = MAX_TURNS, max_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._turns: OrderedDict[bytes, bytes] = OrderedDict()
        self._max_turns = max_turns
        self._max_bytes = max_bytes
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._turns)

    def store(self, key: bytes, turn: RememberedTurn) -> None:
        """Store a turn, and drop the least recently used ones over the limit."""
        self._drop(key)
        data = encode(turn)
        self._turns[key] = data
        self._bytes += len(data)
        while len(self._turns) > self._max_turns or self._bytes > self._max_bytes:
            self._drop(next(iter(self._turns)))

    def find(self, key: bytes) -> RememberedTurn | None:
        """Return a turn, if it is still stored."""
        data = self._turns.get(key)
        if data is None:
            return None
        self._turns.move_to_end(key)
        return _DECODER.decode(data)

    def _drop(self, key: bytes) -> None:
        self._bytes -= len(self._turns.pop(key, b""))


class ConversationMemory:
    """The part of the memory that one conversation can reach."""

    def __init__(self, memory: TurnMemory, owner: str, messages: Sequence[Any]) -> None:
        self._memory = memory
        self._scope = f"{owner}\0{_first_user_text(messages)}"

    def store(self, calls: Iterable[ToolCall], turn: RememberedTurn) -> None:
        """Store a turn whose calls are sent to the client."""
        if turn:
            self._memory.store(self._key(call.id for call in calls), turn)

    def find(self, message: JSON) -> RememberedTurn | None:
        """Return the stored data for an assistant message that the client sends back."""
        if not len(self._memory) or not (calls := raw_calls(message)):
            return None
        return self._memory.find(self._key(map(raw_call_id, calls)))

    def _key(self, ids: Iterable[str]) -> bytes:
        identity = "\0".join((self._scope, *ids))
        return hashlib.sha256(identity.encode("utf-8", "replace")).digest()


def _first_user_text(messages: Sequence[Any]) -> str:
    """Return the text of the first user message."""
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "user":
            return text_of(message.get(CONTENT))
    return ""


def turn_to_remember(
    message: Assistant,
    rejected: Sequence[tuple[int, JSON, ToolResult]],
    searches: tuple[SearchMessage, ...] = (),
) -> RememberedTurn:
    """Return what to store of a turn: `rejected` are its rejected calls."""
    asides = tuple(
        RejectedCall(at, call, _result_fields(answer), answer.found)
        for at, call, answer in rejected
    )
    calls = {call.id: call.extra for call in message.calls if call.extra and call.is_runnable}
    return RememberedTurn(message.extra, calls, asides, searches)


def searches_to_remember(
    messages: Iterable[Message], style: WireStyle
) -> tuple[SearchMessage, ...]:
    """Return the messages of turns that only searched for tools, as they were sent."""
    return tuple(
        SearchMessage(
            render_message(each, style) or {}, each.found if isinstance(each, ToolResult) else None
        )
        for each in messages
    )


def _result_fields(answer: ToolResult) -> JSON:
    """Return a tool message with a result."""
    return {"role": "tool", "tool_call_id": answer.call_id, CONTENT: answer.content}


def restore_turn(message: JSON, turn: RememberedTurn) -> JSON:
    """Return a turn as the upstream wrote it; the same object if nothing is missing."""
    fields = {key: turn.fields[key] for key in turn.fields if key not in message and key != CONTENT}
    parts = [part for part in turn.fields.get(CONTENT, ()) if is_provider_state(part)]
    content = message.get(CONTENT)
    has_parts = isinstance(content, list) and any(map(is_provider_state, content))
    if parts and not has_parts:
        fields[CONTENT] = parts_with_text(turn.fields[CONTENT], text_of(content))
    calls = [
        _with_extra(call, turn.calls.get(raw_call_id(call), {})) for call in raw_calls(message)
    ]
    for aside in turn.rejected:
        calls.insert(aside.position, aside.call)
    if calls != message["tool_calls"]:
        fields["tool_calls"] = calls
    return message | fields if fields else message


def _with_extra(call: JSON, extra: JSON) -> JSON:
    """Return a call with the undocumented fields that it lacks."""
    missing = {key: extra[key] for key in extra if key not in call}
    inner, function = extra.get(FUNCTION, {}), call.get(FUNCTION)
    if isinstance(function, dict) and (
        left := {key: inner[key] for key in inner if key not in function}
    ):
        missing[FUNCTION] = function | left
    return call | missing if missing else call


_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
# Fields that only tool messages may have.
_TOOL_ONLY_FIELDS: Final = frozenset({"tool_call_id", "name"})
_WIRE_STYLE: Final = WireStyle(keep_text_beside_calls=True)


class HistoryEntry(msgspec.Struct, frozen=True):
    """One message. `position` is its index in the client's request, if it is unchanged."""

    value: Message
    fields: JSON
    position: int | None = None


def build_entries(
    messages: Sequence[JSON], memory: ConversationMemory, upstream_names: Mapping[str, str]
) -> tuple[HistoryEntry, ...]:
    """Return the history to send to the upstream."""
    given = list(_restore_messages(messages, memory, upstream_names))
    placed = repair_with_positions([entry.value for entry in given])
    return tuple(_legal_entry(value, None if at is None else given[at]) for value, at in placed)


def _restore_messages(
    messages: Sequence[JSON], memory: ConversationMemory, upstream_names: Mapping[str, str]
) -> Iterator[HistoryEntry]:
    """Put back what the client dropped, and parse the messages."""
    waiting: list[HistoryEntry] = []
    for place, fields in enumerate(messages):
        if waiting and fields.get("role") != "tool":
            yield from waiting
            waiting = []
        sent = _rename_tools(fields, upstream_names) if upstream_names else fields
        if fields.get("role") == "assistant" and (turn := memory.find(fields)) is not None:
            sent = restore_turn(sent, turn)
            waiting = [_parsed_entry(aside.answer, aside.found) for aside in turn.rejected]
            yield from (_parsed_entry(each.fields, each.found) for each in turn.searches)
        yield HistoryEntry(_parse_message(sent), sent, place if sent is fields else None)
    yield from waiting


def _parsed_entry(fields: JSON, found: tuple[str, ...] | None) -> HistoryEntry:
    value = _parse_message(fields)
    if isinstance(value, ToolResult) and found is not None:
        value = msgspec.structs.replace(value, ok=True, found=found)
    return HistoryEntry(value, fields)


def _parse_message(fields: JSON) -> Message:
    role = fields.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        return User(content_as_text(fields.get("content")))  # an unknown role
    return parse_message_fields(fields)


def _legal_entry(value: Message, entry: HistoryEntry | None) -> HistoryEntry:
    """Return the entry of a legal message, rewritten if it differs from `entry`."""
    if entry is None:
        return HistoryEntry(value, render_message(value, _WIRE_STYLE) or {})
    match value:
        case Assistant(calls=(_, *_)):
            return _turn_entry(value, entry)
        case ToolResult() if value.call_id == entry.fields.get("tool_call_id"):
            return msgspec.structs.replace(entry, value=value)
        case ToolResult():
            return HistoryEntry(value, entry.fields | {"tool_call_id": value.call_id})
        case User(rung=rung) if rung == UNMATCHED_RESULT and isinstance(entry.value, ToolResult):
            return _labeled_entry(value, entry)
        case _:
            return entry


def _turn_entry(value: Assistant, entry: HistoryEntry) -> HistoryEntry:
    """Return a turn with the call ids of the legal history."""
    given = entry.fields["tool_calls"]
    listed = given if isinstance(given, list) else [given]
    wanted = [call.id for call in value.calls]
    if listed is given and [call.get("id") for call in raw_calls(entry.fields)] == wanted:
        return msgspec.structs.replace(entry, value=value)
    ids = iter(wanted)
    # The upstream validates calls that are not objects.
    named = [call | {"id": next(ids)} if isinstance(call, dict) else call for call in listed]
    return HistoryEntry(value, entry.fields | {"tool_calls": named})


def _labeled_entry(value: User, entry: HistoryEntry) -> HistoryEntry:
    """Return a result without a matching call as a labeled user message."""
    content = entry.fields.get("content")
    if isinstance(content, list) and isinstance(entry.value, ToolResult):
        label = {"type": "text", "text": unmatched_result_label(entry.value)}
        value = msgspec.structs.replace(value, content=[label, *content])
    rest = {key: entry.fields[key] for key in entry.fields if key not in _TOOL_ONLY_FIELDS}
    return HistoryEntry(value, rest | {"role": "user", "content": value.content})


def _rename_tools(fields: JSON, upstream_names: Mapping[str, str]) -> JSON:
    """Return a message with the upstream's tool names."""
    name = fields.get("name")
    if fields.get("role") == "tool" and isinstance(name, str) and name in upstream_names:
        return fields | {"name": upstream_names[name]}
    calls = fields.get("tool_calls")
    if not isinstance(calls, list) or not any(_call_name(call) in upstream_names for call in calls):
        return fields
    return fields | {"tool_calls": [_rename_call(call, upstream_names) for call in calls]}


def _rename_call(call: Any, upstream_names: Mapping[str, str]) -> Any:
    name = _call_name(call)
    if name not in upstream_names:
        return call
    return call | {"function": call["function"] | {"name": upstream_names[name]}}


def _call_name(call: Any) -> str:
    match call:
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return ""
