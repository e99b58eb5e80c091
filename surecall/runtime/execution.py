"""Foreign code at work: called, waited for within a limit, and given up if it takes longer.

A limit binds whatever a tool does. A coroutine that takes no notice of its cancellation, and a
thread, which cannot be cancelled, are left running: nobody waits for them any more, what they
return is dropped, and `LeftRunning` knows of them until they end.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final

from surecall.runtime.thread_pool import Job, Threads

# How long a coroutine may take to leave in good order: one that took too long, and one whose run
# was cancelled.
GRACE_S: Final = 0.2
LEAVING_S: Final = 2.0
# What foreign code that is called, not awaited, may raise. An interrupt is the user's own.
FOREIGN: Final = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)


class Raised(Exception):
    """What foreign code raised, be it something that would end the event loop or the task."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


async def asked(limit_s: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call foreign code and await what it returns, if it must be; within a limit that binds.

    Raises `TimeoutError`, or `Raised`. If it is cancelled meanwhile, what the code says is dropped.
    """
    try:
        value = function(*arguments)
    except FOREIGN as error:
        raise Raised(error) from None
    if not inspect.isawaitable(value):
        return value
    task = asyncio.create_task(_typed(value))
    if not await _waited(task, limit_s):
        raise TimeoutError
    return _result(task)


async def _typed(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:  # these would end the event loop
        raise Raised(error) from None


def _looked_at(task: "asyncio.Task[Any]") -> None:
    """Keep asyncio from warning about what is raised after nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


async def _waited(
    task: "asyncio.Task[Any]", limit_s: float, over: "asyncio.Future[None] | None" = None
) -> bool:
    """Wait for a task; say whether it ended in time. One that did not is cancelled.

    If the waiting itself is cancelled, so is the task, and it has a moment to leave. A task may
    announce its end by `over`.
    """
    try:
        await (_ended(task, limit_s) if over is None else _timed(over, limit_s))
        if task.done():
            return True
        task.cancel()
        await _ended(task, GRACE_S)
    except asyncio.CancelledError:
        task.cancel()
        await _ended(task, min(limit_s, LEAVING_S))
        raise
    finally:
        if task.done():
            _looked_at(task)
        else:
            task.add_done_callback(_looked_at)
    return False


async def _ended(task: "asyncio.Task[Any]", limit_s: float) -> None:
    """Wait until a task has ended, or its time is up."""
    await asyncio.wait((task,), timeout=limit_s)


async def _timed(over: "asyncio.Future[None]", limit_s: float) -> None:
    """Wait for a future, or until its time is up."""
    timer = asyncio.get_running_loop().call_later(limit_s, _wake, over)
    try:
        await over
    finally:
        timer.cancel()


def _wake(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)


def _result(task: "asyncio.Task[Any]") -> Any:
    """Return what a task came to, or raise `Raised`."""
    try:
        return task.result()
    except Raised:
        raise
    except BaseException as error:  # noqa: BLE001  # of foreign code
        raise Raised(error) from None


class Execution:
    """A tool at work, in a task of its own or in a thread."""

    def __init__(self, work: Callable[[], Any], threads: Threads, *, blocking: bool) -> None:
        loop = asyncio.get_running_loop()
        self.is_blocking = blocking
        self._job: Job | None = None
        self._over: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._value(work, threads))

    async def _value(self, work: Callable[[], Any], threads: Threads) -> Any:
        try:
            if self.is_blocking:
                self._job = threads.start(work)
                value = await self._job.future
            else:
                value = work()
            return await value if inspect.isawaitable(value) else value
        except (SystemExit, KeyboardInterrupt) as error:  # these would end the event loop
            raise Raised(error) from None
        finally:
            _wake(self._over)  # one round of the loop earlier than the end of a task does it

    async def ended(self, limit_s: float) -> bool:
        """Wait for the tool; say whether it came to something in time, or to a value just after.

        If the run is cancelled meanwhile, what a tool comes to nevertheless counts: it happened.
        """
        try:
            return await _waited(self._task, limit_s, self._over) or self._has_value()
        except asyncio.CancelledError:
            if not self._task.done() or self._task.cancelled():
                raise
            return True

    def _has_value(self) -> bool:
        task = self._task
        return task.done() and not task.cancelled() and task.exception() is None

    def value(self) -> Any:
        """Return what the tool returned, or raise `Raised`."""
        return _result(self._task)

    @property
    def at_work(self) -> bool:
        """Whether the tool still runs, awaited or not."""
        if self._job is not None and not self._job.is_over:
            return True
        # With its event loop a task ends, though nobody tells it.
        return not self._task.done() and not self._task.get_loop().is_closed()


class LeftRunning:
    """The executions that nobody waits for any more, until they end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a runner may serve several event loops
        self._left: list[tuple[Hashable, Execution]] = []

    def __bool__(self) -> bool:
        """Whether there may be any; without one, nothing has to be looked up."""
        return bool(self._left)

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
