"""The trace of a run: its events in order, turn by turn, or as lines for people."""

from collections.abc import Iterator
from typing import Any

import msgspec

from surecall.values.decisions import WaitingCall
from surecall.values.digests import sha256
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
from surecall.values.nesting import decode_json
from surecall.values.types import (
    Reply,
    ToolCall,
    ToolResult,
    Usage,
)

SAMPLE_CHARS = 200


# When and where something happened, which is not what happened.
_CIRCUMSTANCES = frozenset({"run_id", "at", "elapsed_ms", "endpoint", "origin"})


class Turn(msgspec.Struct, frozen=True):
    """One turn at a glance: what was asked, what was said, what the calls came to."""

    turn: int
    request: LlmRequestStartEvent | None
    response: LlmRequestEndEvent | None
    tool_results: tuple[ToolResult, ...]

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that were let through, in order."""
        if self.response is None:
            return ()
        ignored = frozenset(self.response.ignored_tool_calls)
        return tuple(call for call in self.response.reply.calls if call.id not in ignored)

    @property
    def ignored_tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that were counted but not run."""
        if self.response is None:
            return ()
        ignored = frozenset(self.response.ignored_tool_calls)
        return tuple(call for call in self.response.reply.calls if call.id in ignored)

    @property
    def ignored_tool_calls_count(self) -> int:
        """How many calls were counted but not run."""
        return len(self.ignored_tool_calls)

    @property
    def usage(self) -> Usage | None:
        """What the provider says the turn cost."""
        return self.response.reply.usage if self.response else None

    @property
    def assistant_content_stripped(self) -> bool:
        """Whether text stood beside calls (it is not sent back unless the config says so)."""
        return bool(self.tool_calls and self.response and self.response.reply.text)

    @property
    def assistant_content_sample(self) -> str:
        """The beginning of that text."""
        return self.response.reply.text[:SAMPLE_CHARS] if self.response else ""


