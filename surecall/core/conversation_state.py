"""The stored state of a conversation: its messages, an unfinished turn, and extras.

    idle           no turn: the last one has its answer
    waiting        a turn with calls that need human approval
    interrupted    a turn that failed, was cancelled, or whose process died
    in progress    any of these with a `hold`: a process is working on it

A process takes the hold before it begins a turn, and saves its progress under it. A store replaces
a conversation only if the writer has seen the stored version. A process that has lost its hold can
therefore save nothing more and start no call, because the start of a call is saved first. The
expiry of a hold only decides when other processes may take it: at-most-once execution does not
depend on clocks.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.values.decisions import WaitingCall
from surecall.values.errors import ConfigError, SurecallError
from surecall.values.nesting import MAX_WRAPPED_DEPTH, TooDeep, check_depth
from surecall.values.types import JSON, Message
from surecall.wire.chat_format import encode

SCHEMA_VERSION: Final = 1


class StoreConflict(SurecallError):
    """The stored version of a conversation is not the one that was to be replaced."""


class ConversationBusy(SurecallError):
    """The conversation accepts no message now: a turn is in progress, or calls are `waiting`."""

    def __init__(self, message: str, waiting: tuple[WaitingCall, ...] = ()) -> None:
        super().__init__(message)
        self._message = message
        self.waiting = waiting

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._message, self.waiting)


class ConversationTaken(SurecallError):
    """Another process took over a turn in progress; its `result`, if any, was not stored."""

    def __init__(self, message: str, result: RunResult | None = None) -> None:
        super().__init__(message)
        self._message = message
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._message, self.result)


class Stored(msgspec.Struct, frozen=True):
    """A conversation as a store holds it; the bytes are opaque to the store."""

    version: int
    head: bytes
    messages: Sequence[bytes]


class Store(Protocol):
    """Storage for conversations. Must be thread-safe; calls block, so they should be short."""

    def load(self, key: str, known: int = 0) -> Stored | None:
        """Return the conversation of a key; None if it still has the `known` version."""

    def save(
        self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
    ) -> None:
        """Replace `version` with the next one, atomically.

        The first `keep` stored messages stay; `messages` replace all others. If another version is
        stored, nothing changes and `StoreConflict` is raised. A conversation that was never stored
        has version 0.
        """


class Hold(msgspec.Struct, frozen=True):
    """The process working on a conversation, and the time until which no other may take it."""

    owner: str
    until: float


class ConversationState(msgspec.Struct, frozen=True):
    """One version of a conversation. `turn` is stored without its messages and tools."""

    version: int = 0
    messages: tuple[Message, ...] = ()
    turn: Run | None = None
    extras: JSON = {}
    hold: Hold | None = None

    @property
    def run(self) -> Run | None:
        """The unfinished turn, if any, with its messages."""
        turn = self.turn
        return None if turn is None else msgspec.structs.replace(turn, messages=self.messages)

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that need human approval; none while a process is working on the turn."""
        run = self.run
        return () if run is None or self.hold is not None else run.waiting

    def with_held_turn(self, run: Run, hold: Hold) -> "ConversationState":
        """Return the state with the progress of a turn, under a hold."""
        return msgspec.structs.replace(
            self, messages=run.messages, turn=_without_messages(run), hold=hold
        )

    def with_released_turn(self, run: Run, *, is_over: bool) -> "ConversationState":
        """Return the state after a turn has finished or stopped, without a hold."""
        turn = None if is_over else _without_messages(run)
        return msgspec.structs.replace(self, messages=run.messages, turn=turn, hold=None)

    def require_free(self, now: float) -> "ConversationState":
        """Return the state without an expired hold; an active one raises `ConversationBusy`."""
        if self.hold is None:
            return self
        if self.hold.until > now:
            raise ConversationBusy("another turn of this conversation is in progress")
        return msgspec.structs.replace(self, hold=None)

    def require_no_waiting_calls(self) -> "ConversationState":
        """Return the state; calls that need approval raise `ConversationBusy`.

        A new message would abandon them.
        """
        if waiting := self.waiting:
            names = ", ".join(call.name for call in waiting)
            raise ConversationBusy(f"these calls need human approval first: {names}", waiting)
        return self


class _Head(msgspec.Struct, omit_defaults=True):
    """The stored form of everything but the messages."""

    turn: Run | None = None
    extras: JSON = {}
    hold: Hold | None = None
    schema_version: int = 0


class _RawHead(msgspec.Struct):
    """A stored head before its turn is decoded."""

    turn: msgspec.Raw = msgspec.Raw()  # `Run.from_json` also parses runs of earlier versions
    extras: JSON = {}
    hold: Hold | None = None


class _StateVersion(msgspec.Struct):
    """The version of a stored state, which is decoded before anything else."""

    schema_version: int


_HEAD: Final = msgspec.json.Decoder(_RawHead)
_VERSION: Final = msgspec.json.Decoder(_StateVersion)
_MESSAGES: Final = msgspec.json.Decoder(tuple[Message, ...])


def encode_head(state: ConversationState) -> bytes:
    """Encode everything but the messages."""
    return encode(_Head(state.turn, state.extras, state.hold, SCHEMA_VERSION))


def decode_state(key: str, stored: Stored) -> ConversationState:
    """Decode a stored conversation; a newer or invalid one is an error."""
    encoded = b"[%s]" % b",".join(stored.messages)
    try:
        check_depth(stored.head, MAX_WRAPPED_DEPTH)
        check_depth(encoded, MAX_WRAPPED_DEPTH)
        if _VERSION.decode(stored.head).schema_version > SCHEMA_VERSION:
            raise ConfigError(
                f"conversation {key!r} was written by a newer version; update surecall to read it"
            )
        head = _HEAD.decode(stored.head)
        run = Run.from_json(bytes(head.turn)) if bytes(head.turn) else None
        messages = _MESSAGES.decode(encoded)
    except (msgspec.MsgspecError, UnicodeError, TooDeep) as error:
        raise ConfigError(f"conversation {key!r} cannot be read: {error}") from None
    return ConversationState(stored.version, messages, run, head.extras, head.hold)


def common_prefix_length(
    before: Sequence[Message], after: Sequence[Message], start: int = 0
) -> int:
    """Return the length of the common prefix; the first `start` messages are known to be equal."""
    most = min(len(before), len(after))
    if before is after:
        return most
    return next(
        (at for at in range(start, most) if not _is_same_message(before[at], after[at])), most
    )


def _is_same_message(before: Message, after: Message) -> bool:
    """Whether two messages are equal, also in the types of their values."""
    # Equal messages may hold arguments of different types: in Python, True == 1.
    return before is after or (before == after and encode(before) == encode(after))


def _without_messages(run: Run) -> Run:
    """Return a run without its messages, stored separately, and tools, which its runner has."""
    return msgspec.structs.replace(run, messages=(), tools=())
