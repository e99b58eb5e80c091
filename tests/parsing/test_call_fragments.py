"""Tests of `surecall.parsing.call_fragments`."""

import json
from typing import Any

import pytest

from surecall.parsing.arguments import parse_arguments
from surecall.parsing.budget import StreamBudget
from surecall.parsing.call_fragments import ArgumentsBuffer, DetailAssembler, TextBuffer
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON
from surecall.wire.sse import SseEvent
from tests.support.replies import (
    END,
    assembled,
    body_of,
    call_chunk,
    calls_of,
    chunk,
    fragment,
    pairs_of,
)
from tests.support.timing import LINEAR, growth

# Fragments of calls: which call each belongs to, and what of it is new


A, B = '{"a":1}', '{"b":2}'


def merged(*values: Any, limit: int | None = None) -> Any:
    arguments = ArgumentsBuffer(limit)
    for value in values:
        arguments.add(value)
    return arguments.value()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("",), ""),
        ((None,), ""),
        (({},), ""),
        (('{"a":', "1}"), A),
        (("{", '{"a"', '{"a":1', A, A), A),
        ((A, A), A),
        (("[", "["), "[["),
        (("", A, "", None, {}), A),
        (({"a": 1}, {"a": 12}), {"a": 12}),
        (({"a": 1}, {}, "", " "), {"a": 1}),
        (('{"a', {"a": 1}), {"a": 1}),
        (({"a": 1}, B), A + B),
        (({"a": 1}, A), A),
        (({}, '{"a":', "1}"), A),
        (('{"a":', 1, True, [2]), '{"a":1true[2]'),
        (('{"a":"\ud83d', '\ude00"}'), '{"a":"😀"}'),
        (('{"a":"\ud83d"}',), '{"a":"\ufffd"}'),
        (({"a": "\ud83d"}, {"a": "\ud83d\ude00"}, "!"), '{"a":"😀"}!'),
        (({"a": float("nan")}, "!"), '{"a":NaN}!'),
    ],
)
def test_arguments_are_merged(values: tuple[Any, ...], expected: Any) -> None:
    assert merged(*values) == expected


def test_an_equal_piece_is_dropped_only_after_a_cumulative_one_or_the_end() -> None:
    assert merged("1", "1", "0") == "110"
    assert merged('{"a', '{"a":"b', '{"a":"b', 'c"}') == '{"a":"bc"}'
    assert merged('{"a":"\\"', '{"a":"\\"') == '{"a":"\\"{"a":"\\"'
    assert merged('{"a":"\\"}"}', '{"a":"\\"}"}') == '{"a":"\\"}"}'


def test_a_value_that_cannot_be_written_is_refused_by_the_reader() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]

    assert parse_arguments(merged(deep), 100).problem is not None
    assert parse_arguments(merged({"a": deep}, A), 100).problem is not None


@pytest.mark.parametrize("limit", [1, 7, 20])
@pytest.mark.parametrize("text", ['{"t":"%s"}' % ("é😀x" * 20), " " * 90, "```" * 30, " {" * 40])
@pytest.mark.parametrize("step", [1, 3, 100])
def test_arguments_beyond_the_limit_are_refused_as_too_large(
    text: str, limit: int, step: int
) -> None:
    value = merged(*(text[at : at + step] for at in range(0, len(text), step)), limit=limit)
    problem = parse_arguments(value, limit).problem

    assert problem is not None
    assert problem.code is ErrorCode.ARGUMENTS_TOO_LARGE
    assert len(value) <= limit + 2


def test_arguments_at_the_limit_are_kept() -> None:
    assert merged("{", '"a":1}', limit=7) == A
    assert merged({"a": 1}, limit=3) == {"a": 1}


def test_the_size_is_that_of_the_merged_value() -> None:
    arguments = ArgumentsBuffer(8)
    sizes = []
    for piece in ('{"a', A, A, A + " ", A + "  ", "more"):
        arguments.add(piece)
        sizes.append(arguments.size)

    assert sizes == [3, 7, 7, 8, 9, 9]
    assert arguments.is_too_large


