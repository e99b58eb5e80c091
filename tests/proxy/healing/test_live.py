"""A stream on its way to the client: what was sent cannot be unsaid."""

from typing import Any

import msgspec

from surecall.core.streaming.display import CallAnnounced, TextWithdrawn
from surecall.proxy.faces.chat import ChatEvents
from surecall.proxy.faces.face import Failure
from surecall.proxy.healing.live import Live
from surecall.values.types import JSON
from surecall.wire.assembler import ReasoningDelta, TextDelta
from tests.support.proxy import call, completion, said


def live(*, buffered: bool = False) -> Live:
    return Live(ChatEvents(wants_usage=False), {"id": "x", "model": "m"}, buffered=buffered)


def read(data: bytes) -> list[Any]:
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n\n") if line]
    return [line.decode() if line == b"[DONE]" else msgspec.json.decode(line) for line in lines]


def text_in(data: bytes) -> str:
    chunks = [item for item in read(data) if isinstance(item, dict) and "choices" in item]
    return "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks)


def error_in(data: bytes) -> JSON | None:
    found = [item["error"] for item in read(data) if isinstance(item, dict) and "error" in item]
    return found[0] if found else None


def test_text_goes_out_as_it_comes_and_the_head_once() -> None:
    stream = live()
    begun = stream.begin({"id": "up"})
    assert read(begun)[0]["id"] == "up"
    assert stream.begin({"id": "again"}) == b""
    assert text_in(stream.show(TextDelta("Hel"))) == "Hel"
    rest = stream.finish(completion(said(text="Hello")))
    assert text_in(rest) == "lo"
    assert read(rest)[-1] == "[DONE]"
    assert stream.begun


def test_a_stream_that_has_said_nothing_begins_with_its_first_word() -> None:
    stream = live()
    assert not stream.begun
    assert read(stream.show(TextDelta("Hi")))[0]["choices"][0]["delta"]["role"] == "assistant"
    assert stream.show(CallAnnounced(0, "f")) == b""


def test_a_buffered_stream_says_nothing_before_its_end() -> None:
    stream = live(buffered=True)
    assert stream.show(TextDelta("Hi")) == b""
    assert stream.show(ReasoningDelta("Hm")) == b""
    assert stream.show(TextWithdrawn("Hi")) == b""
    assert text_in(stream.finish(completion(said(text="Bye")))) == "Bye"


def test_after_a_retry_the_same_text_goes_on() -> None:
    stream = live()
    stream.show(TextDelta("\n Hel"))
    stream.again()
    assert stream.show(TextDelta("Hello")) == b""
    assert text_in(stream.finish(completion(said(text="Hello you")))) == "lo you"


def test_after_a_retry_calls_keep_the_text_before_them() -> None:
    stream = live()
    stream.show(TextDelta("Let me look."))
    stream.show(TextWithdrawn("Let me look."))
    rest = stream.finish(completion(said(call("c1")), "tool_calls"))
    assert text_in(rest) == ""
    assert error_in(rest) is None
    assert any("tool_calls" in item["choices"][0]["delta"] for item in read(rest)[:-1])


def test_a_text_that_broke_off_cannot_be_gone_on_from_by_another_one() -> None:
    stream = live()
    stream.show(TextDelta("It is 12."))
    stream.show(TextWithdrawn("It is 12."))
    stream.broke_off()
    stream.again()
    rest = stream.finish(completion(said(text="It is 13.")))
    error = error_in(rest)
    assert error is not None
    assert error["code"] == "STREAM_CHANGED"
    assert "[DONE]" not in read(rest)


def test_another_text_follows_one_that_was_said_to_its_end() -> None:
    stream = live()
    stream.show(TextDelta("I will look."))
    stream.again()
    stream.broke_off()  # nothing of this one was sent
    stream.again()
    rest = stream.finish(completion(said(text="It is 13.")))
    assert text_in(rest) == "\n\nIt is 13."
    assert error_in(rest) is None


def test_an_answer_follows_a_text_that_turned_out_to_be_a_thought() -> None:
    stream = live()
    stream.show(TextDelta("Hm."))
    stream.show(TextWithdrawn("Hm."))
    assert stream.show(TextDelta("It is 13.")) == b""
    assert text_in(stream.finish(completion(said(text="It is 13.")))) == "\n\nIt is 13."


def test_a_retry_before_the_first_word_changes_nothing() -> None:
    stream = live()
    stream.again()
    assert text_in(stream.show(TextDelta("Hi"))) == "Hi"


def test_thoughts_go_out_in_their_own_field_and_are_not_said_twice() -> None:
    stream = live()
    (_, chunk) = read(stream.show(ReasoningDelta("Hm", "reasoning")))
    assert chunk["choices"][0]["delta"] == {"reasoning": "Hm"}
    assert stream.show(ReasoningDelta("x", "reasoning_details")) == b""
    stream.again()
    assert stream.show(ReasoningDelta("Other", "reasoning")) == b""
    rest = read(stream.finish(completion(said(text="A", reasoning="Other", details=[1]))))
    deltas = [item["choices"][0]["delta"] for item in rest[:-1]]
    assert deltas == [{"details": [1]}, {"content": "A"}, {}]


def test_a_failure_is_told() -> None:
    error = error_in(live().fail(Failure(502, "gone", "CONNECTION_ERROR")))
    assert error is not None
    assert error["message"] == "gone"
