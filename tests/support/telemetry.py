"""Events of every kind, spans, displays, and a stand-in for an OpenTelemetry collector."""

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from surecall import RetryPolicy, ToolLoopRunner
from surecall.core.streaming import DisplayDelta, TextWithdrawn
from surecall.otel import OpenTelemetry
from surecall.testing import ScriptedModel, calls, says
from surecall.values.decisions import WaitingCall
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import (
    CallChangedEvent,
    CallsInOrderEvent,
    Event,
    FinalEvent,
    FinalObjectedEvent,
    FixEmptyFinalEvent,
    ForcedContinuationEvent,
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    LlmRequestRetryEvent,
    LlmRequestStartEvent,
    ModelChangedEvent,
    ObserverErrorEvent,
    PolicyErrorEvent,
    RequestRefusedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunStartEvent,
    TextCallAskedEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolSearchEvent,
    UnsupportedClaimEvent,
)
from surecall.values.types import JSON, Reply, ToolCall, ToolResult, Usage, User
from surecall.wire.assembler import TextDelta

# Spans that are kept in memory, and runs that are told as such


SCRIPT = (calls("add", a=1, b=2), says("3"))
TREE = ["invoke_agent", "  chat m", "  execute_tool add", "  chat m"]


class Kept:
    """A provider of tracers whose spans stay here."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("the application")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """What has ended, in that order."""
        return self._exporter.get_finished_spans()

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    @property
    def drawn(self) -> list[str]:
        """Each span below the one that it belongs to, in the order of their beginnings."""
        return self._below(None, 0)

    def _below(self, parent: int | None, depth: int) -> list[str]:
        own = [span for span in self.spans if (span.parent and span.parent.span_id) == parent]
        lines: list[str] = []
        for span in sorted(own, key=lambda span: span.start_time or 0):
            lines.append("  " * depth + span.name)
            lines += self._below(context_of(span).span_id, depth + 1)
        return lines

    def __getitem__(self, name: str) -> ReadableSpan:
        """Return the one span of that name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def everything(self) -> str:
        """All that was told, as it would be sent."""
        return str(encode_spans(self.spans))


def context_of(span: ReadableSpan) -> Any:
    context = span.get_span_context()
    assert context is not None
    return context


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def noted(span: ReadableSpan) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, dict(event.attributes or {})) for event in span.events]


def runner_of(
    kept: Kept, *script: Any, tools: Sequence[Any] = (), options: Any = None, **settings: Any
) -> ToolLoopRunner:
    """Make a runner whose runs are told; `options` are those of the observer."""
    observer = OpenTelemetry(kept.provider, **(options or {}))
    given: dict[str, Any] = {"retry": RetryPolicy(first_wait_s=0.0), "model": "m"} | settings
    client = given.pop("client", None) or ScriptedModel(*script)
    return ToolLoopRunner(client=client, tools=list(tools), observers=[observer], **given)


def left_in(runner: ToolLoopRunner) -> list[object]:
    """Return what an observer still holds of runs."""
    (own,) = [each for each in runner._sessions._observers if isinstance(each, OpenTelemetry)]
    return [*own._runs, *own._live_runs]


# A stand-in for an OpenTelemetry collector: it takes spans over HTTP, and decodes them


class Collector:
    """Where it listens, and what it was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.received: list[Any] = []

    @property
    def scopes(self) -> list[Any]:
        """What each part of a program has sent."""
        return [
            scope
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
        ]

    @property
    def spans(self) -> list[Any]:
        return [span for scope in self.scopes for span in scope.spans]


def told_by(span: Any) -> dict[str, Any]:
    """Return the attributes of a decoded span."""
    return {item.key: _value(item.value) for item in span.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Take spans while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                collector.received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}/v1/traces")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# One event of each kind, and what a display shows of events


# One event of each kind, with a text wherever a text can be


USAGE = Usage(1, 2, 3)


def stamped(kind: type[Event], **fields: Any) -> Event:
    event: Event = kind(run_id="\x1b[2Jrun", turn=1, at=0.0, **fields)
    return event


def requests(text: str) -> list[Event]:
    """Make the events of requests, with the text wherever a text can be."""
    started = {
        "tool_use_mode": "relaxed",
        "tool_failure_policy": "fatal",
        "tools_enabled": True,
        "tool_choice": text,
        "messages_count": 1,
        "tools_count": 2,
        "request_bytes": 3,
    }
    call = ToolCall(text, text * 99, {"a": text.replace("\ud800", ""), "b": "x" * 500})
    ended = {"body": text, "response_bytes": 1, "elapsed_ms": 5, "request_hash": "h", "attempt": 1}
    return [
        stamped(LlmRequestStartEvent, **started, request_hash="h", attempt=1),
        stamped(LlmRequestErrorEvent, fault=fault(text), attempt=1, elapsed_ms=5),
        stamped(LlmRequestRetryEvent, attempt=1, wait_s=0.25, tools_enabled=True),
        stamped(LlmRequestEndEvent, **ended, reply=Reply(text * 9)),
        stamped(LlmRequestEndEvent, **ended, reply=Reply("", (call,), fired=(text,))),
    ]


def fault(text: str) -> Fault:
    return Fault(ErrorCode.AUTH, text, 401, text, text, body=text)


def every_event(text: str) -> list[Event]:
    """Make one event of each kind, with the text wherever a text can be."""
    result = ToolResult(text, text * 99, ok=False, content=text * 99, detail=text)
    sizes = {"elapsed_ms": 5, "output_bytes": 1, "output_replaced": False}
    run: JSON = {
        "config": {},
        "options": {},
        "tools": (),
        "system": None,
        "start": 0,
        "version": "0",
    }
    seen = {"any_tool_calls_seen": True, "any_tool_success_seen": False}
    return [
        stamped(RunStartEvent, **run, model=text, messages=(User(text),)),
        *requests(text),
        stamped(CallChangedEvent, call=ToolCall(text, text)),
        stamped(ToolCallStartEvent, call=ToolCall(text, text)),
        stamped(ToolCallEndEvent, **sizes, result=result, ok=False),
        stamped(FixEmptyFinalEvent, disable_tools=True, user_text_bytes=1),
        stamped(
            ForcedContinuationEvent, rung="remind", code="CONTRACT_UNMET", message=text, text=text
        ),
        stamped(ToolSearchEvent, call_id=text, query=text, found=(text,)),
        stamped(CallsInOrderEvent, calls=2),
        stamped(TextCallAskedEvent, rule="own_words", tools=(text,), text=text),
        stamped(FinalObjectedEvent, reason=text),
        stamped(UnsupportedClaimEvent, claims=(text,), text=text),
        stamped(PolicyErrorEvent, stage="call", message=text),
        stamped(ObserverErrorEvent, observer=text, message=text),
        stamped(RequestRefusedEvent, fault=fault(text)),
        stamped(RunPausedEvent, waiting=(WaitingCall(text, text, {}, text),), usage=USAGE),
        stamped(
            ModelChangedEvent, before=text, model=text, config={}, options={}, fault=fault(text)
        ),
        stamped(FinalEvent, **seen, text=text, stop_reason=text, usage=USAGE),
        stamped(RunFailedEvent, code="TOOL_ERROR", message=text, usage=USAGE),
    ]


# What a display showed, as a screen would have it


def screen(shown: list[DisplayDelta]) -> str:
    return "".join(event.text for event in shown if isinstance(event, TextDelta))


def withdrawals(shown: list[DisplayDelta]) -> list[str]:
    return [event.text for event in shown if isinstance(event, TextWithdrawn)]
