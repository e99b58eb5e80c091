"""Spans that are kept in memory, and runs that are told as such."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from surecall import RetryPolicy, ToolLoopRunner
from surecall.otel import OpenTelemetry
from surecall.testing import ScriptedModel, calls, says

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
    return [*own._runs, *own._entered]
