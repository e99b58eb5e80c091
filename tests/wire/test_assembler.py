"""Tests of `surecall.wire.assembler`."""

import itertools
import json
import random
from typing import Any

import pytest

from surecall.parsing.budget import MAX_CALLS, MAX_VALUES
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON
from surecall.wire.assembler import (
    Assembler,
    CallDelta,
    ReasoningDelta,
    TextDelta,
    generic_fault,
    holds_error,
    interrupted_fault,
    parse_text_chunk,
    stream_limit_fault,
    undecodable_fault,
)
from surecall.wire.content_parts import text_of
from surecall.wire.response import parse_choice, parse_fault
from surecall.wire.sse import SseEvent
from tests.support.replies import (
    END,
    RECORDED,
    assembled,
    body_of,
    call_chunk,
    chunk,
    events_of,
    fragment,
    recorded,
)

# The assembler: recorded streams, and the rules for texts, reasoning, ends and errors


IN_SCOPE = [*range(9, 15), 47, *range(68, 81), 84, 87]


def message_of(*deltas: JSON) -> JSON:
    message: JSON = body_of(*map(chunk, deltas), END)["choices"][0]["message"]
    return message


def whole(message: JSON, finish_reason: str | None = None) -> JSON:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_stream_comes_out_as_expected(name: str) -> None:
    stream, expected = recorded(name)
    outcome, _ = assembled(events_of([stream]), **expected.get("given", {}))

    if "fault" in expected:
        assert isinstance(outcome, Fault)
        known = {"code": outcome.code, "retryable": outcome.retryable, "status": outcome.status}
        assert known == {key: expected["fault"][key] for key in known}
        assert expected["fault"]["says"] in outcome.message
    else:
        assert isinstance(outcome, dict)
        assert outcome["choices"] == [expected["choice"]]
        assert outcome.get("usage") == expected.get("usage")


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_it_does_not_matter_where_a_recorded_stream_is_cut(name: str) -> None:
    stream, expected = recorded(name)
    options = expected.get("given", {})
    events = events_of([stream])
    whole_outcome = assembled(events, **options)

    # The assembler sees events only, so equal events make equal outcomes.
    for at in range(len(stream)):
        assert events_of([stream[:at], stream[at:]]) == events
    one_by_one = events_of(stream[at : at + 1] for at in range(len(stream)))
    assert assembled(one_by_one, **options) == whole_outcome


@pytest.mark.parametrize("name", RECORDED)
def test_random_partitions_of_a_recorded_stream_make_no_difference(name: str) -> None:
    stream, expected = recorded(name)
    options = expected.get("given", {})
    outcome = assembled(events_of([stream]), **options)
    dice = random.Random(name)  # noqa: S311  # the same partitions on every run

    for _ in range(20):
        inner = dice.sample(range(len(stream)), dice.randrange(1, 30))
        edges = sorted({0, len(stream), *inner})
        pieces = [stream[start:end] for start, end in itertools.pairwise(edges)]
        assert assembled(events_of(pieces), **options) == outcome


def test_every_pair_of_cuts_of_a_short_stream_makes_no_difference() -> None:
    stream, _ = recorded("d14_no_done")
    stream = stream[-240:]
    events = events_of([stream])

    for first in range(len(stream)):
        for second in range(first, len(stream)):
            pieces = [stream[:first], stream[first:second], stream[second:]]
            assert events_of(pieces) == events


def test_the_corpus_covers_every_drift_of_streams() -> None:
    assert len(RECORDED) >= 60
    for number in IN_SCOPE:
        assert any(name.startswith(f"d{number:02}_") for name in RECORDED), number


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_stream_says_where_it_comes_from(name: str) -> None:
    lines = recorded(name)[0].removeprefix(b"\xef\xbb\xbf").splitlines()

    assert lines[0].startswith(b": source: ")
    assert lines[1].startswith(b": shows: ")


@pytest.mark.parametrize("name", [name for name in RECORDED if "cut" in name or "error" in name])
def test_nothing_can_run_from_a_cut_or_failed_stream(name: str) -> None:
    stream, expected = recorded(name)
    outcome, _ = assembled(events_of([stream]))

    refused = isinstance(outcome, Fault) or isinstance(parse_choice(outcome), Fault)
    assert (
        refused or expected["choice"]["finish_reason"] == "length" or name == "error_null_is_none"
    )


