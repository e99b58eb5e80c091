"""The HTTP client: sends requests, reads bodies and streams, and classifies network failures.

    send(body)   ─► Answer           whatever its status, including 302, 401 and 500
    models()     ─► Answer           the list of models, likewise
    stream(body) ─► Incoming         an answer whose body is still arriving
                 ─► ProviderError    no usable answer: refused, too slow, truncated, too large

Bodies are chat completions. For an endpoint with the Responses or the Messages API, requests and
answers are translated here, and errors pass unchanged.

It does not retry, follow redirects, or interpret a status. Its errors and `repr` never
contain a key. `aiohttp`, `asyncio`, and the translators are imported inside functions, so that
importing this module is cheap.
"""

import io
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self
from urllib.parse import SplitResult

from surecall.runtime.learned_lessons import LessonBook, lesson_store
from surecall.settings.capabilities import provider_for_url
from surecall.settings.connection import (
    AUTO_API,
    CHAT_API,
    CHAT_COMPLETIONS_PATH,
    DEFAULT_LIMITS,
    MESSAGES_API,
    MODELS_PATH,
    Limits,
    is_loopback,
    normalize_prefix,
    parse_base_url,
    query_secrets,
    require_type,
    resolve_api,
    split_api_path,
    wrap_api_key,
    wrap_headers,
)
from surecall.settings.providers import api_for_request, upstream_api, upstream_api_rules
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.types import HttpResponse, Secret
from surecall.wire.provider_state import NATIVE_TURN

# Network failures as faults.
#
# The message of the original error may quote the request, and with it the key; it is never used.


def fault_of_error(error: Exception, place: str, limits: Limits) -> Fault:
    """Return the fault for an error of the HTTP library."""
    kinds = (
        *_timeout_faults(place, limits),
        *_invalid_response_faults(place),
        *_connection_faults(place),
    )
    return next(fault for kind, fault in kinds if isinstance(error, kind))


def _timeout_faults(place: str, limits: Limits) -> tuple[tuple[type[Exception], Fault], ...]:
    import aiohttp  # noqa: PLC0415 - see the module's first lines

    def timeout_fault(message: str, hint: str) -> Fault:
        return Fault(ErrorCode.TIMEOUT, message, hint=hint, retryable=True)

    return (
        (
            aiohttp.ConnectionTimeoutError,
            timeout_fault(
                f"Connect timeout: no connection to {place} within {limits.connect_s:g} s.",
                "Check the URL and the network, or raise limits.connect_s.",
            ),
        ),
        (
            aiohttp.SocketTimeoutError,
            timeout_fault(
                f"Idle timeout: {place} sent nothing for {limits.idle_s:g} s.",
                "Raise limits.idle_s if the model needs longer to think.",
            ),
        ),
        (
            TimeoutError,
            timeout_fault(
                f"Total timeout: no complete answer from {place} within {limits.total_s:g} s.",
                "Raise limits.total_s if the model needs longer to answer.",
            ),
        ),
    )


def _invalid_response_faults(place: str) -> tuple[tuple[type[Exception], Fault], ...]:
    import aiohttp  # noqa: PLC0415 - see the module's first lines

    unreadable = Fault(
        ErrorCode.DECODE_ERROR,
        f"{place} sent an answer that is not HTTP, has an unknown compression, or has headers that "
        "are too large.",
        hint="Check that the URL is that of an HTTP API.",
    )
    misspelt = Fault(
        ErrorCode.CONNECTION_ERROR,
        f"{place} is not a valid host name.",
        hint="Check the URL.",
    )
    return (
        # A proxy's refusal is a response error too, but should be reported as a connection fault.
        (aiohttp.ClientHttpProxyError, _proxy_fault(place)),
        (aiohttp.ClientResponseError, unreadable),
        (aiohttp.InvalidURL, misspelt),
        (UnicodeError, misspelt),
    )


def _connection_faults(place: str) -> tuple[tuple[type[Exception], Fault], ...]:
    import aiohttp  # noqa: PLC0415 - see the module's first lines

    def connection_fault(message: str, hint: str) -> Fault:
        return Fault(ErrorCode.CONNECTION_ERROR, message, hint=hint, retryable=True)

    again = "Try again; if the error persists, check the server's log."
    return (
        (aiohttp.ClientProxyConnectionError, _proxy_fault(place)),
        (
            aiohttp.ClientConnectorDNSError,
            connection_fault(
                f"The host name of {place} cannot be resolved.", "Check the URL and the network."
            ),
        ),
        (
            aiohttp.ClientSSLError,
            connection_fault(
                f"No TLS connection to {place}.",
                "Check the certificate, and whether the URL should start with http://.",
            ),
        ),
        (
            aiohttp.ClientConnectorError,
            connection_fault(
                f"Cannot connect to {place}.", "Check the URL, and whether the server is running."
            ),
        ),
        (
            aiohttp.ClientPayloadError,
            connection_fault(f"{place} sent an incomplete or corrupt answer.", again),
        ),
        (Exception, connection_fault(f"{place} closed the connection without an answer.", again)),
    )


