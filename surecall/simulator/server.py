"""The simulator: an OpenAI-compatible server on loopback that answers as personas.

    with Simulator(seed=7) as simulator:
        client = OpenAICompatible(simulator.url)

The `model` of a request names the persona. Routes: `POST /v1/chat/completions`, `/v1/responses` and
`/v1/messages`, plain or streamed, `GET /v1/models`, `GET /health`, and `GET` or `DELETE
/violations` for the violations in requests.
`aiohttp` is imported inside functions, so that listing the personas does not load it.
"""

import asyncio
import gzip
import itertools
import socket
import struct
import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from surecall.runtime.http_server import HttpServer
from surecall.settings.connection import LOOPBACK, is_loopback
from surecall.simulator.faults.stream_fault import apply_stream_fault
from surecall.simulator.native_apis import (
    NATIVE_FAULTS,
    SERVED_APIS,
    ServedApi,
    faulty_reply,
    missing_seals,
    native_reply,
    native_rules,
    seal_reply,
)
from surecall.simulator.personas.persona import (
    RETRIED,
    Persona,
    PersonaReply,
    answer_request,
    fault_outcome,
)
from surecall.simulator.personas.persona_catalog import (
    PERSONAS,
    PREFIX,
    find_persona,
    persona_for,
    unknown_persona,
)
from surecall.simulator.personas.text_protocols import parse_request
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.refused_features import refused_wording
from surecall.simulator.request_checks import check_request
from surecall.simulator.scripted_replies import error_body
from surecall.simulator.stream_events import (
    build_events,
    check_streaming,
    encode_frames,
    is_streamable,
    wants_usage,
    without_streaming,
)
from surecall.simulator.transport_faults import TRANSPORT_FAULTS, TransportFault
from surecall.simulator.violations import Violation, refusal_response
from surecall.values.errors import ConfigError
from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json
from surecall.values.types import JSON
from surecall.values.version import __version__
from surecall.wire.apis.adapter import ClientRequest, ErrorReply, InvalidRequest
from surecall.wire.content_parts import text_of

# Encoding: the bytes of a response, in the pieces in which a transport fault sends them.

NO_FAULT: Final = TransportFault(id="", summary="")
_GZIP_WINDOW_BITS = 31
_HEADER_BYTES = 4096
_JSON_HEADERS: Final = {"Content-Type": "application/json"}
_EVENT_STREAM_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
}


class ResponseBytes(msgspec.Struct, frozen=True):
    """An encoded response: status, headers, pieces, and a block to repeat after them.

    `length` is the declared content length, None for a stream. `is_faulty` is false if the stream
    fault does not apply to this reply.
    """

    status: int
    headers: dict[str, str]
    pieces: tuple[bytes, ...]
    repeated: bytes = b""
    length: int | None = None
    is_faulty: bool = True


def encode_response(fault: TransportFault, body: Any, status: int = 200) -> ResponseBytes:
    """Encode a plain response: the fault's own body, or the persona's reply."""
    if fault.status is not None:
        body, status = fault.body, fault.status
    data, headers = encode_body(body), _JSON_HEADERS | _fault_headers(fault)
    if fault.gzip:
        data, headers = gzip.compress(data, mtime=0), headers | {"Content-Encoding": "gzip"}
    pieces = _split_frames(fault, [data])
    return ResponseBytes(status, headers, pieces, length=len(data))


def encode_stream(fault: TransportFault, body: JSON, *, usage: bool, seed: int) -> ResponseBytes:
    """Encode a reply as a stream of events."""
    clean = build_events(body, usage=usage, seed=seed)
    events = apply_stream_fault(fault.stream_fault, clean, seed) if fault.stream_fault else clean
    frames, again = encode_frames(events), fault.repeated_block.encode()
    headers = _EVENT_STREAM_HEADERS | _fault_headers(fault)
    if fault.gzip:
        frames, again = _compress_frames(frames, again)
        headers = headers | {"Content-Encoding": "gzip"}
    faulty = not fault.stream_fault or events != clean
    return ResponseBytes(200, headers, _split_frames(fault, frames), again, is_faulty=faulty)


def encode_body(body: Any) -> bytes:
    """Encode a body as JSON; send text unchanged."""
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