@pytest.mark.parametrize("name", [name for name in RECORDED if "choice" in recorded(name)[1]])
def test_a_stream_without_its_end_is_a_fault(name: str) -> None:
    stream, _ = recorded(name)
    events = itertools.takewhile(lambda event: event.data != "[DONE]", events_of([stream]))
    chunks = [json.loads(event.data) for event in events if event.data.startswith("{")]
    for each in chunks:
        for choice in each["choices"] or []:
            choice["finish_reason"] = None
    outcome, _ = assembled([SseEvent(json.dumps(each)) for each in chunks])

    assert isinstance(outcome, Fault)
    assert (outcome.code, outcome.retryable) == (ErrorCode.CONNECTION_ERROR, True)


def test_the_texts_announced_are_the_texts_of_the_body() -> None:
    for name in RECORDED:
        outcome, deltas = assembled(events_of([recorded(name)[0]]))
        if isinstance(outcome, dict) and name != "split_surrogates":
            message = outcome["choices"][0]["message"]
            spoken = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
            assert spoken == text_of(message["content"]), name


def test_progress_is_announced_by_kind() -> None:
    assembler = Assembler()

    assert assembler.add('{"choices":[{"delta":{"reasoning":"Hm","content":"A"}}]}') == [
        ReasoningDelta("Hm", "reasoning"),
        TextDelta("A"),
    ]
    begun = json.dumps(call_chunk(fragment('{"a":', index=0, name="f")))
    assert assembler.add(begun) == [CallDelta(0, "f", 5)]
    more = json.dumps(call_chunk(fragment("é}", index=0)))
    assert assembler.add(more) == [CallDelta(0, "f", 8)]
    assert assembler.add(json.dumps(chunk({"function_call": {"arguments": "{"}}))) == [
        CallDelta(0, "", 1)
    ]
    assert assembler.add("[DONE]") == []


def test_thoughts_that_come_twice_are_announced_once() -> None:
    details = [{"type": "reasoning.text", "text": "Hm", "index": 0}]
    both = chunk({"reasoning": "Hm", "reasoning_content": "Hm", "reasoning_details": details})
    only = chunk({"reasoning_details": details})

    assert Assembler().add(json.dumps(both)) == [ReasoningDelta("Hm")]
    assert Assembler().add(json.dumps(only)) == [ReasoningDelta("Hm", "reasoning_details")]


def test_half_a_character_is_not_announced() -> None:
    assembler = Assembler()
    half, rest = (json.dumps(chunk({"content": text})) for text in ("a\ud83d", "\ude00"))

    assert assembler.add(half) == [TextDelta("a")]
    assert assembler.add(rest) == [TextDelta("😀")]


def test_the_head_is_that_of_the_first_chunk_that_has_one() -> None:
    body = body_of(
        {"id": "", "model": None, "choices": []},
        chunk({"content": "a"}, id="1", model="m", provider="p", object="chat.completion.chunk"),
        chunk({}, "stop", id="2", model="n", system_fingerprint="s"),
    )

    assert body["object"] == "chat.completion"
    assert [body[key] for key in ("id", "model", "provider")] == ["1", "m", "p"]
    assert body["system_fingerprint"] == "s"
    assert "usage" not in body


def test_an_empty_usage_does_not_erase_one() -> None:
    assert body_of(chunk({}, "stop", usage={"x": 1}), {"usage": {}})["usage"] == {"x": 1}


def test_a_reply_that_was_cut_off_stays_cut_off() -> None:
    choices = body_of(chunk({"content": "a"}, "length"), chunk({}, "stop"))["choices"]

    assert choices[0]["finish_reason"] == "length"


def test_a_later_reason_replaces_a_harmless_one() -> None:
    choices = body_of(chunk({}, "stop"), chunk({}, ""), chunk({}, "tool_calls"))["choices"]

    assert choices[0]["finish_reason"] == "tool_calls"


def test_an_end_without_any_choice_is_an_empty_response() -> None:
    assembler = Assembler()
    assembler.add("[DONE]")
    fault = parse_choice(assembler.finish())

    assert isinstance(fault, Fault)
    assert fault.code is ErrorCode.EMPTY_RESPONSE


def test_unreadable_events_are_counted() -> None:
    assembler = Assembler()
    for data in ("busy", "7", '"text"', "[1, null, {}]", "{" * 5000):
        assembler.add(data)

    assert assembler.skipped == 5


def test_nothing_follows_the_end() -> None:
    assembler = Assembler()
    assert not assembler.is_finished
    assembler.add(" [DONE] ")

    assert assembler.is_finished
    assert assembler.add(json.dumps(chunk({"content": "a"}))) == []


