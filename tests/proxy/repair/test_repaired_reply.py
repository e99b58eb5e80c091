"""Tests of `surecall.proxy.repair.repaired_reply`."""

from typing import Any

import msgspec
import pytest

from surecall.core.streaming import CallAnnounced, TextWithdrawn
from surecall.proxy.repair.repaired_reply import (
    DefaultHead,
    StreamedReply,
    is_passthrough,
    repair_completion,
    total_usage,
)
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Assistant, Problem, ToolCall, Usage
from surecall.wire.apis.adapter import ErrorReply
from surecall.wire.apis.chat_api import ChatEventWriter
from surecall.wire.assembler import ReasoningDelta, TextDelta
from surecall.wire.chat_format import encode
from tests.support.proxy import USER, WEATHER, call, completion, said

# A healed answer: what was right stays as it came, what was bent is put right


HEAD = DefaultHead("chatcmpl-x", 9, "asked")
OSLO = ToolCall("c1", "get_weather", {"city": "Oslo"})


def given(body: Any, turn: Assistant, **names: str) -> JSON:
    return repair_completion(body, turn, HEAD, names)


def test_a_clean_answer_is_the_same() -> None:
    usage = {"prompt_tokens": 1}
    text = completion(said(text="Hi.", refusal=None, annotations=[]), usage=usage, x=1)
    assert given(text, Assistant("Hi.")) == text
    assert list(given(text, Assistant("Hi."))) == list(text)

    calls = completion(said(call("c1", city="Oslo") | {"index": 0}, reasoning="Hm."), "tool_calls")
    assert given(calls, Assistant("", (OSLO,), extra={"reasoning": "Hm."})) == calls
    none = completion(said(text="Hi.", tool_calls=[]))
    assert given(none, Assistant("Hi.")) == none


def test_an_answer_that_lacks_its_head_gets_one() -> None:
    body = completion(said(text="Hi."), id=7, created=None, model="", object="x")
    whole = given(body, Assistant("Hi."))
    assert (whole["id"], whole["created"], whole["model"]) == ("chatcmpl-x", 9, "asked")
    assert whole["object"] == "chat.completion"
    nothing = given([], Assistant("Hi."))
    assert nothing["choices"][0]["message"] == {"role": "assistant", "content": "Hi."}


