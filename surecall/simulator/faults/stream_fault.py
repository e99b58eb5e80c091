"""What a fault of a stream is, and how one is written: a function that spoils a clean stream.

    @stream_fault("D68")               sources, and the outcome if it is not `cured`
    @on_fragments                      which part of the stream it changes
    def index_missing(fragments, sample): ...

A fault that does not apply to a stream returns an equal one. Nothing is ever mutated.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from surecall.simulator.faults.shape_fault import Sample, ShapeFault
from surecall.simulator.stream_events import Event
from surecall.values.types import JSON

Change: TypeAlias = Callable[[list[Event], Sample], list[Event]]
# One fragment for a chunk of its own, or several for one chunk.
Fragments: TypeAlias = Sequence[JSON | list[JSON]]

FAMILY: Final = "stream"
STREAM_FAULTS: Final[dict[str, ShapeFault]] = {}
_CHANGES: Final[dict[str, Change]] = {}


def apply_stream_fault(fault_id: str, events: Sequence[Event], seed: int = 0) -> list[Event]:
    """Apply a fault to a clean stream; `seed` chooses where a fault has several forms."""
    return _CHANGES[fault_id](list(events), Sample(seed))


def stream_fault(*sources: str, outcome: str = "cured") -> Callable[[Change], Change]:
    """Register a function from events to events under its own name."""

    def register(function: Change) -> Change:
        name = function.__name__
        summary = (function.__doc__ or "").strip()
        STREAM_FAULTS[name] = ShapeFault(name, sources, FAMILY, summary, outcome)
        _CHANGES[name] = function
        return function

    return register


def on_chunks(function: Callable[[list[JSON], Sample], list[Event]]) -> Change:
    """Change the chunks; the end mark stays where it is."""

    @functools.wraps(function)
    def wrapped(events: list[Event], sample: Sample) -> list[Event]:
        chunks = [event for event in events if isinstance(event, dict)]
        return [*function(chunks, sample), *(event for event in events if isinstance(event, str))]

    return wrapped


def on_fragments(function: Callable[[list[JSON], Sample], Fragments]) -> Change:
    """Change the fragments of calls; their chunks are sent where the first of them was."""

    @functools.wraps(function)
    def wrapped(events: list[Event], sample: Sample) -> list[Event]:
        places = [at for at, event in enumerate(events) if fragments_in(event)]
        if not places:
            return events
        found = [fragment for at in places for fragment in fragments_in(events[at])]
        template: Any = events[places[0]]
        chunks: list[Event] = [
            with_delta(template, {"tool_calls": item if isinstance(item, list) else [item]})
            for item in function(found, sample)
        ]
        return [*events[: places[0]], *chunks, *events[places[-1] + 1 :]]

    return wrapped


def on_pieces(
    function: Callable[[JSON, JSON, int], JSON],
) -> Callable[[list[JSON], Sample], Fragments]:
    """Change each fragment of a call but the first, given that one and its own number."""

    @functools.wraps(function)
    def wrapped(fragments: list[JSON], _sample: Sample) -> Fragments:
        return [
            fragment if number == 0 else function(fragment, call[0], number)
            for call in calls_in(fragments)
            for number, fragment in enumerate(call)
        ]

    return wrapped


def fragments_in(event: Event) -> list[JSON]:
    """Return the fragments of calls that a chunk holds."""
    match event:
        case {"choices": [{"delta": {"tool_calls": list(fragments)}}]}:
            return fragments
        case _:
            return []


def calls_in(fragments: Sequence[JSON]) -> list[list[JSON]]:
    """Group the fragments of a clean stream by call."""
    calls: dict[int, list[JSON]] = {}
    for fragment in fragments:
        calls.setdefault(fragment["index"], []).append(fragment)
    return list(calls.values())


def arguments_of(fragment: JSON) -> str:
    """Return the piece of arguments in a fragment of a clean stream."""
    return str(fragment["function"]["arguments"])


def piece_of(opening: JSON, arguments: Any) -> JSON:
    """Write a further piece of the arguments of a call."""
    return {"index": opening["index"], "function": {"arguments": arguments}}


def changed(fragment: JSON, **function: Any) -> JSON:
    """Change the `function` of a fragment."""
    return fragment | {"function": fragment["function"] | function}


def without(mapping: JSON, *keys: str) -> JSON:
    """Return a mapping without some of its keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def with_choice(chunk: JSON, choice: JSON) -> JSON:
    """Put another choice into a chunk."""
    return chunk | {"choices": [choice]}


def with_delta(chunk: JSON, delta: Any) -> JSON:
    """Put another delta into a chunk."""
    return with_choice(chunk, chunk["choices"][0] | {"delta": delta})
