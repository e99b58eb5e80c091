"""Transport faults: what goes wrong around a reply, not in it, and how a stream is cut or ended."""

from typing import Final

import msgspec

from surecall.simulator.faults import call_fragments as faults_fragments
from surecall.simulator.faults import streams as faults_stream
from surecall.simulator.faults.shape_fault import ShapeFault
from surecall.simulator.faults.stream_fault import STREAM_FAULTS
from surecall.simulator.faults.streams import KEEP_ALIVE
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON

STREAM_FAULT_MODULES = (faults_fragments, faults_stream)
_RETRIED = "retried"
_WIRE_BYTES = 64 * 1024 * 1024
_HTML = (
    "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\n"
    "<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body></html>\n"
)


class TransportFault(msgspec.Struct, frozen=True, kw_only=True):
    """How one answer is sent. Without a `status` the persona's own reply goes out.

    `wait_s` comes before the answer. `sends` is the share of the body that goes out; at zero there
    are not even headers, which otherwise `header_bytes` inflate. `forever` is repeated after it
    until `at_most` bytes are on the wire.
    `ending` says what then happens to the connection: `close`, `reset`, or the silence of `hang`.
    With `only_streams`, plain requests are left alone; `stream_fault` names a fault of the stream.
    """

    id: str
    summary: str
    sources: tuple[str, ...] = ()
    outcome: str = _RETRIED
    status: int | None = None
    body: JSON | str = {}
    headers: dict[str, str] = {}
    header_bytes: int = 0
    wait_s: float = 0.0
    sends: float = 1.0
    ending: str = ""
    gzip: bool = False
    only_first: bool = False
    piece_bytes: int = 0
    pause_s: float = 0.0
    only_streams: bool = False
    stream_fault: str = ""
    forever: str = ""
    at_most: int = _WIRE_BYTES


