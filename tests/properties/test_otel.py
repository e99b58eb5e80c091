"""Spans: whatever happens in a run, its spans add up to it, end, and can be sent."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from surecall import RetryPolicy, RunFailed, ToolCallingConfig, ToolLoopRunner
from surecall.otel import OpenTelemetry
from surecall.testing import ScriptedModel, says
from surecall.values.events import LlmRequestEndEvent, ToolCallEndEvent
from surecall.values.trace import Trace
from tests.support.generated import CONFIGS, SCRIPTS
from tests.support.scripted_runs import REGISTRY
from tests.support.telemetry import Kept, context_of, every_event, told

HOSTILE = ("", "plain", "half \ud800", "\x00\x1b[2J\u202e", "é" * 300, '"]}', "x" * 100_000)
QUOTED = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions")


@settings(max_examples=30)
@given(st.sampled_from(HOSTILE), st.randoms(use_true_random=False), st.sets(st.sampled_from("cl")))
def test_events_in_any_order_with_any_text_raise_nothing_and_leave_nothing(
    text: str, chance: Any, marks: set[str]
) -> None:
    content, live = "c" in marks, "l" in marks
    kept = Kept()
    tell = OpenTelemetry(kept.provider, content=content)
    first, *others = every_event(text)
    chance.shuffle(others)

    if live:
        tell.run_entered(first.run_id, {})
    for event in (first, *others, *others, first):
        tell(event)
    tell.run_left(first.run_id, KeyboardInterrupt)

    assert not tell._runs
    assert not tell._live_runs
    assert encode_spans(kept.spans).SerializeToString()
    for span in kept.spans:
        for name in QUOTED:
            assert json.loads(told(span).get(name, "[]")) is not None


@given(CONFIGS, SCRIPTS)
def test_the_spans_of_a_run_add_up_to_it(config: ToolCallingConfig, script: list[Any]) -> None:
    kept = Kept()
    runner = ToolLoopRunner(
        client=ScriptedModel(*script, *[says("done")] * 40),
        model="m",
        registry=REGISTRY,
        config=config,
        retry=RetryPolicy(first_wait_s=0.0),
        observers=[OpenTelemetry(kept.provider)],
    )
    events: list[Any] = []
    with suppress(RunFailed):
        asyncio.run(runner.run("go", on_event=events.append))

    trace = Trace(tuple(events))
    *parts, agent = kept.spans
    heard = [event for event in trace if isinstance(event, LlmRequestEndEvent)]
    answered = [event for event in trace if isinstance(event, ToolCallEndEvent)]
    tokens = [told(span).get("gen_ai.usage.input_tokens", 0) for span in kept.spans]
    assert agent.name == "invoke_agent"
    assert {span.parent and span.parent.span_id for span in parts} <= {context_of(agent).span_id}
    assert sum(span.name == "chat m" for span in parts) >= len(heard)
    assert sum(span.name.startswith("execute_tool") for span in parts) == len(answered)
    assert sum(tokens) == trace[-1].usage.prompt_tokens  # type: ignore[union-attr]
