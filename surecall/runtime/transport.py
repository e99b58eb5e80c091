"""The transport: one request body goes out, one HTTP answer comes back.

    send(body)   ─► Answer           whatever its status: a 401, a 302 and a 500 are answers too
    models()     ─► Answer           the list of models, in the same way
    stream(body) ─► Incoming         the same, with a body that is still on its way
                 ─► ProviderError    no usable answer: refused, too slow, cut off, too large

It does not retry, follow redirects, read JSON or judge a status; others do. Nothing it raises or
prints carries a key. `aiohttp` and `asyncio` are imported inside functions only, because naming a
client must stay cheap for programs that never open a connection.
"""

import io
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self
from urllib.parse import SplitResult

from surecall.runtime.loopback import is_loopback
from surecall.runtime.network_faults import fault_of_error, too_large
from surecall.settings.connection import (
    DEFAULT_LIMITS,
    ENDPOINT,
    MODELS,
    Limits,
    checked_headers,
    checked_key,
    checked_kind,
    checked_prefix,
    checked_url,
    secrets_in,
)
from surecall.values.errors import ProviderError
from surecall.values.types import Answer, Secret

if TYPE_CHECKING:
    import asyncio

    import aiohttp

_LARGE_BODY = 1024 * 1024
_LINGER_S = 0.1
# What these say is for everyone; taking it for a secret would take words out of answers.
_PUBLIC_HEADERS = frozenset(
    {"accept", "http-referer", "user-agent", "x-openrouter-metadata", "x-title"}
)
_MIN_TOKEN_CHARS = 16
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Content-Type": "application/json",
    "User-Agent": "surecall",
}


