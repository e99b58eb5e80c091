"""Handles one client request, from its headers to the last byte of the response."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from surecall.core.refusals import request_lessons
from surecall.core.streaming import DisplayDelta
from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.repaired_reply import StreamedReply
from surecall.proxy.repair.request_history import ConversationMemory, TurnMemory
from surecall.proxy.repair.upstream_request import build_tools, cached_tools
from surecall.proxy.serving.proxy_exchange import ExchangeResult, ProxyExchange
from surecall.proxy.serving.request_records import Record, RequestLog, outcome_fields
from surecall.proxy.serving.upstream import Upstream, returnable_headers
from surecall.runtime.learned_lessons import LessonLearner
from surecall.runtime.recording import JsonlSink
from surecall.runtime.redaction import Redactor
from surecall.runtime.retrying_requests import decode_body
from surecall.runtime.transport import Incoming
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import Event, LlmRequestErrorEvent, LlmRequestStartEvent
from surecall.values.types import JSON, HttpResponse, Secret
from surecall.wire.apis.adapter import ApiAdapter, ClientRequest, ErrorReply
from surecall.wire.apis.chat_api import error_body
from surecall.wire.chat_format import decode, encode
from surecall.wire.request_adaptations import adapt_body, is_adaptable

# Streaming: send data as the loop produces it, and keep-alive comments in between.

STREAM_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
}
KEEP_ALIVE: Final = b": waiting\n\n"
# A client that reads nothing for this long counts as disconnected.
WRITE_TIMEOUT_S: Final = 60.0


class StreamQueue:
    """A queue of bytes that the loop produces for a streamed response."""

    def __init__(self, streamed_reply: StreamedReply) -> None:
        self._live = streamed_reply
        self._ready: list[bytes] = []
        self._wake = asyncio.Event()
        self._requests = 0

    def on_begin(self, head: JSON) -> None:
        """Queue the opening events: the upstream's response has begun."""
        self._append(self._live.begin(head))

    def show(self, delta: DisplayDelta) -> None:
        """Queue a delta."""
        self._append(self._live.show(delta))

    def on_event(self, event: Event) -> None:
        """Tell the streamed reply about failed and repeated upstream requests."""
        if isinstance(event, LlmRequestErrorEvent):
            self._live.mark_broken()
        elif isinstance(event, LlmRequestStartEvent):
            self._requests += 1
            if self._requests > 1:
                self._live.start_next_request()

    def _append(self, data: bytes) -> None:
        if data:
            self._ready.append(data)
            self._wake.set()

    async def drain(self, task: "asyncio.Task[Any]", pause_s: float) -> AsyncIterator[bytes]:
        """Yield queued bytes until a task has ended; yield a comment after each idle pause."""
        task.add_done_callback(lambda _: self._wake.set())
        while not task.done() or self._ready:
            if not self._ready:
                self._wake.clear()
                try:
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
                except TimeoutError:
                    yield KEEP_ALIVE
            ready, self._ready = self._ready, []
            if ready:
                yield b"".join(ready)


class StreamedResponse:
    """A streamed response to one client; headers are sent with the first bytes."""

    def __init__(self, request: web.Request, headers: Callable[[], dict[str, str]]) -> None:
        self._request = request
        self._headers = headers
        self.response: web.StreamResponse | None = None

    async def write(self, data: bytes) -> None:
        """Send bytes; raise `ConnectionResetError` if the client disconnected or does not read."""
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                if self.response is None:
                    self.response = web.StreamResponse(headers=STREAM_HEADERS | self._headers())
                    await self.response.prepare(self._request)
                await self.response.write(data)
        except TimeoutError:
            raise ConnectionResetError("the client does not read") from None


def summary_comment(result: ExchangeResult) -> bytes:
    """Return a comment with the values of the `x-surecall-` headers, which were already sent."""
    repairs = ",".join(dict.fromkeys(result.repairs))
    adapted = f" adapted={','.join(result.lessons)}" if result.lessons else ""
    return f": surecall attempts={result.attempts} fired={repairs}{adapted}\n\n".encode()


_JSON: Final = {"Content-Type": "application/json"}
# OpenAI's SDKs send this header on retries, and honor `x-should-retry`.
_RETRY_COUNT_HEADER: Final = "x-stainless-retry-count"
NO_RETRY: Final = {"x-should-retry": "false"}
_CLIENT_CLOSED: Final = 499
_MAX_HEADER_CHARS: Final = 500
_CLIENT_ERRORS: Final = range(400, 500)


