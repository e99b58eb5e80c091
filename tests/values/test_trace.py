"""The trace of a run: turn by turn, as a value, and as lines that are safe to print."""

from typing import get_args

import msgspec
import pytest

from surecall.settings.presets import raw
from surecall.testing import calls, calls_many, failure, says
from surecall.values.decisions import Decision
from surecall.values.events import (
    Event,
    ToolCallEndEvent,
)
from surecall.values.trace import Trace, render_event, safe_text
from surecall.values.types import ToolResult, Usage
from tests.support.scripted_runs import failed, ran
from tests.support.spec import proves
from tests.support.telemetry import every_event, requests

HOSTILE = "\x1b]52;c;x\x07\x1b[2J\r\x9b1m\u202egnp.exe\u2066\u2028\x00\ud800\n"


def test_a_printed_trace_is_safe_for_a_terminal() -> None:
    events = every_event(HOSTILE)
    assert {type(event) for event in events} == set(get_args(Event))
    lines = str(Trace(tuple(events))).split("\n")
    assert all(line.isprintable() for line in lines)
    assert len(lines) == len(events) - 2  # a call's start and a refusal are told by what follows
    assert "\\x1b]52" in lines[0]
    assert "\\u202egnp" in lines[2]
    assert max(map(len, lines)) < 2_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [("héllo 😀", "héllo 😀"), ("a\tb\n", "a\\tb\\n"), ("\x7f\x85", "\\x7f\\x85"), ("", "")],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert safe_text(text) == shown


def test_a_trace_tells_the_story_of_a_run() -> None:
    script = (failure(503), calls("look", place="nowhere"), calls("look", place="home"), says(""))
    result = ran(*script, says("done"))
    story = [line.partition(" (")[0] for line in str(result.trace).splitlines()]
    assert story[0] == f"run {result.run.run_id[:8]} m, 1 tool"
    assert story[1:8] == [
        "[0] → 1 message, 1 tool",
        "[0] ✗ UPSTREAM_5XX",
        "[0] ↻ retrying in 0.0 s",
        "[0] → 1 message, 1 tool",
        '[0] ← look({"place":"nowhere"})',
        "[0]   ✗ look ARGUMENT_ERROR: there is no such place",
        "[1] → 3 messages, 1 tool",
    ]
    assert story[9].startswith("[1]   ✓ look {")
    assert story[10:] == [
        "[2] → 5 messages, 1 tool",
        "[2] ← ''",
        "[2] ↻ no usable answer, re-prompting",
        "[3] → 6 messages, no tools",
        "[3] ← 'done'",
        f"done: final, {result.usage.total_tokens} tokens",
    ]


def test_a_failed_run_and_a_broken_policy_are_told_too() -> None:
    class Broken:
        def visible(self, *_: object) -> bool:
            return True

        def authorize(self, *_: object) -> Decision:
            raise RuntimeError("no idea")

    error = failed(calls("look"), calls("look"), tool_policy=Broken(), config=raw(max_turns=2))
    lines = str(error.result.trace).splitlines()
    assert "[1] ! the tool policy raised RuntimeError: no idea" in lines
    assert lines[-1] == "failed: MAX_TURNS_EXCEEDED: no final answer after 2 turns"


def test_repairs_are_named_beside_what_was_said() -> None:
    assert render_event(requests("x")[-1]).endswith("[x] (5 ms)")


def test_a_turn_is_the_request_the_reply_and_the_results() -> None:
    reply = calls_many(calls("look", place="a"), calls("look", place="b"), calls("look"))
    reply["choices"][0]["message"]["content"] = "let me look " * 30
    config = raw(max_tool_calls_per_turn=2)
    first, second = ran(reply, says("done"), config=config).trace.turns
    assert [call.id for call in first.tool_calls] == ["call_1", "call_2"]
    assert [call.id for call in first.ignored_tool_calls] == ["call_3"]
    assert first.ignored_tool_calls_count == 1
    assert [result.call_id for result in first.tool_results] == ["call_1", "call_2", "call_3"]
    assert first.assistant_content_stripped
    assert first.assistant_content_sample == ("let me look " * 30)[:200]
    assert (second.tool_calls, second.tool_results, second.turn) == ((), (), 1)
    assert not second.assistant_content_stripped
    assert (second.assistant_content_sample, second.usage) == ("done", Usage(1, 1, 2))
    assert second.request is not None
    assert second.request.messages_count == 5


@proves("I3")
def test_a_turn_without_an_answer_is_an_empty_one() -> None:
    error = failed(calls("look"), failure(401))
    first, second = error.result.trace.turns
    assert [call.name for call in first.tool_calls] == ["look"]
    assert (second.response, second.tool_calls, second.ignored_tool_calls) == (None, (), ())
    assert (second.usage, second.assistant_content_sample) == (None, "")
    assert not second.assistant_content_stripped


def test_a_trace_is_a_sequence_of_events_with_a_value() -> None:
    trace = ran(says("hi")).trace
    same = Trace(msgspec.convert(msgspec.to_builtins(trace.events), tuple[Event, ...]))
    assert (same == trace, hash(same)) == (True, hash(trace))
    assert trace != Trace(trace.events[:-1])
    assert trace != trace.events
    assert trace[0] is next(iter(trace))
    assert len(trace) == 4
    assert repr(trace) == "<Trace of 1 turns, 4 events>"


def test_a_digest_is_of_what_happened_and_not_of_when() -> None:
    once, again, other = (ran(calls("look", where="here"), says(text)).trace for text in "aab")

    assert once.digest == again.digest != other.digest


@pytest.mark.parametrize("content", ["It is warm.", "{", '{"ok": "maybe"}', "[1]"])
def test_the_result_of_a_foreign_history_is_printed_as_it_is(content: str) -> None:
    result = ToolResult("c", "look", ok=True, content=content)
    event = ToolCallEndEvent(
        run_id="r",
        turn=0,
        at=0.0,
        result=result,
        ok=True,
        elapsed_ms=0,
        output_bytes=0,
        output_replaced=False,
    )
    assert render_event(event) == f"[0]   ✓ look {content}"