class Client(Protocol):
    """What the rest of the program needs of an endpoint."""

    async def send(self, body: bytes) -> Answer:
        """Send one chat completion request and return the answer, whatever its status."""
        ...

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Keep connections open for as long as the block lasts."""
        ...


class Incoming(NamedTuple):
    """An answer whose body is still on its way. Reading it may raise `ProviderError`."""

    status: int
    headers: dict[str, str]
    chunks: AsyncIterator[bytes]


class StreamingClient(Client, Protocol):
    """A client that can also hand over an answer piece by piece."""

    def stream(self, body: bytes) -> AbstractAsyncContextManager[Incoming]:
        """Send one request; leaving the block closes what was not read to its end."""
        ...


class _Line(NamedTuple):
    """An open session, and the proxy that the environment names for it."""

    session: "aiohttp.ClientSession"
    proxy: str | None


class _OpenSession:
    """The line of one event loop, and how many hold on to it."""

    def __init__(self) -> None:
        self.holders = 0
        self.line: _Line | None = None


class OpenAICompatible:
    """A client for one endpoint that speaks the OpenAI chat completions protocol.

    Inside `async with client:` connections are reused from run to run; without it, a run opens
    and closes its own. One client may serve several event loops and threads simultaneously.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | Secret | None = None,
        *,
        api_prefix: str | None = "/v1",
        headers: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._base = checked_url(base_url)
        self._prefix = checked_prefix(api_prefix)
        self._headers = checked_headers(headers or {})
        self._lines: dict[asyncio.AbstractEventLoop, _OpenSession] = {}
        self._url = self.url(ENDPOINT)
        self.api_key = checked_key(api_key)
        self.lessons: dict[str, tuple[str, ...]] = {}
        self.limits = checked_kind(limits, Limits, "limits")

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._root!r})"

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What must not be shown: the key, and the values of the caller's own headers and query."""
        key = () if self.api_key is None else (self.api_key,)
        own = (value for name, value in self._headers.items() if not _is_public(name, value))
        return (*key, *own, *secrets_in(self._base.query))

    @property
    def base_url(self) -> str:
        """The address that requests go to, without its query."""
        return self._root

    @property
    def _root(self) -> str:
        """Scheme, host, path and prefix: what is safe to show."""
        path = self._base.path.rstrip("/").removesuffix(self._prefix)
        return f"{self._base.scheme}://{self._base.netloc}{path}{self._prefix}"

    @property
    def _place(self) -> str:
        """Host and port, the way error messages name the endpoint."""
        default = 443 if self._base.scheme == "https" else 80
        host = self._base.netloc.rstrip(":")
        return host if self._base.port is not None else f"{host}:{default}"

    def url(self, endpoint: str) -> str:
        """Return the full address of `endpoint`; a base that ends with the prefix keeps one."""
        query = f"?{self._base.query}" if self._base.query else ""
        return f"{self._root}/{endpoint.lstrip('/')}{query}"

    async def send(self, body: bytes) -> Answer:
        """Post one chat completion request and return the answer, whatever its status."""
        return await self._answer("POST", self._url, body)

    async def models(self) -> Answer:
        """Ask for the list of models and return the answer, whatever its status."""
        return await self._answer("GET", self.url(MODELS))

    async def _answer(self, method: str, url: str, body: bytes | None = None) -> Answer:
        async with self:
            response = await self._begun(method, url, body)
            try:
                received = await self._read(response.content)
            finally:
                # After its end the connection is back in the pool, and this does nothing.
                response.close()
            return Answer(response.status, _plain(response.headers), received)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep this loop's connections open while the block lasts; blocks may overlap."""
        async with self:
            yield

    async def __aenter__(self) -> Self:
        import asyncio  # noqa: PLC0415 - see the module's first lines

        self._lines.setdefault(asyncio.get_running_loop(), _OpenSession()).holders += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio  # noqa: PLC0415 - see the module's first lines

        loop = asyncio.get_running_loop()
        held = self._lines[loop]
        held.holders -= 1
        if held.holders:
            return
        del self._lines[loop]
        if held.line is not None:
            await held.line.session.close()
            # A transport reports its end one turn of the loop after it was closed.
            await asyncio.sleep(0)

    def _line(self) -> _Line:
        import asyncio  # noqa: PLC0415 - see the module's first lines

        held = self._lines[asyncio.get_running_loop()]
        if held.line is None:
            held.line = _Line(self._new_session(), proxy_for(self._base))
        return held.line

    def _new_session(self) -> "aiohttp.ClientSession":
        import aiohttp  # noqa: PLC0415 - see the module's first lines

        # Not `trust_env`: it reads `.netrc` and the proxies in a thread for every request, and
        # sends a password that was not asked for. The proxies are looked up once, below.
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.limits.max_connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=self.limits.total_s,
                sock_connect=self.limits.connect_s,
                sock_read=self.limits.idle_s,
            ),
        )

    def _signed(self) -> dict[str, str]:
        """Return the headers of a request. The key leaves its wrapping here and nowhere else."""
        headers = dict(_HEADERS)
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key.reveal()}"
        return headers | {name: value.reveal() for name, value in self._headers.items()}

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        """Post one request and hand over the answer as it arrives."""
        async with self:
            response = await self._begun("POST", self._url, body)
            try:
                chunks = self._chunks(response.content)
                yield Incoming(response.status, _plain(response.headers), chunks)
                await _drained(response.content)
            finally:
                response.close()

    async def _begun(
        self, method: str, url: str, body: bytes | None, kind: str | None = None
    ) -> "aiohttp.ClientResponse":
        """Send one request and return its answer as soon as the head of it is there."""
        import aiohttp  # noqa: PLC0415 - see the module's first lines

        try:
            return await self._request(method, url, body, kind)
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            fault = fault_of_error(error, self._place, self.limits)
        # Raised out here because `__context__` would keep the request, and with it the key.
        raise ProviderError(fault)

    def _request(
        self, method: str, url: str, body: bytes | None, kind: str | None
    ) -> "aiohttp.client._RequestContextManager":
        # Not a coroutine: its variables hold secrets, and none of them may be in a traceback.
        line = self._line()
        # aiohttp warns about large bodies unless they come as a file, which it sends in pieces.
        data = body if body is None or len(body) < _LARGE_BODY else io.BytesIO(body)
        headers = self._signed() | ({"Content-Type": kind} if kind else {})
        return line.session.request(
            method, url, data=data, headers=headers, proxy=line.proxy, allow_redirects=False
        )

    async def _chunks(self, content: "aiohttp.StreamReader") -> AsyncIterator[bytes]:
        import aiohttp  # noqa: PLC0415 - see the module's first lines

        fault = None
        try:
            while chunk := await content.readany():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            fault = fault_of_error(error, self._place, self.limits)
        if fault is not None:
            raise ProviderError(fault)

    async def _read(self, content: "aiohttp.StreamReader") -> bytes:
        import aiohttp  # noqa: PLC0415 - see the module's first lines

        # aiohttp inflates a compressed body only as fast as it is read, so the limit on what was
        # read also bounds what a compressed bomb can allocate.
        received = bytearray()
        fault = None
        try:
            while chunk := await content.readany():
                received += chunk
                if len(received) > self.limits.max_response_bytes:
                    fault = too_large(self._place, self.limits)
                    break
        except (aiohttp.ClientError, OSError) as error:
            fault = fault_of_error(error, self._place, self.limits)
        if fault is not None:
            raise ProviderError(fault)
        return bytes(received)


async def _drained(content: "aiohttp.StreamReader") -> None:
    """Wait a moment for the end of a body that has said all it had to say.

    A connection whose body has ended serves the next request; any other has to be closed.
    """
    import asyncio  # noqa: PLC0415 - see the module's first lines

    import aiohttp  # noqa: PLC0415 - see the module's first lines

    if content.at_eof():
        return
    try:
        async with asyncio.timeout(_LINGER_S):
            while not content.at_eof():
                await content.readany()
    except (TimeoutError, aiohttp.ClientError, OSError):
        return


def _is_public(name: str, value: Secret) -> bool:
    """Whether a header says who asks, in words or as an address, and not with a token."""
    text = value.reveal()
    token = len(text) >= _MIN_TOKEN_CHARS and any(char.isdigit() for char in text)
    return name.lower() in _PUBLIC_HEADERS and not (token and text.isascii() and " " not in text)


def proxy_for(base: SplitResult) -> str | None:
    """Return the proxy that the environment names for an endpoint; none for this machine."""
    if is_loopback(base.hostname or ""):
        return None
    # Imported here for its cost, which programs without a connection should not pay.
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    proxy = getproxies().get(base.scheme)
    return None if proxy is None or proxy_bypass(base.netloc) else proxy


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    """Join repeated headers, lower their names, and replace bytes that are not UTF-8."""
    plain: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        text = value if value.isascii() else _without_surrogates(value)
        plain[key] = f"{plain[key]}, {text}" if key in plain else text
    return plain


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
