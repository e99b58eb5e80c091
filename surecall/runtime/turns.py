"""Taking turns: of all that became ready together, a few go on in each round of the event loop.

An event loop runs everything that is ready before it looks at anything else. A thousand runs that
start together, or a hundred answers that arrive together, would be one long block. So whoever is
about to work for a while asks for its turn. Alone, it goes on immediately, and nothing is delayed.
"""

import asyncio
import threading
from collections import deque

# Each of them works for a part of a millisecond.
AT_ONCE = 8


class _Rounds:
    """The rounds of one event loop, as far as someone works in them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._left = AT_ONCE
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_counting = False

    def enter(self) -> "asyncio.Future[None] | None":
        """Take a turn of this round, or return what to wait for."""
        if not self._is_counting:
            self._is_counting = True
            self.loop.call_soon(self._next)
        if self._left and not self._waiting:
            self._left -= 1
            return None
        future = self.loop.create_future()
        self._waiting.append(future)
        return future

    def _next(self) -> None:
        self._left = AT_ONCE
        while self._waiting and self._left:
            future = self._waiting.popleft()
            if not future.done():  # else it was cancelled
                future.set_result(None)
                self._left -= 1
        self._is_counting = self._left < AT_ONCE
        if self._is_counting:
            self.loop.call_soon(self._next)


class _Here(threading.local):
    """The rounds of the event loop that runs in this thread."""

    rounds: _Rounds | None = None


_HERE = _Here()


async def turn() -> None:
    """Wait for a turn; first come, first served."""
    loop = asyncio.get_running_loop()
    rounds = _HERE.rounds
    if rounds is None or rounds.loop is not loop:
        rounds = _HERE.rounds = _Rounds(loop)
    if (future := rounds.enter()) is not None:
        await future
