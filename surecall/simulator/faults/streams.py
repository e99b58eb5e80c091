"""Faults of streams as such: chunks of another shape, lines of another form, and bad ends."""

from typing import Any, Final

from surecall.simulator.faults.shape_fault import Sample, written
from surecall.simulator.faults.stream_fault import (
    calls_in,
    fragments_in,
    on_chunks,
    stream_fault,
    with_choice,
    with_delta,
    without,
)
from surecall.simulator.stream_events import DONE, Event
from surecall.values.types import JSON

KEEP_ALIVE: Final = ": OPENROUTER PROCESSING\n\n"
_USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
_QUIRK: Final = "provider quirks"
_MANY: Final = 3


def _is_last(chunk: JSON) -> bool:
    """Whether a chunk holds the finish reason."""
    match chunk:
        case {"choices": [{"delta": {}, "finish_reason": str()}]}:
            return True
        case _:
            return False


def _before_finish(chunks: list[JSON]) -> list[JSON]:
    return [chunk for chunk in chunks if chunk["choices"] and not _is_last(chunk)]


def _message_of(chunks: list[JSON]) -> JSON:
    """Put the deltas of a clean stream together again."""
    message: JSON = {}
    for chunk in _before_finish(chunks):
        for key, value in without(chunk["choices"][0]["delta"], "tool_calls").items():
            grows = isinstance(value, str) and key != "role"
            message[key] = (message.get(key) or "") + value if grows else value
    calls = calls_in([fragment for chunk in chunks for fragment in fragments_in(chunk)])
    if calls:
        message["tool_calls"] = [_joined(call) for call in calls]
    return message


def _joined(call: list[JSON]) -> JSON:
    arguments = "".join(fragment["function"]["arguments"] for fragment in call)
    return without(call[0], "index") | {"function": call[0]["function"] | {"arguments": arguments}}


# Chunks


@stream_fault("D10")
@on_chunks
def delta_null(chunks: list[JSON], sample: Sample) -> list[Event]:
    """The chunk with the finish reason has null for a delta, or none."""
    bare = sample.pick([{"delta": None}, {}])
    return [
        with_choice(chunk, without(chunk["choices"][0], "delta") | bare)
        if _is_last(chunk)
        else chunk
        for chunk in chunks
    ]


