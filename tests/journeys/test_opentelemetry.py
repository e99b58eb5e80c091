"""Spans that leave the program: the exporter of OpenTelemetry sends them to a collector."""

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from surecall import OpenAICompatible, ToolLoopRunner
from surecall.otel import SCHEMA_URL, OpenTelemetry
from surecall.testing import ScriptedProvider, calls, says
from tests.support.telemetry import collecting, told_by
from tests.support.tools import add

HOSTILE = "half \ud800, \x00, \u202e and " + "long " * 10_000


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_collector_gets_the_spans_of_a_run(compression: Compression) -> None:
    with (
        collecting() as collector,
        ScriptedProvider(calls("add", a=1, b=2), says("3")) as served,
    ):
        tracing = TracerProvider()
        exporter = OTLPSpanExporter(collector.url, compression=compression)
        tracing.add_span_processor(BatchSpanProcessor(exporter))
        observer = OpenTelemetry(tracing, content=True, agent="adder")
        runner = ToolLoopRunner(
            client=OpenAICompatible(served.url), model="m", tools=[add], observers=[observer]
        )
        runner.run_sync(f"1 + 2? {HOSTILE}")
        runner.close()
        tracing.shutdown()
        (scope,) = collector.scopes

    assert (scope.scope.name, scope.schema_url) == ("surecall", SCHEMA_URL)
    assert [span.name for span in scope.spans] == [
        "chat m",
        "execute_tool add",
        "chat m",
        "invoke_agent adder",
    ]
    chat, tool, _, agent = scope.spans
    assert {span.trace_id for span in scope.spans} == {agent.trace_id}
    assert {chat.parent_span_id, tool.parent_span_id} == {agent.span_id}
    assert agent.start_time_unix_nano <= chat.start_time_unix_nano <= chat.end_time_unix_nano
    assert chat.end_time_unix_nano <= tool.start_time_unix_nano <= agent.end_time_unix_nano
    assert told_by(chat)["gen_ai.usage.input_tokens"] == 1
    assert told_by(chat)["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert told_by(chat)["server.address"] == "127.0.0.1"
    assert "half \\ufffd" in ascii(told_by(agent)["gen_ai.input.messages"])
