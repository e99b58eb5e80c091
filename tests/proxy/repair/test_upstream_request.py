"""Tests of `surecall.proxy.repair.upstream_request`."""

import json
from typing import Any

import msgspec
import pytest

from surecall.core.request_building import Request
from surecall.proxy.repair import upstream_request
from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.request_history import build_entries
from surecall.proxy.repair.upstream_request import (
    RUNNER_FIELDS,
    RequestTools,
    UpstreamRequestWriter,
    build_tools,
    cached_tools,
    function_name,
)
from surecall.settings.presets import raw
from surecall.values.types import Assistant, Message, Plan, ToolCall, ToolResult, User
from surecall.wire.apis.adapter import ClientRequest
from surecall.wire.request_adaptations import TOOL_NAME
from tests.support.proxy import USER, WEATHER, asked, call, known, result, said, tool

# What the upstream is sent: the client's bytes, but for what must change


TURN = (said(call("c1", city="Oslo"), text=""), result("c1"))


def composed(
    request: ClientRequest,
    *more: Message,
    config: dict[str, Any] | None = None,
    drop: tuple[str, ...] = (),
    lessons: tuple[str, ...] = (),
    tool_choice: Any = None,
) -> Request:
    offer = RequestTools(request.body["tools"])
    history = build_entries(request.body["messages"], known(), offer.upstream_names)
    choice = request.body.get("tool_choice")
    settled = ProxySettings().config_for("m", choice, 0).replace(**(config or {}))
    plan = Plan(
        "m",
        (*(entry.value for entry in history), *more),
        offer.specs,
        settled.tool_choice if tool_choice is None else tool_choice,
        options={k: v for k, v in request.body.items() if k not in {*RUNNER_FIELDS, *drop}},
        lessons=lessons,
    )
    upstream_request = UpstreamRequestWriter(request, history, offer, settled)
    assert upstream_request.encode_plan(plan) is plan
    return upstream_request.build(plan)


def body(request: Request) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(request.body)
    return decoded


def test_a_request_that_needs_no_change_goes_out_byte_for_byte() -> None:
    given = asked(*TURN, temperature=0.10, seed=1)
    odd = json.dumps(given.body, indent=3).encode() + b"\n "
    request = composed(msgspec.structs.replace(given, client_bytes=odd))

    assert request.body == odd
    assert (request.messages_count, request.tools_count) == (3, 1)


def test_in_a_request_that_changes_everything_else_keeps_its_bytes() -> None:
    data = (
        b'{"seed" : 1.50, "messages": [ {"role": "user",  "content":"Weather in Oslo?"} ],\n'
        b' "model":"m", "tools": [], "x": {"b": 1e2}}'
    )
    given = ClientRequest(msgspec.json.decode(data), {}, client_bytes=data)
    request = composed(given, Assistant("Hi."), User("Go on.", nudge=True))

    assert request.body == (
        b'{"seed":1.50,"messages":[{"role": "user",  "content":"Weather in Oslo?"},'
        b'{"role":"assistant","content":"Hi."},{"role":"user","content":"Go on."}],'
        b'"model":"m","tools":[],"x":{"b": 1e2}}'
    )


def test_a_request_of_another_face_is_written_from_its_values() -> None:
    given = msgspec.structs.replace(asked(*TURN), client_bytes=b"")
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
        ({}, (TOOL_NAME,), 2, "name", "get_weather"),
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
    assert composed(named, config={"name_tool_messages": True}).body == named.client_bytes


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
    assert composed(given).body == given.client_bytes
    assert body(composed(given, tool_choice="auto"))["tool_choice"] == "auto"


def test_a_request_may_have_no_tools() -> None:
    given = msgspec.structs.replace(asked(tools=()), client_bytes=b"")
    without = {key: value for key, value in given.body.items() if key != "tools"}
    upstream_request = UpstreamRequestWriter(
        msgspec.structs.replace(given, body=without), (), RequestTools([]), raw()
    )
    sent = upstream_request.build(Plan("m", (User("Hi."),)))
    assert "tools" not in body(sent)


# The tools of a request: judged where they can be, sent as they are, named as all take them


ODD = tool("odd", parameters={"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}})


def test_a_function_is_judged_by_its_schema() -> None:
    offer = build_tools([WEATHER])
    found = offer.toolbox.resolve("get-weather")

    assert found is not None
    assert found.validate({}) != ()
    assert [spec.name for spec in offer.specs] == ["get_weather"]
    assert offer.upstream_tools == [WEATHER]


def test_what_cannot_be_judged_is_sent_and_takes_anything() -> None:
    search = {"type": "web_search"}
    offer = RequestTools([ODD, search, tool("free", description=None, parameters=None)])

    assert offer.upstream_tools[1] is search
    assert [spec.name for spec in offer.specs] == ["odd", "free"]
    for spec in offer.specs:
        found = offer.toolbox.resolve(spec.name)
        assert found is not None
        assert found.validate({"anything": [1]}) == ()


def test_names_that_many_refuse_are_sent_in_plain_letters() -> None:
    search = {"type": "web_search"}
    offer = RequestTools([tool("a.b"), tool("a_b"), tool("a.b"), WEATHER, search])

    assert offer.upstream_names == {"a.b": "a_b_2"}
    assert offer.client_names == {"a_b_2": "a.b"}
    assert [function_name(each) for each in offer.upstream_tools[:-1]] == [
        "a_b_2",
        "a_b",
        "get_weather",
    ]
    assert offer.upstream_tools[-1] is search


def test_equal_tools_are_sent_once_and_different_ones_get_names_of_their_own() -> None:
    other = tool("t", description="another")
    offer = RequestTools([tool("t"), tool("t"), other, tool("t_2"), other])

    assert [function_name(each) for each in offer.upstream_tools] == ["t", "t_3", "t_2"]
    assert offer.client_names == {"t_3": "t"}
    assert len(offer.specs) == 3


def test_names_that_are_too_much_alike_are_taken_exactly() -> None:
    offer = RequestTools([tool("a_b"), tool("a-b")])

    for name in ("a_b", "a-b"):
        found = offer.toolbox.resolve(name)
        assert found is not None
        assert found.name == name
    assert offer.toolbox.resolve("A_B") is None
    assert len(offer.specs) == 2


def test_the_same_list_is_prepared_once_unless_it_is_huge() -> None:
    assert build_tools([WEATHER]) is build_tools([WEATHER])
    huge = [tool("large", description="x" * 600_000)]
    assert build_tools(huge) is not build_tools(huge)


def test_the_list_that_was_not_sent_for_longest_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream_request, "_MAX_CACHED", 2)
    first, second, third = ([tool(name)] for name in ("first", "second", "third"))
    kept = build_tools(second)
    build_tools(first)
    assert build_tools(second) is kept
    build_tools(third)
    assert cached_tools(first) is None
    assert cached_tools(second) is kept