def test_a_call_that_was_too_large_is_no_reason_to_call_the_stream_cut() -> None:
    begun = json.dumps(call_chunk(fragment('{"a":"' + "x" * 99, index=0, name="f")))
    events = [SseEvent(begun), SseEvent("[DONE]")]

    assert isinstance(assembled(events, max_arguments_bytes=20)[0], dict)
    assert isinstance(assembled(events)[0], Fault)


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        # A new id on a used index opens a call, with a name or after complete arguments.
        ([fragment(A, index=0, id="x", name="f"), fragment(B, index=0, id="y", name="f")], [A, B]),
        ([fragment(A, index=0, id="x", name="f"), fragment(B, index=0, id="y")], [A, B]),
        ([fragment('{"a":', index=0, id="x", name="f"), fragment("1}", index=0, id="y")], [A]),
        (
            [
                fragment('{"a":', index=0, id="x", name="f"),
                fragment("1", index=0, id="y", name="f"),
                fragment("", index=0, id="z", name="f"),
                fragment("}", index=0, id="y", name="f"),
            ],
            [A],
        ),
        (
            [
                fragment('{"a":', index=0, id="x", name="f"),
                fragment("1}", index=0, id="y"),
                fragment("", index=0, id="y", name="f"),
            ],
            [A],
        ),
        # The same id under a shifted index is the same call, unless it starts again.
        ([fragment('{"a"', index=0, id="x", name="f"), fragment(":1}", index=1, id="x")], [A]),
        ([fragment(A, index=0, id="x", name="f"), fragment(A, index=1, id="x", name="f")], [A]),
        ([fragment(A, index=0, id="x", name="f"), fragment(B, index=1, id="x", name="f")], [A, B]),
        # Without ids, arguments that start again after a name do.
        ([fragment(A, index=0, name="f"), fragment(A, index=0, name="f")], [A]),
        ([fragment(A, index=0, name="f"), fragment("", index=0, name="f")], [A]),
        ([fragment(A, index=0, name="f"), fragment(" ", index=0, name="f")], [A + " "]),
        ([fragment(A, index=0, name="f"), fragment(5, index=0, name="f")], [A + "5"]),
        ([fragment(A, index=0, name="f"), fragment({"b": 2}, index=0, name="f")], [{"b": 2}]),
        ([fragment({"a": 1}, index=0, name="f"), fragment(B, index=0, name="f")], [A + B]),
        # One index, no name, no id: two objects in one call, which the reader refuses.
        ([fragment(A, index=0, name="f"), fragment(B, index=0)], [A + B]),
        # Bare arguments under a new index belong to a call that has none yet.
        ([fragment("", index=0, name="f"), fragment(A, index=4)], [A]),
        ([fragment(A, index=0, name="f"), fragment(B, index=4, name="f")], [A, B]),
        ([fragment(A, index=0, name="f"), fragment(B, index=4)], [A, B]),
        ([fragment(A, index=3)], [A]),
        # Neither index nor id.
        ([fragment(A, name="f"), fragment(B)], [A, B]),
        ([fragment(A, name="f"), fragment(A)], [A]),
        ([fragment("", name="f"), fragment('{"a"'), fragment(":1}")], [A]),
        ([[fragment(A, name="f"), fragment(B, name="f")], [fragment(A), fragment(B)]], [A, B]),
        ([fragment('{"a":', name="f"), [fragment("1}"), fragment(B, name="f")]], [A, B]),
        # Indexes and ids of odd types.
        ([fragment(A, index="0", name="f"), fragment(B, index="1", name="f")], [A, B]),
        ([fragment(A, index=1.5, id=[], name="f"), fragment("", index={}, id={})], [A]),
    ],
)
def test_a_fragment_finds_its_call(fragments: list[Any], expected: list[Any]) -> None:
    assert [arguments for _, arguments in pairs_of(*fragments)] == expected


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        ([fragment(A, name="f"), fragment(B, name="g")], [("f", A), ("g", B)]),
        ([fragment(A, id="0", name="f"), fragment(B, id="0", name="g")], [("f", A), ("g", B)]),
        ([fragment('{"a', id="0", name="f"), fragment('":1}', id="0", name="g")], [("g", A)]),
        ([fragment("", index=0, name="read"), fragment(A, index=0, name="read_file")],
         [("read", ""), ("read_file", A)]),
        ([fragment("", index=0, name="over"), fragment(A, index=0, name="overwrite")],
         [("overwrite", A)]),
        ([fragment("", index=0, name="over"), fragment(A, index=0, name="write")],
         [("overwrite", A)]),
        ([fragment(A, index=0, name="over"), fragment(B, index=0, name="write")],
         [("over", A), ("write", B)]),
        ([fragment("", index=0, name="read"), fragment(A, index=0, name="_file")],
         [("read_file", A)]),
        ([fragment("", index=0, name="f"), fragment(A, index=0, name=" ")], [("f", A)]),
        ([fragment("", index=0, name=7), fragment(A, index=0, name="f")], [("f", A)]),
        ([fragment('{"a":', index=0, name="over"), fragment("1}", index=0, name="write")],
         [("overwrite", A)]),
        ([fragment(A), fragment("", name="f", id="x")], [("f", A)]),
        ([fragment(A, index=0), fragment(B, index=0, name="f")], [("", A), ("f", B)]),
        ([fragment(A, index=0), fragment(A, index=0, name="f", id="x")], [("f", A)]),
        ([fragment(A, id="x"), fragment("", index=0, id="y", name="f")], [("", A), ("f", "")]),
    ],
)  # fmt: skip
def test_a_name_is_joined_only_into_one_that_is_known(
    fragments: list[JSON], expected: list[tuple[str, Any]]
) -> None:
    assert pairs_of(*fragments, known_names=["read", "read_file", "overwrite"]) == expected


def test_a_name_that_is_repeated_is_not_joined_into_a_longer_one() -> None:
    repeated = [fragment("", index=0, name="go"), fragment(A, index=0, name="go")]

    assert pairs_of(*repeated, known_names=["go", "gogo"]) == [("go", A)]


