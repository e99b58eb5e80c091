"""A run as an OpenTelemetry trace, printed: no key, no network, no collector needed.

Needs `pip install 'surecall[otel]' opentelemetry-sdk`. In a program of your own, the provider of
tracers is set up with an exporter to your collector, and `OpenTelemetry()` finds it by itself.
"""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from surecall import OpenAICompatible, ToolLoopRunner
from surecall.otel import OpenTelemetry
from surecall.testing import ScriptedProvider, calls, failure, says

spans = InMemorySpanExporter()
tracing = TracerProvider()
tracing.add_span_processor(SimpleSpanProcessor(spans))


def get_weather(city: str) -> dict[str, str]:
    """Weather for a city."""
    with tracing.get_tracer("weather").start_as_current_span("look out of the window"):
        return {"city": city, "sky": "clear"}


with ScriptedProvider(calls("get_weather", city="Paris"), failure(503), says("Clear.")) as provider:
    runner = ToolLoopRunner(
        client=OpenAICompatible(provider.url),
        model="qwen3",
        tools=[get_weather],
        observers=[OpenTelemetry(tracing, agent="weather")],
    )
    runner.run_sync("Weather in Paris?")
    runner.close()

for span in spans.get_finished_spans():
    tokens = (span.attributes or {}).get("gen_ai.usage.input_tokens", "-")
    print(f"{span.name:28} input tokens: {tokens}  notes: {[note.name for note in span.events]}")
assert spans.get_finished_spans()[-1].name == "invoke_agent weather"
