"""Sending a streamed answer while the loop is at work: news as it comes, a sign of life between."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from aiohttp import web

from surecall.core.streaming.display import Shown
from surecall.proxy.healing.live import Live
from surecall.proxy.serving.exchange import Settled
from surecall.values.events import Event, LlmRequestErrorEvent, LlmRequestStartEvent
from surecall.values.types import JSON

HEADERS: Final = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
WAITING: Final = b": waiting\n\n"
# A client that takes nothing for so long has gone.
LONGEST_WRITE_S: Final = 60.0


class News:
    """What there is to write: bytes that the loop produces, and the end of its work."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._ready: list[bytes] = []
        self._wakes = asyncio.Event()
        self._requests = 0

    def begun(self, head: JSON) -> None:
        """Take in that the upstream has begun to answer."""
        self._put(self._live.begin(head))

    def show(self, shown: Shown) -> None:
        """Take in what may be shown."""
        self._put(self._live.show(shown))

    def watch(self, event: Event) -> None:
        """Take in what happens in the loop."""
        if isinstance(event, LlmRequestErrorEvent):
            self._live.broke_off()
        elif isinstance(event, LlmRequestStartEvent):
            self._requests += 1
            if self._requests > 1:
                self._live.again()

    def _put(self, data: bytes) -> None:
        if data:
            self._ready.append(data)
            self._wakes.set()

    async def until(self, task: "asyncio.Task[Any]", pause_s: float) -> AsyncIterator[bytes]:
        """Wait for news until a task has ended; after each pause there is a sign of life."""
        task.add_done_callback(lambda _: self._wakes.set())
        while not task.done() or self._ready:
            if not self._ready:
                self._wakes.clear()
                try:
                    async with asyncio.timeout(pause_s):
                        await self._wakes.wait()
                except TimeoutError:
                    yield WAITING
            ready, self._ready = self._ready, []
            if ready:
                yield b"".join(ready)


class Outgoing:
    """A streamed response to one client; its head goes out with its first bytes."""

    def __init__(self, request: web.Request, headers: Callable[[], dict[str, str]]) -> None:
        self._request = request
        self._headers = headers
        self.response: web.StreamResponse | None = None

    async def write(self, data: bytes) -> None:
        """Send bytes; raise `ConnectionResetError` if the client has gone or does not read."""
        try:
            async with asyncio.timeout(LONGEST_WRITE_S):
                if self.response is None:
                    self.response = web.StreamResponse(headers=HEADERS | self._headers())
                    await self.response.prepare(self._request)
                await self.response.write(data)
        except TimeoutError:
            raise ConnectionResetError("the client does not read") from None


def summary(settled: Settled) -> bytes:
    """Say in a comment what headers say of a plain answer: they were sent before it was known."""
    fired = ",".join(dict.fromkeys(settled.fired))
    return f": surecall attempts={settled.attempts} fired={fired}\n\n".encode()
