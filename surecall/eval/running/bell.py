"""A bell wakes one of those who wait, each time it rings; a gong wakes all of them."""

import asyncio
from collections import deque
from contextlib import suppress


class Bell:
    """Wakes who has waited longest, each time it rings.

    Whoever wakes and sees that there may be something for another one rings again. So nobody is
    woken in vain, however many wait.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def ring(self) -> None:
        """Wake one of those who wait now."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its time was not up, either
                turn.set_result(None)
                return

    async def heard(self, timeout_s: float | None) -> None:
        """Wait until it rings, or until the time is up."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await turn
        except asyncio.CancelledError:
            self.ring()  # it may have rung for this one, who does not come
            raise


class Gong:
    """Wakes everybody who waits, each time it sounds."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def sound(self) -> None:
        """Wake everybody who waits now."""
        sounded, self._event = self._event, asyncio.Event()
        sounded.set()

    async def heard(self, timeout_s: float | None) -> None:
        """Wait until it sounds, or until the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
