"""Streams of a run: iterators over its events, and the text as it arrives.

    async for event in runner.stream("…"):      for event in runner.stream_sync("…"):

The run does not wait for the reader. Leaving the loop, or being cancelled in it, cancels the run
immediately and closes its connection. The run so far is in `run`, and `resume` continues it. A run
that fails raises its error after the last event.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, Protocol, Self, TypeAlias

from surecall.core.outcome import RunResult, T_co
from surecall.core.state import Run
from surecall.core.streaming import CallAnnounced, TextWithdrawn
from surecall.runtime.event_loop import EventLoopClosed, EventLoopThread, wait_for_slot
from surecall.values.errors import SurecallError
from surecall.values.events import Event
from surecall.wire.assembler import ReasoningDelta, TextDelta

LiveEvent: TypeAlias = TextDelta | ReasoningDelta | TextWithdrawn | CallAnnounced | Event
LiveObserver: TypeAlias = Callable[[LiveEvent], None]


class Drivable(Protocol):
    """A session, or an object that drives one."""

    @property
    def run(self) -> Run:
        """The run so far."""

    async def drive(self) -> RunResult[Any]:
        """Drive the run to its end."""


class RunStream(Generic[T_co]):
    """A stream of one run. The run starts with the first iteration; iterate once.

    Leaving the loop cancels the run; `async with` or `await stream.aclose()` also waits until it
    has ended. Read `run` after that.
    """

    def __init__(self, session: Callable[[LiveObserver], Drivable]) -> None:
        self._ready: list[LiveEvent] = []
        self._has_news = asyncio.Event()
        self._session = session(self._publish)
        self._task: asyncio.Task[RunResult[T_co]] | None = None
        self._is_closed = False

    @property
    def run(self) -> Run:
        """The run so far."""
        return self._session.run

    @property
    def result(self) -> RunResult[T_co]:
        """The result of the run once it has ended; raises the error of a failed run."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise SurecallError("this run has no result: iterate over the stream to its end")
        return self._task.result()

    def __aiter__(self) -> AsyncIterator[LiveEvent]:
        return _EventIterator(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def next_batch(self) -> list[LiveEvent]:
        """Wait for events, and return all there are; none if the run has ended successfully."""
        if self._is_closed:
            return []
        if self._task is None:
            self._task = asyncio.create_task(self._drive())
            self._task.add_done_callback(lambda _: self._has_news.set())
        while not self._ready and not self._task.done():
            self._has_news.clear()
            await self._has_news.wait()
        ready, self._ready = self._ready, []
        return ready or self._check_end(self._task)

    async def _drive(self) -> RunResult[T_co]:
        """Wait for a slot, then drive the run."""
        await wait_for_slot()
        return await self._session.drive()

    def cancel(self) -> None:
        """Cancel the run, without waiting for its end."""
        is_first, self._is_closed = not self._is_closed, True
        if is_first and self._task is not None:
            # Only once: a second cancellation would interrupt the cleanup of tools.
            self._task.cancel()

    async def aclose(self) -> None:
        """Cancel the run if it is still running, and wait until it has ended."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.exception()  # retrieved, so that asyncio does not warn about it

    def _publish(self, event: LiveEvent) -> None:
        """Add an event for the reader."""
        self._ready.append(event)
        self._has_news.set()

    def _check_end(self, task: asyncio.Task[RunResult[Any]]) -> list[LiveEvent]:
        """Raise if the run failed; return no further events if it ended successfully."""
        if not task.cancelled():
            task.result()
        elif not self._is_closed:
            raise SurecallError("a tool or callback cancelled the run")
        return []


class _EventIterator:
    """An iterator over the events of a run. The run is cancelled when it is collected."""

    def __init__(self, stream: RunStream) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._batch: deque[LiveEvent] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveEvent:
        if not self._batch:
            try:
                self._batch.extend(await self._stream.next_batch())
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
                self._stream.cancel()
            else:
                self._loop.call_soon_threadsafe(self._stream.cancel)


class BlockingRunStream(Generic[T_co]):
    """A stream of one run for blocking code; the run continues in the runner's thread."""

    def __init__(self, stream: RunStream[T_co], thread: EventLoopThread) -> None:
        self._stream = stream
        self._thread = thread

    @property
    def run(self) -> Run:
        """The run so far."""
        return self._stream.run

    @property
    def result(self) -> RunResult[T_co]:
        """The result of the run once it has ended; raises the error of a failed run."""
        return self._stream.result

    def __iter__(self) -> Iterator[LiveEvent]:
        try:
            while batch := self._thread.call(self._stream.next_batch()):
                yield from batch
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the run if it is still running, and wait until it has ended."""
        with suppress(EventLoopClosed):  # the run has ended with the loop
            self._thread.call(self._stream.aclose())