class Trace:
    """The events of one run, in order. `print(trace)` is meant to be read."""

    def __init__(self, events: tuple[Event, ...]) -> None:
        self.events = events

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, index: int) -> Event:
        return self.events[index]

    def __eq__(self, other: object) -> bool:
        # By what would be written: a trace that was read back has lists where settings had tuples.
        return isinstance(other, Trace) and _plain(self.events) == _plain(other.events)

    def __hash__(self) -> int:
        return hash(tuple(type(event) for event in self.events))

    def __repr__(self) -> str:
        return f"<Trace of {len(self.turns)} turns, {len(self.events)} events>"

    @property
    def digest(self) -> str:
        """The SHA-256 of what happened, wherever, whenever, and however long it took."""
        plain = [_timeless(msgspec.to_builtins(event)) for event in self.events]
        return sha256(msgspec.json.encode(plain, order="deterministic")).hex()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The trace, turn by turn."""
        requests: dict[int, LlmRequestStartEvent] = {}
        responses: dict[int, LlmRequestEndEvent] = {}
        results: dict[int, list[ToolResult]] = {}
        for event in self.events:
            match event:
                case LlmRequestStartEvent():
                    requests[event.turn] = event
                case LlmRequestEndEvent():
                    responses[event.turn] = event
                case ToolCallEndEvent():
                    results.setdefault(event.turn, []).append(event.result)
                case _:
                    pass
        return tuple(
            Turn(turn, request, responses.get(turn), tuple(results.get(turn, ())))
            for turn, request in requests.items()
        )

    def __str__(self) -> str:
        return "\n".join(line for event in self.events if (line := render_event(event)))


def render_event(event: Event) -> str:
    """Write an event as one line for people; control characters are made visible."""
    return safe_text(_sentence(event))


def safe_text(text: str) -> str:
    """Make text from a model safe for a terminal: no control or direction characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _sentence(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912  # one flat case for each kind of event
    match event:
        case RunStartEvent():
            return f"run {event.run_id[:8]} {event.model}, {_count(len(event.tools), 'tool')}"
        case LlmRequestStartEvent():
            tools = _count(event.tools_count, "tool") if event.tools_enabled else "no tools"
            return f"[{event.turn}] → {_count(event.messages_count, 'message')}, {tools}"
        case LlmRequestErrorEvent():
            return f"[{event.turn}] ✗ {event.fault}"
        case LlmRequestRetryEvent():
            how = f"without {event.dropped}" if event.dropped else f"in {event.wait_s:.1f} s"
            return f"[{event.turn}] ↻ again {how}"
        case LlmRequestEndEvent():
            return f"[{event.turn}] ← {_said(event.reply)} ({event.elapsed_ms} ms)"
        case CallsInOrderEvent():
            return f"[{event.turn}]   {_count(event.calls, 'call')}, one after the other"
        case CallChangedEvent():
            return f"[{event.turn}]   arguments changed: {_called(event.call)}"
        case ToolCallStartEvent():
            return ""
        case ToolCallEndEvent():
            mark = "✓" if event.ok else "✗"
            return f"[{event.turn}]   {mark} {_short(event.result.name)} {_came_to(event.result)}"
        case FixEmptyFinalEvent():
            return f"[{event.turn}] ↻ empty answer, asking for it once more"
        case ForcedContinuationEvent():
            return f"[{event.turn}] ↻ answered too early ({event.rung}): {event.message}"
        case TextCallAskedEvent():
            asked = ", ".join(map(_short, event.tools))
            return f"[{event.turn}] ↻ a call in text was not run ({event.rule}): {asked}"
        case FinalObjectedEvent():
            return f"[{event.turn}] ↻ answer not accepted: {_short(event.reason)}"
        case PolicyErrorEvent() | ObserverErrorEvent():
            return f"[{event.turn}] ! {event.message}"
        case RequestRefusedEvent():
            return ""
        case ModelChangedEvent():
            return f"[{event.turn}] ⇢ on to {_short(event.model)} ({_why(event)})"
        case RunPausedEvent() | FinalEvent() | RunFailedEvent():  # pragma: no branch  # closed
            return _ended(event)


def _why(event: ModelChangedEvent) -> str:
    return f"{_short(event.before)} {'rests' if event.rests else 'failed'}: {event.fault.code}"


def _ended(event: RunPausedEvent | FinalEvent | RunFailedEvent) -> str:
    match event:
        case RunPausedEvent():
            return f"waiting for a person: {', '.join(map(_called, event.waiting))}"
        case FinalEvent():
            return f"done: {event.stop_reason}, {event.usage.total_tokens} tokens"
        case RunFailedEvent():  # pragma: no branch  # a closed union: mypy knows of no other
            return f"failed: {event.code}: {event.message}"


def _plain(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case msgspec.Struct():
            return _plain(msgspec.to_builtins(value))
        case _:
            return value


def _timeless(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: _timeless(item) for key, item in value.items() if key not in _CIRCUMSTANCES
            }
        case list() | tuple():
            return [_timeless(item) for item in value]
        case _:
            return value


def _said(reply: Reply) -> str:
    calls = ", ".join(map(_called, reply.calls))
    healed = f" [{', '.join(reply.fired)}]" if reply.fired else ""
    return (calls or repr(_short(reply.text))) + healed


def _called(call: ToolCall | WaitingCall) -> str:
    return f"{_short(call.name)}({_short(msgspec.json.encode(call.arguments).decode())})"


def _came_to(result: ToolResult) -> str:
    """Say what a call came to: its data, or its errors."""
    try:
        envelope = decode_json(result.content)
    except ValueError:  # from a foreign history, or made by hand
        return _short(result.content)
    match envelope:
        case {"ok": True, "data": data}:
            return _short(msgspec.json.encode(data).decode())
        case {"ok": False, "errors": [{"code": code, "message": message}, *_]}:
            return _short(f"{code}: {message}")
        case _:
            return _short(result.content)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _short(text: str, limit: int = 100) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
