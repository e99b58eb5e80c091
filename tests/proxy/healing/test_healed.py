"""A healed answer: what was right stays as it came, what was bent is put right."""

from typing import Any

import pytest

from surecall.proxy.healing.healed import Head, healed, summed
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Assistant, Problem, ToolCall, Usage
from surecall.wire.messages import encode
from tests.support.proxy import call, completion, said

HEAD = Head("chatcmpl-x", 9, "asked")
OSLO = ToolCall("c1", "get_weather", {"city": "Oslo"})


def given(body: Any, turn: Assistant, **names: str) -> JSON:
    return healed(body, turn, HEAD, names)


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
    assert summed(last, usage) == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "other": 1,
        "prompt_tokens_details": {"audio": 0, "cached_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
        "cost": 0.5,
    }
    assert summed(None, Usage())["total_tokens"] == 0
    body = healed(completion(said(text="Hi.")), Assistant("Hi."), HEAD, {}, usage)
    assert body["usage"]["total_tokens"] == 7
