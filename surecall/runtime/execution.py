"""One execution of a tool: begun, waited for within its limit, and given up if it takes longer.

A limit binds whatever the tool does. A coroutine that takes no notice of its cancellation, and a
thread, which cannot be cancelled, are left running: nobody waits for them any more, what they
return is dropped, and `LeftRunning` knows of them until they end.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final

from surecall.runtime.thread_pool import Job, Threads

# How long a cancelled coroutine may take to leave in good order.
GRACE_S: Final = 0.2


class Raised(Exception):
    """What foreign code raised, if that would end the event loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


async def ended_in_time(work: "asyncio.Future[Any]", limit_s: float) -> bool:
    """Wait for work; if it takes longer than its limit, cancel it and wait no more.

    If the waiting itself is cancelled, so is the work, which may then use the rest of its limit to
    end in good order. What it comes to by then counts.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    try:
        await asyncio.wait((work,), timeout=limit_s)
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait((work,), timeout=max(0.0, until - loop.time()))
        if not work.done() or work.cancelled():
            raise
        return True
    if work.done():
        return True
    work.cancel()
    await asyncio.wait((work,), timeout=GRACE_S)
    return False


async def within(limit_s: float, work: Awaitable[Any]) -> Any:
    """Await foreign work within a limit that binds it; raise `TimeoutError` or `Raised`."""
    task = asyncio.ensure_future(_typed(work))
    task.add_done_callback(_looked_at)
    if await ended_in_time(task, limit_s):
        return task.result()
    raise TimeoutError


async def _typed(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:  # these would end the event loop
        raise Raised(error) from None


class Execution:
    """A tool at work, in a task of its own or in a thread."""

    def __init__(self, work: Callable[[], Any], threads: Threads, *, blocking: bool) -> None:
        self.is_blocking = blocking
        self._job: Job | None = None
        self._task = asyncio.create_task(_typed(self._value(work, threads)))
        self._task.add_done_callback(_looked_at)

    async def _value(self, work: Callable[[], Any], threads: Threads) -> Any:
        if self.is_blocking:
            self._job = threads.start(work)
            value = await self._job.future
        else:
            value = work()
        return await value if inspect.isawaitable(value) else value

    async def ended_in_time(self, limit_s: float) -> bool:
        """Wait for the tool, for as long as it may take."""
        return await ended_in_time(self._task, limit_s)

    def value(self) -> Any:
        """Return what the tool returned, or raise what it raised."""
        try:
            return self._task.result()
        except Raised as raised:
            raise raised.error from None

    @property
    def at_work(self) -> bool:
        """Whether the tool still runs, awaited or not."""
        return not self._task.done() or (self._job is not None and not self._job.is_over)


class LeftRunning:
    """The executions that nobody waits for any more, until they end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a runner may serve several event loops
        self._left: list[tuple[Hashable, Execution]] = []

    def add(self, key: Hashable, execution: Execution) -> None:
        """Keep an execution in mind, under the call that it is for."""
        with self._lock:
            self._left.append((key, execution))

    def has(self, key: Hashable) -> bool:
        """Whether an execution of that call is still at work."""
        return any(key == other for other, _ in self._at_work())

    def count(self, *, blocking: bool) -> int:
        """Return how many are still at work, in threads or as coroutines."""
        return sum(execution.is_blocking is blocking for _, execution in self._at_work())

    def _at_work(self) -> list[tuple[Hashable, Execution]]:
        with self._lock:
            self._left = [pair for pair in self._left if pair[1].at_work]
            return self._left


def _looked_at(task: "asyncio.Task[Any]") -> None:
    """Keep asyncio from warning about what a tool raises after nobody waits for it any more."""
    if not task.cancelled():
        task.exception()
