"""What the upstream is sent: the client's bytes, but for what must change."""

import json
from typing import Any

import msgspec
import pytest

from surecall.core.outbound import Request
from surecall.proxy.faces.face import Asked
from surecall.proxy.healing.history import entries
from surecall.proxy.healing.outbound import OWNED, Outbound
from surecall.proxy.healing.settings import ProxySettings
from surecall.proxy.healing.tools import Offer
from surecall.settings.presets import raw
from surecall.values.types import Assistant, Message, Plan, ToolCall, ToolResult, User
from surecall.wire.history_codec import NAME
from tests.support.proxy import USER, asked, call, known, result, said, tool

TURN = (said(call("c1", city="Oslo"), text=""), result("c1"))


def composed(
    request: Asked,
    *more: Message,
    config: dict[str, Any] | None = None,
    drop: tuple[str, ...] = (),
    lessons: tuple[str, ...] = (),
    tool_choice: Any = None,
) -> Request:
    offer = Offer(request.body["tools"])
    history = entries(request.body["messages"], known(), offer.renamed)
    choice = request.body.get("tool_choice")
    settled = ProxySettings().config("m", choice, 0).replace(**(config or {}))
    plan = Plan(
        "m",
        (*(entry.value for entry in history), *more),
        offer.specs,
        settled.tool_choice if tool_choice is None else tool_choice,
        options={k: v for k, v in request.body.items() if k not in {*OWNED, *drop}},
        lessons=lessons,
    )
    outbound = Outbound(request, history, offer, settled)
    assert outbound.speak(plan) is plan
    return outbound.compose(plan)


def body(request: Request) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(request.body)
    return decoded


def test_a_request_that_needs_no_change_goes_out_byte_for_byte() -> None:
    given = asked(*TURN, temperature=0.10, seed=1)
    odd = json.dumps(given.body, indent=3).encode() + b"\n "
    request = composed(msgspec.structs.replace(given, data=odd))

    assert request.body == odd
    assert (request.messages_count, request.tools_count) == (3, 1)


def test_in_a_request_that_changes_everything_else_keeps_its_bytes() -> None:
    data = (
        b'{"seed" : 1.50, "messages": [ {"role": "user",  "content":"Weather in Oslo?"} ],\n'
        b' "model":"m", "tools": [], "x": {"b": 1e2}}'
    )
    given = Asked(msgspec.json.decode(data), {}, data=data)
    request = composed(given, Assistant("Hi."), User("Go on.", nudge=True))

    assert request.body == (
        b'{"seed":1.50,"messages":[{"role": "user",  "content":"Weather in Oslo?"},'
        b'{"role":"assistant","content":"Hi."},{"role":"user","content":"Go on."}],'
        b'"model":"m","tools":[],"x":{"b": 1e2}}'
    )


def test_a_request_of_another_face_is_written_from_its_values() -> None:
    given = msgspec.structs.replace(asked(*TURN), data=b"")
    assert body(composed(given)) == given.body
    assert body(composed(given, User("More.")))["messages"][-1]["content"] == "More."


def test_a_blank_reply_is_left_out_and_the_loops_words_join_the_users() -> None:
    request = composed(asked(), Assistant(""), User("Your reply was empty.", nudge=True))

    (only,) = body(request)["messages"]
    assert only["role"] == "user"
    assert only["content"].startswith(str(USER["content"]))
    assert only["content"].endswith("Your reply was empty.")


def test_a_refused_call_goes_back_with_its_refusal() -> None:
    turn = Assistant("", (ToolCall("c2", "get_weather", {"city": 1}),))
    refusal = ToolResult("c2", "get_weather", ok=False, content="{}")
    request = composed(asked(*TURN), turn, refusal)

    assert [message["role"] for message in body(request)["messages"]][-2:] == ["assistant", "tool"]


@pytest.mark.parametrize(
    ("config", "lessons", "place", "field", "value"),
    [
        ({"name_tool_messages": True}, (), 2, "name", "get_weather"),
        ({}, (NAME,), 2, "name", "get_weather"),
        ({"short_call_ids": True}, (), 2, "tool_call_id", "Fjt5CIkBS"),
        ({}, ("content:null",), 1, "content", None),
        (
            {"message_transforms": ("assistant_tool_calls_content_null_if_blank",)},
            (),
            1,
            "content",
            None,
        ),
    ],
)
def test_messages_are_fitted_to_the_upstream(
    config: dict[str, Any], lessons: tuple[str, ...], place: int, field: str, value: Any
) -> None:
    messages = body(composed(asked(*TURN), config=config, lessons=lessons))["messages"]

    if field == "tool_call_id":
        assert len(messages[place][field]) == 9
        assert messages[1]["tool_calls"][0]["id"] == messages[place][field]
    else:
        assert messages[place][field] == value
    assert messages[0] == USER


def test_a_result_that_has_its_name_keeps_it() -> None:
    named = asked(TURN[0], TURN[1] | {"name": "mine"})
    assert composed(named, config={"name_tool_messages": True}).body == named.data


def test_a_word_stands_between_a_result_and_the_user_where_that_is_wanted() -> None:
    given = asked(*TURN, {"role": "user", "content": "And now?"})
    messages = body(composed(given, config={"bridge_user_after_tool": True}))["messages"]

    assert [message["role"] for message in messages][-3:] == ["tool", "assistant", "user"]


def test_options_that_are_refused_are_left_out() -> None:
    given = asked(parallel_tool_calls=True, stream_options={"include_usage": True}, seed=1)
    request = composed(
        given, drop=("stream_options",), config={"unsupported_options": ("parallel_tool_calls",)}
    )
    assert "parallel_tool_calls" not in body(request)
    assert "stream_options" not in body(request)
    assert body(request)["seed"] == 1


def test_tools_are_fitted_and_renamed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "x"}}}
    given = asked(
        tools=[tool("a.b", parameters=schema), {"type": "web_search"}],
        tool_choice={"type": "function", "function": {"name": "a.b"}},
    )
    sent = body(composed(given, lessons=("schema:format",)))

    assert sent["tools"][0]["function"]["name"] == "a_b"
    assert sent["tools"][0]["function"]["parameters"]["properties"] == {"a": {"type": "string"}}
    assert sent["tools"][1] == {"type": "web_search"}
    assert sent["tool_choice"]["function"]["name"] == "a_b"


def test_a_demand_that_is_refused_becomes_a_wish() -> None:
    given = asked(tool_choice="required")
    assert composed(given).body == given.data
    assert body(composed(given, tool_choice="auto"))["tool_choice"] == "auto"


def test_a_request_may_have_no_tools() -> None:
    given = msgspec.structs.replace(asked(tools=()), data=b"")
    without = {key: value for key, value in given.body.items() if key != "tools"}
    outbound = Outbound(msgspec.structs.replace(given, body=without), (), Offer([]), raw())
    sent = outbound.compose(Plan("m", (User("Hi."),)))
    assert "tools" not in body(sent)
