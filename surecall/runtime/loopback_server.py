"""Listens for HTTP requests, and rejects those from other sites and those that take too long.

A page of another site can make a browser send requests to this machine: through a host name that
resolves to loopback (DNS rebinding, checked by `Host`), or from a script (`Origin`,
`Sec-Fetch-Site`). Both are rejected, and no response allows another origin to read it. A connection
is closed if its head takes longer than `head_s`, or its body longer than `body_s`, however slowly
bytes keep arriving.

Compressed bodies are rejected, because they can expand a thousandfold. Unreadable requests are not
logged, because the error quotes headers, which may hold a key.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from aiohttp import HttpVersion10, web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler

from surecall.settings.connection import is_ip_address, is_loopback, split_host

HEAD_S: Final = 10.0
BODY_S: Final = 60.0
MAX_HEADERS: Final = 100
MAX_HEAD_BYTES: Final = 64 * 1024
_FORBIDDEN: Final = 403
_TIMEOUT: Final = 408
_BAD_REQUEST: Final = 400
_UNSUPPORTED_MEDIA_TYPE: Final = 415
_LARGE_HEAD: Final = 431
_NOT_IMPLEMENTED: Final = 501
_NAVIGATION: Final = ("GET", "navigate", "document")
_CLIENT_ERRORS: Final = (HttpProcessingError, ConnectionError)
_LOG: Final = logging.getLogger("surecall.server")

Refuse = Callable[[int, str], web.Response]


def _is_about_server(record: logging.LogRecord) -> bool:
    """Whether a log record is about the server, not about an invalid or disconnected client."""
    return not (record.exc_info and isinstance(record.exc_info[1], _CLIENT_ERRORS))


_LOG.addFilter(_is_about_server)


class GuardedListener:
    """Listens on an address, and accepts only requests intended for this server.

    `refuse` builds the error response in the server's format.
    """

    def __init__(
        self, host: str, refuse: Refuse, *, head_s: float = HEAD_S, body_s: float = BODY_S
    ) -> None:
        self.host = host
        self.port = 0
        self._refuse = refuse
        self._head_s = head_s
        self._body_s = body_s

    @property
    def url(self) -> str:
        """The URL of the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def open(self, app: web.Application, port: int, **options: Any) -> web.AppRunner:
        """Listen in the running event loop, until the returned runner's `cleanup`."""
        app.middlewares.insert(0, self._check_request)
        # aiohttp starts the keep-alive timer with the connection, so it also limits the first head.
        options |= {"keepalive_timeout": self._head_s, "auto_decompress": False, "logger": _LOG}
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, **options)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self.host, self.port = runner.addresses[0][:2]
        return runner

    @web.middleware
    async def _check_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request that is not intended for this server or too slow; handle all others."""
        if not self._is_same_origin(request):
            return self._refuse(_FORBIDDEN, "this server accepts only requests from this machine")
        if (problem := _request_problem(request)) is not None:
            return self._refuse_and_close(*problem)
        try:
            async with asyncio.timeout(self._body_s):
                await request.read()
        except TimeoutError:
            return self._refuse_and_close(_TIMEOUT, "the request took too long to arrive")
        except web.HTTPException as refused:
            return self._refuse_and_close(refused.status, refused.reason)
        except web.RequestPayloadError as error:
            return self._refuse_and_close(_BAD_REQUEST, f"the request body cannot be read: {error}")
        return await handler(request)

    def _refuse_and_close(self, status: int, message: str) -> web.Response:
        """Refuse a request and close its connection, because its body was not read."""
        response = self._refuse(status, message)
        response.force_close()
        return response

    def _is_same_origin(self, request: web.Request) -> bool:
        own, headers = f"http://{request.host}", request.headers
        # Browsers always send Host, so a request without it is not from a page.
        if "Host" in headers and not self._is_own_host(request.host):
            return False
        if any(origin != own for origin in headers.getall("Origin", ())):
            return False
        # Links in other pages may lead here.
        way = (request.method, headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest"))
        return way == _NAVIGATION or headers.get("Sec-Fetch-Site", "none") in {
            "none",
            "same-origin",
        }

    def _is_own_host(self, host: str) -> bool:
        name, port = split_host(host)
        if is_loopback(self.host):
            return port == self.port and (is_loopback(name) or name == self.host)
        # A server on the network accepts an IP address, or a name that cannot be registered in DNS.
        return name == self.host or is_ip_address(name) or (bool(name) and "." not in name)


def _request_problem(request: web.Request) -> tuple[int, str] | None:
    """Return why a request is refused, as a status and a message, or None."""
    headers = request.headers
    if request.version < HttpVersion10:
        return _BAD_REQUEST, "the request must use HTTP/1.0 or HTTP/1.1"
    size = sum(len(name) + len(value) for name, value in request.raw_headers)
    if len(request.raw_headers) > MAX_HEADERS or size > MAX_HEAD_BYTES:
        return _LARGE_HEAD, "the request headers are too large"
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        return _UNSUPPORTED_MEDIA_TYPE, "the request body must not be compressed"
    if headers.get("Transfer-Encoding", "chunked").lower() != "chunked":
        return _NOT_IMPLEMENTED, "the only supported Transfer-Encoding is chunked"
    return None
