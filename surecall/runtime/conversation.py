"""Stored conversations: messages, calls that need human approval, and extras.

    chat = Conversation(runner, SqliteStore("chats.db"), "customer-7")
    result = await chat.say("…")                       stream: chat.stream("…")
    result = await chat.resume({id: Decision.approve()})       chat.stream_resumed(…)

Any number of processes may open the same conversation; one at a time runs a turn. Each call takes
effect at most once, even if a process dies in the middle of a turn:

    claim ─► drive the session, recording each call before it begins and after it has ended
             └─ renew the hold periodically ─► release, with the final answer or without

A turn that was taken over can no longer record, so its remaining calls do not begin unless running
them twice is harmless.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Generic, Unpack

import msgspec

from surecall.core.conversation_state import (
    ConversationBusy,
    ConversationState,
    ConversationTaken,
    Hold,
    Store,
    StoreConflict,
    common_prefix_length,
    decode_state,
    encode_head,
)
from surecall.core.effects import mark_unfinished, messages_with_unknown_outcomes
from surecall.core.outcome import RunResult, T_co
from surecall.core.state import Run
from surecall.runtime.event_loop import wait_for_slot
from surecall.runtime.execution import USER_CODE_ERRORS
from surecall.runtime.hooks import Observer
from surecall.runtime.run_stream import BlockingRunStream, LiveObserver, RunStream
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.runner_checks import (
    TurnOptions,
    WatchOptions,
    check_keywords,
    expand_keywords,
)
from surecall.runtime.session import Session
from surecall.values.decisions import Decision, StaleDecision, WaitingCall
from surecall.values.errors import ConfigError
from surecall.values.events import Event, ToolCallEndEvent, ToolCallStartEvent
from surecall.values.nesting import encode_json
from surecall.values.types import JSON, Message
from surecall.wire.chat_format import encode

# Renewals of a hold per lease.
_RENEWALS: Final = 3
# After this many conflicts in a row the store is assumed to be broken.
MAX_ATTEMPTS: Final = 100


class ConversationRepository:
    """Reads and writes one conversation in a store, and caches the newest version."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._cached = ConversationState()

    def load_latest(self) -> ConversationState:
        """Return the newest version."""
        # A local variable, because other threads may replace the cached version.
        cached = self._cached
        stored = self._store.load(self._key, cached.version)
        if stored is not None:
            cached = self._cached = decode_state(self._key, stored)
        return cached

    def replace(
        self, before: ConversationState, after: ConversationState, start: int = 0
    ) -> ConversationState:
        """Replace a version, or raise `StoreConflict` if the store has a newer one.

        The messages before `start` are known to be the same in both.
        """
        keep = common_prefix_length(before.messages, after.messages, start)
        new = [encode(message) for message in after.messages[keep:]]
        try:
            self._store.save(self._key, before.version, encode_head(after), keep, new)
        except StoreConflict:
            self._cached = ConversationState()  # so that the next load reads everything
            raise
        changed = self._cached = msgspec.structs.replace(after, version=before.version + 1)
        return changed

    def update(self, change: Callable[[ConversationState], ConversationState]) -> ConversationState:
        """Apply a change to the newest version; retry if it was changed concurrently."""
        for _ in range(MAX_ATTEMPTS):
            before = self.load_latest()
            with suppress(StoreConflict):
                return self.replace(before, change(before))
        raise ConversationBusy("this conversation changes all the time")


