"""The scripted model, the scripted provider, and observers for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from surecall.core.outcome import RunResult
from surecall.runtime.http_server import HttpServer
from surecall.runtime.transport import Incoming
from surecall.simulator.scripted_replies import assign_call_ids, calls, calls_many, error_body, says
from surecall.simulator.stream_events import build_events, encode_frames
from surecall.values.decisions import Decision, WaitingCall
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import LlmRequestEndEvent
from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json
from surecall.values.trace import Trace
from surecall.values.types import JSON, HttpResponse

if TYPE_CHECKING:
    from aiohttp import web

__all__ = [
    "Built",
    "Item",
    "Reaction",
    "RecordingObserver",
    "Scripted",
    "ScriptedModel",
    "ScriptedPerson",
    "ScriptedProvider",
    "calls",
    "calls_many",
    "cuts",
    "failure",
    "hangs",
    "hangs_up",
    "raw",
    "replies_of",
    "says",
    "streams",
]

_JSON_TYPE = "application/json"
_EVENTS = {"content-type": "text/event-stream"}


class Scripted(msgspec.Struct, frozen=True):
    """An answer other than a plain success.

    `wait` is the delay in seconds before it is sent. `sent` is the number of body bytes to send
    before closing the connection; None sends all. With `answers=False` the connection is closed
    without an answer. `piece_bytes` sends the body in pieces of that size. `reply` is the chat
    completion that a streamed body was built from.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}
    wait: float = 0.0
    answers: bool = True
    sent: int | None = None
    piece_bytes: int | None = None
    reply: JSON | None = None

    @property
    def pieces(self) -> list[bytes]:
        """The sent part of the body, in pieces."""
        going = self.body[: self.sent]
        size = self.piece_bytes or max(len(going), 1)
        return [going[at : at + size] for at in range(0, len(going), size)]


Built: TypeAlias = JSON | Scripted
Reaction: TypeAlias = Callable[[JSON], Built | Exception]
Item: TypeAlias = Built | Exception | Reaction


def streams(reply: JSON, piece_bytes: int | None = None, after: int | None = None) -> Scripted:
    """Stream a reply as server-sent events, like OpenAI.

    `piece_bytes` is the size of the pieces to send; with `after`, the connection is closed after
    that many bytes.
    """
    body = _encode_stream(reply)
    return Scripted(200, body, _EVENTS, sent=after, piece_bytes=piece_bytes, reply=reply)


def _encode_stream(reply: JSON) -> bytes:
    return b"".join(encode_frames(build_events(reply, usage=True)))


def failure(
    status: int, body: JSON | str | bytes | None = None, headers: dict[str, str] | None = None
) -> Scripted:
    """Return an error answer; the default body is OpenAI's error object."""
    if body is None:
        body = error_body(_status_phrase(status))
    encoded = body.encode() if isinstance(body, str) else _encode_body(body)
    named = {name.lower(): value for name, value in (headers or {}).items()}
    return Scripted(status, encoded, {"content-type": _JSON_TYPE} | named)


def raw(body: bytes, status: int = 200, content_type: str = _JSON_TYPE) -> Scripted:
    """Return an answer with exactly these bytes."""
    return Scripted(status, body, {"content-type": content_type})


def hangs(seconds: float) -> Scripted:
    """Wait for `seconds`, then close the connection without an answer."""
    return Scripted(wait=seconds, answers=False)


def hangs_up() -> Scripted:
    """Close the connection immediately, without an answer."""
    return Scripted(answers=False)


def cuts(body: JSON | bytes, after: int) -> Scripted:
    """Announce the whole body, send its first `after` bytes, then close the connection."""
    return Scripted(body=_encode_body(body), headers={"content-type": _JSON_TYPE}, sent=after)


