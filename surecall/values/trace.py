"""The trace of a run: its events in order, grouped by turn, or rendered as readable lines."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from surecall.values.decisions import WaitingCall
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
    ToolSearchEvent,
    UnsupportedClaimEvent,
)
from surecall.values.nesting import decode_json
from surecall.values.text import quantity, truncate
from surecall.values.types import Reply, ToolCall, ToolResult, Usage, sha256

SAMPLE_CHARS = 200


# Keys that differ between runs with the same behavior.
_VOLATILE_KEYS = frozenset({"run_id", "at", "elapsed_ms", "endpoint", "origin"})


class TraceTurn(msgspec.Struct, frozen=True):
    """One turn: its request, its response, the results of its calls, and its searches for tools."""

    turn: int
    request: LlmRequestStartEvent | None
    response: LlmRequestEndEvent | None
    tool_results: tuple[ToolResult, ...]
    searches: tuple[ToolSearchEvent, ...] = ()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that were accepted, in order."""
        if self.response is None:
            return ()
        searches = (event.call_id for event in self.searches)
        ignored = frozenset((*self.response.ignored_tool_calls, *searches))
        return tuple(call for call in self.response.reply.calls if call.id not in ignored)

    @property
    def ignored_tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that were recorded but not run."""
        if self.response is None:
            return ()
        ignored = frozenset(self.response.ignored_tool_calls)
        return tuple(call for call in self.response.reply.calls if call.id in ignored)

    @property
    def ignored_tool_calls_count(self) -> int:
        """How many calls were recorded but not run."""
        return len(self.ignored_tool_calls)

    @property
    def usage(self) -> Usage | None:
        """The usage that the provider reported for the turn."""
        return self.response.reply.usage if self.response else None

    @property
    def assistant_content_stripped(self) -> bool:
        """Whether the reply had text beside its calls (only sent back if configured)."""
        return bool(self.tool_calls and self.response and self.response.reply.text)

    @property
    def assistant_content_sample(self) -> str:
        """The beginning of that text."""
        return self.response.reply.text[:SAMPLE_CHARS] if self.response else ""


class Trace:
    """The events of one run, in order. `print(trace)` writes one readable line per event."""

    def __init__(self, events: tuple[Event, ...]) -> None:
        self.events = events

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, index: int) -> Event:
        return self.events[index]

    def __eq__(self, other: object) -> bool:
        # Compares the encoded form: a loaded trace has lists where settings had tuples.
        return isinstance(other, Trace) and _to_plain_data(self.events) == _to_plain_data(
            other.events
        )

    def __hash__(self) -> int:
        return hash(tuple(type(event) for event in self.events))

    def __repr__(self) -> str:
        return f"<Trace of {len(self.turns)} turns, {len(self.events)} events>"

    @property
    def digest(self) -> str:
        """The SHA-256 of the events, without ids, endpoints, times, and durations."""
        plain = [_without_volatile_keys(msgspec.to_builtins(event)) for event in self.events]
        return sha256(msgspec.json.encode(plain, order="deterministic")).hex()

    @property
    def turns(self) -> tuple[TraceTurn, ...]:
        """The turns of the run, in order."""
        requests: dict[int, LlmRequestStartEvent] = {}
        responses: dict[int, LlmRequestEndEvent] = {}
        results: dict[int, list[ToolResult]] = {}
        searches: dict[int, list[ToolSearchEvent]] = {}
        for event in self.events:
            match event:
                case LlmRequestStartEvent():
                    requests[event.turn] = event
                case LlmRequestEndEvent():
                    responses[event.turn] = event
                case ToolCallEndEvent():
                    results.setdefault(event.turn, []).append(event.result)
                case ToolSearchEvent():
                    searches.setdefault(event.turn, []).append(event)
                case _:
                    pass
        return tuple(
            TraceTurn(
                turn,
                request,
                responses.get(turn),
                tuple(results.get(turn, ())),
                tuple(searches.get(turn, ())),
            )
            for turn, request in requests.items()
        )

    def __str__(self) -> str:
        return "\n".join(line for event in self.events if (line := render_event(event)))


def render_event(event: Event) -> str:
    """Render an event as one readable line, with control characters escaped."""
    return safe_text(_event_line(event))


def safe_text(text: str) -> str:
    """Escape control and direction characters, so that model text is safe for a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _event_line(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912  # one flat case for each kind of event
    match event:
        case RunStartEvent():
            return f"run {event.run_id[:8]} {event.model}, {quantity(len(event.tools), 'tool')}"
        case LlmRequestStartEvent():
            tools = quantity(event.tools_count, "tool") if event.tools_enabled else "no tools"
            return f"[{event.turn}] → {quantity(event.messages_count, 'message')}, {tools}"
        case LlmRequestErrorEvent():
            return f"[{event.turn}] ✗ {event.fault}"
        case LlmRequestRetryEvent():
            how = f"adapted: {event.dropped}" if event.dropped else f"in {event.wait_s:.1f} s"
            return f"[{event.turn}] ↻ retrying {how}"
        case LlmRequestEndEvent():
            return f"[{event.turn}] ← {_reply_summary(event.reply)} ({event.elapsed_ms} ms)"
        case ToolSearchEvent() | CallsInOrderEvent() | CallChangedEvent():
            return f"[{event.turn}]   {_calls_line(event)}"
        case ToolCallEndEvent():
            mark = "✓" if event.ok else "✗"
            name, summary = _shorten(event.result.name), _result_summary(event.result)
            return f"[{event.turn}]   {mark} {name} {summary}"
        case FixEmptyFinalEvent():
            return f"[{event.turn}] ↻ no usable answer, re-prompting"
        case ForcedContinuationEvent():
            return f"[{event.turn}] ↻ premature answer ({event.rung}): {event.message}"
        case TextCallAskedEvent():
            asked = ", ".join(map(_shorten, event.tools))
            return f"[{event.turn}] ↻ ambiguous call in text, not run ({event.rule}): {asked}"
        case FinalObjectedEvent():
            return f"[{event.turn}] ↻ answer not accepted: {_shorten(event.reason)}"
        case PolicyErrorEvent() | ObserverErrorEvent() | UnsupportedClaimEvent():
            return f"[{event.turn}] ! {_warning_text(event)}"
        case ToolCallStartEvent() | RequestRefusedEvent():
            return ""
        case ModelChangedEvent():
            reason = _switch_reason(event)
            return f"[{event.turn}] ⇢ switching to {_shorten(event.model)} ({reason})"
        case RunPausedEvent() | FinalEvent() | RunFailedEvent():  # pragma: no branch  # closed
            return _end_line(event)


def _calls_line(event: ToolSearchEvent | CallsInOrderEvent | CallChangedEvent) -> str:
    match event:
        case ToolSearchEvent(query=query, found=found):
            return f"search {_shorten(query)}: {', '.join(map(_shorten, found)) or 'nothing'}"
        case CallsInOrderEvent(calls=count):
            return f"{quantity(count, 'call')}, run one at a time"
        case CallChangedEvent(call=call):  # pragma: no branch  # a closed union
            return f"arguments changed: {_call_summary(call)}"


def _warning_text(event: PolicyErrorEvent | ObserverErrorEvent | UnsupportedClaimEvent) -> str:
    if isinstance(event, UnsupportedClaimEvent):
        return f"no call supports: {_shorten('; '.join(event.claims))}"
    return event.message


def _switch_reason(event: ModelChangedEvent) -> str:
    """Return why another model continues the run."""
    state = "cooling down" if event.rests else "failed"
    return f"{_shorten(event.before)} {state}: {event.fault.code}"


def _end_line(event: RunPausedEvent | FinalEvent | RunFailedEvent) -> str:
    """Return the line for an event that ends or pauses the run."""
    match event:
        case RunPausedEvent():
            return f"needs human approval: {', '.join(map(_call_summary, event.waiting))}"
        case FinalEvent():
            return f"done: {event.stop_reason}, {event.usage.total_tokens} tokens"
        case RunFailedEvent():  # pragma: no branch  # a closed union
            return f"failed: {event.code}: {event.message}"


def _to_plain_data(value: Any) -> Any:
    """Return a value as plain lists, dictionaries, and scalars."""
    match value:
        case list() | tuple():
            return [_to_plain_data(item) for item in value]
        case dict():
            return {key: _to_plain_data(item) for key, item in value.items()}
        case msgspec.Struct():
            return _to_plain_data(msgspec.to_builtins(value))
        case _:
            return value


def _without_volatile_keys(value: Any) -> Any:
    """Return a copy without the keys that differ between equal runs."""
    match value:
        case dict():
            return {
                key: _without_volatile_keys(item)
                for key, item in value.items()
                if key not in _VOLATILE_KEYS
            }
        case list() | tuple():
            return [_without_volatile_keys(item) for item in value]
        case _:
            return value


def _reply_summary(reply: Reply) -> str:
    calls = ", ".join(map(_call_summary, reply.calls))
    repairs = f" [{', '.join(reply.fired)}]" if reply.fired else ""
    return (calls or repr(_shorten(reply.text))) + repairs


def _call_summary(call: ToolCall | WaitingCall) -> str:
    return f"{_shorten(call.name)}({_shorten(msgspec.json.encode(call.arguments).decode())})"


def _result_summary(result: ToolResult) -> str:
    """Summarize the result of a call: its data or its first error."""
    try:
        envelope = decode_json(result.content)
    except ValueError:  # from a third-party history, or made by hand
        return _shorten(result.content)
    match envelope:
        case {"ok": True, "data": data}:
            return _shorten(msgspec.json.encode(data).decode())
        case {"ok": False, "errors": [{"code": code, "message": message}, *_]}:
            return _shorten(f"{code}: {message}")
        case _:
            return _shorten(result.content)


_shorten = partial(truncate, limit=100)
