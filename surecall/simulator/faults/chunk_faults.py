"""Faults of the stream itself: malformed chunks, lines, and endings."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from surecall.simulator.faults.shape_fault import Sample, encode_json
from surecall.simulator.faults.stream_fault import (
    fragments_of_chunk,
    group_by_call,
    on_chunks,
    on_events,
    stream_fault,
    with_choice,
    with_delta,
    without_keys,
)
from surecall.simulator.stream_events import DONE, Event
from surecall.values.types import JSON

KEEP_ALIVE: Final = ": OPENROUTER PROCESSING\n\n"
_USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
_QUIRK_SOURCE: Final = "provider quirks"
_COMMENT_COUNT: Final = 3


def _has_finish_reason(chunk: JSON) -> bool:
    """Return whether a chunk has the finish reason."""
    match chunk:
        case {"choices": [{"delta": {}, "finish_reason": str()}]}:
            return True
        case _:
            return False


def _chunks_before_finish(events: Sequence[Event]) -> list[JSON]:
    """Return the chunks that have choices but no finish reason."""
    chunks = [event for event in events if isinstance(event, dict)]
    return [chunk for chunk in chunks if chunk["choices"] and not _has_finish_reason(chunk)]


def _change_finish_choice(chunks: list[JSON], change: Callable[[JSON], JSON]) -> list[Event]:
    """Change the choice that has the finish reason."""
    return [
        with_choice(chunk, change(chunk["choices"][0])) if _has_finish_reason(chunk) else chunk
        for chunk in chunks
    ]


def _change_choices(chunks: list[JSON], change: Callable[[JSON], JSON]) -> list[Event]:
    """Change each choice."""
    return [
        with_choice(chunk, change(chunk["choices"][0])) if chunk["choices"] else chunk
        for chunk in chunks
    ]


def _replace_call_deltas(chunks: list[JSON], change: Callable[[list[JSON]], JSON]) -> list[Event]:
    """Replace each delta that has call fragments."""
    return [
        with_delta(chunk, change(found)) if (found := fragments_of_chunk(chunk)) else chunk
        for chunk in chunks
    ]


def _assemble_message(chunks: list[JSON]) -> JSON:
    """Assemble the message from the deltas of a clean stream."""
    message: JSON = {}
    for chunk in _chunks_before_finish(chunks):
        for key, value in without_keys(chunk["choices"][0]["delta"], "tool_calls").items():
            grows = isinstance(value, str) and key != "role"
            message[key] = (message.get(key) or "") + value if grows else value
    calls = group_by_call([fragment for chunk in chunks for fragment in fragments_of_chunk(chunk)])
    if calls:
        message["tool_calls"] = [_join_fragments(call) for call in calls]
    return message


def _join_fragments(call: list[JSON]) -> JSON:
    arguments = "".join(fragment["function"]["arguments"] for fragment in call)
    return without_keys(call[0], "index") | {
        "function": call[0]["function"] | {"arguments": arguments}
    }


# Chunks


@stream_fault(on_chunks, "D10")
def delta_null(chunks: list[JSON], sample: Sample) -> list[Event]:
    """The delta is null or missing in the chunk with the finish reason."""
    bare = sample.pick([{"delta": None}, {}])
    return _change_finish_choice(chunks, lambda choice: without_keys(choice, "delta") | bare)


@stream_fault(on_chunks, _QUIRK_SOURCE)
def message_not_delta(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """A single chunk has the whole message, as from gateways that do not really stream."""
    rest = [chunk for chunk in chunks if not chunk["choices"] or _has_finish_reason(chunk)]
    whole = {"message": _assemble_message(chunks)}
    return _change_finish_choice(rest, lambda choice: without_keys(choice, "delta") | whole)


@stream_fault(on_chunks, "webai-to-api-55")
def message_beside_role(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """Every chunk has its content in `message`, next to a delta with only the role."""
    role = {"delta": {"role": "assistant"}}
    return _change_choices(chunks, lambda choice: choice | role | {"message": choice["delta"]})


@stream_fault(on_chunks, "langchainjs-11177")
def call_parts_in_deltas(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The calls are streamed as content parts."""
    return _replace_call_deltas(
        chunks, lambda fragments: {"content": list(map(_tool_use_part, fragments))}
    )


def _tool_use_part(fragment: JSON) -> JSON:
    name = {"name": fragment["function"]["name"]} if "name" in fragment["function"] else {}
    identity: JSON = {key: fragment[key] for key in ("id", "index") if key in fragment}
    return {"type": "tool_use", **identity, **name, "input": fragment["function"]["arguments"]}


