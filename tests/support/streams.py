"""Recorded streams, what must come of them, and how tests feed them."""

import json
from collections.abc import Iterable
from typing import Any

from surecall.parsing.sse import SseDecoder, SseEvent
from surecall.values.errors import Fault
from surecall.values.types import JSON
from surecall.wire.assembler import Assembler, Delta
from tests.support.paths import CORPUS

FOLDER = CORPUS / "streams"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.sse"))


def recorded(name: str) -> tuple[bytes, JSON]:
    """Return the bytes of a stream, and what is expected of it."""
    path = FOLDER / f"{name}.sse"
    expected: JSON = json.loads(path.with_suffix(".json").read_text("utf-8"))
    return path.read_bytes(), expected


def events_of(chunks: Iterable[bytes]) -> list[SseEvent]:
    """Decode a stream, and take the last block also when it lacks its blank line."""
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()


def assembled(events: Iterable[SseEvent], **options: Any) -> tuple[JSON | Fault, list[Delta]]:
    """Assemble events: the outcome, and everything that was announced on the way."""
    assembler = Assembler(**options)
    deltas = [delta for event in events for delta in assembler.add(event.data, event.event)]
    return assembler.finish(), deltas


def body_of(*chunks: Any, **options: Any) -> JSON:
    """Assemble chunks that are given as values and must make a body."""
    outcome, _ = assembled([SseEvent(json.dumps(chunk)) for chunk in chunks], **options)
    assert not isinstance(outcome, Fault), outcome
    return outcome


def chunk(delta: Any, finish_reason: str | None = None, **top: Any) -> JSON:
    """Write one chunk."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]} | top


def call_chunk(*fragments: JSON, finish_reason: str | None = None) -> JSON:
    """Write one chunk with fragments of calls."""
    return chunk({"tool_calls": list(fragments)}, finish_reason)


def fragment(arguments: Any = None, **keys: Any) -> JSON:
    """Write one fragment of a call; `name` goes where it belongs."""
    function = {"name": keys.pop("name")} if "name" in keys else {}
    return keys | {"function": function | {"arguments": arguments}}


END = chunk({}, "tool_calls")


def calls_of(*fragments: JSON | list[JSON], **options: Any) -> list[JSON]:
    """Assemble fragments, each in a chunk of its own, or several in one where a list is given."""
    chunks = [call_chunk(*(each if isinstance(each, list) else [each])) for each in fragments]
    message = body_of(*chunks, END, **options)["choices"][0]["message"]
    calls: list[JSON] = message.get("tool_calls", [])
    return calls


def pairs_of(*fragments: JSON | list[JSON], **options: Any) -> list[tuple[str, Any]]:
    """Assemble fragments and return the names and arguments of the calls."""
    functions = [call["function"] for call in calls_of(*fragments, **options)]
    return [(function["name"], function["arguments"]) for function in functions]
