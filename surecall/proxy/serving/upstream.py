"""The upstream: one address, fixed when the proxy starts. Nothing a client sends can change it.

Of the headers of a client only those in a list go on, and of an answer's only those in another. A
key goes to this address alone: redirects are answers here, not instructions.
"""

import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from surecall.runtime.transport import Incoming, OpenAICompatible
from surecall.settings.connection import checked_headers
from surecall.values.nesting import decode_json
from surecall.values.types import JSON, Answer, Secret

# What a client may say to the upstream, beside its key.
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
# What the upstream may say to a client, beside its answer.
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
_RETURNED_BEGINS: Final = ("x-ratelimit-",)
_HEAD: Final = ("id", "created", "model", "system_fingerprint", "service_tier", "provider")
_OK: Final = range(200, 300)
# Looked at in a stream before its first event is complete.
_MOST_BEFORE: Final = 64 * 1024

Begun = Callable[[JSON], None]


def returned(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an answer that a client is told."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {
        name: value
        for name, value in lower.items()
        if name in RETURNED or name.startswith(_RETURNED_BEGINS)
    }


class Upstream(OpenAICompatible):
    """The endpoint behind the proxy. `for_client` gives one request its own headers.

    `heard` is the last answer of the request, and `begun` is told of a stream when it begins.
    """

    heard: Answer | None = None
    begun: Begun | None = None

    def for_client(self, headers: Mapping[str, str], key: Secret | None) -> Self:
        """Return the same endpoint with its open connections, for one request of a client."""
        own = copy.copy(self)
        own.api_key = self.api_key or key
        said = {name: headers.get(name, "") for name in FORWARDED}
        # One that could not be sent stays here.
        said = {name: value for name, value in said.items() if value and value.isprintable()}
        own._headers = self._headers | checked_headers(said)  # noqa: SLF001  # of our own kind
        return own

    async def send(self, body: bytes) -> Answer:
        """Post one request and remember what came back."""
        self.heard = None
        self.heard = await super().send(body)
        return self.heard

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        """Post one request and say when its answer begins."""
        self.heard = None
        async with super().stream(body) as incoming:
            self.heard = Answer(incoming.status, incoming.headers, b"")
            chunks = incoming.chunks
            if self.begun is not None and incoming.status in _OK:
                chunks = self._watched(chunks, self.begun)
            yield Incoming(incoming.status, incoming.headers, chunks)

    async def _watched(self, chunks: AsyncIterator[bytes], begun: Begun) -> AsyncIterator[bytes]:
        before: bytes | None = b""
        async for chunk in chunks:
            if before is not None:
                before += chunk
                if (head := head_in(before)) is not None:
                    begun(head)
                if head is not None or len(before) > _MOST_BEFORE:
                    before = None
            yield chunk

    @asynccontextmanager
    async def forwarded(
        self, method: str, path: str, body: bytes, kind: str | None
    ) -> AsyncIterator[Incoming]:
        """Send a request that is none of ours, and hand over the answer as it arrives."""
        async with self:
            response = await self._begun(method, self._with_query(path), body, kind)
            try:
                said = {name.lower(): value for name, value in response.headers.items()}
                yield Incoming(response.status, said, self._chunks(response.content))
            finally:
                response.close()

    def _with_query(self, path: str) -> str:
        """Return the address of a path; a query of ours comes before the client's."""
        place, _, query = path.partition("?")
        url = self.url(place)
        return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def head_in(data: bytes) -> JSON | None:
    """Return what the first event of a stream says about the answer; None before it is there."""
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
