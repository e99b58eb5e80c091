"""Replay: the same run comes out again, or the first divergence is named."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from surecall import (
    ReplayDiverged,
    RetryPolicy,
    RunFailed,
    ToolCallingConfig,
    ToolLoopRunner,
    Trace,
    replay,
    run_of,
)
from surecall.runtime.replay import sent_requests
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, failure, says
from surecall.values.events import (
    LlmRequestEndEvent,
    LlmRequestStartEvent,
    RunStartEvent,
    ToolCallEndEvent,
)
from surecall.values.types import JSON
from tests.support.scripted_runs import add, result_of
from tests.support.spec import proves


def recorded() -> Trace:
    return result_of([calls("add", a=1, b=2), says("3")], raw())[0].trace


def tampered(trace: Trace, index: int, **changes: Any) -> Trace:
    events = list(trace.events)
    events[index] = msgspec.structs.replace(events[index], **changes)
    return Trace(tuple(events))


def at(trace: Trace, kind: type) -> int:
    return next(index for index, event in enumerate(trace) if isinstance(event, kind))


@proves("G4")
@pytest.mark.parametrize(
    ("kind", "changes", "says_what"),
    [
        (LlmRequestEndEvent, {"request_hash": "0" * 64}, "the request differs"),
        (LlmRequestEndEvent, {"body": says("Something else.")}, "the answer was parsed as"),
        (RunStartEvent, {"model": "another"}, "the request differs"),
    ],
)
def test_replay_names_the_first_divergence(
    kind: type, changes: dict[str, Any], says_what: str
) -> None:
    trace = recorded()

    with pytest.raises(ReplayDiverged, match=says_what) as divergence:
        replay(tampered(trace, at(trace, kind), **changes))
    assert divergence.value.turn == 0


def test_replay_names_a_call_that_is_not_the_recorded_one() -> None:
    trace = recorded()
    index = at(trace, ToolCallEndEvent)
    event = trace[index]
    assert isinstance(event, ToolCallEndEvent)
    other = msgspec.structs.replace(event.result, call_id="another")

    with pytest.raises(ReplayDiverged, match="the result of call 'call_1', recorded is 'another'"):
        replay(tampered(trace, index, result=other))


@pytest.mark.parametrize(("field", "value"), [("text", "4"), ("stop_reason", "length")])
def test_replay_notices_another_end(field: str, value: str) -> None:
    trace = recorded()

    with pytest.raises(ReplayDiverged, match="different answer"):
        replay(tampered(trace, len(trace) - 1, **{field: value}))


def test_replay_notices_another_failure() -> None:
    config = ToolCallingConfig.from_mapping({"tool_use_mode": "enforced"})
    trace = result_of([], config)[0].trace

    with pytest.raises(ReplayDiverged, match="fails with NO_TOOL_CALLS"):
        replay(tampered(trace, len(trace) - 1, code="TOOL_ERROR"))


@pytest.mark.parametrize("length", range(8))
def test_replay_of_a_recording_that_was_cut_says_where_it_ends(length: int) -> None:
    trace = Trace(recorded().events[:length])

    with pytest.raises(ReplayDiverged, match="the trace"):
        replay(trace)


def test_replay_notices_events_out_of_order() -> None:
    events = list(recorded().events)
    first, second = (
        at(Trace(tuple(events)), LlmRequestEndEvent),
        at(Trace(tuple(events)), ToolCallEndEvent),
    )
    events[first], events[second] = events[second], events[first]

    with pytest.raises(
        ReplayDiverged, match="expected LlmRequestEndEvent, recorded is ToolCallEndEvent"
    ):
        replay(Trace(tuple(events)))


def test_a_recording_that_goes_on_after_the_end_is_not_of_this_run() -> None:
    events = recorded().events

    with pytest.raises(ReplayDiverged, match="continues after the run has ended"):
        replay(Trace((*events, events[-1])))


@pytest.mark.parametrize("take_up", [replay, run_of])
def test_a_recording_without_its_beginning_is_refused(take_up: Callable[[Trace], object]) -> None:
    for events in ((), recorded().events[1:]):
        with pytest.raises(ReplayDiverged, match="does not begin with run_start"):
            take_up(Trace(tuple(events)))


def test_a_recording_cut_anywhere_gives_the_run_up_to_its_last_complete_move() -> None:
    trace = recorded()
    whole = replay(trace).run
    lengths = []
    for length in range(1, len(trace) + 1):
        run = run_of(Trace(trace.events[:length]))
        assert run.messages == whole.messages[: len(run.messages)]
        lengths.append(len(run.messages))

    assert lengths == sorted(lengths)
    assert (lengths[0], set(lengths)) == (1, {1, 2, 3, 4})


def sent(*script: Any, **config: object) -> tuple[list[JSON], list[JSON], list[bool]]:
    """Run a script; return what was sent, what is composed again of it, and whether exactly."""
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=[add],
        config=raw().replace(**config),
        system="Add.",
        retry=RetryPolicy(attempts=1),
    )
    try:
        trace = asyncio.run(runner.run("What is 1 + 2?")).trace
    except RunFailed as failed:
        trace = failed.result.trace
    found = sent_requests(trace)
    again = [msgspec.json.decode(each.body) for each in found]
    return model.requests, again, [each.exact for each in found]


CALLED = calls("add", a=1, b=2)


@pytest.mark.parametrize(
    ("script", "config"),
    [
        ((CALLED, says("3")), {}),
        ((CALLED, says(""), says("3")), {"fix_empty_final": True}),
        ((says("3"), CALLED, says("3")), {"tool_use_mode": "enforced"}),
        ((CALLED, failure(401)), {}),
        ((failure(503),), {}),
        (
            (says('{"tool": "add", "arguments": {"a": 1, "b": 2}}'), says('{"answer": "3"}')),
            {"call_protocol": "guided"},
        ),
    ],
)
def test_every_request_of_a_recording_is_composed_again_to_the_byte(
    script: tuple[Any, ...], config: dict[str, object]
) -> None:
    real, again, exact = sent(*script, **config)

    assert again == real
    assert exact == [True] * len(real)


@pytest.mark.parametrize("end", [says("3"), failure(401)])
def test_a_request_is_told_as_it_was_after_its_lessons(end: Any) -> None:
    refusal = failure(400, {"error": {"message": "tool_choice is not supported"}})
    real, again, exact = sent(refusal, end, tool_use_mode="enforced", tool_choice="required")

    assert again == real[1:2]
    assert exact == [True]


def test_a_request_that_another_version_wrote_otherwise_is_not_called_exact() -> None:
    trace = recorded()
    index = at(trace, LlmRequestStartEvent)
    first, second = sent_requests(tampered(trace, index, request_hash="0" * 64))

    assert (first.exact, second.exact) == (False, True)


def test_of_a_recording_that_cannot_be_followed_only_the_beginning_is_told() -> None:
    trace = recorded()

    assert sent_requests(Trace(())) == []
    assert sent_requests(Trace(trace.events[1:])) == []
    start = trace[0]
    assert isinstance(start, RunStartEvent)
    unknown = start.config | {"of_another_version": 1}
    assert sent_requests(tampered(trace, 0, config=unknown)) == []
    assert len(sent_requests(Trace(trace.events[:3]))) == 1
    events = tuple(event for event in trace if not isinstance(event, ToolCallEndEvent))
    assert len(sent_requests(Trace(events))) == 1
