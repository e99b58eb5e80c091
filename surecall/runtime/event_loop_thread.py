"""A server in the background: an event loop in a thread of its own, for as long as it is wanted."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any, TypeVar

T = TypeVar("T")


def in_background(
    start: Callable[[], Coroutine[Any, Any, T]], stop: Callable[[T], Coroutine[Any, Any, None]]
) -> ExitStack:
    """Run `start` on a loop of its own; closing what is returned runs `stop` and ends the loop."""
    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(loop.call_soon_threadsafe, loop.stop)
        started = _within(loop, start())
        stack.callback(lambda: _within(loop, stop(started)))
        return stack.pop_all()


def _within(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()
