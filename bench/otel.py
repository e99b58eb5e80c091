"""What OpenTelemetry costs: the CPU of its observer for the events of a three-turn run.

The events are those of a real run with two calls. They are told again and again, in rounds that
alternate: with the SDK, whose batches go nowhere, with the SDK and what was said, and with the API
alone, as in a program that has no SDK. Printed is the median in microseconds per run, with its bar.

    python bench/otel.py [ROUNDS]
"""

import gc
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracerProvider

sys.path.append(str(Path(__file__).resolve().parents[1]))

from surecall import Event, ToolLoopRunner
from surecall.otel import OpenTelemetry
from surecall.testing import ScriptedModel, calls, says

ROUNDS = 31
RUNS = 100


class Nowhere(SpanExporter):
    """Takes spans and sends them nowhere."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - see above
        """Take a batch."""
        return SpanExportResult.SUCCESS


def get_weather(city: str, days: int = 1) -> dict[str, object]:
    """Weather for a city."""
    return {"city": city, "days": days, "sky": "clear"}


def recorded() -> list[Event]:
    """Hold the conversation once."""
    paris, rome = calls("get_weather", city="Paris", days=3), calls("get_weather", city="Rome")
    model = ScriptedModel(paris, rome, says("Clear in both."))
    runner = ToolLoopRunner(client=model, model="scripted", tools=[get_weather])
    result = runner.run_sync("Weather in Paris and Rome?")
    runner.close()
    return list(result.trace)


def told(observer: OpenTelemetry, events: list[Event], clients: Mapping[str, object]) -> float:
    """Tell the events of many runs; return the microseconds of CPU that one takes."""
    run_id = events[0].run_id
    began = time.process_time()
    for _ in range(RUNS):
        observer.run_entered(run_id, clients)
        for event in events:
            observer(event)
        observer.run_left(run_id, None)
    return (time.process_time() - began) / RUNS * 1e6


def main() -> int:
    """Print the table; fail when a bar is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    events, clients = recorded(), {"": ScriptedModel()}
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    sides = {
        "with the SDK": (OpenTelemetry(provider), 300),
        "with the SDK and content": (OpenTelemetry(provider, content=True), None),
        "without an SDK": (OpenTelemetry(NoOpTracerProvider()), 30),
    }
    taken: dict[str, list[float]] = {name: [] for name in sides}
    gc.collect()
    for _ in range(rounds + 1):
        for name, (observer, _) in sides.items():
            taken[name].append(told(observer, events, clients))
    provider.shutdown()
    missed = False
    for name, (_, bar) in sides.items():
        median, best, worst = (
            measure(taken[name][1:]) for measure in (statistics.median, min, max)
        )
        beside = "" if bar is None else f", bar {bar}"
        print(f"{name:26} {median:6.1f} µs per run ({best:.1f} to {worst:.1f}{beside})")
        missed |= bar is not None and median > bar
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