class ProxyContext(NamedTuple):
    """What all request handlers of a proxy share."""

    upstream: Upstream
    settings: ProxySettings
    memory: TurnMemory
    records: RequestLog
    retry: RetryPolicy
    keep_alive_s: float
    trace_dir: Path | None
    token: Secret | None

    def forwarded_key(self, headers: Mapping[str, str]) -> str:
        """Return the client's key to forward; blank if it is the token of this proxy."""
        return "" if self.token is not None else client_key(headers)

    def upstream_for(self, headers: Mapping[str, str]) -> Upstream:
        """Return the upstream for one client request."""
        key = self.forwarded_key(headers)
        return self.upstream.for_client(headers, Secret(key) if key else None)


class _RecordedRequest:
    """One client request that ends with a record."""

    def __init__(self, parts: ProxyContext, request: web.Request) -> None:
        self._context = parts
        self._request = request
        self._number = parts.records.next_number()
        self._at, self._began = time.time(), time.perf_counter()
        self._upstream = parts.upstream_for(request.headers)

    def _add_record(self, api: str, model: str, outcome: JSON, *, streamed: bool = False) -> None:
        elapsed_ms = round((time.perf_counter() - self._began) * 1000)
        fields: JSON = {"api": api, "model": model[:200], "streamed": streamed}
        fields |= {"number": self._number, "at": self._at, "elapsed_ms": elapsed_ms}
        self._context.records.add(Record(**fields, **outcome))


