"""An event loop in a thread of its own: for callers that block, and for servers in the background.

    EventLoopThread(around).call(coroutine)     run a coroutine there and wait for its result
    EventLoopThread(around).submit(coroutine)   the same, without waiting
    in_background(start, stop)                  keep a server running there until it is closed

This works inside a running event loop and in notebooks, where a second loop in the same thread is
forbidden, and it lets connections outlive a single call.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext, suppress
from typing import Any, Generic, TypeVar

from surecall.values.errors import ConfigError

T = TypeVar("T")
CLOSING_S = 2.0


class EventLoopClosed(ConfigError):
    """The event loop has ended; it takes no more work."""


class _Gate:
    """Whether new work is taken. It closes before the loop ends, so that no work is lost."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_closed = False

    def close(self) -> None:
        with self.lock:
            self.is_closed = True


class EventLoopThread:
    """Runs coroutines on its own loop, inside `around`, until it is closed or forgotten.

    Closing waits `closing_s` at most for what is still at work; None waits for as long as it takes.
    """

    def __init__(
        self,
        around: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        closing_s: float | None = CLOSING_S,
    ) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._gate = _Gate()
        stop = asyncio.Event()
        opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=_serve,
            args=(self._loop, around, stop, opened, self._gate),
            name="surecall-event-loop",
            daemon=True,
        )
        self._thread.start()
        opened.result()
        # Runs when the interpreter ends, at the latest, so that connections are closed properly.
        self._finalizer = weakref.finalize(
            self, _close, self._loop, self._thread, stop, self._gate, closing_s
        )

    @property
    def alive(self) -> bool:
        """Whether it still takes work: not after a fork, or after a tool that ended its thread."""
        return self._process == os.getpid() and self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it. An interrupt here cancels it there."""
        if threading.current_thread() is self._thread:
            work.close()
            raise ConfigError("run_sync would wait for itself here: await run instead")
        submission = _Submission(work)
        try:
            return self._submitted(submission).result()
        except BaseException:
            # An interrupt may strike at any point, even before there is a future to cancel.
            with suppress(RuntimeError):  # the loop has ended, and everything in it
                self._loop.call_soon_threadsafe(submission.drop)
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine, and do not wait for it. Cancelling the future cancels it there."""
        return self._submitted(_Submission(work))

    def _submitted(self, submission: "_Submission[T]") -> "Future[T]":
        with self._gate.lock:
            if self._gate.is_closed:
                submission.give_up()
                raise EventLoopClosed("the runner was closed in the meantime")
            return asyncio.run_coroutine_threadsafe(submission.run(), self._loop)

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._finalizer()


class _Submission(Generic[T]):
    """A coroutine on its way to the loop; it can be cancelled before it has arrived."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_dropped = False

    def give_up(self) -> None:
        """Close a coroutine that was never started."""
        self._work.close()

    async def run(self) -> T:
        """Do the work, unless it was cancelled on the way."""
        self._task = asyncio.current_task()
        if self._is_dropped:
            self.give_up()
            raise asyncio.CancelledError
        return await self._work

    def drop(self) -> None:
        """Cancel the work; called in the loop."""
        self._is_dropped = True
        if self._task is not None:
            self._task.cancel()


def _serve(
    loop: asyncio.AbstractEventLoop,
    around: Callable[[], AbstractAsyncContextManager[None]],
    stop: asyncio.Event,
    opened: "Future[None]",
    gate: _Gate,
) -> None:
    async def serve() -> None:
        async with around():
            opened.set_result(None)
            await stop.wait()

    try:
        loop.run_until_complete(serve())
    except Exception as error:  # noqa: BLE001  # told to the caller who starts the thread
        if not opened.done():
            opened.set_exception(error)
    finally:
        gate.close()
        loop.run_until_complete(asyncio.sleep(0))  # the last submission becomes a task
        while tasks := asyncio.all_tasks(loop):
            loop.run_until_complete(_wind_up(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _wind_up(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel the tasks that still run, and let them close what they hold."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _close(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    stop: asyncio.Event,
    gate: _Gate,
    closing_s: float | None,
) -> None:
    gate.close()
    if not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)
    if thread is not threading.current_thread():
        thread.join(closing_s)


def in_background(
    start: Callable[[], Coroutine[Any, Any, T]], stop: Callable[[T], Coroutine[Any, Any, None]]
) -> ExitStack:
    """Run `start` in a thread of its own; closing the returned stack runs `stop` and ends it."""
    with ExitStack() as stack:
        thread = EventLoopThread(closing_s=None)
        stack.callback(thread.close)
        started = thread.call(start())
        stack.callback(lambda: thread.call(stop(started)))
        return stack.pop_all()