def test_nothing_follows_an_error_in_the_same_event() -> None:
    chunks = [chunk({"content": "a"}), {"error": "boom"}, {"error": "bang"}, chunk({}, "stop")]
    failed = {"choices": [{"error": "boom"}, {"delta": {"content": "b"}}]}
    outcome, deltas = assembled([SseEvent(json.dumps(chunks))])

    assert isinstance(outcome, Fault)
    assert outcome.message == "boom"
    assert deltas == [TextDelta("a")]
    assert assembled([SseEvent(json.dumps(failed))])[1] == []


def test_a_provider_error_is_read_by_the_judge_that_was_given() -> None:
    def judge(holder: JSON) -> Fault:
        return parse_fault(holder, None, {}, 0.0)

    error = {"error": {"code": 400, "type": "context_length_exceeded", "message": "too long"}}
    outcome, _ = assembled([SseEvent(json.dumps(error))], error_parser=judge)

    assert isinstance(outcome, Fault)
    assert outcome.code is ErrorCode.CONTEXT_TOO_LONG


@pytest.mark.parametrize("data", ['{"message":"boom","code":500}', "boom", "[]", "null"])
def test_an_event_named_error_is_one(data: str) -> None:
    assembler = Assembler()
    assembler.add(data, "error")

    assert isinstance(assembler.finish(), Fault)


@pytest.mark.parametrize("none", [None, "", {}, [], False])
def test_an_empty_error_is_none(none: object) -> None:
    assert body_of(chunk({"content": "a"}, "stop", error=none))["choices"]


def test_a_number_as_error_beside_choices_is_none() -> None:
    assert body_of(chunk({"content": "a"}, "stop", error=1))["choices"]
    assert isinstance(assembled([SseEvent('{"error":1}')])[0], Fault)


def test_an_event_with_more_values_than_anyone_sends_is_refused() -> None:
    outcome, _ = assembled([SseEvent(json.dumps({"extra": [0] * MAX_VALUES}))])
    assert isinstance(outcome, Fault)
    assert outcome.code is ErrorCode.RESPONSE_TOO_LARGE
    text = "," * (MAX_VALUES + 1)
    assert body_of(chunk({"content": text}), END)["choices"][0]["message"]["content"] == text


def test_more_calls_than_anyone_makes_are_refused() -> None:
    many = [fragment("{}", id=str(n), name="f", index=n) for n in range(MAX_CALLS + 1)]
    outcome, _ = assembled([SseEvent(json.dumps(call_chunk(*many)))])

    assert isinstance(outcome, Fault)
    assert outcome.code is ErrorCode.RESPONSE_TOO_LARGE
    assert len(body_of(call_chunk(*many[:-1]), END)["choices"][0]["message"]["tool_calls"]) == 1000


def test_a_whole_message_after_deltas_is_not_said_twice() -> None:
    details = [{"type": "reasoning.text", "text": "Hm", "index": 0}]
    said = {"content": "Good", "reasoning": "Hm", "reasoning_details": details, "images": [1]}
    outcome, deltas = assembled(
        SseEvent(json.dumps(each))
        for each in (
            chunk(said),
            whole(said | {"content": "Goodbye"}),
            whole({"content": "Bye"}, "stop"),
        )
    )

    assert isinstance(outcome, dict)
    assert outcome["choices"][0]["message"] == said | {"role": "assistant", "content": "Goodbye"}
    thought = ReasoningDelta("Hm", "reasoning")
    assert deltas == [thought, TextDelta("Good"), TextDelta("bye")]


def test_a_delta_beats_the_message_beside_it() -> None:
    both = {"delta": {"content": "a"}, "message": {"content": "ab"}, "finish_reason": "stop"}
    empty = {"delta": {}, "message": {"content": "ab"}, "finish_reason": "stop"}

    assert body_of({"choices": [both]})["choices"][0]["message"]["content"] == "a"
    assert body_of({"choices": [empty]})["choices"][0]["message"]["content"] == "ab"


def test_unknown_keys_of_a_delta_are_kept() -> None:
    google = {"google": {"a": {"b": {"x": 1}}}}
    message = message_of(
        {"images": [1], "extra_content": google, "annotations": None, "audio": {"id": "1"}},
        {"images": [2], "extra_content": {"google": {"c": 2, "a": None}}, "audio": None},
    )

    assert message["images"] == [1, 2]
    assert message["extra_content"] == {"google": {"a": {"b": {"x": 1}}, "c": 2}}
    assert message["audio"] == {"id": "1"}
    assert "annotations" not in message


