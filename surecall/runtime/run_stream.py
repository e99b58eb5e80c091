"""A run that is watched while it goes: an iterator of what happens, and of the text as it comes.

    async for event in runner.stream("…"):      for event in runner.stream_sync("…"):

The run goes on by itself; a slow reader cannot hold it up. Leaving the loop, or being cancelled
in it, ends the run immediately and closes its connection. How far it had come is in `run`, and
`resume` takes it from there. A run that fails raises its error after the last event.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, Protocol, Self, TypeAlias

from surecall.core.outcome import RunResult, T_co
from surecall.core.state import Run
from surecall.core.streaming.display import CallAnnounced, TextWithdrawn
from surecall.runtime.event_loop_thread import EventLoopClosed, EventLoopThread
from surecall.runtime.turns import turn
from surecall.values.errors import SurecallError
from surecall.values.events import Event
from surecall.wire.assembler import ReasoningDelta, TextDelta

LiveEvent: TypeAlias = TextDelta | ReasoningDelta | TextWithdrawn | CallAnnounced | Event
Watch: TypeAlias = Callable[[LiveEvent], None]


class Driven(Protocol):
    """What a stream watches: a session, or something that drives one."""

    @property
    def run(self) -> Run:
        """How far the run has come."""

    async def drive(self) -> RunResult[Any]:
        """Drive the run to its end."""


class RunStream(Generic[T_co]):
    """One run, watched. It begins when its first event is asked for, and can be watched once.

    Leaving the loop asks the run to end; `async with`, or `await stream.aclose()`, also waits until
    it has. Read `run` after that.
    """

    def __init__(self, session: Callable[[Watch], Driven]) -> None:
        self._ready: list[LiveEvent] = []
        self._news = asyncio.Event()
        self._session = session(self._put)
        self._task: asyncio.Task[RunResult[T_co]] | None = None
        self._is_closed = False

    @property
    def run(self) -> Run:
        """How far the run has come."""
        return self._session.run

    @property
    def result(self) -> RunResult[T_co]:
        """What the run came to, once it has ended; of a run that failed, its error is raised."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise SurecallError("this run has no result: it was not watched to its end")
        return self._task.result()

    def __aiter__(self) -> AsyncIterator[LiveEvent]:
        return _EventIterator(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def batch(self) -> list[LiveEvent]:
        """Wait for news; return all there is. Nothing means that the run has ended well."""
        if self._is_closed:
            return []
        if self._task is None:
            self._task = asyncio.create_task(self._driven())
            self._task.add_done_callback(lambda _: self._news.set())
        while not self._ready and not self._task.done():
            self._news.clear()
            await self._news.wait()
        ready, self._ready = self._ready, []
        return ready or self._ended(self._task)

    async def _driven(self) -> RunResult[T_co]:
        await turn()
        return await self._session.drive()

    def leave(self) -> None:
        """Ask the run to end, without waiting for it."""
        is_first, self._is_closed = not self._is_closed, True
        if is_first and self._task is not None:
            # Once: a second request would interrupt what tools do to leave in good order.
            self._task.cancel()

    async def aclose(self) -> None:
        """End the run, if it is still going, and wait until it has let go of everything."""
        self.leave()
        if self._task is not None:
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.exception()  # looked at, so that asyncio does not warn about it

    def _put(self, event: LiveEvent) -> None:
        self._ready.append(event)
        self._news.set()

    def _ended(self, task: asyncio.Task[RunResult[Any]]) -> list[LiveEvent]:
        if not task.cancelled():
            task.result()
        elif not self._is_closed:
            raise SurecallError("the run was cancelled from inside")
        return []


class _EventIterator:
    """The loop over the events of a run. When it is left, it is forgotten, and the run ends."""

    def __init__(self, stream: RunStream) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._batch: deque[LiveEvent] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveEvent:
        if not self._batch:
            try:
                self._batch.extend(await self._stream.batch())
            except asyncio.CancelledError:
                await self._stream.aclose()
                raise
        if not self._batch:
            raise StopAsyncIteration
        return self._batch.popleft()

    def __del__(self) -> None:
        with suppress(RuntimeError):  # the event loop has ended before
            try:
                here = asyncio.get_running_loop() is self._loop
            except RuntimeError:
                here = False
            if here:
                self._stream.leave()
            else:
                self._loop.call_soon_threadsafe(self._stream.leave)


class BlockingRunStream(Generic[T_co]):
    """The same for code that blocks; the run itself goes on in the runner's own thread."""

    def __init__(self, stream: RunStream[T_co], thread: EventLoopThread) -> None:
        self._stream = stream
        self._thread = thread

    @property
    def run(self) -> Run:
        """How far the run has come."""
        return self._stream.run

    @property
    def result(self) -> RunResult[T_co]:
        """What the run came to, once it has ended; of a run that failed, its error is raised."""
        return self._stream.result

    def __iter__(self) -> Iterator[LiveEvent]:
        try:
            while batch := self._thread.call(self._stream.batch()):
                yield from batch
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the run, if it is still going, and wait until it has let go of everything."""
        with suppress(EventLoopClosed):  # then it has ended with everything else
            self._thread.call(self._stream.aclose())