def _proxy_fault(place: str) -> Fault:
    return Fault(
        ErrorCode.CONNECTION_ERROR,
        f"The proxy for {place} cannot be reached, or refused the connection.",
        hint="Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY in the environment.",
        retryable=True,
    )


def too_large_fault(place: str, limits: Limits) -> Fault:
    """Return the fault for an answer that exceeds `max_response_bytes`."""
    return Fault(
        ErrorCode.RESPONSE_TOO_LARGE,
        f"The answer of {place} exceeds {limits.max_response_bytes} bytes.",
        hint="Raise limits.max_response_bytes if answers of that size are expected.",
    )


if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    import aiohttp

    from surecall.wire.apis.native_turns import NativeApi

_LARGE_BODY = 1024 * 1024
_LINGER_S = 0.1
# Headers without secrets; redacting their values would remove ordinary words from answers.
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


_NATIVE_MARK: Final = NATIVE_TURN.encode()
_ANTHROPIC, _ANTHROPIC_VERSION = "anthropic", "2023-06-01"
_SUCCESS: Final = range(200, 300)


def _without_native_turns(body: bytes) -> bytes:
    """Return a chat request without saved turns of other APIs."""
    if _NATIVE_MARK not in body:
        return body
    from surecall.wire.apis.native_turns import without_native_turns  # noqa: PLC0415

    return without_native_turns(body)