class RequestHandler(_RecordedRequest):
    """Handles one request to an API adapter."""

    def __init__(
        self,
        parts: ProxyContext,
        request: web.Request,
        adapter: ApiAdapter,
        client_request: ClientRequest,
    ) -> None:
        super().__init__(parts, request)
        self._adapter = adapter
        self._client_request = client_request
        key = parts.forwarded_key(request.headers)
        owner = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        scope = f"{owner}\0{client_request.body.get('model')}"
        self._memory = ConversationMemory(parts.memory, scope, client_request.body["messages"])

    async def respond(self) -> web.Response:
        """Respond with one JSON body."""
        exchange = await self._new_exchange()
        try:
            result = await exchange.run(self._upstream, self._retry_policy)
        except asyncio.CancelledError:
            self._record_outcome({"status": _CLIENT_CLOSED, "outcome": "left"})
            raise
        self._record_outcome(outcome_fields(result))
        if result.body is None:
            return self._error_response(result)
        body = self._adapter.render(self._client_request, result.body)
        return json_response(200, body, self._answer_headers(result))

    async def respond_stream(self) -> web.StreamResponse:
        """Respond with a stream of events."""
        exchange = await self._new_exchange()
        buffered = self._context.settings.stream == "buffered"
        streamed_reply = StreamedReply(
            self._adapter.event_writer(self._client_request),
            exchange.default_head,
            buffered=buffered,
        )
        news = StreamQueue(streamed_reply)
        exchange.observers.append(news.on_event)
        self._upstream.on_begin = news.on_begin
        outgoing = StreamedResponse(
            self._request,
            lambda: (
                self._upstream_headers() | _run_header(exchange.run_id) | self._known_adaptations()
            ),
        )
        task = asyncio.create_task(exchange.run(self._upstream, self._retry_policy, news.show))
        try:
            async for data in news.drain(task, self._context.keep_alive_s):
                await outgoing.write(data)
            return await self._finish_stream(outgoing, streamed_reply, task.result())
        except (asyncio.CancelledError, ConnectionResetError):
            self._record_outcome({"status": _CLIENT_CLOSED, "outcome": "left"})
            raise
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _finish_stream(
        self, outgoing: StreamedResponse, streamed_reply: StreamedReply, result: ExchangeResult
    ) -> web.StreamResponse:
        """End a stream; an error before its first bytes becomes a plain response."""
        failure = result.failure
        if failure is not None and outgoing.response is None:
            self._record_outcome(outcome_fields(result))
            return self._error_response(result)
        rest = (
            streamed_reply.fail(failure)
            if failure is not None
            else streamed_reply.finish(result.body or {})
        )
        self._record_outcome(outcome_fields(result))
        await outgoing.write(summary_comment(result) + rest)
        response = outgoing.response
        assert response is not None  # noqa: S101  # something was written
        await response.write_eof()
        return response

    async def _new_exchange(self) -> ProxyExchange:
        tools = self._client_request.body.get("tools") or ()
        # Compiling the client's schemas may take a while.
        offer = cached_tools(tools)
        if offer is None:
            offer = await asyncio.to_thread(build_tools, tools)
        exchange = ProxyExchange(self._client_request, self._context.settings, self._memory, offer)
        if self._context.trace_dir is not None:
            stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(self._at))
            path = self._context.trace_dir / f"{stamp}-{exchange.run_id}.jsonl"
            exchange.observers.append(JsonlSink(path, self._upstream.secrets))
        return exchange

    @property
    def _retry_policy(self) -> RetryPolicy:
        """The retry policy: no retries if the client itself is retrying."""
        count = self._request.headers.get(_RETRY_COUNT_HEADER, "0")
        is_retry = count.isascii() and count.isdigit() and int(count) > 0
        retry = self._context.retry
        return msgspec.structs.replace(retry, attempts=1) if is_retry else retry

    def _error_response(self, result: ExchangeResult) -> web.Response:
        failure = result.failure
        assert failure is not None  # noqa: S101  # the callers check this
        headers = self._answer_headers(result)
        if _is_final(result):
            headers |= NO_RETRY
        body = self._upstream_error(failure.status) or self._adapter.render_error(failure)
        return json_response(failure.status, body, headers)

    def _upstream_error(self, status: int) -> JSON | None:
        """Return the upstream's own error body, if the client uses the same API."""
        last, data = self._upstream.last_answer, self._client_request.client_bytes
        if not data or last is None or last.status != status:
            return None
        if self._upstream.native_api(data) is not None:
            return None
        try:
            body = decode(last.body)
        except ValueError:
            return None
        return (
            Redactor(self._upstream.secrets).redact_value(body) if isinstance(body, dict) else None
        )

    def _answer_headers(self, result: ExchangeResult) -> dict[str, str]:
        repairs = ",".join(dict.fromkeys(result.repairs))[:_MAX_HEADER_CHARS]
        return {
            **self._upstream_headers(),
            **_run_header(result.run_id),
            "x-surecall-attempts": str(result.attempts),
            **({"x-surecall-fired": repairs} if repairs else {}),
            **_adapted_header(result.lessons),
        }

    def _known_adaptations(self) -> dict[str, str]:
        """Return the header for what was known before; a comment names what is learned."""
        model = str(self._client_request.body.get("model", ""))
        return _adapted_header(self._upstream.lessons.get(model, ()))

    def _upstream_headers(self) -> dict[str, str]:
        last = self._upstream.last_answer
        return {} if last is None else returnable_headers(last.headers)

    def _record_outcome(self, outcome: JSON) -> None:
        model = str(self._client_request.body.get("model", ""))
        self._add_record(self._adapter.name, model, outcome, streamed=self._client_request.stream)


def _is_final(result: ExchangeResult) -> bool:
    """Whether the client should not retry: the proxy did, it cannot help, or a guard ended it."""
    fault, failure = result.fault, result.failure
    is_permanent = fault is not None and not fault.retryable
    is_guarded = failure is not None and failure.code == ErrorCode.MAX_TOOL_CALLS_EXCEEDED
    # No attempt at all: the turn guard ended the run.
    return result.attempts != 1 or is_permanent or is_guarded


def _adapted_header(lessons: Iterable[str]) -> dict[str, str]:
    """Return the header that names adaptations; no header without any."""
    names = ",".join(lessons)[:_MAX_HEADER_CHARS]
    return {"x-surecall-adapted": names} if names else {}


def _run_header(run_id: str) -> dict[str, str]:
    return {"x-surecall-run": run_id}


def client_key(headers: Mapping[str, str]) -> str:
    """Return the key in the `Authorization` or `x-api-key` header, blank if there is none."""
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a JSON response."""
    return web.Response(status=status, body=encode(body), headers={**_JSON, **(headers or {})})


_PATH_CHARS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/@+"
)


def is_plain_path(path: str) -> bool:
    """Whether a path, without the prefix, cannot leave the upstream's base path."""
    parts = path.split("/")
    return (
        path.startswith("/")
        and _PATH_CHARS.issuperset(path)
        and not any(part in {"", ".", ".."} for part in parts[1:])
    )


