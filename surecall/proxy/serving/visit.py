"""One visit of a client: its request is asked of the upstream, and its answer is sent and noted."""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from surecall.proxy.faces.face import Asked, Face
from surecall.proxy.healing.live import Live
from surecall.proxy.healing.memory import Conversation, Memory
from surecall.proxy.healing.settings import ProxySettings
from surecall.proxy.serving.exchange import Exchange, Settled
from surecall.proxy.serving.record import Record, Records, outcome_of
from surecall.proxy.serving.streams import News, Outgoing, summary
from surecall.proxy.serving.upstream import Upstream, returned
from surecall.runtime.hooks import Observer
from surecall.runtime.redaction import Redactor
from surecall.runtime.trace import JsonlSink
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Secret
from surecall.wire.messages import decode, encode

_JSON: Final = {"Content-Type": "application/json"}
# How the SDKs of OpenAI say that they have tried before, and are told not to try again.
_TRIED: Final = "x-stainless-retry-count"
NO_RETRY: Final = {"x-should-retry": "false"}
_LEFT: Final = 499
_MOST_HEADER: Final = 500


class Parts(NamedTuple):
    """What all visits share."""

    upstream: Upstream
    settings: ProxySettings
    memory: Memory
    records: Records
    retry: RetryPolicy
    keep_alive_s: float
    trace_dir: Path | None
    token: Secret | None

    def key_from(self, headers: Mapping[str, str]) -> str:
        """Return the key of a client that goes on; a token is for the proxy, and stays here."""
        return "" if self.token is not None else key_of(headers)

    def upstream_for(self, headers: Mapping[str, str]) -> Upstream:
        """Return the upstream for one request of a client."""
        key = self.key_from(headers)
        return self.upstream.for_client(headers, Secret(key) if key else None)


class Visit:
    """One request to one face."""

    def __init__(self, parts: Parts, request: web.Request, face: Face, asked: Asked) -> None:
        self._parts = parts
        self._request = request
        self._face = face
        self._asked = asked
        self._number = parts.records.next_number()
        self._at, self._began = time.time(), time.perf_counter()
        self._upstream = parts.upstream_for(request.headers)
        key = parts.key_from(request.headers)
        whose = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        scope = f"{whose}\0{asked.body.get('model')}"
        self._known = Conversation(parts.memory, scope, asked.body["messages"])

    async def plain(self) -> web.Response:
        """Answer with one body."""
        exchange = self._exchange()
        try:
            settled = await exchange.settled(self._upstream, self._retry)
        except asyncio.CancelledError:
            self._note({"status": _LEFT, "outcome": "left"})
            raise
        self._note(outcome_of(settled))
        if settled.body is None:
            return self._failed(settled)
        body = self._face.render(self._asked, settled.body)
        return answer(200, body, self._headers(settled))

    async def streamed(self) -> web.StreamResponse:
        """Answer with events, as soon as there is something to tell."""
        exchange = self._exchange()
        buffered = self._parts.settings.stream == "buffered"
        live = Live(self._face.events(self._asked), exchange.head, buffered=buffered)
        news = News(live)
        exchange.observers.append(news.watch)
        self._upstream.begun = news.begun
        outgoing = Outgoing(self._request, lambda: self._returned() | _run(exchange.run_id))
        task = asyncio.create_task(exchange.settled(self._upstream, self._retry, news.show))
        try:
            async for data in news.until(task, self._parts.keep_alive_s):
                await outgoing.write(data)
            return await self._ended(outgoing, live, task.result())
        except (asyncio.CancelledError, ConnectionResetError):
            self._note({"status": _LEFT, "outcome": "left"})
            raise
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _ended(self, outgoing: Outgoing, live: Live, settled: Settled) -> web.StreamResponse:
        """Write the end of a stream; a failure before its beginning is a plain answer."""
        failure = settled.failure
        if failure is not None and outgoing.response is None:
            self._note(outcome_of(settled))
            return self._failed(settled)
        rest = live.fail(failure) if failure is not None else live.finish(settled.body or {})
        self._note(outcome_of(settled))
        await outgoing.write(summary(settled) + rest)
        response = outgoing.response
        assert response is not None  # noqa: S101  # something was written
        await response.write_eof()
        return response

    def _exchange(self) -> Exchange:
        exchange = Exchange(self._asked, self._parts.settings, self._known)
        if self._parts.trace_dir is not None:
            exchange.observers.append(self._sink(self._parts.trace_dir, exchange.run_id))
        return exchange

    def _sink(self, directory: Path, run_id: str) -> Observer:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(self._at))
        return JsonlSink(directory / f"{stamp}-{run_id}.jsonl", self._upstream.secrets)

    @property
    def _retry(self) -> RetryPolicy:
        """Try as often as usual, unless the client itself is trying again."""
        tried = self._request.headers.get(_TRIED, "0")
        again = tried.isascii() and tried.isdigit() and int(tried) > 0
        retry = self._parts.retry
        return msgspec.structs.replace(retry, attempts=1) if again else retry

    def _failed(self, settled: Settled) -> web.Response:
        failure = settled.failure
        assert failure is not None  # noqa: S101  # see where it is called
        headers = self._headers(settled)
        if _is_final(settled):
            headers |= NO_RETRY
        body = self._told(failure.status) or self._face.error(failure)
        return answer(failure.status, body, headers)

    def _told(self, status: int) -> JSON | None:
        """Return the upstream's own error, where the client speaks its language."""
        heard = self._upstream.heard
        if not self._asked.data or heard is None or heard.status != status:
            return None
        redactor = Redactor(self._upstream.secrets)
        try:
            body = decode(heard.body)
        except ValueError:
            return None
        if not isinstance(body, dict):
            return None
        clean: JSON = redactor.value(body)
        return clean

    def _headers(self, settled: Settled) -> dict[str, str]:
        fired = ",".join(dict.fromkeys(settled.fired))[:_MOST_HEADER]
        return {
            **self._returned(),
            **_run(settled.run_id),
            "x-surecall-attempts": str(settled.attempts),
            **({"x-surecall-fired": fired} if fired else {}),
        }

    def _returned(self) -> dict[str, str]:
        heard = self._upstream.heard
        return {} if heard is None else returned(heard.headers)

    def _note(self, ended: JSON) -> None:
        self._parts.records.add(
            Record(
                number=self._number,
                at=self._at,
                face=self._face.name,
                model=str(self._asked.body.get("model", ""))[:200],
                streamed=self._asked.stream,
                elapsed_ms=round((time.perf_counter() - self._began) * 1000),
                **ended,
            )
        )


def _is_final(settled: Settled) -> bool:
    """Whether a client need not try again: it was tried, it is in vain, or a guard forbids it."""
    fault, failure = settled.fault, settled.failure
    refused = fault is not None and not fault.retryable
    guarded = failure is not None and failure.code == ErrorCode.MAX_TOOL_CALLS_EXCEEDED
    # Without any attempt it was a guard of turns.
    return settled.attempts != 1 or refused or guarded


def _run(run_id: str) -> dict[str, str]:
    return {"x-surecall-run": run_id}


def key_of(headers: Mapping[str, str]) -> str:
    """Return the key that a client shows, in either of the two usual headers; blank if none."""
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()


def answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a plain answer."""
    return web.Response(status=status, body=encode(body), headers={**_JSON, **(headers or {})})