class Client(Protocol):
    """The interface of a client."""

    async def send(self, body: bytes) -> HttpResponse:
        """Send one chat completion request and return the answer, whatever its status."""
        ...

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Keep connections open inside the block."""
        ...


class Incoming(NamedTuple):
    """An answer whose body is still arriving. Reading it may raise `ProviderError`."""

    status: int
    headers: dict[str, str]
    chunks: AsyncIterator[bytes]


class StreamingClient(Client, Protocol):
    """A client that can also stream answers."""

    def stream(self, body: bytes) -> AbstractAsyncContextManager[Incoming]:
        """Send one request; leaving the block closes a response that was not read to its end."""
        ...


class _SessionAndProxy(NamedTuple):
    """An open session, and the proxy that the environment configures for it."""

    session: "aiohttp.ClientSession"
    proxy: str | None


class _SharedSession:
    """The session of one event loop, and the number of its users."""

    def __init__(self) -> None:
        self.holders = 0
        self.open_session: _SessionAndProxy | None = None


class OpenAICompatible:
    """A client for an endpoint with the chat completions, Responses, or Messages API.

    With `api="auto"`, the API is that of an address such as `https://host/v1/responses`, else the
    one that the model needs, else chat completions.

    Inside `async with client:`, runs share connections; otherwise each run opens and closes its
    own. A client may be used by several event loops and threads at once.

    `lessons` is where the client remembers what the endpoint rejected: a file, the user's cache
    directory (true), or nowhere (false).
    """

    def __init__(  # noqa: PLR0913  # settings, all but two by keyword
        self,
        base_url: str,
        api_key: str | Secret | None = None,
        *,
        api: str = AUTO_API,
        api_prefix: str | None = "/v1",
        headers: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        lessons: "bool | str | Path" = True,
    ) -> None:
        self._base, found = split_api_path(parse_base_url(base_url))
        self.api = resolve_api(api, found)
        # An address of an API is complete.
        self._prefix = "" if found else normalize_prefix(api_prefix)
        self._provider = provider_for_url(self._base.geturl())
        self._api_rules = upstream_api_rules(self._provider)
        self._headers = wrap_headers(headers or {})
        self._shared_sessions: dict[asyncio.AbstractEventLoop, _SharedSession] = {}
        self._url = self.url(CHAT_COMPLETIONS_PATH)
        self.api_key = wrap_api_key(api_key)
        self.lessons = LessonBook(self._root, lesson_store(lessons))
        self.limits = require_type(limits, Limits, "limits")

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._root!r})"

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The values that must not be shown: the key, and those of custom headers and the query."""
        key = () if self.api_key is None else (self.api_key,)
        own = (value for name, value in self._headers.items() if not _is_public(name, value))
        return (*key, *own, *query_secrets(self._base.query))

    @property
    def base_url(self) -> str:
        """The URL that requests go to, without its query."""
        return self._root

    @property
    def _root(self) -> str:
        """Scheme, host, path and prefix, which are safe to show."""
        path = self._base.path.rstrip("/").removesuffix(self._prefix)
        return f"{self._base.scheme}://{self._base.netloc}{path}{self._prefix}"

    @property
    def _host_and_port(self) -> str:
        """Host and port, as error messages name the endpoint."""
        default = 443 if self._base.scheme == "https" else 80
        host = self._base.netloc.rstrip(":")
        return host if self._base.port is not None else f"{host}:{default}"

    def url(self, endpoint: str) -> str:
        """Return the full URL of `endpoint`. A base URL that ends with the prefix has it once."""
        query = f"?{self._base.query}" if self._base.query else ""
        return f"{self._root}/{endpoint.lstrip('/')}{query}"

    @property
    def usual_api(self) -> str:
        """The API for a model about which nothing is known."""
        if self.api != AUTO_API:
            return self.api
        return upstream_api(self._api_rules, "", has_tools=False)

    def native_api(self, body: bytes) -> "NativeApi | None":
        """Return the API for a chat request; None if it goes to chat completions."""
        name = self.api
        if name == AUTO_API:
            name = api_for_request(self._api_rules, self.lessons, body)
        if name == CHAT_API:
            return None
        from surecall.runtime.api_translation import NATIVE_APIS  # noqa: PLC0415

        return NATIVE_APIS[name]

    async def send(self, body: bytes) -> HttpResponse:
        """Post one chat completion request and return the answer, whatever its status."""
        api = self.native_api(body)
        if api is None:
            return await self._fetch("POST", self._url, _without_native_turns(body))
        from surecall.runtime.api_translation import decode_answer, encode_request  # noqa: PLC0415

        data = await encode_request(api, body)
        if isinstance(data, HttpResponse):
            return data
        answer = await self._fetch("POST", self.url(api.path), data, self._native_headers(api.name))
        return await decode_answer(api, answer) if answer.status in _SUCCESS else answer

    async def models(self) -> HttpResponse:
        """Request the list of models and return the answer, whatever its status."""
        headers = self._native_headers(self.usual_api)
        return await self._fetch("GET", self.url(MODELS_PATH), None, headers)

    def _native_headers(self, api: str) -> dict[str, Secret]:
        """Return the headers that only the Messages API needs."""
        if api != MESSAGES_API:
            return {}
        key = {} if self.api_key is None else {"x-api-key": self.api_key}
        return {"anthropic-version": Secret(_ANTHROPIC_VERSION)} | key

    async def _fetch(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, Secret] | None = None,
    ) -> HttpResponse:
        """Send one request and return the whole response."""
        async with self:
            response = await self._send_request(method, url, body, headers)
            try:
                received = await self._read_body(response.content)
            finally:
                # If the body was read to its end, the connection is back in the pool already.
                response.close()
            return HttpResponse(response.status, _plain_headers(response.headers), received)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep this loop's connections open inside the block; blocks may overlap."""
        async with self:
            yield

    async def __aenter__(self) -> Self:
        import asyncio  # noqa: PLC0415 - see the module's first lines

        self._shared_sessions.setdefault(asyncio.get_running_loop(), _SharedSession()).holders += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio  # noqa: PLC0415 - see the module's first lines

        loop = asyncio.get_running_loop()
        shared = self._shared_sessions[loop]
        shared.holders -= 1
        if shared.holders:
            return
        del self._shared_sessions[loop]
        if shared.open_session is not None:
            await shared.open_session.session.close()
            # A transport reports its end one loop iteration after it was closed.
            await asyncio.sleep(0)

    def _current_session(self) -> _SessionAndProxy:
        import asyncio  # noqa: PLC0415 - see the module's first lines

        shared = self._shared_sessions[asyncio.get_running_loop()]
        if shared.open_session is None:
            shared.open_session = _SessionAndProxy(self._new_session(), proxy_for(self._base))
        return shared.open_session

    def _new_session(self) -> "aiohttp.ClientSession":
        import aiohttp  # noqa: PLC0415 - see the module's first lines

        # Not `trust_env`: it reads `.netrc` and the proxies in a thread for every request, and
        # sends passwords from `.netrc`. The proxy is looked up once per session, see `proxy_for`.
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.limits.max_connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=self.limits.total_s,
                sock_connect=self.limits.connect_s,
                sock_read=self.limits.idle_s,
            ),
        )

    def _request_headers(self, extra: Mapping[str, Secret]) -> dict[str, str]:
        """Return the headers of a request. The only place where the key is revealed."""
        headers = dict(_HEADERS)
        # Anthropic refuses a key as a token; others with its API may accept nothing else.
        if self.api_key is not None and not ("x-api-key" in extra and self._provider == _ANTHROPIC):
            headers["Authorization"] = f"Bearer {self.api_key.reveal()}"
        own = {**extra, **self._headers}
        return headers | {name: value.reveal() for name, value in own.items()}

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        """Post one request and yield the answer as it arrives."""
        api = self.native_api(body)
        url, headers = self._url, None
        data: bytes | HttpResponse = b""
        if api is None:
            data = _without_native_turns(body)
        else:
            from surecall.runtime.api_translation import encode_request  # noqa: PLC0415

            data = await encode_request(api, body)
            url, headers = self.url(api.path), self._native_headers(api.name)
        if isinstance(data, HttpResponse):
            yield Incoming(data.status, data.headers, _yield_single_chunk(data.body))
            return
        async with self:
            response = await self._send_request("POST", url, data, headers)
            try:
                chunks = self._chunks(response.content)
                if api is not None and response.status in _SUCCESS:
                    from surecall.runtime.api_translation import translate_chunks  # noqa: PLC0415

                    chunks = translate_chunks(api, chunks, self.limits.max_response_bytes)
                yield Incoming(response.status, _plain_headers(response.headers), chunks)
                await _drain(response.content)
            finally:
                response.close()

    async def _send_request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, Secret] | None = None,
    ) -> "aiohttp.ClientResponse":
        """Send one request and return the response once its head has arrived."""
        import aiohttp  # noqa: PLC0415 - see the module's first lines

        try:
            return await self._open_request(method, url, body, headers or {})
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            fault = fault_of_error(error, self._host_and_port, self.limits)
        # Raised outside the handler, because `__context__` would hold the request with the key.
        raise ProviderError(fault)

    def _open_request(
        self, method: str, url: str, body: bytes | None, extra: Mapping[str, Secret]
    ) -> "aiohttp.client._RequestContextManager":
        # Not a coroutine: its variables hold secrets, which must not appear in a traceback.
        line = self._current_session()
        # aiohttp warns about large bodies unless they are files, which it sends in chunks.
        data = body if body is None or len(body) < _LARGE_BODY else io.BytesIO(body)
        headers = self._request_headers(extra)
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
            fault = fault_of_error(error, self._host_and_port, self.limits)
        if fault is not None:
            raise ProviderError(fault)

    async def _read_body(self, content: "aiohttp.StreamReader") -> bytes:
        import aiohttp  # noqa: PLC0415 - see the module's first lines

        # aiohttp decompresses a body only while reading, so this limit also bounds the
        # memory that a decompression bomb can allocate.
        received = bytearray()
        fault = None
        try:
            while chunk := await content.readany():
                received += chunk
                if len(received) > self.limits.max_response_bytes:
                    fault = too_large_fault(self._host_and_port, self.limits)
                    break
        except (aiohttp.ClientError, OSError) as error:
            fault = fault_of_error(error, self._host_and_port, self.limits)
        if fault is not None:
            raise ProviderError(fault)
        return bytes(received)


async def _yield_single_chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _drain(content: "aiohttp.StreamReader") -> None:
    """Wait a moment for the end of a body whose content is complete.

    A connection can only be reused if its body has ended.
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
    """Whether a header only identifies the caller, and its value does not look like a token."""
    text = value.reveal()
    token = len(text) >= _MIN_TOKEN_CHARS and any(char.isdigit() for char in text)
    return name.lower() in _PUBLIC_HEADERS and not (token and text.isascii() and " " not in text)


def proxy_for(base: SplitResult) -> str | None:
    """Return the proxy that the environment configures for an endpoint; None for loopback."""
    if is_loopback(base.hostname or ""):
        return None
    # Imported here because it is slow to import, and not always needed.
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    proxy = getproxies().get(base.scheme)
    return None if proxy is None or proxy_bypass(base.netloc) else proxy


def _plain_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with lower-case names, repeated ones joined, and invalid UTF-8 replaced."""
    plain: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        text = value if value.isascii() else _replace_surrogates(value)
        plain[key] = f"{plain[key]}, {text}" if key in plain else text
    return plain


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