class StoredTurn:
    """Drives a session and stores its progress. It is the journal of its run."""

    is_journal = True

    def __init__(
        self,
        repository: ConversationRepository,
        begin: Callable[[ConversationState], Run],
        open_session: Callable[[Run, Observer], Session],
        lease_s: float,
    ) -> None:
        self._repository = repository
        self._begin = begin
        self._open_session = open_session
        self._lease_s = lease_s
        self._owner = os.urandom(16).hex()
        self._session: Session | None = None
        # Begins the run here, so that invalid arguments raise before anything is claimed.
        self._state = repository.load_latest().require_free(time.time())
        self._run = begin(self._state)

    @property
    def run(self) -> Run:
        """The run so far."""
        return self._run if self._session is None else self._session.run

    async def drive(self) -> RunResult:
        """Claim the conversation, drive the run to its end, and release the conversation."""
        await wait_for_slot()
        session = self._claim()
        with self._release_on_error():
            renewing = asyncio.ensure_future(self._keep_hold_renewed())
            try:
                result = await session.drive()
            finally:
                renewing.cancel()
        try:
            self._write(
                lambda state: state.with_released_turn(result.run, is_over=not result.waiting)
            )
        except ConversationTaken as taken:
            taken.result = result
            raise
        return result

    def __call__(self, event: Event) -> None:
        """Record a call before it begins and after it has ended."""
        match event:
            case ToolCallStartEvent(call=call):
                self._record_run(mark_unfinished(self.run, [call]))
            case ToolCallEndEvent():
                self._record_run(self.run)
            case _:
                pass

    def _record_run(self, run: Run) -> None:
        """Store the run so far, and renew the hold."""
        self._write(lambda state: state.with_held_turn(run, self._new_hold()))

    def _claim(self) -> Session:
        """Begin the turn in the newest version; of several concurrent claims, one succeeds."""
        for _ in range(MAX_ATTEMPTS):
            state = self._repository.load_latest().require_free(time.time())
            if state.version != self._state.version:
                self._run = self._begin(state)
            session = self._open_session(self._run, self)
            with suppress(StoreConflict):
                self._state = self._repository.replace(
                    state, state.with_held_turn(session.run, self._new_hold())
                )
                self._session = session
                return session
        raise ConversationBusy("this conversation changes all the time")

    def _new_hold(self) -> Hold:
        return Hold(self._owner, time.time() + self._lease_s)

    def _write(self, change: Callable[[ConversationState], ConversationState]) -> None:
        """Write a change while holding the conversation; the extras may change concurrently."""
        for _ in range(MAX_ATTEMPTS):
            with suppress(StoreConflict):
                state = self._state
                self._state = self._repository.replace(state, change(state), self._run.start)
                return
            newest = self._repository.load_latest()
            if newest.hold is None or newest.hold.owner != self._owner:
                break
            self._state = newest
        raise ConversationTaken("this turn was taken over; its result is not stored")

    async def _keep_hold_renewed(self) -> None:
        """Renew the hold periodically until cancelled."""
        # If renewing fails, the hold expires, and the next write reports the reason.
        with suppress(*USER_CODE_ERRORS):
            while True:
                await asyncio.sleep(self._lease_s / _RENEWALS)
                self._write(lambda state: msgspec.structs.replace(state, hold=self._new_hold()))

    @contextmanager
    def _release_on_error(self) -> Iterator[None]:
        """Release the conversation if the turn fails, so that the turn can be resumed."""
        try:
            yield
        except BaseException as error:
            try:
                self._write(lambda state: state.with_released_turn(self.run, is_over=False))
            except USER_CODE_ERRORS as unkept:  # a store may be user code
                error.add_note(f"the progress of the turn was not stored: {unkept}")
            raise


LEASE_S = 60.0
_MIN_LEASE_S = 1.0