def _fault_headers(fault: TransportFault) -> dict[str, str]:
    """Return the headers of a fault, padded to the size that it demands."""
    padding = range(fault.header_bytes // _HEADER_BYTES)
    return fault.headers | {f"X-Padding-{number}": "x" * _HEADER_BYTES for number in padding}


def _split_frames(fault: TransportFault, frames: Sequence[bytes]) -> tuple[bytes, ...]:
    """Truncate frames to the share that is sent, and split them into pieces."""
    if fault.sent_share == 1 and not fault.piece_bytes:
        return tuple(frames)
    if fault.repeated_block:
        # The repeated block must follow a whole frame, or it would be parsed as part of it.
        return tuple(frames[: int(len(frames) * fault.sent_share)])
    data = b"".join(frames)
    data = data[: int(len(data) * fault.sent_share)]
    size = fault.piece_bytes or max(1, len(data))
    return tuple(data[start : start + size] for start in range(0, len(data), size))


def _compress_frames(frames: Sequence[bytes], again: bytes) -> tuple[list[bytes], bytes]:
    """Compress each frame so that it can be decoded on arrival, and the block to repeat.

    A full flush resets the compressor, so the compressed block can be sent repeatedly.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    packed = [packer.compress(frame) + packer.flush(zlib.Z_FULL_FLUSH) for frame in frames]
    if not again:
        return [*packed, packer.flush()], b""
    return packed, packer.compress(again) + packer.flush(zlib.Z_FULL_FLUSH)


if TYPE_CHECKING:
    from aiohttp import web

_MAX_RECORDED = 10_000
_MAX_RESPONSE_S = 600.0


class RequestViolation(msgspec.Struct, frozen=True):
    """A violation, with the persona whose rules it breaks and the number of the request."""

    persona: str
    request: int
    rule: str
    where: str
    message: str


ViolationCallback = Callable[[RequestViolation], None]


class Simulator(HttpServer):
    """A simulated provider with faults, served from a thread or the running event loop.

    `requests` and `violations` keep the newest 10,000 requests and violations; `faults` counts the
    faults sent. `default` names the persona for unknown models; without it, and for unknown names
    that begin with `sim/`, the response is a 404.

    The server has no authentication, so a host other than loopback requires `anywhere`. It rejects
    requests from other websites. `patience` sets the timeouts `head_s` and `body_s` of
    `runtime.loopback_server.GuardedListener`.
    """

    max_request_bytes = 64 * 1024 * 1024
    options: ClassVar = {"handler_cancellation": True}

    def __init__(
        self,
        *,
        seed: int = 0,
        default: str | None = None,
        host: str = LOOPBACK,
        port: int = 0,
        anywhere: bool = False,
        report: ViolationCallback | None = None,
        **patience: float,
    ) -> None:
        if not anywhere and not is_loopback(host):
            raise ConfigError(
                f"{host} is not loopback. Pass `anywhere=True` to let the network use it."
            )
        if default is not None and find_persona(default) is None:
            raise ConfigError(unknown_persona(default))
        super().__init__(host, port, **patience)
        self.seed = seed
        self.requests: deque[JSON] = deque(maxlen=_MAX_RECORDED)
        self.violations: deque[RequestViolation] = deque(maxlen=_MAX_RECORDED)
        self.faults: Counter[str] = Counter()
        self._request_count = 0
        self.default = default
        self._report = report
        self._recovered_positions: OrderedDict[str, None] = OrderedDict()
        self._open_requests: dict[int, web.Request] = {}

    def _add_routes(self, app: "web.Application") -> None:
        app.router.add_post("/v1/chat/completions", self._handle_completion)
        for path in SERVED_APIS:
            app.router.add_post(path, self._handle_native)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_get("/health", self._report_health)
        app.router.add_get("/violations", self._list_violations)
        app.router.add_delete("/violations", self._clear_violations)

    def _refusal(self, status: int, message: str) -> "web.Response":
        """Return an error response in the chat format."""
        return _json_response(status, error_body(message))

    async def stop(self) -> None:
        """Stop listening, and close connections that wait for a response."""
        self._stopping.set()
        for request in self._open_requests.values():
            _close_connection(request, "abort")
        await super().stop()

    async def _handle_completion(self, request: "web.Request") -> "web.StreamResponse":
        """Answer a chat completion request."""
        body = _decode_request(await request.read())
        if isinstance(body, str):
            return _json_response(400, error_body(body))
        self._request_count += 1
        self.requests.append(body)
        persona = persona_for(str(body.get("model")), self.default)
        if persona is None:
            unknown = unknown_persona(str(body.get("model"))[:64])
            return _json_response(404, error_body(unknown, "model_not_found"))
        if refusal := refused_wording(persona.refuses, persona.wording, body):
            return _json_response(400, error_body(refusal))
        rules = PROVIDER_RULES[persona.rules]
        if persona.reasons_with_tools and is_reasoning_with_tools(body):
            return _json_response(400, reasoning_refusal(persona.id.removeprefix(f"{PREFIX}like-")))
        if violations := [*check_request(body, rules), *check_streaming(body)]:
            self._record_violations(persona, violations)
            return _json_response(*refusal_response(rules, violations[0]))
        reply = self._persona_reply(persona, body)
        fault = TRANSPORT_FAULTS.get(reply.fault, NO_FAULT)
        answer = _encode_reply(fault, reply.body, body)
        self.faults[reply.fault] += reply.fault != "" and answer.is_faulty
        return await self._send_answer(request, fault, answer)

    async def _send_answer(
        self, request: "web.Request", fault: TransportFault, answer: ResponseBytes
    ) -> "web.StreamResponse":
        """Send a response; until then, stopping the server closes its connection."""
        self._open_requests[id(request)] = request
        try:
            return await self._deliver(request, fault, answer)
        finally:
            self._open_requests.pop(id(request))

    async def _handle_native(self, request: "web.Request") -> "web.StreamResponse":
        """Answer a request in the Responses or the Messages API."""
        served = SERVED_APIS[request.path]
        try:
            asked = served.adapter.parse(await request.read())
        except InvalidRequest as refused:
            return _native_refusal(served, refused.status, refused.message, refused.param)
        self._request_count += 1
        self.requests.append(asked.client_body)
        model = str(asked.body.get("model"))
        persona = persona_for(model, self.default)
        if persona is None:
            return _native_refusal(served, 404, unknown_persona(model[:64]), "model")
        violations = [
            *served.check(asked.client_body),
            *check_request(asked.body, native_rules(PROVIDER_RULES[persona.rules])),
            *(missing_seals(asked.body) if persona.reasons_with_tools else ()),
        ]
        if violations:
            self._record_violations(persona, violations)
            return _native_refusal(served, 400, violations[0].message, violations[0].where)
        fault, answer = self._native_answer(served, persona, asked)
        return await self._send_answer(request, fault, answer)

    def _native_answer(
        self, served: ServedApi, persona: Persona, client_request: ClientRequest
    ) -> tuple[TransportFault, ResponseBytes]:
        """Encode a persona's reply; a fault that a retry fixes occurs once per position."""
        place = f"native\0{_conversation_position(persona, client_request.body)}"
        reply = self._persona_reply(persona, client_request.body)
        fault = TRANSPORT_FAULTS.get(reply.fault, NO_FAULT)
        body = seal_reply(reply.body, place) if persona.reasons_with_tools else reply.body
        native = native_reply(served.adapter, client_request, body)
        if fault.status is not None or native is body:
            return fault, encode_response(fault, native, reply_status(native))
        name = self._native_fault(persona, place, streamed=client_request.stream)
        self.faults[name or reply.fault] += bool(name or reply.fault)
        if not client_request.stream:
            return fault, encode_response(fault, faulty_reply(native, name))
        frames = served.encode_events(
            faulty_reply(native, name), name, zlib.crc32(encode_body(native))
        )
        pieces = _split_frames(fault, frames)
        return fault, ResponseBytes(200, _EVENT_STREAM_HEADERS, pieces)

    def _native_fault(self, persona: Persona, place: str, *, streamed: bool) -> str:
        """Return the fault that this reply shows, blank if there is none."""
        name = persona.native_fault
        if not name or (NATIVE_FAULTS[name].reply is None and not streamed):
            return ""
        if not NATIVE_FAULTS[name].is_retried:
            return name
        if self._recovered_positions.pop(place, name) is None:
            return ""
        self._record_position(place)
        return name

    def _record_violations(self, persona: Persona, violations: list[Violation]) -> None:
        for violation in violations:
            fields = msgspec.structs.asdict(violation)
            recorded = RequestViolation(persona.id, self._request_count, **fields)
            self.violations.append(recorded)
            if self._report is not None:
                self._report(recorded)

    def _persona_reply(self, persona: Persona, body: JSON) -> PersonaReply:
        """Return the persona's reply; a fault that a retry fixes occurs once per position."""
        place = _conversation_position(persona, body)
        spare = place in self._recovered_positions
        reply = answer_request(persona, without_streaming(body), self.seed, skip_transient=spare)
        if TRANSPORT_FAULTS.get(reply.fault, NO_FAULT).only_streams and not body.get("stream"):
            reply = PersonaReply(reply.body)
        self._recovered_positions.pop(place, None)
        if reply.fault and not spare and fault_outcome(reply.fault) == RETRIED:
            self._record_position(place)
        return reply

    def _record_position(self, place: str) -> None:
        """Record that the fault of a position was sent, so that a retry gets none."""
        self._recovered_positions[place] = None
        while len(self._recovered_positions) > _MAX_RECORDED:
            self._recovered_positions.popitem(last=False)

    async def _deliver(
        self, request: "web.Request", fault: TransportFault, answer: ResponseBytes
    ) -> "web.StreamResponse":
        """Send a response with its transport fault, for a bounded time."""
        from aiohttp import web  # noqa: PLC0415 - see the module docstring

        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.content_length = answer.length
        with suppress(TimeoutError):
            async with asyncio.timeout(_MAX_RESPONSE_S):
                await self._pause(fault.wait_s)
                if fault.sent_share:
                    await response.prepare(request)
                    await self._send_pieces(response, fault, answer)
                if fault.ending == "hang":
                    await self._stopping.wait()
        if fault.ending:
            _close_connection(request, fault.ending)
        return response

    async def _send_pieces(
        self, response: "web.StreamResponse", fault: TransportFault, answer: ResponseBytes
    ) -> None:
        sent = 0
        again = itertools.repeat(answer.repeated) if answer.repeated else ()
        for piece in itertools.chain(answer.pieces, again):
            if sent >= fault.max_bytes or self._stopping.is_set():
                return
            await response.write(piece)
            sent += len(piece)
            await self._pause(fault.pause_s)

    async def _list_models(self, _: "web.Request") -> "web.StreamResponse":
        """Return the personas as a list of models."""
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
        return _json_response(200, {"object": "list", "data": models})

    async def _report_health(self, _: "web.Request") -> "web.StreamResponse":
        """Return the version, the seed, and the counts of requests and faults."""
        state = {"status": "ok", "version": __version__, "seed": self.seed}
        counts = {
            "personas": len(PERSONAS),
            "requests": self._request_count,
            "faults": +self.faults,
        }
        return _json_response(200, state | counts)

    async def _list_violations(self, _: "web.Request") -> "web.StreamResponse":
        """Return the recorded violations."""
        return _json_response(200, {"violations": list(self.violations)})

    async def _clear_violations(self, _: "web.Request") -> "web.StreamResponse":
        """Delete the recorded violations; return how many there were."""
        count = len(self.violations)
        self.violations.clear()
        return _json_response(200, {"deleted": count})


def is_reasoning_with_tools(body: JSON) -> bool:
    """Whether a chat request has function tools and does not turn reasoning off."""
    return bool(body.get("tools")) and body.get("reasoning_effort") != "none"


def reasoning_refusal(model: str) -> JSON:
    """Return OpenAI's refusal of tools together with reasoning."""
    message = (
        f"Function tools with reasoning_effort are not supported for {model} in "
        "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to "
        "'none'."
    )
    fields = {"type": "invalid_request_error", "param": "reasoning_effort", "code": None}
    return {"error": {"message": message} | fields}


def reply_status(body: Any) -> int:
    """Return the HTTP status of a reply; Groq reports malformed calls with a 400."""
    match body:
        case {"error": {"code": "tool_use_failed"}}:
            return 400
        case {"error": {"code": 404}}:
            return 404
        case _:
            return 200


def _conversation_position(persona: Persona, body: JSON) -> str:
    """Return a key for a position in a conversation; retries have the same key."""
    request = parse_request(body).request
    messages = [item for item in request.get("messages", ()) if isinstance(item, dict)]
    first = next((item for item in messages if item.get("role") == "user"), {})
    results = sum(item.get("role") == "tool" for item in messages)
    # A client may append its follow-up to an empty reply to the first message.
    first_line, _, _ = text_of(first.get("content")).partition("\n")
    return f"{persona.id}\0{results}\0{hash(first_line)}"


def _decode_request(data: bytes) -> JSON | str:
    """Decode a request as strictly as a real server; return the object or an error message."""
    try:
        body = decode_json(data, limit=MAX_WRAPPED_DEPTH)
    except ValueError as problem:
        return f"The request body is not valid JSON: {problem}"
    return body if isinstance(body, dict) else "The request body must be a JSON object."


def _encode_reply(fault: TransportFault, reply: Any, request: JSON) -> ResponseBytes:
    """Encode a reply as requested; an error that precedes the stream is sent as plain JSON."""
    if not request.get("stream") or fault.status is not None or not is_streamable(reply):
        return encode_response(fault, reply, reply_status(reply))
    seed = zlib.crc32(encode_body(reply))
    return encode_stream(fault, reply, usage=wants_usage(request), seed=seed)


def _native_refusal(
    served: ServedApi, status: int, message: str, param: str | None
) -> "web.Response":
    failure = ErrorReply(status, message, "invalid_request", param)
    return _json_response(status, served.adapter.render_error(failure))


def _json_response(status: int, body: Any) -> "web.Response":
    from aiohttp import web  # noqa: PLC0415 - see the module docstring

    return web.Response(status=status, body=encode_body(body), headers=_JSON_HEADERS)


def _close_connection(request: "web.Request", ending: str) -> None:
    """Close a connection by the ending of a fault: normally, by a reset, or at once."""
    transport = request.transport
    if transport is None:  # pragma: no cover  # a client that disconnects cancels the handler first
        return
    if ending == "abort":
        # A client that does not read must not keep the connection open.
        transport.abort()
        return
    if ending == "reset":
        # With a linger time of zero, the kernel sends a reset instead of a normal close.
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.close()
