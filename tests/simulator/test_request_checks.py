"""Tests of `surecall.simulator.request_checks`."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import (
    broken_seals,
    check_request,
    is_signature,
    seal_turn,
    signature,
)
from surecall.simulator.violations import Violation
from surecall.testing import calls
from surecall.values.types import JSON
from tests.support.simulator import (
    LEGAL,
    OWN_ID,
    USER,
    broken_rules,
    checked_request,
    ping_call,
    ping_tool,
    ping_turn,
    pong,
    signed,
)

# What the strict simulator refuses in a request, rule by rule, and what it lets through


COMMON = PROVIDER_RULES["common"]


def form(name: str, schema: Any) -> JSON:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


def test_a_legal_conversation_has_no_violation() -> None:
    assert check_request(LEGAL, COMMON) == []


def test_parts_as_content_and_an_empty_tool_result_are_legal() -> None:
    parts = [{"type": "text", "text": "Go."}]
    body = checked_request(
        {"role": "user", "content": parts}, ping_turn(ping_call()), pong(content="")
    )
    assert check_request(body, COMMON) == []


@pytest.mark.parametrize("wanted", [{"type": "text"}, {"type": "json_object"}, form("a", {})])
def test_a_form_may_be_asked_for(wanted: JSON) -> None:
    assert check_request(checked_request(USER, response_format=wanted), COMMON) == []
    refusing = check_request(
        checked_request(USER, response_format=wanted), PROVIDER_RULES["no-format"]
    )
    assert [violation.where for violation in refusing] == ["response_format"]


def test_two_calls_may_be_answered_in_any_order() -> None:
    body = checked_request(USER, ping_turn(ping_call("a"), ping_call("b")), pong("b"), pong("a"))
    assert check_request(body, COMMON) == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (checked_request(), "messages_empty"),
        ({"model": "m"}, "messages_empty"),
        (checked_request(USER, tools=[]), "tools_empty"),
        (
            checked_request(USER, tools=[ping_tool(f"t{number}") for number in range(129)]),
            "tools_many",
        ),
        (checked_request(USER, tools=[ping_tool("state.get")]), "tool_name"),
        (checked_request(USER, tools=[ping_tool("x" * 65)]), "tool_name"),
        (checked_request(USER, tools=[ping_tool(), ping_tool()]), "tool_twice"),
        (
            checked_request(
                USER, tools=[{"type": "function", "function": {"name": "a", "parameters": {}}}]
            ),
            "tool_schema",
        ),
        (checked_request(USER, response_format="json"), "format_unknown"),
        (checked_request(USER, response_format={"type": "grammar"}), "format_unknown"),
        (checked_request(USER, response_format=form("a b", {})), "format_unknown"),
        (checked_request(USER, response_format=form("a", None)), "format_unknown"),
        (checked_request(USER, tool_choice="perhaps"), "choice_unknown"),
        (
            checked_request(USER, tool_choice={"type": "function", "function": {"name": "other"}}),
            "choice_unknown",
        ),
        ({"messages": [USER], "tool_choice": "auto"}, "choice_without_tools"),
        ({"messages": [USER], "parallel_tool_calls": False}, "parallel_without_tools"),
        (checked_request("hello"), "role_unknown"),
        (checked_request({"role": "robot", "content": "x"}), "role_unknown"),
        (checked_request({"role": "user", "content": None}), "content_type"),
        (checked_request({"role": "user", "content": 3}), "content_type"),
        (checked_request({"role": "user", "content": "  "}), "content_empty"),
        (checked_request({"role": "user", "content": []}), "content_empty"),
        (checked_request(USER, {"role": "assistant", "content": ""}), "content_empty"),
        (
            checked_request(USER, ping_turn(ping_call(), function_call={"name": "ping"}), pong()),
            "both_call_forms",
        ),
        (
            checked_request(USER, {"role": "assistant", "content": "x", "tool_calls": []}),
            "calls_empty",
        ),
        (checked_request(USER, ping_turn(ping_call(type="tool")), pong()), "call_type"),
        (checked_request(USER, ping_turn(ping_call("")), pong("")), "id_missing"),
        (checked_request(USER, ping_turn(ping_call(name="state.get")), pong()), "name_illegal"),
        (checked_request(USER, ping_turn(ping_call(function=None)), pong()), "name_illegal"),
        (checked_request(USER, ping_turn(ping_call(arguments={})), pong()), "arguments_type"),
        (checked_request(USER, ping_turn(ping_call(arguments=None)), pong()), "arguments_type"),
        (checked_request(USER, ping_turn(ping_call(arguments="[1]")), pong()), "arguments_object"),
        (
            checked_request(USER, ping_turn(ping_call(arguments="{'a': 1}")), pong()),
            "arguments_object",
        ),
        (checked_request(USER, ping_turn(ping_call(arguments="")), pong()), "arguments_object"),
        (
            checked_request(USER, ping_turn(ping_call()), pong(), ping_turn(ping_call()), pong()),
            "id_twice",
        ),
        (
            checked_request(USER, ping_turn(ping_call("a"), ping_call("a")), pong("a"), pong("a")),
            "id_twice",
        ),
        (checked_request(USER, ping_turn(ping_call())), "unanswered"),
        (checked_request(USER, ping_turn(ping_call()), USER, pong()), "unanswered"),
        (checked_request(USER, ping_turn(ping_call()), USER, pong()), "orphan"),
        (checked_request(USER, pong()), "orphan"),
        (checked_request(USER, ping_turn(ping_call()), pong(), pong()), "answered_twice"),
    ],
)
def test_what_every_strict_provider_refuses(body: JSON, rule: str) -> None:
    assert rule in broken_rules(body)


def test_one_mistake_is_one_violation_with_its_place_and_the_words_of_a_provider() -> None:
    body = checked_request(USER, ping_turn(ping_call("call_7")))
    assert check_request(body, COMMON) == [
        Violation(
            "unanswered",
            "messages",
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            "call_7",
        )
    ]


def test_a_tool_choice_may_name_a_tool_or_be_left_out() -> None:
    named = {"type": "function", "function": {"name": "ping"}}
    assert broken_rules(checked_request(USER, tool_choice=named)) == []
    assert broken_rules({"messages": [USER], "tool_choice": "none"}) == []


def test_the_signature_belongs_to_the_first_of_parallel_calls() -> None:
    first = ping_call(OWN_ID, **signed(signature("abc")))
    calls = ping_turn(first, ping_call("function-call-8"))
    body = checked_request(
        USER, calls, pong(OWN_ID, name="ping"), pong("function-call-8", name="ping")
    )
    assert broken_rules(body, "gemini") == []


@pytest.mark.parametrize("profile", PROVIDER_RULES)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body.update(messages=None),
        lambda body: body.update(messages={"role": "user"}),
        lambda body: body.update(tools="all", tool_choice=7),
        lambda body: body.update(tools=[None, {"function": None}, {"function": {"name": 3}}]),
        lambda body: body["messages"][2].update(tool_calls="none"),
        lambda body: body["messages"][2].update(tool_calls=[None, {}]),
        lambda body: body["messages"][2]["tool_calls"][0].update(id=3, extra_content=[]),
        lambda body: body["messages"][2].update(tool_calls=[ping_call(arguments="[" * 100_000)]),
    ],
)
def test_no_request_makes_the_checker_raise(profile: str, spoil: Callable[[JSON], None]) -> None:
    body = copy.deepcopy(LEGAL)
    spoil(body)
    assert check_request(body, PROVIDER_RULES[profile])


# A sealed turn is whole, or the place of the broken seal is named


def seals_turn() -> JSON:
    message: JSON = calls("ping")["choices"][0]["message"]
    return seal_turn(message, "abc")


def test_a_turn_that_comes_back_as_it_was_is_whole() -> None:
    assert broken_seals(seals_turn()) == []


@pytest.mark.parametrize("value", [None, "", "abc", "abc.def", 7, [], {}])
def test_a_signature_that_was_changed_is_none(value: Any) -> None:
    assert is_signature(signature("abc"))
    assert not is_signature(value)


@pytest.mark.parametrize("place", ["encrypted_content", "content", "thinking_blocks"])
@pytest.mark.parametrize("value", [None, "", [], ["a"], [{"signature": signature("abc")}]])
def test_a_place_of_the_message_is_named_where_the_seal_is_lost(place: str, value: Any) -> None:
    assert broken_seals(seals_turn() | {place: value}) == [place]


@pytest.mark.parametrize("place", ["seal", "function"])
def test_a_place_of_a_call_is_named_where_the_seal_is_lost(place: str) -> None:
    message = seals_turn()
    values: tuple[Any, ...] = (None, {}, "a")
    for value in values:
        message["tool_calls"][0][place] = value
        assert broken_seals(message) == [f"tool_calls[0].{place}"]