class Conversation(Generic[T_co]):
    """A conversation in a store, by its key. Creating one does not access the store.

    A running turn holds the conversation and renews its hold. If its process dies, another process
    can continue after `lease_s` seconds.
    """

    def __init__(
        self, runner: ToolLoopRunner[T_co], store: Store, key: str, *, lease_s: float = LEASE_S
    ) -> None:
        if not isinstance(runner, ToolLoopRunner):
            raise ConfigError("a conversation needs a ToolLoopRunner")
        if isinstance(store, type):
            raise ConfigError(f"store is the class {store.__name__}: pass an object of it")
        if not callable(getattr(store, "load", None)) or not callable(getattr(store, "save", None)):
            raise ConfigError(
                'store must have the methods load and save, as SqliteStore("chats.db") does'
            )
        if not lease_s >= _MIN_LEASE_S:
            raise ConfigError(f"lease_s must be at least {_MIN_LEASE_S:g}, not {lease_s!r}")
        self._runner = runner
        self._sessions = runner._sessions  # noqa: SLF001  # the runner and its conversations share sessions
        self._repository = ConversationRepository(store, _checked_key(key))
        self._lease_s = lease_s

    @property
    def history(self) -> list[Message]:
        """All messages so far, including those of an unfinished turn."""
        return list(self._repository.load_latest().messages)

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that need human approval; pass the decisions to `resume`."""
        state = self._idle_state()
        return () if state is None else state.waiting

    @property
    def interrupted(self) -> bool:
        """Whether a turn failed or was interrupted; `resume` continues it."""
        state = self._idle_state()
        return state is not None and state.turn is not None and not state.waiting

    @property
    def extras(self) -> JSON:
        """A copy of your own data stored with the conversation; see `change_extras`."""
        return _copy_extras(self._repository.load_latest().extras)

    def change_extras(self, change: Callable[[JSON], JSON]) -> JSON:
        """Replace the extras with the return value of `change`, and return them.

        `change` is called again if the conversation changes concurrently. You can call this at any
        time, including during a turn.
        """

        def replace_extras(state: ConversationState) -> ConversationState:
            return msgspec.structs.replace(
                state, extras=_checked_extras(change(_copy_extras(state.extras)))
            )

        return _copy_extras(self._repository.update(replace_extras).extras)

    async def say(
        self, user_text: str | list[Any], **options: Unpack[TurnOptions]
    ) -> RunResult[T_co]:
        """Send user text and store the answer. Keyword arguments are those of `TurnOptions`.

        Raises `ConversationBusy` immediately if another turn is running or calls need human
        approval. An interrupted turn is not resumed: its calls without a result are reported to the
        model as having an unknown outcome.
        """
        return await self._new_turn(user_text, options).drive()

    def stream(self, user_text: str | list[Any], **options: Unpack[TurnOptions]) -> RunStream[T_co]:
        """Do the same as `say`, and yield events and text as they arrive."""
        return RunStream(lambda watch: self._new_turn(user_text, options, watch))

    @expand_keywords
    async def resume(
        self,
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[WatchOptions],
    ) -> RunResult[T_co]:
        """Resume a turn that needs human approval, failed, or was interrupted.

        `decisions` maps ids of the calls in `waiting` to decisions. A decision about any other call
        raises `StaleDecision`, and nothing runs. A call that had begun does not run again unless
        its tool is read-only or idempotent. The turn keeps its model and settings, and uses the
        tools of this runner.
        """
        return await self._resume_turn(decisions, options).drive()

    @expand_keywords
    def stream_resumed(
        self,
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[WatchOptions],
    ) -> RunStream[T_co]:
        """Do the same as `resume`, and yield events and text as they arrive."""
        return RunStream(lambda watch: self._resume_turn(decisions, options, watch))

    def say_sync(
        self, user_text: str | list[Any], **options: Unpack[TurnOptions]
    ) -> RunResult[T_co]:
        """Do the same as `say`, blocking."""
        return self._sessions.event_loop_thread().call(self.say(user_text, **options))

    @expand_keywords
    def resume_sync(
        self,
        decisions: Mapping[str, Decision] | None = None,
        **options: Unpack[WatchOptions],
    ) -> RunResult[T_co]:
        """Do the same as `resume`, blocking."""
        return self._sessions.event_loop_thread().call(
            self._resume_turn(decisions, options).drive()
        )

    def stream_sync(
        self, user_text: str | list[Any], **options: Unpack[TurnOptions]
    ) -> BlockingRunStream[T_co]:
        """Do the same as `stream`, blocking."""
        return self._sessions.open_blocking_stream(self.stream(user_text, **options))

    def take_over(self) -> None:
        """Take the conversation from the process that holds it, without waiting for `lease_s`.

        If that process is still running, it can no longer store anything or begin calls, and its
        turn raises `ConversationTaken`.
        """
        self._repository.update(lambda state: msgspec.structs.replace(state, hold=None))

    def forget(self) -> None:
        """Delete the messages, an unfinished turn, and the extras."""
        self._repository.update(
            lambda state: ConversationState(state.require_free(time.time()).version)
        )

    def _idle_state(self) -> ConversationState | None:
        """Return the newest state if no turn is running or waiting; otherwise None."""
        with suppress(ConversationBusy):
            return self._repository.load_latest().require_free(time.time())
        return None

    def _new_turn(
        self, user_text: str | list[Any], options: TurnOptions, watch: LiveObserver | None = None
    ) -> StoredTurn:
        check_keywords(options, TurnOptions)
        new_run = self._runner._new_run  # noqa: SLF001  # see above

        def begin(state: ConversationState) -> Run:
            unfinished_run = state.require_no_waiting_calls().run
            history = (
                state.messages
                if unfinished_run is None
                else messages_with_unknown_outcomes(unfinished_run)
            )
            return new_run(user_text, {**options, "history": history})

        return self._stored_turn(begin, options, watch)

    def _resume_turn(
        self,
        decisions: Mapping[str, Decision] | None,
        options: WatchOptions,
        watch: LiveObserver | None = None,
    ) -> StoredTurn:
        check_keywords(options, WatchOptions)

        def begin(state: ConversationState) -> Run:
            if state.run is None and decisions and isinstance(decisions, Mapping):
                raise StaleDecision(next(iter(decisions)))
            if state.run is None:
                raise ConfigError("there is nothing to resume: the last turn has been answered")
            return self._sessions.reopen(state.run, decisions)

        return self._stored_turn(begin, options, watch)

    def _stored_turn(
        self,
        begin: Callable[[ConversationState], Run],
        options: WatchOptions,
        watch: LiveObserver | None = None,
    ) -> StoredTurn:
        """Return the turn of a run that `begin` creates from the newest state."""
        return StoredTurn(
            self._repository,
            begin,
            lambda run, journal: self._sessions.create_session(run, options, watch, journal),
            self._lease_s,
        )


def _checked_key(key: Any) -> str:
    if not isinstance(key, str) or not key:
        raise ConfigError(f"key must be a non-empty string, not {key!r:.80}")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ConfigError("key must not contain lone surrogates") from None
    return key


def _checked_extras(extras: Any) -> JSON:
    if not isinstance(extras, dict):
        raise ConfigError("extras must be a JSON object: return a dict from change_extras")
    try:
        copied = _copy_extras(extras)
        is_same = copied == extras
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"extras must be JSON: {error}") from None
    if not is_same:
        raise ConfigError("extras must be JSON: some values would be read back as another type")
    return copied


def _copy_extras(extras: JSON) -> JSON:
    copied: JSON = msgspec.json.decode(encode_json(extras, msgspec.json.encode))
    return copied
