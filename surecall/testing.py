"""Test doubles for programs that use surecall: a script in place of the model.

    ScriptedModel       in this process, no network: give it to a runner in place of a client
    ScriptedProvider    a real HTTP server on 127.0.0.1, for what happens on the wire
    RecordingObserver   keeps every event of a run
    ScriptedPerson      decides about the calls that wait for a person

A script is a list of answers, one per request. Plain answers are chat completion bodies, built
with `says`, `calls` and `calls_many`; everything else is a `Scripted`, built with `streams`,
`failure`, `raw`, `hangs`, `hangs_up` and `cuts`. An item may also be a function that is given the
decoded request and returns the answer. `replies_of(trace)` is the script of a recorded run.

    model = ScriptedModel(calls("add", a=1, b=2), says("3"))

`aiohttp` is imported inside functions only, so that a test without a server does not load it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec

from surecall.core.outcome import RunResult
from surecall.runtime.event_loop_thread import in_background
from surecall.runtime.loopback import LOOPBACK
from surecall.runtime.transport import Incoming
from surecall.simulator.scripted_replies import calls, calls_many, continuing, says
from surecall.simulator.stream_events import events_of, frames_of
from surecall.values.decisions import Decision, WaitingCall
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import LlmRequestEndEvent
from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json
from surecall.values.trace import Trace
from surecall.values.types import JSON, Answer

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
_MAX_REQUEST_BYTES = 256 * 1024 * 1024


class Scripted(msgspec.Struct, frozen=True):
    """An answer that is more than a plain success: first the wait, then what is sent, if any.

    `sent` counts the bytes of the body that go out before the connection is closed; None sends
    them all. With `answers` false the connection is closed without a single byte. `piece_bytes`
    sends the body in pieces of that size. `reply` is what a streamed body was made of.
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
        """What goes out, piece by piece."""
        going = self.body[: self.sent]
        size = self.piece_bytes or max(len(going), 1)
        return [going[at : at + size] for at in range(0, len(going), size)]


Built: TypeAlias = JSON | Scripted
Reaction: TypeAlias = Callable[[JSON], Built | Exception]
Item: TypeAlias = Built | Exception | Reaction


def streams(reply: JSON, piece_bytes: int | None = None, after: int | None = None) -> Scripted:
    """Stream a reply as server-sent events, the way OpenAI does.

    The bytes go out in pieces of `piece_bytes`; with `after`, the connection is closed when that
    many have been sent.
    """
    body = _streamed(reply)
    return Scripted(200, body, _EVENTS, sent=after, piece_bytes=piece_bytes, reply=reply)


def _streamed(reply: JSON) -> bytes:
    return b"".join(frames_of(events_of(reply, usage=True)))


def failure(
    status: int, body: JSON | str | bytes | None = None, headers: dict[str, str] | None = None
) -> Scripted:
    """Build an error answer; without a body it gets the error object OpenAI would send."""
    if body is None:
        body = _error(_phrase(status), code=None)
    encoded = body.encode() if isinstance(body, str) else _encoded(body)
    named = {name.lower(): value for name, value in (headers or {}).items()}
    return Scripted(status, encoded, {"content-type": _JSON_TYPE} | named)


def raw(body: bytes, status: int = 200, content_type: str = _JSON_TYPE) -> Scripted:
    """Build an answer of exactly these bytes."""
    return Scripted(status, body, {"content-type": content_type})


def hangs(seconds: float) -> Scripted:
    """Keep the client waiting for that long, then close the connection without an answer."""
    return Scripted(wait=seconds, answers=False)


def hangs_up() -> Scripted:
    """Close the connection immediately, without an answer."""
    return Scripted(answers=False)


def cuts(body: JSON | bytes, after: int) -> Scripted:
    """Announce the whole body, send its first `after` bytes, then close the connection."""
    return Scripted(body=_encoded(body), headers={"content-type": _JSON_TYPE}, sent=after)


def replies_of(trace: Trace) -> tuple[Scripted, ...]:
    """Return the answers of a recorded run as a script: what the model said, request by request.

    A model that answers from it says the same to a prompt or to tools that have changed.
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

    async def send(self, body: bytes) -> Answer:
        """Record the request and give the next answer of the script."""
        async with self.stream(body) as incoming:
            received = b"".join([piece async for piece in incoming.chunks])
        return Answer(incoming.status, incoming.headers, received)

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        """Do the same, and hand the answer over piece by piece."""
        self.requests.append(msgspec.json.decode(body))
        answer = _next_answer(self._script, self.requests, repeat=False)
        await asyncio.sleep(answer.wait)
        if not answer.answers:
            raise _closed()
        headers = {name.lower(): value for name, value in answer.headers.items()}
        yield Incoming(answer.status, headers, _spoken(answer))

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Do nothing: a script has no connections."""
        return nullcontext()


async def _spoken(answer: Scripted) -> AsyncIterator[bytes]:
    for piece in answer.pieces:
        yield piece
        await asyncio.sleep(0)
    if answer.sent is not None:
        raise _closed()


def _closed() -> ProviderError:
    message = "The scripted model closed the connection."
    return ProviderError(Fault(ErrorCode.CONNECTION_ERROR, message, retryable=True))


