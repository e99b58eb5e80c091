"""The simulator's server: an OpenAI-compatible provider on loopback that answers as personas.

    with Simulator(seed=7) as simulator:
        client = OpenAICompatible(simulator.url)

It serves `POST /v1/chat/completions`, plain or as a stream, and `GET /v1/models`; `GET /health`;
and what was wrong in the requests at `GET /violations` (`DELETE` forgets it). The `model` of a
request names the persona. `aiohttp` is imported inside functions only, so that a list of personas
does not load it.
"""

import asyncio
import itertools
import socket
import struct
import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

import msgspec

from surecall.runtime.event_loop_thread import in_background
from surecall.runtime.loopback import LOOPBACK, is_loopback
from surecall.simulator.answer_bytes import PLAIN, AnswerBytes, body_bytes, encoded, stream_bytes
from surecall.simulator.error_bodies import refusal
from surecall.simulator.personas.catalogue import PERSONAS, find, no_persona, persona_for
from surecall.simulator.personas.persona import RETRIED, Persona, Said, outcome_of, say
from surecall.simulator.personas.worded_requests import understood
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check
from surecall.simulator.stream_events import (
    is_streamable,
    stream_rules,
    wants_usage,
    without_streaming,
)
from surecall.simulator.transport_faults import TRANSPORT_FAULTS, TransportFault
from surecall.simulator.violations import Violation
from surecall.values.errors import ConfigError
from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json
from surecall.values.types import JSON
from surecall.values.version import __version__
from surecall.wire.content_parts import text_of

if TYPE_CHECKING:
    from aiohttp import web

_MAX_REQUEST_BYTES = 64 * 1024 * 1024
_KEPT = 10_000
_LONGEST_ANSWER_S = 600.0
_JSON = {"Content-Type": "application/json"}


class Seen(msgspec.Struct, frozen=True):
    """A violation, with the persona whose rules were broken and the number of the request."""

    persona: str
    request: int
    rule: str
    where: str
    message: str


Report = Callable[[Seen], None]


class Simulator:
    """A provider that misbehaves on purpose, served from a thread of its own.

    `requests` and `violations` hold what came in and what was wrong with it, the newest ten
    thousand of each; `faults` counts the faults that were sent. `default` names the persona for
    models that the simulator does not know; without it, and for unknown names that begin with
    `sim/`, the answer is a 404. Anything but
    loopback is refused unless `anywhere` says that it is meant: every program that reaches the
    port can use the server. Pages of other sites are not let in, and a request has to arrive in
    time: `patience` is `head_s` and `body_s` of `runtime.loopback_server.Door`.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        default: str | None = None,
        host: str = LOOPBACK,
        port: int = 0,
        anywhere: bool = False,
        report: Report | None = None,
        **patience: float,
    ) -> None:
        if not anywhere and not is_loopback(host):
            raise ConfigError(f"{host} is not loopback; say `anywhere` if the network may use it")
        if default is not None and find(default) is None:
            raise ConfigError(no_persona(default))
        self.url = ""
        self.seed = seed
        self.requests: deque[JSON] = deque(maxlen=_KEPT)
        self.violations: deque[Seen] = deque(maxlen=_KEPT)
        self.faults: Counter[str] = Counter()
        self._count = 0
        self.default = default
        self._address = (host, port)
        self._report = report
        self._patience = patience
        self._spared: OrderedDict[str, None] = OrderedDict()
        self._open: dict[int, web.Request] = {}
        self._stopping = asyncio.Event()
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        self._cleanup = in_background(self.start, self.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    async def start(self) -> "web.AppRunner":
        """Listen, in the running event loop."""
        from aiohttp import web  # noqa: PLC0415 - see the module's first lines

        from surecall.runtime.loopback_server import Door  # noqa: PLC0415 - the same

        self._stopping = asyncio.Event()
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/violations", self._list_violations)
        app.router.add_delete("/violations", self._forget_violations)
        door = Door(self._address[0], _refused, **self._patience)
        runner = await door.open(app, self._address[1], handler_cancellation=True)
        self.url = door.url
        return runner

    async def stop(self, runner: "web.AppRunner") -> None:
        """Stop listening; connections that still wait for an answer are closed."""
        self._stopping.set()
        for request in self._open.values():
            _hang_up(request, "abort")
        await runner.cleanup()

    async def _complete(self, request: "web.Request") -> "web.StreamResponse":
        body = _decoded(await request.read())
        if isinstance(body, str):
            return _answer(400, _error(body, None))
        self._count += 1
        self.requests.append(body)
        persona = persona_for(str(body.get("model")), self.default)
        if persona is None:
            return _answer(404, _error(no_persona(str(body.get("model"))[:64]), "model_not_found"))
        rules = PROVIDER_RULES[persona.rules]
        if found := [*check(body, rules), *stream_rules(body)]:
            self._note(persona, found)
            return _answer(*refusal(rules, found[0]))
        said = self._said(persona, body)
        fault = TRANSPORT_FAULTS.get(said.fault, PLAIN)
        answer = _answer_bytes(fault, said.body, body)
        self.faults[said.fault] += said.fault != "" and answer.faulty
        self._open[id(request)] = request
        try:
            return await self._deliver(request, fault, answer)
        finally:
            self._open.pop(id(request))

    def _note(self, persona: Persona, found: list[Violation]) -> None:
        for violation in found:
            fields = msgspec.structs.asdict(violation)
            seen = Seen(persona.id, self._count, **fields)
            self.violations.append(seen)
            if self._report is not None:
                self._report(seen)

    def _said(self, persona: Persona, body: JSON) -> Said:
        """Let the persona answer; a fault that a retry cures comes once in each place."""
        place = _place(persona, body)
        spare = place in self._spared
        said = say(persona, without_streaming(body), self.seed, spare=spare)
        if TRANSPORT_FAULTS.get(said.fault, PLAIN).only_streams and not body.get("stream"):
            said = Said(said.body)
        self._spared.pop(place, None)
        if said.fault and not spare and outcome_of(said.fault) == RETRIED:
            self._spared[place] = None
            while len(self._spared) > _KEPT:
                self._spared.popitem(last=False)
        return said

    async def _deliver(
        self, request: "web.Request", fault: TransportFault, answer: AnswerBytes
    ) -> "web.StreamResponse":
        """Send an answer with its transport fault, for a bounded time."""
        from aiohttp import web  # noqa: PLC0415 - see the module's first lines

        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.content_length = answer.length
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_ANSWER_S):
                await self._rest(fault.wait_s)
                if fault.sends:
                    await response.prepare(request)
                    await self._send(response, fault, answer)
                if fault.ending == "hang":
                    await self._stopping.wait()
        if fault.ending:
            _hang_up(request, fault.ending)
        return response

    async def _send(
        self, response: "web.StreamResponse", fault: TransportFault, answer: AnswerBytes
    ) -> None:
        sent = 0
        again = itertools.repeat(answer.again) if answer.again else ()
        for piece in itertools.chain(answer.pieces, again):
            if sent >= fault.at_most or self._stopping.is_set():
                return
            await response.write(piece)
            sent += len(piece)
            await self._rest(fault.pause_s)

    async def _rest(self, seconds: float) -> None:
        """Wait, but not beyond the end of the server; let others run in any case."""
        if not seconds:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _models(self, _: "web.Request") -> "web.StreamResponse":
        models = [
            {
                "id": persona.id,
                "object": "model",
                "created": 0,
                "owned_by": "surecall-simulator",
                "description": persona.summary,
            }
            for persona in PERSONAS.values()
        ]
        return _answer(200, {"object": "list", "data": models})

    async def _health(self, _: "web.Request") -> "web.StreamResponse":
        state = {"status": "ok", "version": __version__, "seed": self.seed}
        counts = {"personas": len(PERSONAS), "requests": self._count, "faults": +self.faults}
        return _answer(200, state | counts)

    async def _list_violations(self, _: "web.Request") -> "web.StreamResponse":
        return _answer(200, {"violations": list(self.violations)})

    async def _forget_violations(self, _: "web.Request") -> "web.StreamResponse":
        count = len(self.violations)
        self.violations.clear()
        return _answer(200, {"deleted": count})


def status_of(body: Any) -> int:
    """Return the HTTP status of a reply: Groq reports its model's slips with a 400."""
    match body:
        case {"error": {"code": "tool_use_failed"}}:
            return 400
        case {"error": {"code": 404}}:
            return 404
        case _:
            return 200


