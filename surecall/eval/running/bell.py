"""A bell that wakes everybody who waits, as often as it rings."""

import asyncio
from contextlib import suppress


class Bell:
    """Wakes all waiting tasks, each time it rings."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake everybody who waits now."""
        rung, self._event = self._event, asyncio.Event()
        rung.set()

    async def heard(self, timeout_s: float | None) -> None:
        """Wait until it rings, or until the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