class ScriptedProvider:
    """A real HTTP server on 127.0.0.1 that answers from a script.

        with ScriptedProvider(calls("add", a=1), says("1")) as provider:
            client = OpenAICompatible(provider.url)

    It serves `POST /v1/chat/completions` and `GET /v1/models` from a thread of its own.
    `requests` and `headers` hold what came in, in order; header names are in lower case. With
    `api_key` set, any other key gets a 401 that uses up no item of the script. With `repeat`
    the script starts over at its end. A request beyond the end, or a function of the script
    that raises, is answered with a 500, and leaving the block raises what happened.
    """

    def __init__(self, *script: Item, api_key: str | None = None, repeat: bool = False) -> None:
        self.url = ""
        self.requests: list[JSON] = []
        self.headers: list[dict[str, str]] = []
        self._script = script
        self._api_key = api_key
        self._repeat = repeat
        self._answered: list[JSON] = []
        self._problems: list[Exception] = []
        self._stopping = asyncio.Event()
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        self._cleanup = in_background(self._start, self._stop)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._cleanup.close()
        # A failing test raises its own error; ours would hide it.
        if kind is None and self._problems:
            raise self._problems[0]

    async def _start(self) -> "web.AppRunner":
        from aiohttp import web  # noqa: PLC0415 - see the module's first lines

        from surecall.runtime.loopback_server import Door  # noqa: PLC0415 - the same

        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list_models)
        door = Door(LOOPBACK, _refused)
        runner = await door.open(app, 0)
        self.url = door.url
        return runner

    async def _stop(self, runner: "web.AppRunner") -> None:
        self._stopping.set()
        await runner.cleanup()

    async def _complete(self, request: "web.Request") -> "web.StreamResponse":
        try:
            body = decode_json(await request.read(), limit=MAX_WRAPPED_DEPTH)
        except ValueError as error:
            return _refused(400, str(error))
        if not isinstance(body, dict):
            return _refused(400, "The request body must be a JSON object.")
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if not self._admits(request):
            return await self._answer(request, _UNAUTHORIZED)
        return await self._answer(request, self._next(body))

    def _next(self, body: JSON) -> Scripted:
        self._answered.append(body)
        try:
            return _next_answer(self._script, self._answered, repeat=self._repeat)
        except Exception as problem:  # noqa: BLE001 - the test's own code; raised again on leaving
            self._problems.append(problem)
            return failure(500, _error(str(problem), code="script"))

    async def _list_models(self, request: "web.Request") -> "web.StreamResponse":
        model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "surecall"}
        listing = raw(msgspec.json.encode({"object": "list", "data": [model]}))
        return await self._answer(request, listing if self._admits(request) else _UNAUTHORIZED)

    def _admits(self, request: "web.Request") -> bool:
        if self._api_key is None:
            return True
        return request.headers.get("Authorization") == f"Bearer {self._api_key}"

    async def _answer(self, request: "web.Request", answer: Scripted) -> "web.StreamResponse":
        from aiohttp import web  # noqa: PLC0415 - see the module's first lines

        if answer.wait:
            await self._rest(answer.wait)
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

    async def _rest(self, seconds: float) -> None:
        """Wait, but not beyond the end of the server."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({stopping}, timeout=seconds)
        stopping.cancel()


class RecordingObserver:
    """An observer that keeps every event, for tests to look at."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: object) -> None:
        """Keep the event."""
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        """The events' class names, in order."""
        return [type(event).__name__ for event in self.events]


class ScriptedPerson:
    """Decides about the calls that wait for a person, from a script.

        person = ScriptedPerson(Decision.approve(), Decision.deny("Not today."))
        while result.waiting:
            result = runner.resume_sync(result.run, decisions=person.decide(result))

    `asked` holds the calls that it was asked about, in order. A call beyond the end of the script
    is an AssertionError.
    """

    def __init__(self, *script: Decision) -> None:
        self.asked: list[WaitingCall] = []
        self._script = script

    def decide(self, result: RunResult) -> dict[str, Decision]:
        """Decide about all calls that wait, in their order."""
        made: dict[str, Decision] = {}
        for call in result.waiting:
            self.asked.append(call)
            if len(self.asked) > len(self._script):
                count = len(self._script)
                raise AssertionError(f"The script has {count} decisions; {call.name} waits, too.")
            made[call.id] = self._script[len(self.asked) - 1]
        return made


def _next_answer(script: tuple[Item, ...], requests: list[JSON], *, repeat: bool) -> Scripted:
    """Return the answer to the last of the requests."""
    turn = len(requests) - 1
    if turn >= len(script) and not (repeat and script):
        raise AssertionError(f"The script has {len(script)} answers, but {turn + 1} requests came.")
    item = script[turn % len(script)]
    built = item(requests[-1]) if callable(item) else item
    if isinstance(built, Exception):
        raise built
    if not isinstance(built, Scripted):
        return raw(msgspec.json.encode(continuing(built, requests[-1])))
    if built.reply is None:
        return built
    body = _streamed(continuing(built.reply, requests[-1]))
    return msgspec.structs.replace(built, body=body)


def _encoded(body: JSON | bytes) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _phrase(status: int) -> str:
    known = {member.value: member.phrase for member in HTTPStatus}
    return known.get(status, f"Status {status}")


def _error(message: str, *, code: str | None) -> JSON:
    kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _refused(status: int, message: str) -> "web.Response":
    from aiohttp import web  # noqa: PLC0415 - see the module's first lines

    body = msgspec.json.encode(_error(message, code=None))
    return web.Response(status=status, body=body, content_type=_JSON_TYPE)


_UNAUTHORIZED = failure(401, _error("Incorrect API key provided.", code="invalid_api_key"))