@stream_fault(on_chunks, "zeroclaw-2136")
def calls_in_another_choice(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The text is in the first choice, the calls are in the second."""
    return [
        with_choice(chunk, chunk["choices"][0] | {"index": 1})
        if fragments_of_chunk(chunk)
        else chunk
        for chunk in chunks
    ]


@stream_fault(on_chunks, "D79")
def message_at_the_end(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The chunk with the finish reason repeats the whole message."""
    whole = {"message": _assemble_message(chunks)}
    return _change_finish_choice(chunks, lambda choice: without_keys(choice, "delta") | whole)


@stream_fault(on_chunks, "D01")
def legacy_deltas(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """A single call is streamed in `function_call` deltas."""
    calls = group_by_call([fragment for chunk in chunks for fragment in fragments_of_chunk(chunk)])
    if len(calls) != 1:
        return [*chunks]
    return _replace_call_deltas(
        chunks, lambda fragments: {"function_call": fragments[0]["function"]}
    )


@stream_fault(on_chunks, "D11")
def choices_empty(chunks: list[JSON], sample: Sample) -> list[Event]:
    """Some chunks have no choices; one of them has the usage."""
    nothing = chunks[0] | {"choices": sample.pick([[], None])}
    half = len(chunks) // 2
    return [nothing, *chunks[:half], nothing | {"usage": _USAGE}, *chunks[half:]]


@stream_fault(on_chunks, "D11")
def usage_elsewhere(chunks: list[JSON], sample: Sample) -> list[Event]:
    """The usage is in every chunk, in the choice, or in a provider-specific field."""
    where = sample.pick(["chunk", "choice", "x_groq"])
    if where == "choice":
        return _change_finish_choice(chunks, lambda choice: choice | {"usage": _USAGE})
    if where == "x_groq":
        return [
            chunk | {"x_groq": {"id": "req_1", "usage": _USAGE}}
            if _has_finish_reason(chunk)
            else chunk
            for chunk in chunks
        ]
    return [chunk | {"usage": _USAGE} for chunk in chunks]


@stream_fault(on_chunks, _QUIRK_SOURCE)
def finish_beside_delta(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The finish reason is sent twice: with the last delta and after it."""
    *before, last = _chunks_before_finish(chunks)
    rest = [chunk for chunk in chunks if _has_finish_reason(chunk) or not chunk["choices"]]
    reason = {"finish_reason": rest[0]["choices"][0]["finish_reason"]}
    return [*before, with_choice(last, last["choices"][0] | reason), *rest]


@stream_fault(on_chunks, _QUIRK_SOURCE)
def second_choice(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """A second choice is interleaved with the first."""
    return [
        each
        for chunk in chunks
        for each in (
            chunk,
            chunk | {"choices": [{"index": 1, "delta": {"content": "No."}, "finish_reason": None}]},
        )
    ]


@stream_fault(on_chunks, _QUIRK_SOURCE)
def role_in_every_delta(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """Every delta repeats the role and has null for unused fields."""
    nothing = {"role": "assistant", "refusal": None, "function_call": None}
    return _change_choices(chunks, lambda choice: choice | {"delta": nothing | choice["delta"]})


@stream_fault(on_chunks, _QUIRK_SOURCE)
def reasoning_signed_late(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """Reasoning arrives in two formats, its signature only at the end of the stream."""
    detail = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    thoughts = [
        with_delta(
            _chunks_before_finish(chunks)[0],
            {"reasoning": text, "reasoning_details": [detail | {"text": text}]},
        )
        for text in ("Let ", "me ", "see.")
    ]
    signed = with_delta(thoughts[0], {"reasoning_details": [detail | {"signature": "c2lnbmVk"}]})
    finish = next(at for at, chunk in enumerate(chunks) if _has_finish_reason(chunk))
    return [chunks[0], *thoughts, *chunks[1:finish], signed, *chunks[finish:]]


@stream_fault(on_events, _QUIRK_SOURCE)
def chunks_in_lists(events: list[Event], _sample: Sample) -> list[Event]:
    """Every chunk is wrapped in a list."""
    return [
        event if isinstance(event, str) else _data_block(f"[{encode_json(event)}]")
        for event in events
    ]


# Lines


@stream_fault(on_events, _QUIRK_SOURCE)
def done_in_lower_case(events: list[Event], sample: Sample) -> list[Event]:
    """The end marker is in lowercase or contains spaces."""
    mark = _data_block(sample.pick(["[done]", "[Done] ", " [ DONE ]"]))
    return [mark if event == DONE else event for event in events]


def _data_block(data: str) -> str:
    return f"data: {data}\n\n"


def _insert_before_each(events: list[Event], block: str) -> list[Event]:
    """Insert a block before each event."""
    return [each for event in events for each in (block, event)]


def _encode_blocks(events: list[Event]) -> list[str]:
    return [
        event if isinstance(event, str) else _data_block(encode_json(event)) for event in events
    ]


@stream_fault(on_events, "D09")
def data_null(events: list[Event], sample: Sample) -> list[Event]:
    """Events between the chunks have null or empty data."""
    return _insert_before_each(events, sample.pick(["data: null\n\n", "data: \n\n", "data\n\n"]))


@stream_fault(on_events, "D09")
def data_not_json(events: list[Event], sample: Sample) -> list[Event]:
    """Events between the chunks contain no JSON object."""
    return _insert_before_each(
        events, sample.pick(["data: processing\n\n", "data: 7\n\n", 'data: "ping"\n\n'])
    )


@stream_fault(on_events, _QUIRK_SOURCE)
def comments(events: list[Event], sample: Sample) -> list[Event]:
    """Keep-alive comments precede every chunk."""
    block = sample.pick([KEEP_ALIVE, ":\n", ": ping - 2026-01-01\r\n\r\n"])
    return [block] * _COMMENT_COUNT + _insert_before_each(events, block)


@stream_fault(on_events, _QUIRK_SOURCE)
def line_ends(events: list[Event], sample: Sample) -> list[Event]:
    """Lines end with CRLF or CR."""
    end = sample.pick(["\r\n", "\r"])
    return [block.replace("\n", end) for block in _encode_blocks(events)]


@stream_fault(on_events, _QUIRK_SOURCE)
def event_fields(events: list[Event], sample: Sample) -> list[Event]:
    """Every event has other fields, such as a name, an id, and a retry time."""
    before = sample.pick(["event: message\nid: 7\nretry: 3000\n", "id\nevent:\n"])
    return [before + block for block in _encode_blocks(events)]


@stream_fault(on_events, _QUIRK_SOURCE)
def data_lines(events: list[Event], _sample: Sample) -> list[Event]:
    """The JSON of a chunk spans several data lines, with no space after the colon."""
    return [
        "data:{\n" + _data_block(encode_json(event)[1:]) if isinstance(event, dict) else event
        for event in events
    ]


@stream_fault(on_events, _QUIRK_SOURCE)
def byte_order_mark(events: list[Event], _sample: Sample) -> list[Event]:
    """The stream begins with a byte order mark and ends without a blank line."""
    first, *others = _encode_blocks(events)
    return [f"\ufeff{first}", *others[:-1], others[-1].rstrip()]


# Ends


@stream_fault(on_chunks, "D14")
def chunks_after_done(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """The end marker is followed by more chunks, which must be ignored."""
    more = with_delta(_chunks_before_finish(chunks)[0], {"content": " And another thing."})
    return [*chunks, DONE, more]


@stream_fault(on_events, "D14")
def done_missing(events: list[Event], _sample: Sample) -> list[Event]:
    """The stream has no end marker."""
    return [event for event in events if event != DONE]


@stream_fault(on_chunks, "D14")
def finish_missing(chunks: list[JSON], _sample: Sample) -> list[Event]:
    """No chunk has a finish reason; only the end marker shows that the reply is complete."""
    return _change_finish_choice(chunks, lambda choice: choice | {"finish_reason": None})


@stream_fault(on_events, "D14", outcome="retried")
def end_missing(events: list[Event], _sample: Sample) -> list[Event]:
    """The stream has neither finish reason nor end marker."""
    return [*_chunks_before_finish(events)]


@stream_fault(on_events, "D13", outcome="retried")
def cut_in_arguments(events: list[Event], sample: Sample) -> list[Event]:
    """The stream ends inside the arguments of a call, or inside the text."""
    # Some gateways still append the end marker, so that truncated text looks complete.
    before = _chunks_before_finish(events)
    calling = [at for at, chunk in enumerate(before) if fragments_of_chunk(chunk)]
    if not calling:
        return [*before[:-1]]
    *_, last = group_by_call([fragments_of_chunk(before[at])[0] for at in calling])
    text = "".join(fragment["function"]["arguments"] for fragment in last)
    cut = with_delta(
        before[calling[-1]],
        {"tool_calls": [{"index": last[0]["index"], "function": {"arguments": text[:-1]}}]},
    )
    opening = calling[-len(last)]
    return [*before[: opening + 1], cut, *([DONE] if sample.pick([False, True]) else [])]


@stream_fault(on_events, "D13", outcome="retried")
def cut_in_an_event(events: list[Event], _sample: Sample) -> list[Event]:
    """The stream ends inside the JSON of a chunk, without an end marker."""
    before = _chunks_before_finish(events)
    block = _data_block(encode_json(before[-1]))
    return [*before[:-1], block[: len(block) // 2]]


@stream_fault(on_events, "D14", outcome="retried")
def nothing_said(_events: list[Event], sample: Sample) -> list[Event]:
    """The stream has no chunks: only the end marker, only comments, or nothing."""
    return [*sample.pick([[DONE], [KEEP_ALIVE] * _COMMENT_COUNT, []])]


@stream_fault(on_events, "D08", _QUIRK_SOURCE, outcome="retried")
def error_in_the_middle(events: list[Event], sample: Sample) -> list[Event]:
    """The stream continues with an error, in one of several provider formats."""
    before = _chunks_before_finish(events)
    failed = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    numbered = {"code": 502, "message": "Provider disconnected"}
    named = {"code": "server_error", "message": "Provider disconnected"}
    errors: tuple[Any, ...] = (
        before[0] | {"error": numbered, "choices": [failed]},
        before[0] | {"error": named, "choices": [failed]},
        {"error": {"message": "The server is overloaded.", "type": "overloaded_error"}},
        with_choice(before[0], failed | {"error": numbered}),
        f"event: error\n{_data_block(encode_json({'error': numbered}))}",
    )
    return [*before[: len(before) // 2 + 1], sample.pick(errors), DONE]
