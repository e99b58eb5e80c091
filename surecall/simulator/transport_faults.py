"""Transport faults: HTTP errors, broken connections, and malformed streams."""

from typing import Final

import msgspec

from surecall.simulator.faults import chunk_faults as faults_stream
from surecall.simulator.faults import fragment_faults as faults_fragments
from surecall.simulator.faults.chunk_faults import KEEP_ALIVE
from surecall.simulator.faults.shape_fault import ShapeFault
from surecall.simulator.faults.stream_fault import STREAM_FAULTS
from surecall.simulator.scripted_replies import error_body
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON

STREAM_FAULT_MODULES = (faults_fragments, faults_stream)
_RETRIED = "retried"
_MAX_WIRE_BYTES = 64 * 1024 * 1024
_HTML_ERROR_PAGE = (
    "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\n"
    "<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body></html>\n"
)


class TransportFault(msgspec.Struct, frozen=True):
    """How to send one response. Without a `status`, the persona's own reply is sent.

    `wait_s` is the delay before the response. `sent_share` is the share of the body that is sent;
    zero omits the headers too. `header_bytes` pads the headers. `repeated_block` is then repeated
    up to `max_bytes` in total. `ending` is the fate of the connection: `close`, `reset`, or `hang`.
    With `only_streams`, the fault skips plain requests; `stream_fault` names a fault of the stream.
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
    sent_share: float = 1.0
    ending: str = ""
    gzip: bool = False
    only_first: bool = False
    piece_bytes: int = 0
    pause_s: float = 0.0
    only_streams: bool = False
    stream_fault: str = ""
    repeated_block: str = ""
    max_bytes: int = _MAX_WIRE_BYTES


_RESPONSE_FAULTS: Final = (
    TransportFault(
        "http-429",
        "429 with Retry-After: 1 for the first request of a conversation, then fine",
        only_first=True,
        status=429,
        headers={"Retry-After": "1"},
        body=error_body("Rate limit reached for requests.", "rate_limit_exceeded", "requests"),
    ),
    TransportFault(
        "http-500",
        "500 with an error object, then fine",
        status=500,
        body=error_body(
            "The server had an error while processing your request.", kind="server_error"
        ),
    ),
    TransportFault(
        "http-503",
        "503 with an overloaded error, then fine",
        status=503,
        body=error_body("The engine is currently overloaded.", kind="overloaded_error"),
    ),
    TransportFault(
        "html-502",
        "502 with a proxy's HTML page, then fine",
        status=502,
        headers={"Content-Type": "text/html; charset=utf-8"},
        body=_HTML_ERROR_PAGE,
    ),
    TransportFault(
        "html-200",
        "200 with an HTML page instead of JSON, as from a wrong URL",
        outcome=ErrorCode.DECODE_ERROR,
        status=200,
        headers={"Content-Type": "text/html; charset=utf-8"},
        body=_HTML_ERROR_PAGE,
    ),
    TransportFault(
        "blank-200",
        "200 with only blank lines, which some proxies send as keep-alive",
        status=200,
        headers={"Content-Type": "application/json"},
        body="\n\n\n",
    ),
    TransportFault(
        "huge-headers",
        "10 MB of response headers",
        outcome=ErrorCode.DECODE_ERROR,
        header_bytes=10 * 1024 * 1024,
    ),
    TransportFault(
        "hang-up", "the connection is closed without a response", sent_share=0.0, ending="close"
    ),
    TransportFault(
        "reset", "the connection is reset without a response", sent_share=0.0, ending="reset"
    ),
    TransportFault(
        "cut", "the connection is closed in the middle of the body", sent_share=0.5, ending="close"
    ),
    TransportFault(
        "silent", "the connection stays open without a response", sent_share=0.0, ending="hang"
    ),
    TransportFault("slow", "the response is delayed by 0.2 s", outcome="repaired", wait_s=0.2),
    TransportFault(
        "drip", "the response arrives in small pieces", outcome="repaired", piece_bytes=16
    ),
    TransportFault("gzip", "the response is compressed", outcome="repaired", gzip=True),
    TransportFault(
        "http-401",
        "401: the API key is invalid",
        outcome=ErrorCode.AUTH,
        status=401,
        body=error_body("Incorrect API key provided.", "invalid_api_key"),
    ),
    TransportFault(
        "http-402",
        "402: the account has no credit left",
        outcome=ErrorCode.PAYMENT_REQUIRED,
        status=402,
        body={"error": {"code": 402, "message": "Insufficient credits."}},
    ),
    TransportFault(
        "http-403-moderation",
        "403: moderation rejected the prompt",
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
        "http-400-context",
        "400: the conversation exceeds the context window",
        outcome=ErrorCode.CONTEXT_TOO_LONG,
        status=400,
        body=error_body(
            "This model's maximum context length is 8192 tokens.", "context_length_exceeded"
        ),
    ),
)


def _endless_stream(
    name: str, summary: str, block: str, outcome: str = ErrorCode.RESPONSE_TOO_LARGE
) -> TransportFault:
    """Build a fault whose stream begins normally and then repeats a block endlessly."""
    return TransportFault(
        f"stream-{name}",
        summary,
        outcome=outcome,
        only_streams=True,
        sent_share=0.5,
        repeated_block=block,
        ending="close",
    )


def _delta_block(delta: str) -> str:
    return f'data: {{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}\n\n'


_STREAM_TRANSPORT_FAULTS: Final = (
    TransportFault(
        "stream-cut",
        "the connection is closed in the middle of a stream",
        only_streams=True,
        sent_share=0.6,
        ending="close",
    ),
    TransportFault(
        "stream-reset",
        "the connection is reset in the middle of a stream",
        only_streams=True,
        sent_share=0.6,
        ending="reset",
    ),
    TransportFault(
        "stream-silent",
        "a stream stalls in the middle with the connection open",
        only_streams=True,
        sent_share=0.6,
        ending="hang",
    ),
    TransportFault(
        "stream-bytes",
        "a stream arrives byte by byte, which splits characters and lines",
        outcome="repaired",
        only_streams=True,
        piece_bytes=1,
    ),
    TransportFault(
        "stream-torn",
        "a stream arrives in pieces of seven bytes, regardless of event boundaries",
        outcome="repaired",
        only_streams=True,
        piece_bytes=7,
    ),
    TransportFault(
        "stream-drip",
        "a stream arrives at one byte per second",
        only_streams=True,
        piece_bytes=1,
        pause_s=1.0,
    ),
    TransportFault(
        "stream-keep-alive",
        "a stream continues with only keep-alive comments",
        only_streams=True,
        sent_share=0.5,
        repeated_block=KEEP_ALIVE,
        pause_s=0.05,
        ending="close",
    ),
    _endless_stream(
        "endless",
        "endless text in large deltas",
        _delta_block(f'{{"content":"{"la " * 4096}"}}') * 4,
    ),
    _endless_stream(
        "endless-crumbs",
        "endless text in over a million tiny deltas",
        _delta_block('{"content":"."}') * 512,
    ),
    _endless_stream(
        "endless-arguments",
        "endless arguments of a call",
        _delta_block(
            f'{{"tool_calls":[{{"index":0,"function":{{"arguments":"{"la " * 4096}"}}}}]}}'
        )
        * 4,
    ),
    _endless_stream("endless-comments", "endless comments without pauses", KEEP_ALIVE * 2048),
    _endless_stream("endless-line", "an endless line", "la" * (32 * 1024)),
    TransportFault(
        "stream-gzip-bomb",
        "1 MB of compressed data that expands to 1 GB",
        outcome=ErrorCode.RESPONSE_TOO_LARGE,
        only_streams=True,
        sent_share=0.5,
        repeated_block="la" * (512 * 1024),
        max_bytes=1024 * 1024,
        gzip=True,
        ending="close",
    ),
)


def _as_transport_fault(fault: ShapeFault) -> TransportFault:
    return TransportFault(
        f"stream-{fault.id.replace('_', '-')}",
        fault.summary,
        sources=fault.sources,
        outcome=fault.outcome,
        only_streams=True,
        stream_fault=fault.id,
    )


TRANSPORT_FAULTS: Final[dict[str, TransportFault]] = {
    fault.id: fault
    for fault in (
        *_RESPONSE_FAULTS,
        *_STREAM_TRANSPORT_FAULTS,
        *map(_as_transport_fault, STREAM_FAULTS.values()),
    )
}