def _error(message: str, kind: str, code: object = None) -> JSON:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_ALL: Final = (
    TransportFault(
        id="http-429",
        summary="429 with Retry-After: 1 for the first request of a conversation, then fine",
        only_first=True,
        status=429,
        headers={"Retry-After": "1"},
        body=_error("Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    ),
    TransportFault(
        id="http-500",
        summary="500 with an error object, then fine",
        status=500,
        body=_error("The server had an error while processing your request.", "server_error"),
    ),
    TransportFault(
        id="http-503",
        summary="503 with an overloaded error, then fine",
        status=503,
        body=_error("The engine is currently overloaded.", "overloaded_error"),
    ),
    TransportFault(
        id="html-502",
        summary="502 with a proxy's HTML page, then fine",
        status=502,
        headers={"Content-Type": "text/html; charset=utf-8"},
        body=_HTML,
    ),
    TransportFault(
        id="html-200",
        summary="200 with an HTML page instead of JSON, as from a wrong address",
        outcome=ErrorCode.DECODE_ERROR,
        status=200,
        headers={"Content-Type": "text/html; charset=utf-8"},
        body=_HTML,
    ),
    TransportFault(
        id="blank-200",
        summary="200 with nothing but blank lines, as some proxies keep a connection alive",
        status=200,
        headers={"Content-Type": "application/json"},
        body="\n\n\n",
    ),
    TransportFault(
        id="huge-headers",
        summary="ten megabytes of headers before the answer",
        outcome=ErrorCode.DECODE_ERROR,
        header_bytes=10 * 1024 * 1024,
    ),
    TransportFault(
        id="hang-up",
        summary="the connection is closed without an answer",
        sends=0.0,
        ending="close",
    ),
    TransportFault(
        id="reset",
        summary="the connection is reset without an answer",
        sends=0.0,
        ending="reset",
    ),
    TransportFault(
        id="cut",
        summary="the body ends in the middle, the rest never comes",
        sends=0.5,
        ending="close",
    ),
    TransportFault(
        id="silent", summary="the socket stays open and silent", sends=0.0, ending="hang"
    ),
    TransportFault(
        id="slow", summary="the answer comes, a little late", outcome="cured", wait_s=0.2
    ),
    TransportFault(
        id="drip", summary="the answer comes in small pieces", outcome="cured", piece_bytes=16
    ),
    TransportFault(id="gzip", summary="the answer is compressed", outcome="cured", gzip=True),
    TransportFault(
        id="http-401",
        summary="401: the key is refused",
        outcome=ErrorCode.AUTH,
        status=401,
        body=_error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    ),
    TransportFault(
        id="http-402",
        summary="402: the account is out of credit",
        outcome=ErrorCode.PAYMENT_REQUIRED,
        status=402,
        body={"error": {"code": 402, "message": "Insufficient credits."}},
    ),
    TransportFault(
        id="http-403-moderation",
        summary="403: moderation refused the prompt",
        outcome=ErrorCode.CONTENT_POLICY,
        status=403,
        body={
            "error": {
                "code": 403,
                "message": "Input was flagged.",
                "metadata": {"reasons": ["SAFETY_CHECK_TYPE_BIO"], "flagged_input": "…"},
            }
        },
    ),
    TransportFault(
        id="http-400-context",
        summary="400: the conversation does not fit the window",
        outcome=ErrorCode.CONTEXT_TOO_LONG,
        status=400,
        body=_error(
            "This model's maximum context length is 8192 tokens.",
            "invalid_request_error",
            "context_length_exceeded",
        ),
    ),
)


def _endless(
    name: str, summary: str, block: str, outcome: str = ErrorCode.RESPONSE_TOO_LARGE
) -> TransportFault:
    """Describe a stream that begins like any other and then repeats a block without end."""
    return TransportFault(
        id=f"stream-{name}",
        summary=summary,
        outcome=outcome,
        only_streams=True,
        sends=0.5,
        forever=block,
        ending="close",
    )


def _chunk(delta: str) -> str:
    return f'data: {{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}\n\n'


_STREAMS: Final = (
    TransportFault(
        id="stream-cut",
        summary="the connection is closed in the middle of a stream",
        only_streams=True,
        sends=0.6,
        ending="close",
    ),
    TransportFault(
        id="stream-reset",
        summary="the connection is reset in the middle of a stream",
        only_streams=True,
        sends=0.6,
        ending="reset",
    ),
    TransportFault(
        id="stream-silent",
        summary="a stream falls silent in the middle, and the socket stays open",
        only_streams=True,
        sends=0.6,
        ending="hang",
    ),
    TransportFault(
        id="stream-bytes",
        summary="a stream comes byte by byte, so that characters and lines are torn apart",
        outcome="cured",
        only_streams=True,
        piece_bytes=1,
    ),
    TransportFault(
        id="stream-torn",
        summary="a stream comes in pieces of seven bytes, wherever its events begin and end",
        outcome="cured",
        only_streams=True,
        piece_bytes=7,
    ),
    TransportFault(
        id="stream-drip",
        summary="one byte of a stream in a second",
        only_streams=True,
        piece_bytes=1,
        pause_s=1.0,
    ),
    TransportFault(
        id="stream-keep-alive",
        summary="nothing but a comment now and then, for as long as the client waits",
        only_streams=True,
        sends=0.5,
        forever=KEEP_ALIVE,
        pause_s=0.05,
        ending="close",
    ),
    _endless(
        "endless",
        "a text that never ends, in large deltas",
        _chunk(f'{{"content":"{"la " * 4096}"}}') * 4,
    ),
    _endless(
        "endless-crumbs",
        "a text that never ends, in the smallest deltas: a million and more",
        _chunk('{"content":"."}') * 512,
    ),
    _endless(
        "endless-arguments",
        "arguments of a call that never end",
        _chunk(f'{{"tool_calls":[{{"index":0,"function":{{"arguments":"{"la " * 4096}"}}}}]}}') * 4,
    ),
    _endless(
        "endless-comments", "comments without end, as fast as they are read", KEEP_ALIVE * 2048
    ),
    _endless("endless-line", "a line that never ends", "la" * (32 * 1024)),
    TransportFault(
        id="stream-gzip-bomb",
        summary="a megabyte on the wire that unpacks to a gigabyte",
        outcome=ErrorCode.RESPONSE_TOO_LARGE,
        only_streams=True,
        sends=0.5,
        forever="la" * (512 * 1024),
        at_most=1024 * 1024,
        gzip=True,
        ending="close",
    ),
)


def _streamed(fault: ShapeFault) -> TransportFault:
    return TransportFault(
        id=f"stream-{fault.id.replace('_', '-')}",
        summary=fault.summary,
        sources=fault.sources,
        outcome=fault.outcome,
        only_streams=True,
        stream_fault=fault.id,
    )


TRANSPORT_FAULTS: Final[dict[str, TransportFault]] = {
    fault.id: fault for fault in (*_ALL, *_STREAMS, *map(_streamed, STREAM_FAULTS.values()))
}