def replies_of(trace: Trace) -> tuple[Scripted, ...]:
    """Return the answers of a recorded run as a script, one per request.

    A model with this script gives the same answers even if prompt or tools have changed.
    """
    ends = (event for event in trace if isinstance(event, LlmRequestEndEvent))
    return tuple(raw(msgspec.json.encode(event.body)) for event in ends)


class ScriptedModel:
    """A client that answers from a script, without a network.

    `requests` holds the decoded body of every request. An exception in the script is raised;
    `hangs`, `hangs_up` and `cuts` end in the same error that a real connection would give. A
    request beyond the end of the script is an AssertionError.
    """

    def __init__(self, *script: Item) -> None:
        self.requests: list[JSON] = []
        self._script = script

    async def send(self, body: bytes) -> HttpResponse:
        """Record the request and return the next answer of the script."""
        async with self.stream(body) as incoming:
            received = b"".join([piece async for piece in incoming.chunks])
        return HttpResponse(incoming.status, incoming.headers, received)

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        """Record the request and stream the next answer of the script."""
        self.requests.append(msgspec.json.decode(body))
        answer = _next_answer(self._script, self.requests, repeat=False)
        await asyncio.sleep(answer.wait)
        if not answer.answers:
            raise _closed_connection_error()
        headers = {name.lower(): value for name, value in answer.headers.items()}
        yield Incoming(answer.status, headers, _send_pieces(answer))

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Do nothing: a script has no connections."""
        return nullcontext()


async def _send_pieces(answer: Scripted) -> AsyncIterator[bytes]:
    for piece in answer.pieces:
        yield piece
        await asyncio.sleep(0)
    if answer.sent is not None:
        raise _closed_connection_error()


def _closed_connection_error() -> ProviderError:
    message = "The scripted model closed the connection."
    return ProviderError(Fault(ErrorCode.CONNECTION_ERROR, message, retryable=True))


class ScriptedProvider(HttpServer):
    """A real HTTP server on 127.0.0.1 that answers from a script.

        with ScriptedProvider(calls("add", a=1), says("1")) as provider:
            client = OpenAICompatible(provider.url)

    It serves `POST /v1/chat/completions` and `GET /v1/models` from its own thread. `requests` and
    `headers` hold the received requests in order; header names are in lower case. With `api_key`,
    any other key gets a 401 that does not consume the script. With `repeat`, the script starts over
    at its end. A request beyond the end, or an exception in a function of the script, is answered
    with a 500, and leaving the block raises the error.
    """

    max_request_bytes = 256 * 1024 * 1024

    def __init__(self, *script: Item, api_key: str | None = None, repeat: bool = False) -> None:
        super().__init__()
        self.requests: list[JSON] = []
        self.headers: list[dict[str, str]] = []
        self._script = script
        self._api_key = api_key
        self._repeat = repeat
        self._received: list[JSON] = []
        self._problems: list[Exception] = []

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        super().__exit__()
        self._raise_problem(kind)

    async def __aexit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        await super().__aexit__()
        self._raise_problem(kind)

    def _raise_problem(self, kind: type[BaseException] | None) -> None:
        """Raise the first error of the script, unless the block raised an exception."""
        # Do not hide the error of a failing test.
        if kind is None and self._problems:
            raise self._problems[0]

    def _add_routes(self, app: "web.Application") -> None:
        app.router.add_post("/v1/chat/completions", self._handle_completion)
        app.router.add_get("/v1/models", self._list_models)

    def _refusal(self, status: int, message: str) -> "web.Response":
        from aiohttp import web  # noqa: PLC0415 - see the module's first lines

        body = msgspec.json.encode(error_body(message))
        return web.Response(status=status, body=body, content_type=_JSON_TYPE)

    async def _handle_completion(self, request: "web.Request") -> "web.StreamResponse":
        """Record a request and send the next answer of the script."""
        try:
            body = decode_json(await request.read(), limit=MAX_WRAPPED_DEPTH)
        except ValueError as error:
            return self._refusal(400, str(error))
        if not isinstance(body, dict):
            return self._refusal(400, "The request body must be a JSON object.")
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if not self._has_valid_key(request):
            return await self._send_answer(request, _UNAUTHORIZED)
        return await self._send_answer(request, self._next_answer_or_error(body))

    def _next_answer_or_error(self, body: JSON) -> Scripted:
        """Return the next answer; an error in the script becomes a 500."""
        self._received.append(body)
        try:
            return _next_answer(self._script, self._received, repeat=self._repeat)
        except Exception as problem:  # noqa: BLE001 - the test's own code; raised again on leaving
            self._problems.append(problem)
            return failure(500, error_body(str(problem), "script"))

    async def _list_models(self, request: "web.Request") -> "web.StreamResponse":
        model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "surecall"}
        listing = raw(msgspec.json.encode({"object": "list", "data": [model]}))
        return await self._send_answer(
            request, listing if self._has_valid_key(request) else _UNAUTHORIZED
        )

    def _has_valid_key(self, request: "web.Request") -> bool:
        if self._api_key is None:
            return True
        return request.headers.get("Authorization") == f"Bearer {self._api_key}"

    async def _send_answer(self, request: "web.Request", answer: Scripted) -> "web.StreamResponse":
        """Send an answer, and close the connection where it says so."""
        from aiohttp import web  # noqa: PLC0415 - see the module's first lines

        if answer.wait:
            await self._pause(answer.wait)
        if answer.answers and answer.sent is None and answer.piece_bytes is None:
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        if answer.answers:
            response.content_length = len(answer.body)
            await response.prepare(request)
            for piece in answer.pieces:
                await response.write(piece)
        whole = answer.answers and answer.sent is None
        if request.transport is not None and not whole:
            request.transport.close()
        return response


class RecordingObserver:
    """An observer that stores every event."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: object) -> None:
        """Store the event."""
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        """The events' class names, in order."""
        return [type(event).__name__ for event in self.events]