@stream_fault(_QUIRK)
@on_chunks
def message_not_delta(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """One chunk with a whole message, as from gateways that do not really stream."""
    message = _message_of(chunks)
    return [
        with_choice(chunk, without(chunk["choices"][0], "delta") | {"message": message})
        if _is_last(chunk)
        else chunk
        for chunk in chunks
        if not chunk["choices"] or _is_last(chunk)
    ]


@stream_fault("webai-to-api-55")
@on_chunks
def message_beside_role(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """Every chunk has its piece in a `message`, beside a delta that has only the role."""
    return [
        with_choice(chunk, _beside_role(chunk["choices"][0])) if chunk["choices"] else chunk
        for chunk in chunks
    ]


def _beside_role(choice: JSON) -> JSON:
    return choice | {"delta": {"role": "assistant"}, "message": choice["delta"]}


@stream_fault("langchainjs-11177")
@on_chunks
def call_parts_in_deltas(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """Calls are parts of the content, in fragments."""
    return [
        with_delta(chunk, {"content": [_part(fragment) for fragment in fragments]})
        if (fragments := fragments_in(chunk))
        else chunk
        for chunk in chunks
    ]


def _part(fragment: JSON) -> JSON:
    name = {"name": fragment["function"]["name"]} if "name" in fragment["function"] else {}
    identity: JSON = {key: fragment[key] for key in ("id", "index") if key in fragment}
    return {"type": "tool_use", **identity, **name, "input": fragment["function"]["arguments"]}


@stream_fault("zeroclaw-2136")
@on_chunks
def calls_in_another_choice(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The text is streamed in the first choice, the calls in the second."""
    return [
        with_choice(chunk, chunk["choices"][0] | {"index": 1}) if fragments_in(chunk) else chunk
        for chunk in chunks
    ]


@stream_fault("D79")
@on_chunks
def message_at_the_end(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The chunk with the finish reason repeats the whole message."""
    message = _message_of(chunks)
    return [
        with_choice(chunk, without(chunk["choices"][0], "delta") | {"message": message})
        if _is_last(chunk)
        else chunk
        for chunk in chunks
    ]


@stream_fault("D01")
@on_chunks
def legacy_deltas(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """A single call in `function_call` deltas."""
    calls = calls_in([fragment for chunk in chunks for fragment in fragments_in(chunk)])
    if len(calls) != 1:
        return [*chunks]
    return [
        with_delta(chunk, {"function_call": fragments[0]["function"]})
        if (fragments := fragments_in(chunk))
        else chunk
        for chunk in chunks
    ]


@stream_fault("D11")
@on_chunks
def choices_empty(chunks: list[JSON], sample: Sample) -> list[Event]:
    """Chunks without a choice, at the start and in the middle; one of them has the usage."""
    nothing = chunks[0] | {"choices": sample.pick([[], None])}
    half = len(chunks) // 2
    return [nothing, *chunks[:half], nothing | {"usage": _USAGE}, *chunks[half:]]


@stream_fault("D11")
@on_chunks
def usage_elsewhere(chunks: list[JSON], sample: Sample) -> list[Event]:
    """The usage so far in every chunk, in the choice, or under a name of the provider's own."""
    where = sample.pick(["chunk", "choice", "x_groq"])
    if where == "choice":
        return [_with_usage_inside(chunk) if _is_last(chunk) else chunk for chunk in chunks]
    if where == "x_groq":
        return [
            chunk | {"x_groq": {"id": "req_1", "usage": _USAGE}} if _is_last(chunk) else chunk
            for chunk in chunks
        ]
    return [chunk | {"usage": _USAGE} for chunk in chunks]


def _with_usage_inside(chunk: JSON) -> JSON:
    return with_choice(chunk, chunk["choices"][0] | {"usage": _USAGE})


@stream_fault(_QUIRK)
@on_chunks
def finish_beside_delta(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The finish reason is in every chunk from the last delta on, and is said twice."""
    *before, last = _before_finish(chunks)
    rest = [chunk for chunk in chunks if _is_last(chunk) or not chunk["choices"]]
    reason = {key: rest[0]["choices"][0][key] for key in ("finish_reason",)}
    return [*before, with_choice(last, last["choices"][0] | reason), *rest]


@stream_fault(_QUIRK)
@on_chunks
def second_choice(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """Another choice is streamed between the chunks of the first one."""
    return [
        each
        for chunk in chunks
        for each in (
            chunk,
            chunk | {"choices": [{"index": 1, "delta": {"content": "No."}, "finish_reason": None}]},
        )
    ]


@stream_fault(_QUIRK)
@on_chunks
def role_in_every_delta(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """Every delta begins with the role, and has null for what it does not say."""
    nothing = {"role": "assistant", "refusal": None, "function_call": None}
    return [
        with_delta(chunk, nothing | chunk["choices"][0]["delta"]) if chunk["choices"] else chunk
        for chunk in chunks
    ]


@stream_fault(_QUIRK)
@on_chunks
def reasoning_signed_late(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """Thoughts in two forms come first; their signature comes after everything else."""
    detail = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    thoughts = [
        with_delta(
            _before_finish(chunks)[0],
            {"reasoning": text, "reasoning_details": [detail | {"text": text}]},
        )
        for text in ("Let ", "me ", "see.")
    ]
    signed = with_delta(thoughts[0], {"reasoning_details": [detail | {"signature": "c2lnbmVk"}]})
    finish = next(at for at, chunk in enumerate(chunks) if _is_last(chunk))
    return [chunks[0], *thoughts, *chunks[1:finish], signed, *chunks[finish:]]


@stream_fault(_QUIRK)
def chunks_in_lists(events: list[Event], _sample: Sample) -> list[Event]:
    """Every chunk is wrapped into a list."""
    return [event if isinstance(event, str) else _lines(f"[{written(event)}]") for event in events]


# Lines


@stream_fault(_QUIRK)
def done_in_lower_case(events: list[Event], sample: Sample) -> list[Event]:
    """The end mark is written small, or with blanks."""
    mark = _lines(sample.pick(["[done]", "[Done] ", " [ DONE ]"]))
    return [mark if event == DONE else event for event in events]


def _lines(data: str) -> str:
    return f"data: {data}\n\n"


def _among(events: list[Event], block: str) -> list[Event]:
    """Put a block before each event."""
    return [each for event in events for each in (block, event)]


def _spelt(events: list[Event]) -> list[str]:
    return [event if isinstance(event, str) else _lines(written(event)) for event in events]


@stream_fault("D09")
def data_null(events: list[Event], sample: Sample) -> list[Event]:
    """Events whose data is null, or empty, between the chunks."""
    return _among(events, sample.pick(["data: null\n\n", "data: \n\n", "data\n\n"]))


@stream_fault("D09")
def data_not_json(events: list[Event], sample: Sample) -> list[Event]:
    """Events between the chunks that hold no object: words, or a number."""
    return _among(events, sample.pick(["data: processing\n\n", "data: 7\n\n", 'data: "ping"\n\n']))


@stream_fault(_QUIRK)
def comments(events: list[Event], sample: Sample) -> list[Event]:
    """Comments keep the connection alive, before the first chunk and between the others."""
    block = sample.pick([KEEP_ALIVE, ":\n", ": ping - 2026-01-01\r\n\r\n"])
    return [block] * _MANY + _among(events, block)


@stream_fault(_QUIRK)
def line_ends(events: list[Event], sample: Sample) -> list[Event]:
    """Lines end with CR LF, or with CR alone."""
    end = sample.pick(["\r\n", "\r"])
    return [block.replace("\n", end) for block in _spelt(events)]


@stream_fault(_QUIRK)
def event_fields(events: list[Event], sample: Sample) -> list[Event]:
    """Every event has a name, an id and a time to reconnect, in this order or in another."""
    before = sample.pick(["event: message\nid: 7\nretry: 3000\n", "id\nevent:\n"])
    return [before + block for block in _spelt(events)]


@stream_fault(_QUIRK)
def data_lines(events: list[Event], _sample: Sample) -> list[Event]:
    """The JSON of a chunk spreads over several data lines, without a blank after the colon."""
    return [
        "data:{\n" + _lines(written(event)[1:]) if isinstance(event, dict) else event
        for event in events
    ]


@stream_fault(_QUIRK)
def byte_order_mark(events: list[Event], _sample: Sample) -> list[Event]:
    """The stream begins with a byte order mark, and ends without a blank line."""
    first, *others = _spelt(events)
    return [f"\ufeff{first}", *others[:-1], others[-1].rstrip()]


# Ends


@stream_fault("D14")
@on_chunks
def chunks_after_done(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The end mark comes, and then more chunks, which must not be read."""
    more = with_delta(_before_finish(chunks)[0], {"content": " And another thing."})
    return [*chunks, DONE, more]


@stream_fault("D14")
def done_missing(events: list[Event], _sample: Sample) -> list[Event]:
    """The stream ends after the finish reason, without the end mark."""
    return [event for event in events if event != DONE]


@stream_fault("D14")
@on_chunks
def finish_missing(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """No chunk has a finish reason; the end mark alone says that the reply is complete."""
    return [
        with_choice(chunk, chunk["choices"][0] | {"finish_reason": None})
        if _is_last(chunk)
        else chunk
        for chunk in chunks
    ]


@stream_fault("D14", outcome="retried")
def end_missing(events: list[Event], _sample: Sample) -> list[Event]:
    """The stream ends after the last delta: no finish reason, no end mark."""
    return [*_before_finish([event for event in events if isinstance(event, dict)])]


@stream_fault("D13", outcome="retried")
def cut_in_arguments(events: list[Event], sample: Sample) -> list[Event]:
    """The stream ends inside the arguments of a call, or inside the text where there is none.

    Some gateways put the end mark behind it all the same; a text that ends so looks complete.
    """
    before = _before_finish([event for event in events if isinstance(event, dict)])
    calling = [at for at, chunk in enumerate(before) if fragments_in(chunk)]
    if not calling:
        return [*before[:-1]]
    *_, last = calls_in([fragments_in(before[at])[0] for at in calling])
    text = "".join(fragment["function"]["arguments"] for fragment in last)
    cut = with_delta(
        before[calling[-1]],
        {"tool_calls": [{"index": last[0]["index"], "function": {"arguments": text[:-1]}}]},
    )
    opening = calling[-len(last)]
    return [*before[: opening + 1], cut, *([DONE] if sample.pick([False, True]) else [])]


@stream_fault("D13", outcome="retried")
def cut_in_an_event(events: list[Event], _sample: Sample) -> list[Event]:
    """The stream ends inside the JSON of a chunk."""
    before = _before_finish([event for event in events if isinstance(event, dict)])
    block = _lines(written(before[-1]))
    return [*before[:-1], block[: len(block) // 2]]


@stream_fault("D14", outcome="retried")
def nothing_said(_events: list[Event], sample: Sample) -> list[Event]:
    """The stream has no chunk at all: the end mark alone, comments alone, or nothing."""
    return [*sample.pick([[DONE], [KEEP_ALIVE] * _MANY, []])]


@stream_fault("D08", _QUIRK, outcome="retried")
def error_in_the_middle(events: list[Event], sample: Sample) -> list[Event]:
    """After some chunks an error comes, in one of the forms that providers have for it."""
    before = _before_finish([event for event in events if isinstance(event, dict)])
    failed = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    numbered = {"code": 502, "message": "Provider disconnected"}
    named = {"code": "server_error", "message": "Provider disconnected"}
    errors: tuple[Any, ...] = (
        before[0] | {"error": numbered, "choices": [failed]},
        before[0] | {"error": named, "choices": [failed]},
        {"error": {"message": "The server is overloaded.", "type": "overloaded_error"}},
        with_choice(before[0], failed | {"error": numbered}),
        f"event: error\n{_lines(written({'error': numbered}))}",
    )
    return [*before[: len(before) // 2 + 1], sample.pick(errors), DONE]
