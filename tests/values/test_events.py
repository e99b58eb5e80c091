"""Events, traces and outcomes: what a run leaves behind, for programs and for people."""

import asyncio
from typing import Any, get_args

import msgspec
import pytest

from surecall.core.outcome import (
    LimitExceeded,
    RequestFailed,
    RunFailed,
    RunResult,
    ToolUseError,
    last_text,
)
from surecall.core.state import Run
from surecall.runtime.dispatch import Decision
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.connection import RetryPolicy
from surecall.settings.presets import RAW
from surecall.testing import Item, ScriptedModel, calls, calls_many, failure, says
from surecall.tools.registry import ToolRegistry, tool
from surecall.values.errors import ErrorCode, Fault, ProviderError, SurecallError
from surecall.values.events import (
    Event,
    FinalEvent,
    FinalObjectedEvent,
    FixEmptyFinalEvent,
    ForcedContinuationEvent,
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    LlmRequestRetryEvent,
    LlmRequestStartEvent,
    ObserverErrorEvent,
    PolicyErrorEvent,
    RequestRefusedEvent,
    RunFailedEvent,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from surecall.values.trace import Trace, render_event, safe_text
from surecall.values.types import JSON, Assistant, Reply, ToolCall, ToolResult, Usage, User
from tests.support.spec import proves

HOSTILE = "\x1b]52;c;x\x07\x1b[2J\r\x9b1m\u202egnp.exe\u2066\u2028\x00\ud800\n"
USAGE = Usage(1, 2, 3)


@tool
def look(place: str = "") -> str:
    """Look around."""
    if place == "nowhere":
        raise ValueError("there is no such place")
    return f"nothing at {place}"


def ran(*script: Item, config: ToolCallingConfig = RAW, **settings: Any) -> RunResult:
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=ToolRegistry([look]),
        config=config,
        retry=RetryPolicy(attempts=2, first_wait_s=0.0),
        **settings,
    )
    return asyncio.run(runner.run("hi"))


def failed(*script: Item, **settings: Any) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        ran(*script, **settings)
    return caught.value


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
        stamped(ToolCallStartEvent, call=ToolCall(text, text)),
        stamped(ToolCallEndEvent, **sizes, result=result, ok=False),
        stamped(FixEmptyFinalEvent, disable_tools=True, user_text_bytes=1),
        stamped(
            ForcedContinuationEvent, rung="remind", code="CONTRACT_UNMET", message=text, text=text
        ),
        stamped(FinalObjectedEvent, reason=text),
        stamped(PolicyErrorEvent, stage="call", message=text),
        stamped(ObserverErrorEvent, observer=text, message=text),
        stamped(RequestRefusedEvent, fault=fault(text)),
        stamped(FinalEvent, **seen, text=text, stop_reason=text, usage=USAGE),
        stamped(RunFailedEvent, code="TOOL_ERROR", message=text, usage=USAGE),
    ]


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
        "[0] ↻ again in 0.0 s",
        "[0] → 1 message, 1 tool",
        '[0] ← look({"place":"nowhere"})',
        "[0]   ✗ look ARGUMENT_ERROR: there is no such place",
        "[1] → 3 messages, 1 tool",
    ]
    assert story[9].startswith("[1]   ✓ look {")
    assert story[10:] == [
        "[2] → 5 messages, 1 tool",
        "[2] ← ''",
        "[2] ↻ empty answer, asking for it once more",
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

    error = failed(
        calls("look"), calls("look"), tool_policy=Broken(), config=ToolCallingConfig(max_turns=2)
    )
    lines = str(error.result.trace).splitlines()
    assert "[1] ! the tool policy raised RuntimeError: no idea" in lines
    assert lines[-1] == "failed: MAX_TURNS_EXCEEDED: no final answer after 2 turns"


def test_repairs_are_named_beside_what_was_said() -> None:
    assert render_event(requests("x")[-1]).endswith("[x] (5 ms)")


def test_a_turn_is_the_request_the_reply_and_the_results() -> None:
    reply = calls_many(calls("look", place="a"), calls("look", place="b"), calls("look"))
    reply["choices"][0]["message"]["content"] = "let me look " * 30
    config = ToolCallingConfig(max_tool_calls_per_turn=2)
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


def test_every_event_can_be_written_and_read() -> None:
    for event in every_event("x"):
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


# Outcomes


def test_a_result_holds_the_conversation_and_the_repairs() -> None:
    fenced = calls("look")
    fenced["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "```json\n{}\n```"
    result = ran(fenced, says("done"))
    assert result.fired == ("code_fence",)
    assert [type(message).__name__ for message in result.history] == [
        *("User", "Assistant", "ToolResult", "Assistant")
    ]
    assert result.usage == Usage(2, 2, 4)


def test_a_provider_that_counts_nothing_costs_nothing() -> None:
    assert ran(says("hi", usage=None)).usage == Usage()


@pytest.mark.parametrize(
    ("script", "changes", "kind", "code"),
    [
        ([says("no")], {"tool_use_mode": ToolUseMode.ENFORCED}, ToolUseError, "NO_TOOL_CALLS"),
        ([calls("look")], {"max_turns": 1}, LimitExceeded, "MAX_TURNS_EXCEEDED"),
        ([failure(401)], {}, RequestFailed, "AUTH"),
    ],
)
def test_how_a_run_failed_is_a_kind_of_error(
    script: list[Item], changes: Any, kind: type[RunFailed], code: str
) -> None:
    error = failed(*script, config=ToolCallingConfig(**changes))
    assert type(error) is kind
    assert isinstance(error, SurecallError)
    assert (error.code, error.result.stop_reason) == (code, code)
    assert code in str(error)
    assert error.result.trace.turns
    assert error.details == {}


def test_an_endpoint_that_fails_in_mid_run_is_both_kinds_of_error() -> None:
    error = failed(calls("look"), failure(402))
    assert isinstance(error, RequestFailed)
    assert isinstance(error, ProviderError)
    assert (error.code, error.status) == (ErrorCode.PAYMENT_REQUIRED, 402)
    assert str(error) == str(error.fault)
    assert "Add credit" in str(error)


def test_a_policy_that_ends_the_run_is_no_fault_of_the_endpoint() -> None:
    class Broken:
        def visible(self, *_: object) -> bool:
            raise RuntimeError("no idea")

        def authorize(self, *_: object) -> Decision:
            return Decision("allow")

    error = failed(config=ToolCallingConfig(policy_error_mode="raise"), tool_policy=Broken())
    assert (type(error), error.code) == (ToolUseError, ErrorCode.POLICY_ERROR)


@pytest.mark.parametrize(
    ("messages", "text"),
    [((User("a"),), ""), ((User("a"), Assistant("b"), Assistant("c"), User("d")), "c")],
)
def test_the_newest_words_are_the_best_there_is(messages: Any, text: str) -> None:
    assert last_text(Run("r", "m", ToolCallingConfig(), messages)) == text


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


def test_an_event_is_named_after_its_tag() -> None:
    names = {kind.__struct_config__.tag: kind.__name__ for kind in get_args(Event)}
    # Its tag is kept for traces that exist; what was refused is a request.
    assert names.pop("run_refused") == "RequestRefusedEvent"

    for tag, name in names.items():
        assert name == "".join(word.capitalize() for word in str(tag).split("_")) + "Event"
