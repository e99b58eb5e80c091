"""What is kept of a conversation: what was said, a turn that has not ended, and extras.

    at rest        no turn: the last one has its answer
    waiting        a turn whose calls a person must decide about
    interrupted    a turn that failed, was cancelled, or whose process died
    under way      any of these with a `hold`: somebody is at work on it

Whoever begins a turn takes the hold first, and writes down how far it has come under it. A store
changes what it has only from the version that the writer has seen. So whoever has lost the hold
can write nothing more, and begins no call, because its start must be written first. The time in a
hold says only when others may take it; what happens twice does not depend on any clock.
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
from surecall.wire.messages import encode

SCHEMA_VERSION: Final = 1


class StoreConflict(SurecallError):
    """A store has another version of a conversation than the one that was to be replaced."""


class ConversationBusy(SurecallError):
    """A conversation takes no new words now: a turn is under way, or calls are `waiting`."""

    def __init__(self, message: str, waiting: tuple[WaitingCall, ...] = ()) -> None:
        super().__init__(message)
        self._message = message
        self.waiting = waiting

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._message, self.waiting)


class ConversationTaken(SurecallError):
    """A turn was taken over while it went on; what it came to, if anything, was not kept."""

    def __init__(self, message: str, result: RunResult | None = None) -> None:
        super().__init__(message)
        self._message = message
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._message, self.result)


class Stored(msgspec.Struct, frozen=True):
    """A conversation as a store has it. Nothing in the bytes concerns the store."""

    version: int
    head: bytes
    messages: Sequence[bytes]


class Store(Protocol):
    """Where conversations are kept. Calls block, so they should be short; threads may share it."""

    def load(self, key: str, known: int = 0) -> Stored | None:
        """Return what is kept under a key; None if it still has the version that is known."""

    def save(
        self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
    ) -> None:
        """Replace a version by the next, which is one higher; all of it or nothing.

        The first `keep` messages stay as they are; these come after them, in place of any others.
        If another version is stored, nothing changes, and `StoreConflict` is raised. What was never
        stored has the version 0.
        """


class Hold(msgspec.Struct, frozen=True):
    """Who is at work on a conversation, and until when nobody else takes it."""

    owner: str
    until: float


class Kept(msgspec.Struct, frozen=True):
    """One version of a conversation. `turn` has no messages of its own, and no tools."""

    version: int = 0
    messages: tuple[Message, ...] = ()
    turn: Run | None = None
    extras: JSON = {}
    hold: Hold | None = None

    @property
    def run(self) -> Run | None:
        """The turn that has not ended, if there is one."""
        turn = self.turn
        return None if turn is None else msgspec.structs.replace(turn, messages=self.messages)

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that a person must decide about; none while somebody is at work."""
        run = self.run
        return () if run is None or self.hold is not None else run.waiting

    def at_work(self, run: Run, hold: Hold) -> "Kept":
        """Return this with how far a turn has come."""
        return msgspec.structs.replace(self, messages=run.messages, turn=_bare(run), hold=hold)

    def put_down(self, run: Run, *, is_over: bool) -> "Kept":
        """Return this with a turn that nobody is at work on any more."""
        turn = None if is_over else _bare(run)
        return msgspec.structs.replace(self, messages=run.messages, turn=turn, hold=None)

    def free(self, now: float) -> "Kept":
        """Return this if nobody is at work on it; a hold that has run out does not count."""
        if self.hold is None:
            return self
        if self.hold.until > now:
            raise ConversationBusy("another turn of this conversation is under way")
        return msgspec.structs.replace(self, hold=None)

    def open_to_words(self) -> "Kept":
        """Return this if no call waits for a person: words would leave them behind."""
        if waiting := self.waiting:
            names = ", ".join(call.name for call in waiting)
            raise ConversationBusy(f"a person must decide first about: {names}", waiting)
        return self


class _Head(msgspec.Struct, omit_defaults=True):
    turn: Run | None = None
    extras: JSON = {}
    hold: Hold | None = None
    schema_version: int = 0


class _Version(msgspec.Struct):
    schema_version: int


_HEAD: Final = msgspec.json.Decoder(_Head)
_VERSION: Final = msgspec.json.Decoder(_Version)
_MESSAGES: Final = msgspec.json.Decoder(tuple[Message, ...])


def head_of(kept: Kept) -> bytes:
    """Write down everything but the messages."""
    return encode(_Head(kept.turn, kept.extras, kept.hold, SCHEMA_VERSION))


def read(key: str, stored: Stored) -> Kept:
    """Read what a store has."""
    said = b"[%s]" % b",".join(stored.messages)
    try:
        check_depth(stored.head, MAX_WRAPPED_DEPTH)
        check_depth(said, MAX_WRAPPED_DEPTH)
        if _VERSION.decode(stored.head).schema_version > SCHEMA_VERSION:
            raise ConfigError(
                f"conversation {key!r} was written by a newer version; update surecall to read it"
            )
        head = _HEAD.decode(stored.head)
        messages = _MESSAGES.decode(said)
    except (msgspec.MsgspecError, UnicodeError, TooDeep) as error:
        raise ConfigError(f"conversation {key!r} cannot be read: {error}") from None
    return Kept(stored.version, messages, head.turn, head.extras, head.hold)


def unchanged(before: Sequence[Message], after: Sequence[Message], start: int = 0) -> int:
    """Count the messages at the beginning that are the same; the first `start` are known to be."""
    most = min(len(before), len(after))
    if before is after:
        return most
    return next((at for at in range(start, most) if before[at] != after[at]), most)


def _bare(run: Run) -> Run:
    """Leave out of a run what is kept beside it, and what its next runner has anyway."""
    return msgspec.structs.replace(run, messages=(), tools=())