class Passthrough(_RecordedRequest):
    """Forwards one request unchanged, and streams the response.

    A chat completion request is adapted if the upstream rejects it, or rejected one like it before.
    """

    def __init__(self, parts: ProxyContext, request: web.Request, path: str) -> None:
        super().__init__(parts, request)
        self._path = path
        self._learner: LessonLearner | None = None

    async def respond(self) -> web.StreamResponse:
        """Forward the request and return the response."""
        request = self._request
        query = request.raw_path.partition("?")[2]
        path = f"{self._path}?{query}" if query else self._path
        given = await request.read()
        body = self._adapt(given)
        kind = request.headers.get("Content-Type")
        status, has_begun = _CLIENT_CLOSED, False
        try:
            while True:
                async with self._upstream.forward(request.method, path, body, kind) as incoming:
                    status, has_begun = incoming.status, True
                    rejection = await self._read_rejection(incoming)
                    if rejection is None or not self._learn(given, incoming, rejection):
                        return await self._send_answer(incoming, rejection)
                body, has_begun = self._adapt(given), False
        except ProviderError as error:
            status = 504 if error.fault.code is ErrorCode.TIMEOUT else 502
            if has_begun:
                # An error body would look like a part of the response.
                raise ConnectionResetError("the upstream broke off its response") from None
            failure = ErrorReply(status, error.fault.message, str(error.fault.code))
            return json_response(status, error_body(failure))
        except TimeoutError:
            raise ConnectionResetError("the client does not read") from None
        finally:
            outcome = "left" if status == _CLIENT_CLOSED else "passed"
            fields = {"status": status, "outcome": outcome, "lessons": self._lessons}
            self._add_record(request.method, self._path, fields)

    @property
    def _lessons(self) -> tuple[str, ...]:
        """The lessons that the request was adapted to."""
        return () if self._learner is None else self._learner.lessons

    @property
    def _is_chat(self) -> bool:
        return self._request.method == "POST" and self._path == "/chat/completions"

    def _adapt(self, body: bytes) -> bytes:
        """Return the request with the lessons known for its model."""
        if self._learner is None:
            if not self._is_chat or not self._upstream.lessons:
                return body
            self._learner = self._new_learner(body)
        return adapt_body(body, self._lessons)

    def _new_learner(self, body: bytes) -> LessonLearner | None:
        try:
            given = decode(body)
        except ValueError:
            return None
        if not is_adaptable(given):
            return None
        return LessonLearner(self._upstream.lessons, str(given.get("model")))

    async def _read_rejection(self, incoming: Incoming) -> bytes | None:
        """Return the whole body of a rejected chat completion; None for any other response."""
        if not self._is_chat or incoming.status not in _CLIENT_ERRORS:
            if self._learner is not None:
                self._learner.confirm()
            return None
        data = bytearray()
        async for chunk in incoming.chunks:
            data += chunk
            if len(data) > self._context.upstream.limits.max_response_bytes:
                raise ConnectionResetError("the upstream's response exceeds max_response_bytes")
        return bytes(data)

    def _learn(self, request_body: bytes, incoming: Incoming, rejection: bytes) -> bool:
        """Whether a rejection teaches how to adapt the request."""
        self._learner = self._learner or self._new_learner(request_body)
        fault = decode_body(HttpResponse(incoming.status, incoming.headers, rejection))
        if self._learner is None or not isinstance(fault, Fault):
            return False

        def find(lessons: tuple[str, ...], tried: tuple[str, ...]) -> tuple[str, ...]:
            return request_lessons(
                fault, decode(adapt_body(request_body, lessons)), (*lessons, *tried)
            )

        return bool(self._learner.learn(fault, find))

    async def _send_answer(
        self, incoming: Incoming, body: bytes | None = None
    ) -> web.StreamResponse:
        """Send the response; `body` is its body, if it was read already."""
        kind = incoming.headers.get("content-type", "application/octet-stream")
        headers = returnable_headers(incoming.headers) | {"Content-Type": kind}
        headers |= _adapted_header(self._lessons)
        response = web.StreamResponse(status=incoming.status, headers=headers)
        await response.prepare(self._request)
        if body is not None:
            await response.write(body)
        left = self._context.upstream.limits.max_response_bytes
        async for chunk in incoming.chunks:
            left -= len(chunk)
            if left < 0:
                raise ConnectionResetError("the upstream's response exceeds max_response_bytes")
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await response.write(chunk)
        await response.write_eof()
        return response