@pytest.mark.parametrize(
    "raw",
    [
        call("c1") | {"type": "tool"},
        call("c1", "Get-Weather", city="Oslo"),
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": {}}},
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{"}},
        {"id": "c1", "type": "function", "function": {"name": " get_weather", "arguments": "{}"}},
        call("c1", city="oslo"),
    ],
)
def test_a_bent_call_is_written_as_it_is_meant(raw: JSON) -> None:
    body = completion(said(raw), "stop")
    choice = given(body, Assistant("", (OSLO,)))["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"] == [call("c1", city="Oslo")]


@pytest.mark.parametrize(("came", "meant"), [(3.0, 3), (1, True), ([3.0], [3])])
def test_a_value_of_another_type_is_written_as_it_is_meant(came: Any, meant: Any) -> None:
    body = completion(said(call("c1", days=came)), "tool_calls")
    turn = Assistant("", (ToolCall("c1", "get_weather", {"days": meant}),))
    message = given(body, turn)["choices"][0]["message"]

    assert message["tool_calls"][0]["function"]["arguments"] == encode({"days": meant}).decode()


def test_what_stands_beside_a_bent_call_is_kept() -> None:
    turn = ToolCall("c1", "a_b", {}, extra={"signature": "s", "function": {"seal": 1}})
    message = given(completion(said()), Assistant("", (turn,)), a_b="a.b")["choices"][0]["message"]

    (only,) = message["tool_calls"]
    assert only["signature"] == "s"
    assert only["function"] == {"name": "a.b", "arguments": "{}", "seal": 1}


def test_calls_from_text_leave_the_text() -> None:
    body = completion(said(text="<tool_call>…</tool_call>", function_call={"name": "x"}))
    message = given(body, Assistant("", (OSLO,)))["choices"][0]["message"]
    assert message["content"] is None
    assert "function_call" not in message
    beside = given(body, Assistant("Let me look.", (OSLO,)))["choices"][0]["message"]
    assert beside["content"] == "Let me look."


def test_text_in_parts_becomes_text() -> None:
    body = completion(said() | {"content": [{"type": "text", "text": "Hi."}]})
    assert given(body, Assistant("Hi."))["choices"][0]["message"]["content"] == "Hi."


def test_only_calls_that_may_run_go_out() -> None:
    bad = ToolCall("c2", "nope", problem=Problem(ErrorCode.TOOL_NOT_ALLOWED, "no"))
    body = completion(said(call("c1", city="Oslo"), call("c2", "nope")), "tool_calls")
    message = given(body, Assistant("", (OSLO, bad)))["choices"][0]["message"]
    assert [each["id"] for each in message["tool_calls"]] == ["c1"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [("stop", "stop"), ("tool_calls", "stop"), ("max_tokens", "length"), (None, "stop")],
)
def test_the_reason_is_one_that_clients_know(raw: str | None, reason: str) -> None:
    body = completion(said(text="Hi."), raw or "")
    choice = given(body, Assistant("Hi.", finish_reason=raw))["choices"][0]
    assert choice["finish_reason"] == reason


def test_a_delta_in_place_of_a_message_is_read_as_one() -> None:
    body = completion({})
    body["choices"] = [{"index": 0, "delta": said(text="Hi."), "finish_reason": "stop"}]
    choice = given(body, Assistant("Hi."))["choices"][0]
    assert choice["message"]["content"] == "Hi."
    assert "delta" not in choice


def test_usage_of_several_requests_is_their_sum() -> None:
    usage = Usage(3, 4, 7, cached_tokens=1, reasoning_tokens=2, cost=0.5)
    last = {"prompt_tokens": 1, "prompt_tokens_details": {"audio": 0}, "other": 1}
    assert total_usage(last, usage) == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "other": 1,
        "prompt_tokens_details": {"audio": 0, "cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
        "cost": 0.5,
    }
    assert total_usage(None, Usage())["total_tokens"] == 0
    body = repair_completion(completion(said(text="Hi.")), Assistant("Hi."), HEAD, {}, usage)
    assert body["usage"]["total_tokens"] == 7


# A stream on its way to the client: what was sent cannot be unsaid


def live(*, buffered: bool = False) -> StreamedReply:
    return StreamedReply(
        ChatEventWriter(wants_usage=False), {"id": "x", "model": "m"}, buffered=buffered
    )


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
    assert stream.has_begun


def test_a_stream_that_has_said_nothing_begins_with_its_first_word() -> None:
    stream = live()
    assert not stream.has_begun
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
    stream.start_next_request()
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
    stream.mark_broken()
    stream.start_next_request()
    rest = stream.finish(completion(said(text="It is 13.")))
    error = error_in(rest)
    assert error is not None
    assert error["code"] == "STREAM_CHANGED"
    assert "[DONE]" not in read(rest)


def test_another_text_follows_one_that_was_said_to_its_end() -> None:
    stream = live()
    stream.show(TextDelta("I will look."))
    stream.start_next_request()
    stream.mark_broken()  # nothing of this one was sent
    stream.start_next_request()
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
    stream.start_next_request()
    assert text_in(stream.show(TextDelta("Hi"))) == "Hi"


def test_thoughts_go_out_in_their_own_field_and_are_not_said_twice() -> None:
    stream = live()
    (_, chunk) = read(stream.show(ReasoningDelta("Hm", "reasoning")))
    assert chunk["choices"][0]["delta"] == {"reasoning": "Hm"}
    assert stream.show(ReasoningDelta("x", "reasoning_details")) == b""
    stream.start_next_request()
    assert stream.show(ReasoningDelta("Other", "reasoning")) == b""
    rest = read(stream.finish(completion(said(text="A", reasoning="Other", details=[1]))))
    deltas = [item["choices"][0]["delta"] for item in rest[:-1]]
    assert deltas == [{"details": [1]}, {"content": "A"}, {}]


def test_a_failure_is_told() -> None:
    error = error_in(live().fail(ErrorReply(502, "gone", "CONNECTION_ERROR")))
    assert error is not None
    assert error["message"] == "gone"


# Requests in which there is nothing to heal pass through unread


TOOLS = {"model": "m", "messages": [USER], "tools": [WEATHER]}


def test_a_request_with_tools_is_read() -> None:
    assert not is_passthrough(TOOLS)
    assert not is_passthrough(
        TOOLS | {"n": 1, "response_format": {"type": "text"}, "tool_choice": "auto"}
    )
    form = {"response_format": {"type": "json_object"}}
    assert not is_passthrough(TOOLS | form | {"tool_choice": "none"})
    assert not is_passthrough(TOOLS | form | {"parallel_tool_calls": False})
    assert not is_passthrough(TOOLS | {"tools": [WEATHER, {"type": "web_search"}, 7]})
    # A model may call although it must not.
    assert not is_passthrough(TOOLS | {"tool_choice": "none"})


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": None},
        {"tools": []},
        {"tools": [WEATHER, {"type": "custom", "custom": {"name": "patch"}}]},
        {"tool_choice": ["auto"]},
        {"n": 2},
        {"n": [1]},
        {"logprobs": True},
        {"audio": {"voice": "x"}},
        {"response_format": {"type": "json_object"}},
        {"messages": []},
        {"messages": "hello"},
        {"messages": [USER, "hello"]},
        {"model": None},
    ],
    ids=str,
)
def test_any_other_passes(changes: dict[str, Any]) -> None:
    assert is_passthrough(TOOLS | changes)
