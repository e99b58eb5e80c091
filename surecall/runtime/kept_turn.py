"""One turn of a conversation that is kept: claimed before it begins, recorded while it goes.

    claim ─► the session is driven; each call is recorded before it begins and when it has ended
             └─ now and then the hold is renewed ─► put down, with its end or without

A turn whose conversation was taken over cannot record anything more. So none of its calls begins
any more, unless running it twice does no harm.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from surecall.core.effects import unfinished
from surecall.core.kept import (
    ConversationBusy,
    ConversationTaken,
    Hold,
    Kept,
    Store,
    StoreConflict,
    head_of,
    read,
    unchanged,
)
from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.runtime.execution import FOREIGN
from surecall.runtime.hooks import Observer
from surecall.runtime.session import Session
from surecall.runtime.turns import turn
from surecall.values.events import Event, ToolCallEndEvent, ToolCallStartEvent
from surecall.wire.messages import encode

# How often a hold is renewed before it would run out.
_RENEWALS: Final = 3
# So often in a row others may be faster; then something is wrong with the store.
MOST_TRIES: Final = 100


class Keeper:
    """What this process knows of a conversation, and how it changes what is stored."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._known = Kept()

    def look(self) -> Kept:
        """Return the newest version."""
        # Other threads may look and change at the same time: what is returned is what was read.
        known = self._known
        stored = self._store.load(self._key, known.version)
        if stored is not None:
            known = self._known = read(self._key, stored)
        return known

    def change(self, before: Kept, after: Kept, start: int = 0) -> Kept:
        """Replace a version, unless there is another by now; the first messages are the same."""
        keep = unchanged(before.messages, after.messages, start)
        new = [encode(message) for message in after.messages[keep:]]
        try:
            self._store.save(self._key, before.version, head_of(after), keep, new)
        except StoreConflict:
            self._known = Kept()  # so that the next look is at all there is
            raise
        changed = self._known = msgspec.structs.replace(after, version=before.version + 1)
        return changed

    def changed(self, change: Callable[[Kept], Kept]) -> Kept:
        """Change the newest version, however many others do so at the same time."""
        for _ in range(MOST_TRIES):
            before = self.look()
            with suppress(StoreConflict):
                return self.change(before, change(before))
        raise ConversationBusy("this conversation changes all the time")


class KeptTurn:
    """Drives a session, and keeps how far it has come. It is the journal of its run."""

    is_journal = True

    def __init__(
        self,
        keeper: Keeper,
        begin: Callable[[Kept], Run],
        session: Callable[[Run, Observer], Session],
        lease_s: float,
    ) -> None:
        self._keeper = keeper
        self._begin = begin
        self._open = session
        self._lease_s = lease_s
        self._owner = os.urandom(16).hex()
        self._session: Session | None = None
        # What is wrong with what was asked for is told now, before anything is claimed.
        self._kept = keeper.look().free(time.time())
        self._run = begin(self._kept)

    @property
    def run(self) -> Run:
        """How far the run has come."""
        return self._run if self._session is None else self._session.run

    async def drive(self) -> RunResult:
        """Claim the conversation, drive the run to its end, and put it down."""
        await turn()
        session = self._claimed()
        with self._put_down_on_error():
            renewing = asyncio.ensure_future(self._renew())
            try:
                result = await session.drive()
            finally:
                renewing.cancel()
        try:
            self._write(lambda kept: kept.put_down(result.run, is_over=not result.waiting))
        except ConversationTaken as taken:
            taken.result = result
            raise
        return result

    def __call__(self, event: Event) -> None:
        """Record that a call begins, before it does, and that it has ended."""
        match event:
            case ToolCallStartEvent(call=call):
                self._record(unfinished(self.run, [call]))
            case ToolCallEndEvent():
                self._record(self.run)
            case _:
                pass

    def _record(self, run: Run) -> None:
        self._write(lambda kept: kept.at_work(run, self._hold()))

    def _claimed(self) -> Session:
        """Begin the turn in the newest version; of several at the same time, one can."""
        for _ in range(MOST_TRIES):
            kept = self._keeper.look().free(time.time())
            if kept.version != self._kept.version:
                self._run = self._begin(kept)
            session = self._open(self._run, self)
            with suppress(StoreConflict):
                self._kept = self._keeper.change(kept, kept.at_work(session.run, self._hold()))
                self._session = session
                return session
        raise ConversationBusy("this conversation changes all the time")

    def _hold(self) -> Hold:
        return Hold(self._owner, time.time() + self._lease_s)

    def _write(self, change: Callable[[Kept], Kept]) -> None:
        """Write as the one who has the hold; others may have changed the extras meanwhile."""
        for _ in range(MOST_TRIES):
            with suppress(StoreConflict):
                kept = self._kept
                self._kept = self._keeper.change(kept, change(kept), self._run.start)
                return
            newest = self._keeper.look()
            if newest.hold is None or newest.hold.owner != self._owner:
                break
            self._kept = newest
        raise ConversationTaken("this turn was taken over, and what it comes to is not kept")

    async def _renew(self) -> None:
        # If the hold cannot be renewed it runs out, and the next record fails for the same reason.
        with suppress(*FOREIGN):
            while True:
                await asyncio.sleep(self._lease_s / _RENEWALS)
                self._write(lambda kept: msgspec.structs.replace(kept, hold=self._hold()))

    @contextmanager
    def _put_down_on_error(self) -> Iterator[None]:
        """Leave a turn that did not come to its end so that it can be gone on with."""
        try:
            yield
        except BaseException as error:
            try:
                self._write(lambda kept: kept.put_down(self.run, is_over=False))
            except FOREIGN as unkept:  # a store may be foreign code
                error.add_note(f"how far the turn came was not kept: {unkept}")
            raise
