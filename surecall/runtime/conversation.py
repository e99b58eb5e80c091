"""Conversations that are kept: what was said, calls that wait for a person, and extras.

    chat = Conversation(runner, SqliteStore("chats.db"), "customer-7")
    result = await chat.say("…")                       stream: chat.stream("…")
    result = await chat.resume({id: Decision.approve()})       chat.stream_resumed(…)

Any number of processes may have the same conversation open. One of them is at work on it at a
time. What a call does happens at most once, whichever of them dies, and whenever.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, Unpack

import msgspec

from surecall.core.kept import ConversationBusy, Kept, Store
from surecall.core.outcome import RunResult, T_co
from surecall.core.state import Run
from surecall.runtime.hooks import Observer
from surecall.runtime.kept_turn import Keeper, KeptTurn
from surecall.runtime.run_stream import BlockingRunStream, RunStream, Watch
from surecall.runtime.runner import ToolLoopRunner, TurnOptions, check_keywords
from surecall.values.decisions import Decision, WaitingCall
from surecall.values.errors import ConfigError
from surecall.values.nesting import encode_json
from surecall.values.types import JSON, Message

LEASE_S = 60.0
_LEAST_LEASE_S = 1.0


class Conversation(Generic[T_co]):
    """One conversation in a store, by its key. Making one neither reads nor writes anything.

    `lease_s` is how long it stays with a process that no longer shows any sign of life; then the
    next one may go on with it. A turn that lasts longer keeps it.
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
                'a store has the methods load and save, as SqliteStore("chats.db") does'
            )
        if not lease_s >= _LEAST_LEASE_S:
            raise ConfigError(f"lease_s is at least {_LEAST_LEASE_S:g}")
        self._runner = runner
        self._sessions = runner._sessions  # noqa: SLF001  # a conversation is one more of its drivers
        self._keeper = Keeper(store, _checked_key(key))
        self._lease_s = lease_s

    @property
    def history(self) -> list[Message]:
        """What was said so far, also in a turn that has not ended."""
        return list(self._keeper.look().messages)

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that a person must decide about; `resume` takes the decisions."""
        kept = self._at_rest()
        return () if kept is None else kept.waiting

    @property
    def interrupted(self) -> bool:
        """Whether a turn failed or was cut short; `resume` goes on with it."""
        kept = self._at_rest()
        return kept is not None and kept.turn is not None and not kept.waiting

    @property
    def extras(self) -> JSON:
        """What the application keeps with the conversation; a copy, see `change_extras`."""
        return _copy(self._keeper.look().extras)

    def change_extras(self, change: Callable[[JSON], JSON]) -> JSON:
        """Replace the extras by what a function makes of them, and return them.

        It is called again if someone else changes the conversation at that moment. This may be
        done at any time, also while a turn is under way.
        """

        def changed(kept: Kept) -> Kept:
            return msgspec.structs.replace(kept, extras=_checked_extras(change(_copy(kept.extras))))

        return _copy(self._keeper.changed(changed).extras)

    async def say(
        self, user_text: str | list[Any], **options: Unpack[TurnOptions]
    ) -> RunResult[T_co]:
        """Say something and store the answer. Keyword arguments are those of `TurnOptions`.

        Raises `ConversationBusy` at once if another turn is under way, or if calls need human
        approval. An interrupted turn is not resumed: for calls without a result, the model is told
        that their outcome is unknown.
        """
        return await self._new_turn(user_text, options).drive()

    def stream(self, user_text: str | list[Any], **options: Unpack[TurnOptions]) -> RunStream[T_co]:
        """Do the same as `say`, and yield what happens."""
        return RunStream(lambda watch: self._new_turn(user_text, options, watch))

    async def resume(
        self,
        decisions: Mapping[str, Decision] | None = None,
        *,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult[T_co]:
        """Go on with a turn that waits for a person, that failed, or that was cut short.

        `decisions` are about the calls in `waiting`, by their id. A call that had begun does not
        run again unless its tool is read-only or idempotent. The turn goes on with the model and
        the settings that it began with, and with the tools of this runner.
        """
        return await self._turn(self._resuming(decisions), on_event, context).drive()

    def stream_resumed(
        self,
        decisions: Mapping[str, Decision] | None = None,
        *,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunStream[T_co]:
        """Do the same as `resume`, watched."""
        begin = self._resuming(decisions)
        return RunStream(lambda watch: self._turn(begin, on_event, context, watch))

    def say_sync(
        self, user_text: str | list[Any], **options: Unpack[TurnOptions]
    ) -> RunResult[T_co]:
        """Do the same as `say`, blocking."""
        return self._sessions.thread().call(self.say(user_text, **options))

    def resume_sync(
        self,
        decisions: Mapping[str, Decision] | None = None,
        *,
        on_event: Observer | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult[T_co]:
        """Do the same as `resume`, blocking."""
        turn = self._turn(self._resuming(decisions), on_event, context)
        return self._sessions.thread().call(turn.drive())

    def stream_sync(
        self, user_text: str | list[Any], **options: Unpack[TurnOptions]
    ) -> BlockingRunStream[T_co]:
        """Do the same as `stream`, blocking."""
        return self._sessions.watch_blocking(self.stream(user_text, **options))

    def take_over(self) -> None:
        """Take the conversation from whoever is at work on it, without waiting for `lease_s`.

        If that process still lives, it can keep nothing more, begins no call any more, and raises
        `ConversationTaken` at its end.
        """
        self._keeper.changed(lambda kept: msgspec.structs.replace(kept, hold=None))

    def forget(self) -> None:
        """Delete what was said, the turn that has not ended, and the extras."""
        self._keeper.changed(lambda kept: Kept(kept.free(time.time()).version))

    def _at_rest(self) -> Kept | None:
        with suppress(ConversationBusy):
            return self._keeper.look().free(time.time())
        return None

    def _new_turn(
        self, user_text: str | list[Any], options: TurnOptions, watch: Watch | None = None
    ) -> KeptTurn:
        check_keywords(options, TurnOptions)
        new_run = self._runner._new_run  # noqa: SLF001  # see above

        def begin(kept: Kept) -> Run:
            return new_run(user_text, {**options, "history": kept.open_to_words().messages})

        return self._turn(begin, options.get("on_event"), options.get("context"), watch)

    def _resuming(self, decisions: Mapping[str, Decision] | None) -> Callable[[Kept], Run]:
        def begin(kept: Kept) -> Run:
            if kept.run is None:
                raise ConfigError("there is nothing to resume: the last turn has its answer")
            return self._sessions.reopened(kept.run, decisions)

        return begin

    def _turn(
        self,
        begin: Callable[[Kept], Run],
        on_event: Observer | None,
        context: Mapping[str, Any] | None,
        watch: Watch | None = None,
    ) -> KeptTurn:
        return KeptTurn(
            self._keeper,
            begin,
            lambda run, journal: self._sessions.session(run, on_event, context, watch, journal),
            self._lease_s,
        )


def _checked_key(key: Any) -> str:
    if not isinstance(key, str) or not key:
        raise ConfigError("the key of a conversation is a text that is not blank")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ConfigError("the key of a conversation is a text without lone surrogates") from None
    return key


def _checked_extras(extras: Any) -> JSON:
    if not isinstance(extras, dict):
        raise ConfigError("extras must be a JSON object, and change_extras is to return it")
    try:
        copied = _copy(extras)
        is_same = copied == extras
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"extras must be JSON: {error}") from None
    if not is_same:
        raise ConfigError("extras must be JSON: some of this would be read back as something else")
    return copied


def _copy(extras: JSON) -> JSON:
    copied: JSON = msgspec.json.decode(encode_json(extras, msgspec.json.encode))
    return copied
