"""The door of every server here: who may come in, and how long a request may take to arrive.

A page of another site can lead a browser to this machine: by a name of its own that resolves to
loopback (`Host`), or from a script (`Origin`, `Sec-Fetch-Site`). Neither is let in, and no answer
allows another origin to read it. A connection on which no complete head has come after `head_s`
is closed, however slowly its bytes drip in; so is one whose body takes longer than `body_s`.

A body comes as it is: a packed one could unpack to a thousand times its size. What cannot be read
is not logged, because an error about a header quotes it, and a header may hold a key.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from aiohttp import HttpVersion10, web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler

from surecall.runtime.loopback import is_address, is_loopback, split_host

HEAD_S: Final = 10.0
BODY_S: Final = 60.0
MOST_HEADERS: Final = 100
MOST_HEAD_BYTES: Final = 64 * 1024
_FORBIDDEN: Final = 403
_TIMEOUT: Final = 408
_BAD: Final = 400
_PACKED: Final = 415
_LARGE_HEAD: Final = 431
_UNKNOWN_CODING: Final = 501
_LINK: Final = ("GET", "navigate", "document")
_OF_CLIENTS: Final = (HttpProcessingError, ConnectionError)
_LOG: Final = logging.getLogger("surecall.server")

Refuse = Callable[[int, str], web.Response]


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line of the log is about the server, not about a client that is wrong or gone."""
    return not (record.exc_info and isinstance(record.exc_info[1], _OF_CLIENTS))


_LOG.addFilter(_is_ours)


class Door:
    """Listens on an address, and lets in only requests that mean this server.

    `refuse` writes the answer to those that do not, in the form of the server.
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
        """The address of the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def open(self, app: web.Application, port: int, **options: Any) -> web.AppRunner:
        """Listen, in the running event loop; the runner's `cleanup` closes the door."""
        app.middlewares.insert(0, self._checked)
        # Keeping alive begins with the connection: so long the first head may take, too.
        options |= {"keepalive_timeout": self._head_s, "auto_decompress": False, "logger": _LOG}
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, **options)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self.host, self.port = runner.addresses[0][:2]
        return runner

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._is_own(request):
            return self._refuse(_FORBIDDEN, "this address is for programs of this machine only")
        if (problem := _problem(request)) is not None:
            return self._ended(*problem)
        try:
            async with asyncio.timeout(self._body_s):
                await request.read()
        except TimeoutError:
            return self._ended(_TIMEOUT, "the request took too long to arrive")
        except web.HTTPException as refused:
            return self._ended(refused.status, refused.reason)
        except web.RequestPayloadError as error:
            return self._ended(_BAD, f"the request cannot be read: {error}")
        return await handler(request)

    def _ended(self, status: int, message: str) -> web.Response:
        """Answer a request whose rest is not read: nothing else can follow on its connection."""
        response = self._refuse(status, message)
        response.force_close()
        return response

    def _is_own(self, request: web.Request) -> bool:
        own, said = f"http://{request.host}", request.headers
        # Every browser names the host: who does not is no page.
        if "Host" in said and not self._is_own_host(request.host):
            return False
        if any(origin != own for origin in said.getall("Origin", ())):
            return False
        # A link in another page, or in a terminal in the browser, may lead here.
        way = (request.method, said.get("Sec-Fetch-Mode"), said.get("Sec-Fetch-Dest"))
        return way == _LINK or said.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}

    def _is_own_host(self, host: str) -> bool:
        name, port = split_host(host)
        if is_loopback(self.host):
            return port == self.port and (is_loopback(name) or name == self.host)
        # The network may come in, by an address or a name that no stranger can register.
        return name == self.host or is_address(name) or (bool(name) and "." not in name)


def _problem(request: web.Request) -> tuple[int, str] | None:
    """Say why a request cannot be taken as it is written: a status and a sentence."""
    said = request.headers
    if request.version < HttpVersion10:
        return _BAD, "this is not HTTP/1.1"
    size = sum(len(name) + len(value) for name, value in request.raw_headers)
    if len(request.raw_headers) > MOST_HEADERS or size > MOST_HEAD_BYTES:
        return _LARGE_HEAD, "the head of the request is too large"
    if said.get("Content-Encoding", "identity").lower() != "identity":
        return _PACKED, "the body of a request must not be packed"
    if said.get("Transfer-Encoding", "chunked").lower() != "chunked":
        return _UNKNOWN_CODING, "this transfer coding is not known"
    return None
