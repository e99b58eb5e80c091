"""Replay: the same run comes out again, or the first divergence is named."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from surecall import (
    ReplayDiverged,
    ToolCallingConfig,
    Trace,
    replay,
    run_of,
)
from surecall.testing import calls, says
from surecall.values.events import (
    LlmRequestEndEvent,
    RunStartEvent,
    ToolCallEndEvent,
)
from tests.support.scripts import result_of
from tests.support.spec import proves


def recorded() -> Trace:
    return result_of([calls("add", a=1, b=2), says("3")], ToolCallingConfig())[0].trace


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
        (LlmRequestEndEvent, {"body": says("Something else.")}, "the answer reads as"),
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

    with pytest.raises(ReplayDiverged, match="'call_1' is due, recorded is 'another'"):
        replay(tampered(trace, index, result=other))


@pytest.mark.parametrize(("field", "value"), [("text", "4"), ("stop_reason", "length")])
def test_replay_notices_another_end(field: str, value: str) -> None:
    trace = recorded()

    with pytest.raises(ReplayDiverged, match="another answer"):
        replay(tampered(trace, len(trace) - 1, **{field: value}))


def test_replay_notices_another_failure() -> None:
    config = ToolCallingConfig.from_mapping({"tool_use_mode": "enforced"})
    trace = result_of([], config)[0].trace

    with pytest.raises(ReplayDiverged, match="fails with NO_TOOL_CALLS"):
        replay(tampered(trace, len(trace) - 1, code="TOOL_ERROR"))


@pytest.mark.parametrize("length", range(8))
def test_replay_of_a_recording_that_was_cut_says_where_it_ends(length: int) -> None:
    trace = Trace(recorded().events[:length])

    with pytest.raises(ReplayDiverged, match="recording"):
        replay(trace)


def test_replay_notices_events_out_of_order() -> None:
    events = list(recorded().events)
    first, second = (
        at(Trace(tuple(events)), LlmRequestEndEvent),
        at(Trace(tuple(events)), ToolCallEndEvent),
    )
    events[first], events[second] = events[second], events[first]

    with pytest.raises(
        ReplayDiverged, match="LlmRequestEndEvent is due, recorded is ToolCallEndEvent"
    ):
        replay(Trace(tuple(events)))


def test_a_recording_that_goes_on_after_the_end_is_not_of_this_run() -> None:
    events = recorded().events

    with pytest.raises(ReplayDiverged, match="goes on after the run has ended"):
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