def test_parts_of_the_content_go_where_they_belong() -> None:
    message = message_of(
        {"content": {"type": "text", "text": "a"}, "reasoning_content": "x"},
        {"content": [{"type": "thinking", "thinking": "y"}, "b", 7], "reasoning_content": "z"},
    )

    assert message["content"] == [
        {"type": "thinking", "thinking": "y"},
        {"type": "text", "text": "ab"},
    ]
    assert message["reasoning_content"] == "xzy"


def test_a_signature_is_never_put_under_text_it_does_not_cover() -> None:
    text = {"type": "reasoning.text", "index": 0}
    details = [
        text | {"text": "a", "signature": "s"},
        text | {"text": "b", "signature": "s"},
        text | {"text": "c"},
        text | {"text": "d", "signature": "t"},
        text | {"signature": "u"},
    ]
    message = message_of(*({"reasoning_details": [each]} for each in details))

    assert message["reasoning_details"] == [
        text | {"text": "ab", "signature": "s"},
        text | {"text": "cd", "signature": "t"},
        text | {"signature": "u"},
    ]


def test_a_detail_without_a_type_belongs_to_the_last() -> None:
    details = [{"type": "reasoning.text", "text": "a"}, {"signature": "s"}, {"index": 1}, "x", {}]
    message = message_of({"reasoning_details": details})

    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "text": "a", "signature": "s", "index": 1}
    ]
    indexed = {"type": "reasoning.text", "text": "a", "index": 0}
    message = message_of({"reasoning_details": [indexed, {"signature": "s"}]})
    assert message["reasoning_details"] == [indexed | {"signature": "s"}]


def test_of_many_other_choices_only_the_first_are_followed() -> None:
    assembler = Assembler()
    for index in range(20):
        call = {"index": 0, "id": f"c{index}", "function": {"name": "f", "arguments": "{}"}}
        delta = {"tool_calls": [call]} if index else {"content": "Wait."}
        choice = {"index": index, "delta": delta, "finish_reason": "stop"}
        assembler.add(json.dumps({"choices": [choice]}))
    body = assembler.finish()

    assert isinstance(body, dict)
    assert [choice["index"] for choice in body["choices"]] == list(range(9))


@pytest.mark.parametrize("mark", ["[DONE]", "[done]", " [Done] ", "[ DONE ]"])
def test_the_end_mark_is_known_in_every_spelling(mark: str) -> None:
    assembler = Assembler()
    assembler.add(mark)

    assert assembler.is_finished


def test_an_opaque_text_that_says_all_there_is_once_more_adds_nothing() -> None:
    assert message_of({"seal": "abc"}, {"seal": "abc"})["seal"] == "abc"
    assert message_of({"seal": "abc"}, {"seal": "def"})["seal"] == "abcdef"


# What is kept of a stream: bounded wherever it stands, and repetitions cost nothing


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x" * 40},
        {"reasoning_content": "x" * 40},
        {"content": [{"type": "text", "text": "x" * 40}]},
        {"annotations": ["x" * 40]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "x" * 40}]},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "x" * 40}}]},
        {"tool_calls": [{"index": 0, "id": "x" * 40}]},
        {"tool_calls": [{"index": 0, "function": {"name": "f"}, "signature": "x" * 40}]},
        {"tool_calls": "x" * 40},
        {"function_call": {"name": "f", "arguments": "x" * 40}},
    ],
)
def test_what_is_kept_of_a_stream_is_bounded_wherever_it_stands(delta: JSON) -> None:
    events = [SseEvent(json.dumps(chunk(delta))) for _ in range(100)]
    outcome, _ = assembled(events, max_bytes=2_000)

    assert isinstance(outcome, Fault)
    assert outcome.code is ErrorCode.RESPONSE_TOO_LARGE


@pytest.mark.parametrize(
    "delta",
    [
        {"role": "assistant", "content": ""},
        {"provider_specific_fields": {"a": "x" * 40}},
        {"reasoning_details": [{"type": "reasoning.text", "format": "x" * 40, "index": 0}]},
        {"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": ""}}]},
        {"function_call": {"name": "f", "arguments": {"a": 1}}},
    ],
)
def test_what_is_said_again_and_again_is_kept_once_and_costs_nothing(delta: JSON) -> None:
    events = [SseEvent(json.dumps(chunk(delta))) for _ in range(100)]
    outcome, _ = assembled([*events, SseEvent(json.dumps(END))], max_bytes=2_000)

    assert not isinstance(outcome, Fault)


