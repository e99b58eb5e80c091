"""What is kept of a stream: bounded wherever it stands, and repetitions cost nothing."""

import json

import pytest

from surecall.parsing.budget import MAX_VALUES
from surecall.parsing.sse import SseEvent
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON
from tests.support.streams import END, assembled, chunk


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x" * 40},
        {"reasoning_content": "x" * 40},
        {"content": [{"type": "text", "text": "x" * 40}]},
        {"annotations": ["x" * 40]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "x" * 40}]},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "x" * 40}}]},
        {"tool_calls": [{"index": 0, "id": "x" * 40}]},
        {"tool_calls": [{"index": 0, "function": {"name": "f"}, "signature": "x" * 40}]},
        {"tool_calls": "x" * 40},
        {"function_call": {"name": "f", "arguments": "x" * 40}},
    ],
)
def test_what_is_kept_of_a_stream_is_bounded_wherever_it_stands(delta: JSON) -> None:
    events = [SseEvent(json.dumps(chunk(delta))) for _ in range(100)]
    outcome, _ = assembled(events, max_bytes=2_000)

    assert isinstance(outcome, Fault)
    assert outcome.code is ErrorCode.RESPONSE_TOO_LARGE


@pytest.mark.parametrize(
    "delta",
    [
        {"role": "assistant", "content": ""},
        {"provider_specific_fields": {"a": "x" * 40}},
        {"reasoning_details": [{"type": "reasoning.text", "format": "x" * 40, "index": 0}]},
        {"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": ""}}]},
        {"function_call": {"name": "f", "arguments": {"a": 1}}},
    ],
)
def test_what_is_said_again_and_again_is_kept_once_and_costs_nothing(delta: JSON) -> None:
    events = [SseEvent(json.dumps(chunk(delta))) for _ in range(100)]
    outcome, _ = assembled([*events, SseEvent(json.dumps(END))], max_bytes=2_000)

    assert not isinstance(outcome, Fault)


def test_a_stream_of_many_small_values_is_refused_before_it_fills_the_memory() -> None:
    one = SseEvent(json.dumps(chunk({"annotations": [[]] * 1_000})))
    outcome, _ = assembled([one] * (MAX_VALUES // 2_000 + 1))

    assert isinstance(outcome, Fault)
    assert "values" in outcome.message
