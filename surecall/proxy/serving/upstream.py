"""The upstream endpoint. Its address is fixed when the proxy starts, and no client can change it.

Only listed headers are forwarded in each direction. Redirects are returned to the client and not
followed, so a key is never sent to another address.
"""

import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from surecall.runtime.transport import Incoming, OpenAICompatible
from surecall.settings.connection import CHAT_COMPLETIONS_PATH, MESSAGES_API, wrap_headers
from surecall.values.nesting import decode_json
from surecall.values.types import JSON, HttpResponse, Secret

# Request headers that are forwarded to the upstream, besides the key.
FORWARDED: Final = (
    "http-referer",
    "idempotency-key",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "user-agent",
    "x-request-id",
    "x-title",
)
# Also forwarded to an upstream with the Messages API.
_MESSAGES_FORWARDED: Final = ("anthropic-beta",)
# Response headers that are returned to the client.
RETURNED: Final = (
    "openai-model",
    "openai-processing-ms",
    "openai-version",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-generation-id",
    "x-request-id",
)
_RETURNED_PREFIXES: Final = ("x-ratelimit-",)
_HEAD: Final = ("id", "created", "model", "system_fingerprint", "service_tier", "provider")
_CHAT_PATH: Final = f"/{CHAT_COMPLETIONS_PATH}"
_SUCCESS: Final = range(200, 300)
# Bytes of a stream to search for its first event.
_MAX_HEAD_BYTES: Final = 64 * 1024

OnBegin = Callable[[JSON], None]


def returnable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the response headers to pass on to the client."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {
        name: value
        for name, value in lower.items()
        if name in RETURNED or name.startswith(_RETURNED_PREFIXES)
    }


class Upstream(OpenAICompatible):
    """The endpoint behind the proxy. `for_client` returns a copy with the headers of one request.

    `last_answer` is the last response for that request. `on_begin` is called when a stream begins.
    """

    last_answer: HttpResponse | None = None
    on_begin: OnBegin | None = None

    def for_client(self, headers: Mapping[str, str], key: Secret | None) -> Self:
        """Return a copy for one client request; it shares the open connections."""
        own = copy.copy(self)
        own.api_key = self.api_key or key
        names = (*FORWARDED, *(_MESSAGES_FORWARDED if self.usual_api == MESSAGES_API else ()))
        given = {name: headers.get(name, "") for name in names}
        # A value that is not printable could not be sent.
        given = {name: value for name, value in given.items() if value and value.isprintable()}
        own._headers = self._headers | wrap_headers(given)  # noqa: SLF001  # same class
        return own

    async def send(self, body: bytes) -> HttpResponse:
        """Post one request, and store the response in `last_answer`."""
        self.last_answer = None
        self.last_answer = await super().send(body)
        return self.last_answer

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        """Post one request, and call `on_begin` when its response begins."""
        self.last_answer = None
        async with super().stream(body) as incoming:
            self.last_answer = HttpResponse(incoming.status, incoming.headers, b"")
            chunks = incoming.chunks
            if self.on_begin is not None and incoming.status in _SUCCESS:
                chunks = self._watch_head(chunks, self.on_begin)
            yield Incoming(incoming.status, incoming.headers, chunks)

    async def _watch_head(
        self, chunks: AsyncIterator[bytes], on_begin: OnBegin
    ) -> AsyncIterator[bytes]:
        """Yield chunks unchanged; call `on_begin` with the metadata of the first event."""
        before: bytes | None = b""
        async for chunk in chunks:
            if before is not None:
                before += chunk
                if (head := first_event_head(before)) is not None:
                    on_begin(head)
                if head is not None or len(before) > _MAX_HEAD_BYTES:
                    before = None
            yield chunk

    @asynccontextmanager
    async def forward(
        self, method: str, path: str, body: bytes, kind: str | None
    ) -> AsyncIterator[Incoming]:
        """Forward a request unchanged, and stream the response.

        A chat completion request for another API is translated, as for `send`.
        """
        if path.partition("?")[0] == _CHAT_PATH and self.native_api(body) is not None:
            async with super().stream(body) as incoming:
                yield incoming
            return
        more = self._native_headers(self.usual_api)
        more |= {"Content-Type": Secret(kind)} if kind else {}
        async with self:
            response = await self._send_request(method, self._with_query(path), body, more)
            try:
                headers = {name.lower(): value for name, value in response.headers.items()}
                yield Incoming(response.status, headers, self._chunks(response.content))
            finally:
                response.close()

    def _with_query(self, path: str) -> str:
        """Return the address of a path; the upstream's own query precedes the client's."""
        place, _, query = path.partition("?")
        url = self.url(place)
        return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def first_event_head(data: bytes) -> JSON | None:
    """Return the metadata in the first event of a stream; None before it is complete."""
    for line in data.splitlines(keepends=True):
        if not line.startswith(b"data:") or not line.endswith((b"\n", b"\r")):
            continue
        try:
            chunk: Any = decode_json(line[len(b"data:") :].strip())
        except ValueError:
            return {}
        if not isinstance(chunk, dict) or "error" in chunk:
            return None
        return {key: chunk[key] for key in _HEAD if chunk.get(key)}
    return None