class ScriptedPerson:
    """Decides about calls that need human approval, from a script.

        person = ScriptedPerson(Decision.approve(), Decision.deny("Not today."))
        while result.waiting:
            result = runner.resume_sync(result.run, decisions=person.decide(result))

    `asked` holds these calls, in order. A call beyond the end of the script raises AssertionError.
    """

    def __init__(self, *script: Decision) -> None:
        self.asked: list[WaitingCall] = []
        self._script = script

    def decide(self, result: RunResult) -> dict[str, Decision]:
        """Decide about all waiting calls, in order."""
        decisions: dict[str, Decision] = {}
        for call in result.waiting:
            self.asked.append(call)
            if len(self.asked) > len(self._script):
                count = len(self._script)
                raise AssertionError(
                    f"The script has {count} decisions, but {call.name} needs another one."
                )
            decisions[call.id] = self._script[len(self.asked) - 1]
        return decisions


def _next_answer(script: tuple[Item, ...], requests: list[JSON], *, repeat: bool) -> Scripted:
    """Return the answer to the last request."""
    turn = len(requests) - 1
    if turn >= len(script) and not (repeat and script):
        raise AssertionError(
            f"The script has {len(script)} answers, but received request {turn + 1}."
        )
    item = script[turn % len(script)]
    built = item(requests[-1]) if callable(item) else item
    if isinstance(built, Exception):
        raise built
    if not isinstance(built, Scripted):
        return raw(msgspec.json.encode(assign_call_ids(built, requests[-1])))
    if built.reply is None:
        return built
    body = _encode_stream(assign_call_ids(built.reply, requests[-1]))
    return msgspec.structs.replace(built, body=body)


def _encode_body(body: JSON | bytes) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _status_phrase(status: int) -> str:
    phrases = {member.value: member.phrase for member in HTTPStatus}
    return phrases.get(status, f"Status {status}")


_UNAUTHORIZED = failure(401, error_body("Incorrect API key provided.", "invalid_api_key"))
