"""What a fault of streaming is, and how one is written: a function that bends a clean stream.

    @stream_fault("D68")               sources, and what must become of it: cured unless it says
    @on_fragments                      which part of the stream it bends
    def index_missing(fragments, scene): ...

A fault that does not apply to a stream returns an equal one. Nothing is ever mutated.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from surecall.simulator.faults.drift import Drift, Scene
from surecall.simulator.stream_events import Event
from surecall.values.types import JSON

Bend: TypeAlias = Callable[[list[Event], Scene], list[Event]]
# One fragment for a chunk of its own, or several for one chunk.
Bent: TypeAlias = Sequence[JSON | list[JSON]]

FAMILY: Final = "stream"
STREAM_FAULTS: Final[dict[str, Drift]] = {}
_BENDS: Final[dict[str, Bend]] = {}


def bend_stream(fault_id: str, events: Sequence[Event], seed: int = 0) -> list[Event]:
    """Bend the events of a clean stream; `seed` chooses where a fault has several forms."""
    return _BENDS[fault_id](list(events), Scene(seed))


def stream_fault(*sources: str, outcome: str = "cured") -> Callable[[Bend], Bend]:
    """Register a function from events to events under its own name."""

    def register(function: Bend) -> Bend:
        name = function.__name__
        summary = (function.__doc__ or "").strip()
        STREAM_FAULTS[name] = Drift(name, sources, FAMILY, summary, outcome)
        _BENDS[name] = function
        return function

    return register


def on_chunks(function: Callable[[list[JSON], Scene], list[Event]]) -> Bend:
    """Bend the chunks; the end mark stays where it is."""

    @functools.wraps(function)
    def bent(events: list[Event], scene: Scene) -> list[Event]:
        chunks = [event for event in events if isinstance(event, dict)]
        return [*function(chunks, scene), *(event for event in events if isinstance(event, str))]

    return bent


def on_fragments(function: Callable[[list[JSON], Scene], Bent]) -> Bend:
    """Bend the fragments of calls; their chunks stand where the first of them stood."""

    @functools.wraps(function)
    def bent(events: list[Event], scene: Scene) -> list[Event]:
        places = [at for at, event in enumerate(events) if fragments_in(event)]
        if not places:
            return events
        found = [fragment for at in places for fragment in fragments_in(events[at])]
        template: Any = events[places[0]]
        chunks: list[Event] = [
            with_delta(template, {"tool_calls": item if isinstance(item, list) else [item]})
            for item in function(found, scene)
        ]
        return [*events[: places[0]], *chunks, *events[places[-1] + 1 :]]

    return bent


def on_pieces(function: Callable[[JSON, JSON, int], JSON]) -> Callable[[list[JSON], Scene], Bent]:
    """Bend each fragment but the first of a call; it is given that one, too, and its number."""

    @functools.wraps(function)
    def bent(fragments: list[JSON], _scene: Scene) -> Bent:
        return [
            fragment if number == 0 else function(fragment, call[0], number)
            for call in calls_in(fragments)
            for number, fragment in enumerate(call)
        ]

    return bent


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
    """Change what stands in the `function` of a fragment."""
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
