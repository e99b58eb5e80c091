"""The base class of the package's HTTP servers.

    with server:          serves from its own thread
    async with server:    serves in the running event loop

`aiohttp` is imported when a server starts, so that importing this module is cheap.
"""

import asyncio
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, ClassVar, Self

from surecall.runtime.event_loop import EventLoopThread
from surecall.settings.connection import LOOPBACK
from surecall.values.types import JSON

if TYPE_CHECKING:
    from aiohttp import web

_MB = 1024 * 1024
# Content security policy of every page: no framing, no forms.
NO_FRAMES_POLICY = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class HttpServer(ABC):
    """Serves its routes until it is stopped; `GuardedListener` decides which requests it accepts.

    `timeouts` are `head_s` and `body_s` of `GuardedListener`.
    """

    max_request_bytes: ClassVar[int] = _MB
    options: ClassVar[JSON] = {}  # of aiohttp's AppRunner

    def __init__(self, host: str = LOOPBACK, port: int = 0, **timeouts: float) -> None:
        self.url = ""
        self._address = (host, port)
        self._timeouts = timeouts
        self._stopping = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            thread = EventLoopThread(closing_s=None)
            stack.callback(thread.close)
            thread.call(self.start())
            stack.callback(lambda: thread.call(self.stop()))
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._cleanup.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen in the running event loop; raise `OSError` if the port is in use."""
        from aiohttp import web  # noqa: PLC0415 - see the module's first lines

        from surecall.runtime.loopback_server import GuardedListener  # noqa: PLC0415 - the same

        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=self.max_request_bytes)
        self._add_routes(app)
        host, port = self._address
        door = GuardedListener(host, self._refusal, **self._timeouts)
        self._runner = await door.open(app, port, **self.options)
        self.url = door.url

    async def stop(self) -> None:
        """Stop listening and close the connections."""
        self._stopping.set()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _pause(self, seconds: float) -> None:
        """Wait until the time has passed or the server stops; always let other tasks run."""
        if not seconds:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    @abstractmethod
    def _add_routes(self, app: "web.Application") -> None:
        """Add the routes and middlewares of the application."""

    @abstractmethod
    def _refusal(self, status: int, message: str) -> "web.Response":
        """Return the response to a request that is not accepted."""


def page_headers(policy: str) -> dict[str, str]:
    """Return the headers of every page: no caching, no other origins, and this content policy."""
    return {
        "Cache-Control": "no-store",
        "Content-Security-Policy": f"default-src 'none'; {policy}",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
