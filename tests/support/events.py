"""One event of each kind, with a text wherever a text can be."""

from typing import Any

from surecall.values.decisions import WaitingCall
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import (
    CallChangedEvent,
    CallsInOrderEvent,
    Event,
    FinalEvent,
    FinalObjectedEvent,
    FixEmptyFinalEvent,
    ForcedContinuationEvent,
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    LlmRequestRetryEvent,
    LlmRequestStartEvent,
    ModelChangedEvent,
    ObserverErrorEvent,
    PolicyErrorEvent,
    RequestRefusedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunStartEvent,
    TextCallAskedEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from surecall.values.types import JSON, Reply, ToolCall, ToolResult, Usage, User

USAGE = Usage(1, 2, 3)


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
        stamped(CallChangedEvent, call=ToolCall(text, text)),
        stamped(ToolCallStartEvent, call=ToolCall(text, text)),
        stamped(ToolCallEndEvent, **sizes, result=result, ok=False),
        stamped(FixEmptyFinalEvent, disable_tools=True, user_text_bytes=1),
        stamped(
            ForcedContinuationEvent, rung="remind", code="CONTRACT_UNMET", message=text, text=text
        ),
        stamped(CallsInOrderEvent, calls=2),
        stamped(TextCallAskedEvent, rule="own_words", tools=(text,), text=text),
        stamped(FinalObjectedEvent, reason=text),
        stamped(PolicyErrorEvent, stage="call", message=text),
        stamped(ObserverErrorEvent, observer=text, message=text),
        stamped(RequestRefusedEvent, fault=fault(text)),
        stamped(RunPausedEvent, waiting=(WaitingCall(text, text, {}, text),), usage=USAGE),
        stamped(
            ModelChangedEvent, before=text, model=text, config={}, options={}, fault=fault(text)
        ),
        stamped(FinalEvent, **seen, text=text, stop_reason=text, usage=USAGE),
        stamped(RunFailedEvent, code="TOOL_ERROR", message=text, usage=USAGE),
    ]
