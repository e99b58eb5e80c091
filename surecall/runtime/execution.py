"""Runs one tool function: in the event loop or a bounded thread pool, with a timeout."""

import asyncio
import concurrent.futures
import contextvars
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeAlias

from surecall.values.errors import ToolError

# Threads for blocking tools.
#
# The pools of the standard library wait for their threads when the interpreter exits, so a tool
# that never returns would keep the program alive. These threads are daemons, and end when idle.

IDLE_S = 5.0


ThreadOutcome: TypeAlias = tuple[Exception | None, Any]


class ThreadJob:
    """Blocking work in a thread. Its outcome is in `future`, and in `outcome` once it has ended.

    They differ if the future was cancelled, because a thread cannot be.
    """

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        self.future = future
        self.outcome: ThreadOutcome | None = None
        self._notify: Callable[[], None] | None = None

    def finish(self, outcome: ThreadOutcome) -> None:
        """Record the outcome of the work. Called in its thread."""
        self.outcome = outcome
        if self._notify is not None:
            self._notify()

    def add_end_callback(self, notify: Callable[[], None]) -> None:
        """Call a function at the end, in any thread; possibly twice if the work ends just now."""
        self._notify = notify
        if self.outcome is not None:
            notify()


class ToolThreadPool:
    """A thread pool that grows with the amount of concurrent blocking work, and shrinks again."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Forget all threads, such as those of the parent after a fork."""
        self._process = os.getpid()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    async def run(self, work: Callable[[], Any]) -> Any:
        """Run blocking work in a thread and wait for it, in the caller's context."""
        return await self.start(work).future

    def start(self, work: Callable[[], Any]) -> ThreadJob:
        """Start blocking work in a thread, in the caller's context."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(error: Exception | None, value: Any) -> None:
            if future.done():  # cancelled after a timeout
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def run() -> None:
            outcome = _run_work(context, work)
            job.finish(outcome)
            try:
                loop.call_soon_threadsafe(deliver, *outcome)
            except RuntimeError:
                return  # the event loop ended before the work did

        job = ThreadJob(future)
        self._submit(run)
        return job

    def _submit(self, job: Callable[[], None]) -> None:
        """Queue a job, and start a thread unless one is idle."""
        if self._process != os.getpid():  # a fork copies the pool's state, but not its threads
            self._reset()
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._run_jobs, name="surecall-tool", daemon=True).start()
        self._jobs.put(job)

    def _run_jobs(self) -> None:
        """Run jobs in a thread until there are none for a while."""
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except Empty:
                if self._idle.acquire(blocking=False):
                    return
                continue  # a job for this thread is about to arrive
            job()
            del job  # or the idle thread would keep the last result alive
            self._idle.release()


def _run_work(context: contextvars.Context, work: Callable[[], Any]) -> ThreadOutcome:
    """Run work in a context; return its error or its value."""
    try:
        return None, context.run(work)
    except StopIteration:  # a future rejects it
        return RuntimeError("the tool raised StopIteration"), None
    except Exception as error:  # noqa: BLE001  # raised in the event loop
        return error, None
    except asyncio.CancelledError:  # the task that waits for the thread was not cancelled
        return TimeoutError("the tool raised CancelledError"), None
    except BaseException as error:  # noqa: BLE001  # a tool must not end the program
        return RuntimeError(f"the tool raised {type(error).__name__}"), None


# Running user code (tools, policies, hooks) with a time limit.
#
# The limit always holds. A coroutine that ignores its cancellation, and a thread, which cannot be
# cancelled, are left running. `LeftRunningTools` keeps them and their outcomes, for when the same
# call is made again.

# How long a coroutine may take to clean up: after a timeout, and after its run was cancelled.
GRACE_S: Final = 0.2
LEAVING_S: Final = 2.0
# How many late outcomes a runner keeps. A call whose outcome was dropped has an unknown outcome.
MAX_OUTCOMES: Final = 64
# What user code may raise when it is called. KeyboardInterrupt is not caught.
USER_CODE_ERRORS: Final = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)


class UserCodeError(Exception):
    """Wraps an exception of user code, including those that would end the event loop or task."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


