"""An event loop in its own thread for blocking callers, and fair scheduling in any event loop.

    EventLoopThread(lifespan).call(coroutine)     run a coroutine there and wait for its result
    EventLoopThread(lifespan).submit(coroutine)   the same, without waiting

The thread works inside a running event loop and in notebooks, where a second loop in the same
thread is forbidden, and keeps connections open between calls.
"""

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, Generic, TypeVar

from surecall.values.errors import ConfigError

T = TypeVar("T")
CLOSING_S = 2.0


class EventLoopClosed(ConfigError):
    """The event loop has ended and accepts no more work."""


class _Gate:
    """Whether new work is accepted. It closes before the loop ends, so that no work is lost."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_closed = False

    def close(self) -> None:
        with self.lock:
            self.is_closed = True


class EventLoopThread:
    """Runs coroutines in its own loop, inside `lifespan`, until it is closed or collected.

    Closing waits at most `closing_s` for running work; None waits without limit.
    """

    def __init__(
        self,
        lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        closing_s: float | None = CLOSING_S,
    ) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._gate = _Gate()
        stop = asyncio.Event()
        opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=_run_loop,
            args=(self._loop, lifespan, stop, opened, self._gate),
            name="surecall-event-loop",
            daemon=True,
        )
        self._thread.start()
        opened.result()
        # Also runs when the interpreter exits, so that connections are closed properly.
        self._finalizer = weakref.finalize(
            self, _close_loop, self._loop, self._thread, stop, self._gate, closing_s
        )

    @property
    def is_alive(self) -> bool:
        """Whether it accepts work: not after a fork, or after a tool that ended its thread."""
        return self._process == os.getpid() and self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it. Interrupting the caller cancels the coroutine."""
        if threading.current_thread() is self._thread:
            work.close()
            raise ConfigError(
                "run_sync would deadlock inside its own event loop: await run instead"
            )
        submission = _Submission(work)
        try:
            return self._schedule(submission).result()
        except BaseException:
            # The interrupt may arrive before there is a future to cancel.
            with suppress(RuntimeError):  # the loop has ended, and with it the work
                self._loop.call_soon_threadsafe(submission.cancel)
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine without waiting for it. Cancelling the future cancels the coroutine."""
        return self._schedule(_Submission(work))

    def _schedule(self, submission: "_Submission[T]") -> "Future[T]":
        """Start a submission in the loop; raise `EventLoopClosed` if it accepts no more work."""
        with self._gate.lock:
            if self._gate.is_closed:
                submission.discard()
                raise EventLoopClosed("the runner was closed")
            return asyncio.run_coroutine_threadsafe(submission.run(), self._loop)

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._finalizer()


class _Submission(Generic[T]):
    """A coroutine submitted to the loop; it can be cancelled before it has started."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    def discard(self) -> None:
        """Close a coroutine that was never started."""
        self._work.close()

    async def run(self) -> T:
        """Run the coroutine, unless it was cancelled before it started."""
        self._task = asyncio.current_task()
        if self._is_cancelled:
            self.discard()
            raise asyncio.CancelledError
        return await self._work

    def cancel(self) -> None:
        """Cancel the coroutine. Must be called in the loop."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()


def _run_loop(
    loop: asyncio.AbstractEventLoop,
    lifespan: Callable[[], AbstractAsyncContextManager[None]],
    stop: asyncio.Event,
    opened: "Future[None]",
    gate: _Gate,
) -> None:
    """Run a loop inside `lifespan` until it is stopped, then cancel what remains."""

    async def serve() -> None:
        async with lifespan():
            opened.set_result(None)
            await stop.wait()

    try:
        loop.run_until_complete(serve())
    except Exception as error:  # noqa: BLE001  # raised in the thread that starts this one
        if not opened.done():
            opened.set_exception(error)
    finally:
        gate.close()
        loop.run_until_complete(asyncio.sleep(0))  # the last submission becomes a task
        while tasks := asyncio.all_tasks(loop):
            loop.run_until_complete(_cancel_tasks(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _cancel_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel running tasks and wait until they have cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _close_loop(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    stop: asyncio.Event,
    gate: _Gate,
    closing_s: float | None,
) -> None:
    """Stop a loop, and wait for its thread."""
    gate.close()
    if not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)
    if thread is not threading.current_thread():
        thread.join(closing_s)


# Fair scheduling: resumes at most eight ready tasks per event-loop iteration.
#
# An event loop runs every ready task before it polls for I/O. A thousand runs that start together,
# or a hundred answers that arrive together, would block it for long. So a task waits for a slot
# before it does a longer piece of work. A slot is usually free, and the task continues immediately.

# Each of them works for a fraction of a millisecond.
TASKS_PER_ITERATION = 8


class _IterationSlots:
    """The slots of one event loop, refilled at each of its iterations while tasks use them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._free = TASKS_PER_ITERATION
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_counting = False

    def acquire(self) -> "asyncio.Future[None] | None":
        """Take a slot of this iteration, or return a future to wait for."""
        if not self._is_counting:
            self._is_counting = True
            self.loop.call_soon(self._start_iteration)
        if self._free and not self._waiting:
            self._free -= 1
            return None
        future = self.loop.create_future()
        self._waiting.append(future)
        return future

    def _start_iteration(self) -> None:
        """Refill the slots, and give them to the tasks that wait longest."""
        self._free = TASKS_PER_ITERATION
        while self._waiting and self._free:
            future = self._waiting.popleft()
            if not future.done():  # else it was cancelled
                future.set_result(None)
                self._free -= 1
        self._is_counting = self._free < TASKS_PER_ITERATION
        if self._is_counting:
            self.loop.call_soon(self._start_iteration)


class _ThreadSlots(threading.local):
    """The slots of the event loop that runs in this thread."""

    slots: _IterationSlots | None = None


_THREAD_SLOTS = _ThreadSlots()


async def wait_for_slot() -> None:
    """Wait for a slot to work in; first come, first served."""
    loop = asyncio.get_running_loop()
    rounds = _THREAD_SLOTS.slots
    if rounds is None or rounds.loop is not loop:
        rounds = _THREAD_SLOTS.slots = _IterationSlots(loop)
    if (future := rounds.acquire()) is not None:
        await future