def test_interleaved_calls_of_one_id_are_told_apart_by_index() -> None:
    fragments = [
        fragment("", index=0, id="x", name="f"),
        fragment("", index=1, id="x", name="g"),
        fragment('{"a":', index=0, id="x"),
        fragment('{"b":', index=1, id="x"),
        fragment("1}", index=0, id="x"),
        fragment("2}", index=1, id="x"),
    ]

    assert pairs_of(*fragments) == [("f", A), ("g", B)]


def test_fragments_that_say_nothing_open_no_call() -> None:
    blank = [{}, {"index": 3}, {"index": 4, "type": "function", "function": {"arguments": ""}}]
    message = body_of(chunk({"tool_calls": [*blank, None, "x"]}), END)["choices"][0]["message"]

    assert "tool_calls" not in message
    assert "tool_calls" not in body_of(chunk({"tool_calls": ""}), END)["choices"][0]["message"]


def test_what_stands_beside_a_call_is_kept_on_it() -> None:
    signature = {"google": {"thought_signature": "s"}}
    calls = calls_of(
        fragment(A, index=0, id="x", name="f", type="function", extra_content=signature),
        {"index": 1, "extra_content": {"google": {"other": 1}}},
        {"extra_content": None, "type": ""},
    )

    assert calls == [
        {
            "id": "x",
            "type": "function",
            "function": {"name": "f", "arguments": A},
            "extra_content": {"google": {"thought_signature": "s", "other": 1}},
        }
    ]


def test_what_stands_beside_a_function_is_kept_on_it() -> None:
    function = {"name": "f", "arguments": "{}", "thought_signature": "s"}

    assert calls_of({"index": 0, "id": "x", "function": function})[0]["function"] == function


def test_streams_share_no_state() -> None:
    first = calls_of(fragment({"a": 1}, index=0, name="f"))
    first[0]["function"]["arguments"]["a"] = 2

    assert pairs_of(fragment({"a": 1}, index=0, name="f")) == [("f", {"a": 1})]


def test_a_piece_shorter_than_the_whole_is_never_compared() -> None:
    text = TextBuffer()
    text.append("100")

    assert text.new_part("00", lambda: True) == "00"
    assert text.new_part("100", lambda: False) == "100"
    assert text.new_part("100", lambda: True) == ""
    assert text.new_part("1000", lambda: False) == "0"
    assert text.new_part("100", lambda: False) == ""


@pytest.mark.parametrize("keys", [{}, {"name": "f"}, {"name": "f", "id": "x"}])
def test_the_steps_for_small_pieces_grow_with_their_number(keys: JSON) -> None:
    def joined(size: int) -> None:
        text = json.dumps({"t": "x}" * (size // 2)})
        pieces = [fragment(text[at : at + 16], index=0, **keys) for at in range(0, len(text), 16)]
        ((_, arguments),) = pairs_of(fragment("", index=0, name="f"), *pieces)
        assert arguments == text

    assert growth(joined, 16 * 1024) < LINEAR


def test_cumulative_arguments_cost_no_more_than_their_bytes() -> None:
    def joined(size: int) -> None:
        text = json.dumps({"t": "x" * size})
        pieces = [fragment(text[:at], index=0, name="f") for at in range(16, len(text), 16)]
        assert pairs_of(*pieces, fragment(text, index=0, name="f")) == [("f", text)]

    assert growth(joined, 10_000) < LINEAR


# Details of reasoning: texts grow, everything else stays as it came, and both are paid for


def read(*raw: object, budget: StreamBudget | None = None) -> tuple[str, list[JSON]]:
    details = DetailAssembler(budget or StreamBudget())
    added = "".join(details.add(each) for each in raw)
    return added, details.render()


def test_a_text_grows_until_it_is_signed_and_then_another_begins() -> None:
    first = {"type": "reasoning.text", "index": 0}
    added, details = read(
        first | {"text": "a"},
        first | {"text": "b"},
        first | {"signature": "s"},
        first | {"text": "c"},
        "no detail",
    )

    assert added == "abc"
    assert details == [first | {"text": "ab", "signature": "s"}, first | {"text": "c"}]


def test_what_differs_from_before_is_spent_and_what_repeats_it_is_not() -> None:
    once, often = StreamBudget(max_bytes=60), StreamBudget(max_bytes=60)
    read(*[{"type": "t", "format": "x" * 20}] * 100, budget=once)
    read(*[{"type": "t", f"key {number}": "x"} for number in range(100)], budget=often)

    assert (once.is_exhausted, often.is_exhausted) == (False, True)


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_second_call_under_the_same_id_may_have_encoded_arguments(pieces: int) -> None:
    encoded = '"{\\"a\\": 2}"'
    cut = 3 if pieces > 1 else len(encoded)
    first = fragment('{"a": 1}', index=0, id="x", name="f")
    second = fragment(encoded[:cut], index=1, id="x", name="f")
    rest = [fragment(encoded[cut:], index=1)] if pieces > 1 else []

    assert pairs_of(first, second, *rest) == [("f", '{"a": 1}'), ("f", encoded)]