def _place(persona: Persona, body: JSON) -> str:
    """Name the point that a conversation has reached: a retry, however worded, is the same."""
    asked = understood(body).request
    messages = [item for item in asked.get("messages", ()) if isinstance(item, dict)]
    first = next((item for item in messages if item.get("role") == "user"), {})
    results = sum(item.get("role") == "tool" for item in messages)
    # What a client says after an empty reply may be part of the first message.
    asked_first, _, _ = text_of(first.get("content")).partition("\n")
    return f"{persona.id}\0{results}\0{hash(asked_first)}"


def _decoded(data: bytes) -> JSON | str:
    """Read a request as strictly as a real server: the object, or what is wrong with it."""
    try:
        body = decode_json(data, limit=MAX_WRAPPED_DEPTH)
    except ValueError as problem:
        return f"The request body is not valid JSON: {problem}"
    return body if isinstance(body, dict) else "The request body must be a JSON object."


def _answer_bytes(fault: TransportFault, reply: Any, request: JSON) -> AnswerBytes:
    """Put a reply into the form that was asked for; an error before a stream is plain."""
    if not request.get("stream") or fault.status is not None or not is_streamable(reply):
        return body_bytes(fault, reply, status_of(reply))
    seed = zlib.crc32(encoded(reply))
    return stream_bytes(fault, reply, usage=wants_usage(request), seed=seed)


def _answer(status: int, body: Any) -> "web.Response":
    from aiohttp import web  # noqa: PLC0415 - see the module's first lines

    return web.Response(status=status, body=encoded(body), headers=_JSON)


def _refused(status: int, message: str) -> "web.Response":
    return _answer(status, _error(message, None))


def _error(message: str, code: str | None) -> JSON:
    kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _hang_up(request: "web.Request", ending: str) -> None:
    transport = request.transport
    if transport is None:  # pragma: no cover  # a client that left has cancelled us already
        return
    if ending == "abort":
        # A client that does not read what was sent must not keep the connection open.
        transport.abort()
        return
    if ending == "reset":
        # Lingering for no time makes the kernel send a reset instead of a polite end.
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.close()