async def call_user_code(limit_s: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the user, and await its result, for at most `limit_s` seconds.

    Raises `TimeoutError`, or `UserCodeError` if the function failed. If this call is cancelled, the
    result is dropped.
    """
    try:
        value = function(*arguments)
    except USER_CODE_ERRORS as error:
        raise UserCodeError(error) from None
    if not inspect.isawaitable(value):
        return value
    task = asyncio.create_task(_await_user_code(value))
    if not await _wait_or_cancel(task, limit_s):
        raise TimeoutError
    return _task_result(task)


async def _await_user_code(work: Awaitable[Any]) -> Any:
    """Await user code; wrap exceptions that would end the event loop."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:  # these would end the event loop
        raise UserCodeError(error) from None


def _retrieve_exception(task: "asyncio.Task[Any]") -> None:
    """Retrieve the exception of a task, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


async def _wait_or_cancel(
    task: "asyncio.Task[Any]", limit_s: float, about_to_end: "asyncio.Future[None] | None" = None
) -> bool:
    """Wait for a task, and return whether it ended in time; otherwise cancel it.

    If the waiting itself is cancelled, the task is cancelled and has a moment to clean up.
    `about_to_end` is a future that is done when the task is about to end.
    """
    try:
        await (
            _wait_for_end(task, limit_s)
            if about_to_end is None
            else _wait_with_timer(about_to_end, limit_s)
        )
        if task.done():
            return True
        task.cancel()
        await _wait_for_end(task, GRACE_S)
    except asyncio.CancelledError:
        task.cancel()
        await _wait_for_end(task, min(limit_s, LEAVING_S))
        raise
    finally:
        if task.done():
            _retrieve_exception(task)
        else:
            task.add_done_callback(_retrieve_exception)
    return False


async def _wait_for_end(task: "asyncio.Task[Any]", limit_s: float) -> None:
    """Wait until a task has ended or the time is up."""
    await asyncio.wait((task,), timeout=limit_s)


async def _wait_with_timer(future: "asyncio.Future[None]", limit_s: float) -> None:
    """Wait until a future is done or the time is up."""
    timer = asyncio.get_running_loop().call_later(limit_s, _mark_done, future)
    try:
        await future
    finally:
        timer.cancel()


def _mark_done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _task_result(task: "asyncio.Task[Any]") -> Any:
    """Return the result of a task, or raise `UserCodeError`."""
    try:
        return task.result()
    except UserCodeError:
        raise
    except BaseException as error:  # noqa: BLE001  # of user code
        raise UserCodeError(error) from None


class Execution:
    """A running tool, in its own task or in a thread."""

    def __init__(self, work: Callable[[], Any], threads: ToolThreadPool, *, blocking: bool) -> None:
        loop = asyncio.get_running_loop()
        self.is_blocking = blocking
        self._job: ThreadJob | None = None
        self._was_cancelled = False
        self._end: concurrent.futures.Future[None] | None = None
        self._over: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._run_tool(work, threads))

    async def _run_tool(self, work: Callable[[], Any], threads: ToolThreadPool) -> Any:
        try:
            if self.is_blocking:
                self._job = threads.start(work)
                value = await self._job.future
            else:
                value = work()
            return await value if inspect.isawaitable(value) else value
        except (SystemExit, KeyboardInterrupt) as error:  # these would end the event loop
            raise UserCodeError(error) from None
        finally:
            _mark_done(self._over)  # one loop iteration earlier than a task reports its end

    async def wait_for_outcome(self, limit_s: float) -> bool:
        """Wait for the tool, and return whether its outcome is known, in time or just after.

        The outcome counts even if the run is cancelled while waiting, because it happened.
        """
        try:
            if await _wait_or_cancel(self._task, limit_s, self._over):
                return True
        except asyncio.CancelledError:
            self._was_cancelled = True
            if not self.has_outcome:
                raise
            return True
        self._was_cancelled = True
        return self.has_outcome

    def _task_has_outcome(self) -> bool:
        """Whether the task has a value, or an error not caused by its cancellation."""
        task = self._task
        if not task.done() or task.cancelled():
            return False
        error = task.exception()
        return error is None or not self._was_cancelled or isinstance(error, ToolError)

    @property
    def has_outcome(self) -> bool:
        """Whether the outcome of the tool is known, in time or late."""
        return self._task_has_outcome() or self._late_outcome() is not None

    def _late_outcome(self) -> ThreadOutcome | None:
        """Return the outcome of blocking work that ended after its task was cancelled."""
        outcome = None if self._job is None else self._job.outcome
        return None if outcome is None or inspect.isawaitable(outcome[1]) else outcome

    def value(self) -> Any:
        """Return the tool's return value, or raise `UserCodeError`."""
        late = self._late_outcome()
        if late is None or self._task_has_outcome():
            return _task_result(self._task)
        error, value = late
        if error is not None:
            raise UserCodeError(error)
        return value

    @property
    def is_running(self) -> bool:
        """Whether the tool still runs, awaited or not."""
        if self._job is not None and self._job.outcome is None:
            return True
        # A task also ends with its event loop, without being marked as done.
        return not self._task.done() and not self._task.get_loop().is_closed()

    def detach(self) -> None:
        """Let other event loops wait for the end. Must be called in its own event loop."""
        self._end = concurrent.futures.Future()
        if self._job is not None and self._job.outcome is None:
            self._job.add_end_callback(self._signal_end)
        else:
            self._task.add_done_callback(lambda _: self._signal_end())

    def _signal_end(self) -> None:
        """Wake the event loops that wait for the end."""
        with suppress(concurrent.futures.InvalidStateError):
            if self._end is not None:
                self._end.set_result(None)

    async def wait_until_done(self, limit_s: float) -> bool:
        """Wait, in any event loop, for a detached tool; return whether it has ended."""
        if self._end is not None and self.is_running:
            await asyncio.wait((asyncio.wrap_future(self._end),), timeout=limit_s)
        return not self.is_running


class _LeftExecution(NamedTuple):
    name: str
    key: Hashable
    execution: Execution


class LeftRunningTools:
    """Executions that are no longer awaited, and the outcomes of the newest ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a runner may serve several event loops
        self._entries: list[_LeftExecution] = []

    def __bool__(self) -> bool:
        """Whether there may be any, as a quick check."""
        return bool(self._entries)

    def add(self, name: str, key: Hashable, execution: Execution) -> None:
        """Record an execution under its name and the key of its effect."""
        execution.detach()
        with self._lock:
            self._entries.append(_LeftExecution(name, key, execution))

    def find(self, name: str) -> Execution | None:
        """Return an execution by its name, if it is running or its outcome is known."""
        return next(
            (entry.execution for entry in self._known_executions() if entry.name == name), None
        )

    def has_running(self, key: Hashable) -> bool:
        """Whether an execution with that effect is still running."""
        return any(
            entry.key == key and entry.execution.is_running for entry in self._known_executions()
        )

    def count(self, *, blocking: bool) -> int:
        """Return the number of executions still running, in threads or as coroutines."""
        executions = (entry.execution for entry in self._known_executions())
        return sum(one.is_running and one.is_blocking is blocking for one in executions)

    def _known_executions(self) -> list[_LeftExecution]:
        """Return the executions, after dropping those that ended without an outcome or long ago."""
        with self._lock:
            over = [entry for entry in self._entries if not entry.execution.is_running]
            with_outcome = [entry for entry in over if entry.execution.has_outcome]
            gone = {*map(id, over)}.difference(map(id, with_outcome[-MAX_OUTCOMES:]))
            if gone:
                self._entries = [entry for entry in self._entries if id(entry) not in gone]
            return self._entries
