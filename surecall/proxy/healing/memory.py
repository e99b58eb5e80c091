"""What the proxy remembers between two requests: what a client does not send back.

Of a turn with calls these are the opaque fields of the message and its calls (reasoning,
signatures), and the calls beside them that could not run, with the reason. It is found again by
whose conversation it is, how that began, and the ids of the calls. The memory holds so
many turns and bytes, the newest, and is lost with the process: then a client that does not echo
such fields is as well off as without the proxy.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from surecall.values.types import JSON, Assistant, ToolCall, ToolResult
from surecall.wire.content_parts import is_opaque, text_of, with_text
from surecall.wire.messages import encode, id_of, raw_calls
from surecall.wire.opaque_state import CONTENT, FUNCTION

MOST_TURNS: Final = 20_000
MOST_BYTES: Final = 64 * 1024 * 1024


class Aside(msgspec.Struct, frozen=True):
    """A call that could not run, where it stood in its turn, and the answer that it got."""

    position: int
    call: JSON
    answer: JSON


class Remembered(msgspec.Struct, frozen=True):
    """What a turn had that the client may not send back; calls by their ids."""

    fields: JSON = {}
    calls: dict[str, JSON] = {}
    aside: tuple[Aside, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fields or self.calls or self.aside)


_DECODER = msgspec.json.Decoder(Remembered)


class Memory:
    """Turns, by what a client surely sends back of them. Bounded in number and in bytes."""

    def __init__(self, most_turns: int = MOST_TURNS, most_bytes: int = MOST_BYTES) -> None:
        self._turns: OrderedDict[bytes, bytes] = OrderedDict()
        self._most_turns = most_turns
        self._most_bytes = most_bytes
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._turns)

    def keep(self, key: bytes, turn: Remembered) -> None:
        """Remember a turn; the oldest ones make room."""
        self._drop(key)
        data = encode(turn)
        self._turns[key] = data
        self._bytes += len(data)
        while len(self._turns) > self._most_turns or self._bytes > self._most_bytes:
            self._drop(next(iter(self._turns)))

    def find(self, key: bytes) -> Remembered | None:
        """Return a turn, if it is still known."""
        data = self._turns.get(key)
        if data is None:
            return None
        self._turns.move_to_end(key)
        return _DECODER.decode(data)

    def _drop(self, key: bytes) -> None:
        self._bytes -= len(self._turns.pop(key, b""))


class Conversation:
    """The part of the memory that one conversation can reach."""

    def __init__(self, memory: Memory, whose: str, messages: Sequence[Any]) -> None:
        self._memory = memory
        self._scope = f"{whose}\0{_beginning(messages)}"

    def keep(self, calls: Iterable[ToolCall], turn: Remembered) -> None:
        """Remember a turn whose calls the client is sent."""
        if turn:
            self._memory.keep(self._key(call.id for call in calls), turn)

    def find(self, message: JSON) -> Remembered | None:
        """Return what is remembered of a turn that the client sends back."""
        if not len(self._memory) or not (calls := raw_calls(message)):
            return None
        return self._memory.find(self._key(map(id_of, calls)))

    def _key(self, ids: Iterable[str]) -> bytes:
        said = "\0".join((self._scope, *ids))
        return hashlib.sha256(said.encode("utf-8", "replace")).digest()


def _beginning(messages: Sequence[Any]) -> str:
    """Return how a conversation began: what the user said first."""
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "user":
            return text_of(message.get(CONTENT))
    return ""


def remembered(said: Assistant, refused: Sequence[tuple[int, JSON, ToolResult]]) -> Remembered:
    """Return what is to be remembered of a turn; `refused` are its calls that could not run."""
    asides = tuple(
        Aside(
            position,
            call,
            {"role": "tool", "tool_call_id": answer.call_id, CONTENT: answer.content},
        )
        for position, call, answer in refused
    )
    calls = {call.id: call.extra for call in said.calls if call.extra and call.may_run}
    return Remembered(said.extra, calls, asides)


def restored(message: JSON, turn: Remembered) -> JSON:
    """Return a turn as the upstream wrote it; the same one if the client left nothing out."""
    fields = {key: turn.fields[key] for key in turn.fields if key not in message and key != CONTENT}
    parts = [part for part in turn.fields.get(CONTENT, ()) if is_opaque(part)]
    if parts and not _has_parts(message):
        fields[CONTENT] = with_text(turn.fields[CONTENT], text_of(message.get(CONTENT)))
    calls = [_with_extra(call, turn.calls.get(id_of(call), {})) for call in raw_calls(message)]
    for aside in turn.aside:
        calls.insert(aside.position, aside.call)
    if calls != message["tool_calls"]:
        fields["tool_calls"] = calls
    return message | fields if fields else message


def _has_parts(message: JSON) -> bool:
    content = message.get(CONTENT)
    return isinstance(content, list) and any(map(is_opaque, content))


def _with_extra(call: JSON, extra: JSON) -> JSON:
    missing = {key: extra[key] for key in extra if key not in call}
    inner, function = extra.get(FUNCTION, {}), call.get(FUNCTION)
    if isinstance(function, dict) and (
        left := {key: inner[key] for key in inner if key not in function}
    ):
        missing[FUNCTION] = function | left
    return call | missing if missing else call
