"""The deadline of a run: one timer for all of it, whatever waits within it.

It interrupts what is awaited `within` it, as `asyncio.timeout` would, and nothing else: tools have
limits of their own, and leave in good order.
"""

import asyncio
import time
from collections.abc import Awaitable
from typing import Self, TypeVar

T = TypeVar("T")


class DeadlinePassed(Exception):
    """The time of a run is up."""


class Deadline:
    """When a run must be over: from its making, and until the block that it opens is left."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self._waiting: asyncio.Task[object] | None = None
        self._is_over = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    @property
    def left_s(self) -> float:
        """How many seconds are left; none or less if it is over."""
        return self._at - time.monotonic()

    async def within(self, work: Awaitable[T]) -> T:
        """Wait for something; raise `DeadlinePassed` if the time ends meanwhile."""
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        self._waiting = task
        try:
            return await work
        except asyncio.CancelledError:
            # Whoever else wants the task to end has asked for it, too.
            if task is not None and self._is_over and task.uncancel() <= before:
                raise DeadlinePassed from None
            raise
        finally:
            self._waiting = None

    def _end(self) -> None:
        self._is_over = True
        if self._waiting is not None:
            self._waiting.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