def test_a_stream_of_many_small_values_is_refused_before_it_fills_the_memory() -> None:
    one = SseEvent(json.dumps(chunk({"annotations": [[]] * 1_000})))
    outcome, _ = assembled([one] * (MAX_VALUES // 2_000 + 1))

    assert isinstance(outcome, Fault)
    assert "values" in outcome.message


# Chunks of words: read in one step, and taken for nothing else


CHOICE: JSON = {"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}
CHUNK: JSON = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "system_fingerprint": None,
    "choices": [CHOICE],
}


def test_the_words_of_a_chunk_and_its_choice_are_read() -> None:
    words = parse_text_chunk(json.dumps(CHUNK))
    assert words is not None
    assert (words.text, words.index, words.model) == ("Hello", 0, "m")


@pytest.mark.parametrize(
    "chunk",
    [
        "[DONE]",
        [CHUNK],
        CHUNK | {"object": "error"},
        CHUNK | {"error": None},
        CHUNK | {"usage": {}},
        CHUNK | {"x_groq": None},
        CHUNK | {"choices": []},
        CHUNK | {"choices": [CHOICE, CHOICE]},
        CHUNK | {"choices": [CHOICE | {"index": "0"}]},
        CHUNK | {"choices": [CHOICE | {"finish_reason": "stop"}]},
        CHUNK | {"choices": [CHOICE | {"message": None}]},
        CHUNK | {"choices": [CHOICE | {"delta": {}}]},
        CHUNK | {"choices": [CHOICE | {"delta": {"content": None}}]},
        CHUNK | {"choices": [CHOICE | {"delta": {"content": "Hi", "role": "assistant"}}]},
        CHUNK | {"choices": [CHOICE | {"delta": {"content": "Hi", "tool_calls": None}}]},
    ],
)
def test_anything_else_is_none(chunk: Any) -> None:
    assert parse_text_chunk(chunk if isinstance(chunk, str) else json.dumps(chunk)) is None


def test_neither_is_what_cannot_be_read() -> None:
    assert parse_text_chunk("{") is None
    assert parse_text_chunk("[" * 100_000) is None


# What a stream is instead of an answer, in words that can be shown


@pytest.mark.parametrize(
    ("holder", "code", "status", "retryable"),
    [
        ({"error": {"code": 429, "message": "slow"}}, ErrorCode.RATE_LIMIT, 429, True),
        ({"error": {"code": "503"}}, ErrorCode.UPSTREAM_5XX, 503, True),
        ({"error": {"code": 408}}, ErrorCode.PROVIDER_ERROR, 408, True),
        ({"error": {"code": 401}}, ErrorCode.PROVIDER_ERROR, 401, False),
        ({"error": {"code": 200}}, ErrorCode.PROVIDER_ERROR, None, True),
        ({"error": "boom"}, ErrorCode.PROVIDER_ERROR, None, True),
        ({"object": "error", "message": "m", "code": 500}, ErrorCode.UPSTREAM_5XX, 500, True),
    ],
)
def test_an_error_is_read_by_its_status(
    holder: JSON,
    code: ErrorCode,
    status: int | None,
    retryable: bool,  # noqa: FBT001
) -> None:
    fault = generic_fault(holder)

    assert (fault.code, fault.status, fault.retryable) == (code, status, retryable)
    assert json.loads(fault.body) == holder


def test_an_error_with_half_a_character_can_be_written_down() -> None:
    fault = generic_fault({"error": {"message": "a\ud83d"}})

    assert fault.message == "a\ufffd"
    assert json.loads(fault.body.encode()) == {"error": {"message": "a\ufffd"}}


def test_only_some_faults_of_a_stream_are_worth_another_try() -> None:
    faults = (
        stream_limit_fault("x"),
        undecodable_fault(3),
        interrupted_fault(in_call=True),
        interrupted_fault(in_call=False),
    )

    assert [fault.retryable for fault in faults] == [False, True, True, True]
    assert "3 of its events" in faults[1].message
    assert faults[2].message != faults[3].message


@pytest.mark.parametrize("holder", [{"object": "error"}, {"type": "error"}, {"error": ["x"]}])
def test_an_error_is_one_wherever_it_says_so(holder: JSON) -> None:
    assert holds_error(holder)
    assert not holds_error({"choices": [], "error": None})
