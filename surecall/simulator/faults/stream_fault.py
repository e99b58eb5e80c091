"""Define stream faults: small functions that make a clean stream malformed.

    @stream_fault(on_fragments, "D68")
    def index_missing(fragments, sample): ...

The level is the part of the stream that the fault changes, followed by its sources.

A fault that does not apply to a stream returns an equal one. Faults never mutate their input.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from surecall.simulator.faults.shape_fault import Sample, ShapeFault
from surecall.simulator.stream_events import Event
from surecall.values.types import JSON

StreamChange: TypeAlias = Callable[[list[Event], Sample], list[Event]]
FaultFunction: TypeAlias = Callable[..., Any]
StreamLevel: TypeAlias = Callable[[FaultFunction], StreamChange]
# Each item becomes one chunk.
Fragments: TypeAlias = Sequence[JSON | list[JSON]]

STREAM_FAMILY: Final = "stream"
STREAM_FAULTS: Final[dict[str, ShapeFault]] = {}
_CHANGES: Final[dict[str, StreamChange]] = {}


def apply_stream_fault(fault_id: str, events: Sequence[Event], seed: int = 0) -> list[Event]:
    """Apply a fault to a clean stream; `seed` selects a variant."""
    return _CHANGES[fault_id](list(events), Sample(seed))


def stream_fault(
    level: StreamLevel, *sources: str, outcome: str = "repaired"
) -> Callable[[FaultFunction], FaultFunction]:
    """Register a function as a fault; `level` is the part of the stream that it changes."""

    def register(function: FaultFunction) -> FaultFunction:
        name = function.__name__
        summary = (function.__doc__ or "").strip()
        STREAM_FAULTS[name] = ShapeFault(name, sources, STREAM_FAMILY, summary, outcome)
        _CHANGES[name] = level(function)
        return function

    return register


def on_events(function: StreamChange) -> StreamChange:
    """Change the whole stream."""
    return function


def on_chunks(function: Callable[[list[JSON], Sample], list[Event]]) -> StreamChange:
    """Change the chunks; the end marker stays last."""

    def change_events(events: list[Event], sample: Sample) -> list[Event]:
        chunks = [event for event in events if isinstance(event, dict)]
        return [*function(chunks, sample), *(event for event in events if isinstance(event, str))]

    return change_events


def on_fragments(function: Callable[[list[JSON], Sample], Fragments]) -> StreamChange:
    """Change the call fragments; their chunks start where the first fragment was."""

    def change_events(events: list[Event], sample: Sample) -> list[Event]:
        places = [at for at, event in enumerate(events) if fragments_of_chunk(event)]
        if not places:
            return events
        found = [fragment for at in places for fragment in fragments_of_chunk(events[at])]
        template: Any = events[places[0]]
        chunks: list[Event] = [
            with_delta(template, {"tool_calls": item if isinstance(item, list) else [item]})
            for item in function(found, sample)
        ]
        return [*events[: places[0]], *chunks, *events[places[-1] + 1 :]]

    return change_events


def on_pieces(function: Callable[[JSON, JSON, int], JSON]) -> StreamChange:
    """Change every fragment of a call except the first, given that one and the number."""

    def change_fragments(fragments: list[JSON], _sample: Sample) -> Fragments:
        return [
            fragment if number == 0 else function(fragment, call[0], number)
            for call in group_by_call(fragments)
            for number, fragment in enumerate(call)
        ]

    return on_fragments(change_fragments)


def fragments_of_chunk(event: Event) -> list[JSON]:
    """Return the call fragments in a chunk."""
    match event:
        case {"choices": [{"delta": {"tool_calls": list(fragments)}}]}:
            return fragments
        case _:
            return []


def group_by_call(fragments: Sequence[JSON]) -> list[list[JSON]]:
    """Group the fragments of a clean stream by call."""
    calls: dict[int, list[JSON]] = {}
    for fragment in fragments:
        calls.setdefault(fragment["index"], []).append(fragment)
    return list(calls.values())


def argument_piece(fragment: JSON) -> str:
    """Return the arguments in a fragment of a clean stream."""
    return str(fragment["function"]["arguments"])


def build_argument_fragment(first_fragment: JSON, arguments: Any) -> JSON:
    """Build a fragment with further arguments of a call."""
    return {"index": first_fragment["index"], "function": {"arguments": arguments}}


def with_function_fields(fragment: JSON, **function: Any) -> JSON:
    """Return a fragment with changed fields of its `function`."""
    return fragment | {"function": fragment["function"] | function}


def without_keys(mapping: JSON, *keys: str) -> JSON:
    """Return a mapping without the given keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def with_choice(chunk: JSON, choice: JSON) -> JSON:
    """Return a chunk with another choice."""
    return chunk | {"choices": [choice]}


def with_delta(chunk: JSON, delta: Any) -> JSON:
    """Return a chunk with another delta."""
    return with_choice(chunk, chunk["choices"][0] | {"delta": delta})
