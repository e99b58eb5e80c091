"""The lines of the demo, from outcomes that are made up."""

from itertools import product

import pytest

from surecall.cli.demo_page import ASCII_SIGNS, FAILURES, SIGNS, WIDTH, body, head, opened
from surecall.simulator.demo.contest import OWN, PLAIN, SDK, Outcome, Row
from surecall.simulator.demo.shapes import drawn, every_shape
from surecall.simulator.demo.tasks import Judgement
from surecall.values.events import LlmRequestEndEvent
from surecall.values.trace import Trace
from surecall.values.types import Reply, ToolCall

RIGHT = Outcome(Judgement("right"))
CALL = ToolCall("call_1", "book_room", {"guest": "Kim"})


def failed(how: str) -> Outcome:
    return Outcome(Judgement("error", how))


def told(*rows: Row, signs: tuple[str, str] = SIGNS) -> list[str]:
    return body(rows, signs, "surecall")


def heard(reply: Reply, answer: object) -> Outcome:
    event = LlmRequestEndEvent(
        run_id="r",
        turn=1,
        at=0.0,
        reply=reply,
        body=answer,
        request_hash="",
        attempt=1,
        elapsed_ms=0,
        response_bytes=0,
    )
    return Outcome(Judgement("right"), Trace((event,)))


@pytest.mark.parametrize("how", FAILURES)
def test_every_line_fits_whatever_happens(how: str) -> None:
    rows = [
        Row(shape, {PLAIN: failed(how), SDK: failed(how), OWN: failed(how)})
        for shape in every_shape()
    ]

    assert [line for line in head(len(rows)) + told(*rows) if len(line) > WIDTH] == []


def test_no_two_cells_of_a_line_touch() -> None:
    (shape, *_) = drawn()
    for first, second in product(FAILURES, repeat=2):
        rows = told(Row(shape, {PLAIN: failed(first), SDK: failed(second), OWN: RIGHT}))
        assert f"✗ {first} " in rows[2]
        assert f" ✗ {second} " in rows[2]


def test_signs_have_words_beside_them_and_a_plain_form() -> None:
    (shape, *_) = drawn()
    row = Row(shape, {PLAIN: failed("crashed"), OWN: RIGHT})

    assert told(row)[2].split() == [*shape.words.split(), "✗", "crashed", "✓", "right"]
    assert told(row, signs=ASCII_SIGNS)[2].split()[-4:] == ["x", "crashed", "+", "right"]
    assert all(line.isascii() for line in told(row, signs=ASCII_SIGNS))


def test_failures_are_counted_and_told_in_a_sentence_most_often_first() -> None:
    first, second, third, *_ = drawn()
    lines = told(
        Row(first, {PLAIN: failed("HTTP 418"), OWN: RIGHT}),
        Row(second, {PLAIN: failed("ran twice"), OWN: RIGHT}),
        Row(third, {PLAIN: failed("ran twice"), OWN: RIGHT}),
    )
    at = lines.index("The plain loop failed 3 times.")

    assert lines[at + 1].split() == ["2", "x", "ran", "twice", *FAILURES["ran twice"].split()]
    assert lines[at + 2].split() == ["1", "x", "HTTP", "418"]


def test_only_a_sample_is_said_to_be_drawn() -> None:
    rows = [Row(shape, {PLAIN: RIGHT, OWN: RIGHT}) for shape in every_shape()]

    assert any("drawn, not picked" in line for line in told(*rows[1:]))
    assert not any("drawn" in line for line in told(*rows))
    assert any(line.startswith("  A fault is a habit") for line in told(*rows))


def test_a_loop_that_never_failed_is_told_so() -> None:
    assert "The plain loop failed 0 times." in told(Row(drawn()[0], {PLAIN: RIGHT, OWN: RIGHT}))


def test_a_healed_reply_is_opened_one_with_its_call_in_the_text_first() -> None:
    by_family = {shape.family: shape for shape in drawn()}
    healed = Reply(calls=(CALL,), fired=("text_call_A1",))
    message = {"role": "assistant", "content": "<tool_call>…"}
    rows = [
        Row(by_family["names"], {PLAIN: RIGHT, OWN: heard(healed, {"data": 1})}),
        Row(
            by_family["text"],
            {PLAIN: RIGHT, OWN: heard(healed, {"choices": [{"message": message}]})},
        ),
    ]
    in_text, other = opened(rows), opened(rows[:1])

    assert in_text is not None
    assert in_text.shape == by_family["text"].id
    assert in_text.came == '{"role": "assistant", "content": "<tool_call>\\u2026"}'
    assert (in_text.read, in_text.steps) == ('book_room {"guest": "Kim"}', ("text_call_A1",))
    assert other is not None
    assert other.came == '{"data": 1}'
    assert f"One of these replies, opened ({in_text.shape}):" in told(*rows)
    assert any(line.split() == ["plain", "loop", "read", "it,", "too"] for line in told(*rows))


def test_without_a_healed_reply_none_is_opened() -> None:
    clean = heard(Reply(calls=(CALL,)), {})
    rows = [Row(drawn()[0], {PLAIN: RIGHT, OWN: clean})]

    assert opened(rows) is None
    assert not any(line.startswith("One of these") for line in told(*rows))
