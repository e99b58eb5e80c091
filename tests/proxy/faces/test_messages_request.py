"""Requests of the Messages API: what goes on, what is left out, what is refused."""

from typing import Any

import pytest

from surecall.proxy.faces.face import Refused
from surecall.proxy.faces.messages import Messages
from surecall.values.types import JSON
from tests.support.messages_face import TOOL, asked, request

PARAMETERS = {"type": "object"}
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS},
}
MARK = {"type": "ephemeral", "ttl": "1h"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
ASKED_FORMAT = {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA}}
PLAIN = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}
LONG_USER = '{"device_id":"' + 64 * "f" + '","session_id":"1"}'


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({}, {}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"stop_sequences": ["END"]}, {"stop": ["END"]}),
        ({"stop_sequences": []}, {}),
        ({"metadata": {"user_id": "u-1"}}, {"user": "u-1"}),
        ({"metadata": {"user_id": ""}}, {}),
        ({"metadata": {}}, {}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False}, {}),
        ({"output_config": {"format": FORMAT}}, {"response_format": ASKED_FORMAT}),
        ({"output_format": FORMAT}, {"response_format": ASKED_FORMAT}),
        ({"output_config": {"effort": "high"}}, {}),
        ({"tools": [TOOL]}, {"tools": [ADD]}),
        ({"tools": [TOOL | {"type": "custom"}]}, {"tools": [ADD]}),
        ({"tools": [TOOL | {"strict": True, "defer_loading": True}]}, {"tools": [ADD]}),
        ({"tools": [TOOL | {"cache_control": MARK}]}, {"tools": [ADD]}),
        ({"tools": [SEARCH, TOOL]}, {"tools": [ADD]}),
        ({"tools": [SEARCH]}, {}),
        ({"tools": []}, {}),
    ],
)
def test_a_field_goes_on_as_a_chat_completion_has_it(given: JSON, becomes: JSON) -> None:
    assert asked(**given).body == PLAIN | becomes


def test_a_tool_without_a_description_has_none() -> None:
    (tool,) = asked(tools=[{"name": "now", "input_schema": PARAMETERS}]).body["tools"]

    assert tool == {"type": "function", "function": {"name": "now", "parameters": PARAMETERS}}


@pytest.mark.parametrize(
    "field",
    [
        {"top_k": 5},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        {"service_tier": "auto"},
        {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
        {"betas": ["x"]},
        {"speed": "fast"},
        {"cache_control": MARK},
        {"mcp_servers": []},
        {"container": None},
        {"anything": 1},
    ],
)
def test_what_only_anthropic_understands_is_left_out(field: JSON) -> None:
    assert asked(**field).body == PLAIN


def test_a_user_id_that_openai_would_find_too_long_is_made_short_and_stays_the_same() -> None:
    users = {asked(metadata={"user_id": LONG_USER}).body["user"] for _ in range(2)}

    assert len(users) == 1
    (user,) = users
    assert user.startswith("user_")
    assert len(user) <= 64


@pytest.mark.parametrize(
    ("choice", "becomes"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "add"},
            {"tool_choice": {"type": "function", "function": {"name": "add"}}},
        ),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
        ({"type": "auto", "disable_parallel_tool_use": False}, {"tool_choice": "auto"}),
    ],
)
def test_a_choice_of_tools_goes_on(choice: JSON, becomes: JSON) -> None:
    assert asked(tools=[TOOL], tool_choice=choice).body == PLAIN | {"tools": [ADD]} | becomes


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_a_choice_without_tools_is_left_out(kind: str) -> None:
    choice = {"type": kind, "disable_parallel_tool_use": True}

    assert asked(tool_choice=choice).body == PLAIN


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"model": 7}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi."}, "messages"),
        ({"mcp_servers": [{"type": "url", "url": "https://x"}]}, "mcp_servers"),
        ({"container": "c-1"}, "container"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"name": "add"}]}, "tools.0"),
        ({"tools": [TOOL, 7]}, "tools.1"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "sub"}}, "tool_choice"),
        ({"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}}, "tool_choice"),
        ({"tools": [SEARCH], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "some"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice"),
    ],
)
def test_what_no_chat_completion_could_answer_is_refused(given: JSON, param: str) -> None:
    with pytest.raises(Refused) as refused:
        asked(**given)

    assert (refused.value.status, refused.value.param) == (400, param)
    assert refused.value.message.startswith(param)


def test_marks_of_a_cache_are_kept_on_demand() -> None:
    marked = {"type": "text", "text": "Hi.", "cache_control": MARK}
    fields: dict[str, Any] = {
        "system": [marked],
        "tools": [TOOL | {"cache_control": MARK}],
        "messages": [
            {"role": "user", "content": [marked]},
            {"role": "assistant", "content": [marked, {"type": "text", "text": "Ho."}]},
        ],
        "cache_control": MARK,
    }

    body = Messages(keeps_cache_control=True).parse(request(**fields)).body

    assert [message["content"][0] for message in body["messages"]] == 3 * [marked]
    assert body["messages"][2]["content"][1:] == [{"type": "text", "text": "Ho."}]
    assert body["tools"] == [ADD | {"cache_control": MARK}]
    assert body["cache_control"] == MARK
