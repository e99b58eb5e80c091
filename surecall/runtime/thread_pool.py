"""Threads for blocking tools: kept warm, and never in the way of the program's end.

The pools of the standard library wait for their threads when the interpreter exits; a tool that
never returns would keep the program alive. These threads are daemons. An idle one ends by itself.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

IDLE_S = 5.0


class Job:
    """Blocking work in a thread: `future` has what it comes to, `is_over` says that it has ended.

    They differ once nobody waits for the future any more: a thread cannot be cancelled.
    """

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        self.future = future
        self.is_over = False


class Threads:
    """A pool that grows with the work that blocks at the same time, and shrinks again."""

    def __init__(self) -> None:
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    async def run(self, work: Callable[[], Any]) -> Any:
        """Run blocking work in a thread and wait for it, in the caller's context."""
        return await self.start(work).future

    def start(self, work: Callable[[], Any]) -> Job:
        """Start blocking work in a thread, in the caller's context."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(error: Exception | None, value: Any) -> None:
            if future.done():  # no longer awaited: it took too long
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def run() -> None:
            outcome = _outcome(context, work)
            job.is_over = True
            try:
                loop.call_soon_threadsafe(deliver, *outcome)
            except RuntimeError:
                return  # the event loop ended before the work did

        job = Job(future)
        self._submit(run)
        return job

    def _submit(self, job: Callable[[], None]) -> None:
        if self._process != os.getpid():  # a fork has the pool's books, but not its threads
            self._start_anew()
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._serve, name="surecall-tool", daemon=True).start()
        self._jobs.put(job)

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except Empty:
                if self._idle.acquire(blocking=False):
                    return
                continue  # a job for this thread is on its way
            job()
            del job  # or the last result would live as long as the thread idles
            self._idle.release()


def _outcome(context: contextvars.Context, work: Callable[[], Any]) -> tuple[Exception | None, Any]:
    try:
        return None, context.run(work)
    except StopIteration:  # a future cannot carry it
        return RuntimeError("the tool raised StopIteration"), None
    except Exception as error:  # noqa: BLE001  # carried over to the event loop
        return error, None
    except BaseException as error:  # noqa: BLE001  # a tool must not end the program
        return RuntimeError(f"the tool raised {type(error).__name__}"), None
