"""Streaming: no input raises, and what was cut into deltas comes back whole."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.errors import Fault
from surecall.values.types import JSON
from surecall.wire.assembler import Assembler, TextDelta
from surecall.wire.response import parse_choice
from surecall.wire.sse import SseDecoder, SseEvent
from tests.support.generated import JSON_VALUES
from tests.support.replies import RECORDED, assembled, chunk, events_of, recorded

NAMES = ["weather", "clock", "edit", "edit_existing_file"]
# A key or value that begins with a brace could repeat the whole of what came before it.
PLAIN = st.text(st.characters(exclude_characters="{", exclude_categories=["Cs"]), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers() | PLAIN
OBJECTS = st.dictionaries(PLAIN, SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
CALLS = st.builds(
    lambda name, arguments: {"name": name, "arguments": json.dumps(arguments)},
    st.sampled_from(NAMES),
    OBJECTS,
)
USAGES = st.none() | st.just({"prompt_tokens": 3, "completion_tokens": 4})


@st.composite
def bodies(draw: st.DrawFn) -> JSON:
    functions = draw(st.lists(CALLS, max_size=3))
    message: JSON = {"role": "assistant", "content": draw(st.none() | PLAIN)}
    for key in ("reasoning_content", "reasoning"):
        if (text := draw(st.none() | PLAIN)) is not None:
            message[key] = text
    if functions:
        message["tool_calls"] = [
            {"id": f"call_{n}", "type": "function", "function": function}
            for n, function in enumerate(functions)
        ]
    reason = draw(st.sampled_from(["stop", "tool_calls", "length"]))
    choice = {"index": 0, "message": message, "finish_reason": reason}
    body = {"id": "c1", "model": "m", "object": "chat.completion", "choices": [choice]}
    usage = draw(USAGES)
    return body if usage is None else body | {"usage": usage}


def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def texts(draw: st.DrawFn, message: JSON) -> Iterator[JSON]:
    for key in ("reasoning_content", "reasoning", "content"):
        if isinstance(message.get(key), str):
            yield from ({key: piece} for piece in pieces(draw, message[key]))


def fragments(draw: st.DrawFn, index: int, call: JSON) -> list[JSON]:
    function, (first, *others) = call["function"], pieces(draw, call["function"]["arguments"])
    opening = {**call, "index": index, "function": {**function, "arguments": first}}
    return [opening, *({"index": index, "function": {"arguments": piece}} for piece in others)]


def interleaved(draw: st.DrawFn, queues: list[list[JSON]]) -> Iterator[JSON]:
    """Take turns at random, but let every call begin before the next one does."""
    yield from (queue.pop(0) for queue in queues)
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        yield queue.pop(0)


def bent(fragment: JSON, opening: JSON, keys: set[str]) -> JSON:
    """Repeat what a provider need not repeat."""
    function = dict(fragment["function"])
    if "name" in keys:
        function["name"] = opening["function"]["name"]
    return fragment | {"function": function} | ({"id": opening["id"]} if "id" in keys else {})


@st.composite
def streams(draw: st.DrawFn) -> tuple[JSON, list[JSON]]:
    """Draw a plain body, and chunks that say the same."""
    body = draw(bodies())
    (choice,) = body["choices"]
    calls = choice["message"].get("tool_calls", [])
    keys = draw(st.sets(st.sampled_from(["name", "id", "sequential", "no index"])))
    queues = [fragments(draw, index, call) for index, call in enumerate(calls)]
    deltas = [{"role": "assistant", "content": None}, *texts(draw, choice["message"])]
    if keys & {"sequential", "no index"}:
        ordered = [fragment for queue in queues for fragment in queue]
    else:
        ordered = list(interleaved(draw, queues))
    for each in ordered:
        item = bent(each, calls[each["index"]], keys)
        if "no index" in keys:
            item.pop("index")
        deltas.append({"tool_calls": [item]})
    head = {"id": "c1", "model": "m", "object": "chat.completion.chunk"}
    chunks = [head | {"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks.append(head | {"choices": [end]})
    if "usage" in body:
        chunks.append(head | {"choices": [], "usage": body["usage"]})
    return body, chunks


@given(streams())
def test_what_was_cut_into_deltas_comes_back_whole(case: tuple[JSON, list[JSON]]) -> None:
    body, chunks = case
    outcome, deltas = assembled([*map(event, chunks), SseEvent("[DONE]")], known_names=NAMES)

    assert outcome == body
    spoken = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    assert spoken == (body["choices"][0]["message"]["content"] or "")


@given(streams(), st.data())
def test_a_stream_that_lacks_its_end_is_a_fault_wherever_it_breaks_off(
    case: tuple[JSON, list[JSON]], data: st.DataObject
) -> None:
    _, chunks = case
    end = next(at for at, each in enumerate(chunks) if "finish_reason" in str(each))
    outcome, _ = assembled(map(event, chunks[: data.draw(st.integers(0, end))]))

    assert isinstance(outcome, Fault)
    assert outcome.retryable


def event(chunk: Any) -> SseEvent:
    return SseEvent(json.dumps(chunk))


FRAGMENTS = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 0, 1, 2, "1", None]) | JSON_VALUES,
        "id": st.sampled_from(["a", "a", "b", "", None, 7]) | JSON_VALUES,
        "type": st.sampled_from(["function", "", None]),
        "name": st.sampled_from(NAMES),
        "extra_content": JSON_VALUES,
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from([*NAMES, "ed", "it", ""]) | JSON_VALUES,
                "arguments": st.sampled_from(["", "{", '{"a":', "1}", '{"a":1}', "{}", "}"])
                | JSON_VALUES,
            },
        )
        | JSON_VALUES,
    },
)
DETAILS = st.dictionaries(
    st.sampled_from(["type", "index", "id", "text", "summary", "signature", "data"]),
    st.sampled_from(["reasoning.text", 0, 1, "s", None, ""]) | JSON_VALUES,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "content": st.text(max_size=3) | st.lists(JSON_VALUES, max_size=2) | JSON_VALUES,
        "reasoning": st.text(max_size=3) | JSON_VALUES,
        "reasoning_details": st.lists(DETAILS, max_size=3) | JSON_VALUES,
        "tool_calls": st.lists(FRAGMENTS, max_size=3) | FRAGMENTS | JSON_VALUES,
        "function_call": FRAGMENTS | JSON_VALUES,
        "images": st.lists(JSON_VALUES, max_size=2) | JSON_VALUES,
    },
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 0, 1]) | JSON_VALUES,
        "delta": MESSAGES | JSON_VALUES,
        "message": MESSAGES | JSON_VALUES,
        "finish_reason": st.sampled_from([None, "stop", "length", "error"]) | JSON_VALUES,
        "error": st.none() | JSON_VALUES,
        "usage": JSON_VALUES,
    },
)
CHUNKS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2) | JSON_VALUES},
    optional={"id": JSON_VALUES, "usage": JSON_VALUES, "error": st.none() | JSON_VALUES},
)
DATA = (CHUNKS | JSON_VALUES).map(json.dumps) | st.text(max_size=9) | st.just("[DONE]")


@given(st.lists(DATA, max_size=6), st.sampled_from([None, 0, 3]), st.sampled_from(["", "error"]))
def test_no_input_makes_the_assembler_raise(data: list[str], limit: int | None, last: str) -> None:
    assembler = Assembler(NAMES, limit)
    for each in data[:-1]:
        assembler.add(each)
    for each in data[-1:]:
        assembler.add(each, last)
    outcome = assembler.finish()

    assert assembler.finish() == outcome
    if not isinstance(outcome, Fault):
        assert isinstance(parse_choice(outcome), dict | Fault)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_decoder_raise(stream: bytes) -> None:
    decoder = SseDecoder()

    assert isinstance(decoder.feed(stream) + decoder.close(), list)


@pytest.mark.parametrize("depth", [100, 500, 900, 1500, 10_000])
@pytest.mark.parametrize(
    "place",
    [
        '{"choices":[{"delta":{"content":@},"finish_reason":"stop"}]}',
        '{"choices":[{"delta":{"images":@},"finish_reason":"stop"}]}',
        '{"choices":[{"delta":{"extra_content":{"a":@}},"finish_reason":"stop"}]}',
        '{"choices":[{"delta":{"reasoning_details":[{"data":@}]},"finish_reason":"stop"}]}',
        '{"choices":[{"delta":{"tool_calls":[{"x":@}]},"finish_reason":"stop"}]}',
        '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":@}}]}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":{"a":@}}}]}}]}',
        '{"choices":[{"finish_reason":@}]}',
        '{"error":@}',
        "@",
    ],
)
def test_deep_nesting_anywhere_is_survived(place: str, depth: int) -> None:
    data = place.replace("@", "[" * depth + "1" + "]" * depth)
    assembler = Assembler(NAMES, 10)
    for _ in range(3):
        assembler.add(data)

    assert isinstance(assembler.finish(), dict | Fault)


def with_speaker(data: str) -> str:
    """Say in every delta who speaks, too: that adds nothing to a message. Errors are quoted.

    What has nothing but words, or nothing but calls, is read in another way.
    """
    try:
        body = json.loads(data)
        for choice in [] if '"error"' in data else body["choices"]:
            choice["delta"] = {"role": "assistant"} | choice["delta"]
    except (ValueError, TypeError, KeyError):
        return data
    return json.dumps(body)


@pytest.mark.parametrize("name", RECORDED)
def test_a_delta_with_one_key_adds_what_it_adds_beside_others(name: str) -> None:
    events = events_of([recorded(name)[0]])
    spoken = [msgspec.structs.replace(event, data=with_speaker(event.data)) for event in events]

    assert assembled(spoken, known_names=NAMES) == assembled(events, known_names=NAMES)


@given(
    st.lists(st.dictionaries(st.sampled_from(["content", "tool_calls"]), JSON_VALUES, max_size=1))
)
def test_so_does_any_other_delta(deltas: list[JSON]) -> None:
    chunks = [json.dumps(chunk(delta, object="chat.completion.chunk")) for delta in deltas]
    events = [SseEvent(data) for data in chunks]
    spoken = [SseEvent(with_speaker(data)) for data in chunks]

    assert assembled(spoken) == assembled(events)
