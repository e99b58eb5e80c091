"""A portal to asynchronous code for callers that block: one event loop in a thread of its own.

It serves inside a running event loop and in notebooks, where a second loop in the same thread is
forbidden, and it lets connections outlive a single call.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, TypeVar

from surecall.values.errors import ConfigError

T = TypeVar("T")
CLOSING_S = 2.0


class PortalClosed(ConfigError):
    """The portal has been closed; nothing more can be handed in."""


class _Door:
    """Whether work may still be handed in. Closed before the loop ends, so that none is lost."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_closed = False

    def close(self) -> None:
        with self.lock:
            self.is_closed = True


class Portal:
    """Runs coroutines on its own loop, inside `around`, until it is closed or forgotten."""

    def __init__(self, around: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._door = _Door()
        stop = asyncio.Event()
        opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=_serve,
            args=(self._loop, around, stop, opened, self._door),
            name="surecall-portal",
            daemon=True,
        )
        self._thread.start()
        opened.result()
        # Runs at the latest when the interpreter ends, so that connections are closed in order.
        self._finalizer = weakref.finalize(self, _close, self._loop, self._thread, stop, self._door)

    @property
    def alive(self) -> bool:
        """Whether it can still serve: a fork, or a tool that ended its thread, leaves it dead."""
        return self._process == os.getpid() and self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it. An interrupt here cancels it there."""
        if threading.current_thread() is self._thread:
            work.close()
            raise ConfigError("run_sync would wait for itself here: await run instead")
        errand = _Errand(work)
        try:
            return self._submitted(errand).result()
        except BaseException:
            # An interrupt may strike at any point, even before there is a future to cancel.
            with suppress(RuntimeError):  # the loop has ended, and everything in it
                self._loop.call_soon_threadsafe(errand.drop)
            raise

    def _submitted(self, errand: "_Errand[T]") -> "Future[T]":
        with self._door.lock:
            if self._door.is_closed:
                errand.give_up()
                raise PortalClosed("the runner was closed in the meantime")
            return asyncio.run_coroutine_threadsafe(errand.run(), self._loop)

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._finalizer()


class _Errand(Generic[T]):
    """A coroutine on its way to the loop, which can be called back before it has arrived."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_dropped = False

    def give_up(self) -> None:
        """Throw the work away before it has begun."""
        self._work.close()

    async def run(self) -> T:
        """Do the work, unless nobody wants it any more."""
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
    door: _Door,
) -> None:
    async def serve() -> None:
        async with around():
            opened.set_result(None)
            await stop.wait()

    try:
        loop.run_until_complete(serve())
    except Exception as error:  # noqa: BLE001  # told to whoever opened the portal
        if not opened.done():
            opened.set_exception(error)
    finally:
        door.close()
        loop.run_until_complete(asyncio.sleep(0))  # what was handed in last becomes a task
        while tasks := asyncio.all_tasks(loop):
            loop.run_until_complete(_wind_up(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _wind_up(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel what is still at work, and let it close what it holds."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _close(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, stop: asyncio.Event, door: _Door
) -> None:
    door.close()
    if not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)
    if thread is not threading.current_thread():
        thread.join(CLOSING_S)
