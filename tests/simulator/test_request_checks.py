"""What the strict simulator refuses in a request, rule by rule, and what it lets through."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check
from surecall.simulator.seals import signature
from surecall.simulator.violations import Violation
from surecall.values.types import JSON

COMMON = PROVIDER_RULES["common"]


def tool(name: str = "ping") -> JSON:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def call(call_id: str = "call_1", name: str = "ping", arguments: Any = "{}", **extra: Any) -> JSON:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function} | extra


def turn(*calls: JSON, **extra: Any) -> JSON:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)} | extra


def result(call_id: str = "call_1", **extra: Any) -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": "pong"} | extra


USER: JSON = {"role": "user", "content": "Go."}


def request(*messages: Any, **options: Any) -> JSON:
    return {"model": "m", "messages": list(messages), "tools": [tool()]} | options


def form(name: str, schema: Any) -> JSON:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


LEGAL = request({"role": "system", "content": "Be brief."}, USER, turn(call()), result(), USER)


def rules(body: JSON, profile: str = "common") -> list[str]:
    return [violation.rule for violation in check(body, PROVIDER_RULES[profile])]


def test_a_legal_conversation_has_no_violation() -> None:
    assert check(LEGAL, COMMON) == []


def test_parts_as_content_and_an_empty_tool_result_are_legal() -> None:
    parts = [{"type": "text", "text": "Go."}]
    body = request({"role": "user", "content": parts}, turn(call()), result(content=""))
    assert check(body, COMMON) == []


@pytest.mark.parametrize("wanted", [{"type": "text"}, {"type": "json_object"}, form("a", {})])
def test_a_form_may_be_asked_for(wanted: JSON) -> None:
    assert check(request(USER, response_format=wanted), COMMON) == []
    refusing = check(request(USER, response_format=wanted), PROVIDER_RULES["no-format"])
    assert [violation.where for violation in refusing] == ["response_format"]


def test_two_calls_may_be_answered_in_any_order() -> None:
    body = request(USER, turn(call("a"), call("b")), result("b"), result("a"))
    assert check(body, COMMON) == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (request(), "messages_empty"),
        ({"model": "m"}, "messages_empty"),
        (request(USER, tools=[]), "tools_empty"),
        (request(USER, tools=[tool(f"t{number}") for number in range(129)]), "tools_many"),
        (request(USER, tools=[tool("state.get")]), "tool_name"),
        (request(USER, tools=[tool("x" * 65)]), "tool_name"),
        (request(USER, tools=[tool(), tool()]), "tool_twice"),
        (
            request(
                USER, tools=[{"type": "function", "function": {"name": "a", "parameters": {}}}]
            ),
            "tool_schema",
        ),
        (request(USER, response_format="json"), "format_unknown"),
        (request(USER, response_format={"type": "grammar"}), "format_unknown"),
        (request(USER, response_format=form("a b", {})), "format_unknown"),
        (request(USER, response_format=form("a", None)), "format_unknown"),
        (request(USER, tool_choice="perhaps"), "choice_unknown"),
        (
            request(USER, tool_choice={"type": "function", "function": {"name": "other"}}),
            "choice_unknown",
        ),
        ({"messages": [USER], "tool_choice": "auto"}, "choice_without_tools"),
        ({"messages": [USER], "parallel_tool_calls": False}, "parallel_without_tools"),
        (request("hello"), "role_unknown"),
        (request({"role": "robot", "content": "x"}), "role_unknown"),
        (request({"role": "user", "content": None}), "content_type"),
        (request({"role": "user", "content": 3}), "content_type"),
        (request({"role": "user", "content": "  "}), "content_empty"),
        (request({"role": "user", "content": []}), "content_empty"),
        (request(USER, {"role": "assistant", "content": ""}), "content_empty"),
        (request(USER, turn(call(), function_call={"name": "ping"}), result()), "both_call_forms"),
        (request(USER, {"role": "assistant", "content": "x", "tool_calls": []}), "calls_empty"),
        (request(USER, turn(call(type="tool")), result()), "call_type"),
        (request(USER, turn(call("")), result("")), "id_missing"),
        (request(USER, turn(call(name="state.get")), result()), "name_illegal"),
        (request(USER, turn(call(function=None)), result()), "name_illegal"),
        (request(USER, turn(call(arguments={})), result()), "arguments_type"),
        (request(USER, turn(call(arguments=None)), result()), "arguments_type"),
        (request(USER, turn(call(arguments="[1]")), result()), "arguments_object"),
        (request(USER, turn(call(arguments="{'a': 1}")), result()), "arguments_object"),
        (request(USER, turn(call(arguments="")), result()), "arguments_object"),
        (request(USER, turn(call()), result(), turn(call()), result()), "id_twice"),
        (request(USER, turn(call("a"), call("a")), result("a"), result("a")), "id_twice"),
        (request(USER, turn(call())), "unanswered"),
        (request(USER, turn(call()), USER, result()), "unanswered"),
        (request(USER, turn(call()), USER, result()), "orphan"),
        (request(USER, result()), "orphan"),
        (request(USER, turn(call()), result(), result()), "answered_twice"),
    ],
)
def test_what_every_strict_provider_refuses(body: JSON, rule: str) -> None:
    assert rule in rules(body)


def test_one_mistake_is_one_violation_with_its_place_and_the_words_of_a_provider() -> None:
    body = request(USER, turn(call("call_7")))
    assert check(body, COMMON) == [
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
    assert rules(request(USER, tool_choice=named)) == []
    assert rules({"messages": [USER], "tool_choice": "none"}) == []


def signed(text: str) -> JSON:
    return {"extra_content": {"google": {"thought_signature": text}}}


OWN = "function-call-7"


def test_the_signature_belongs_to_the_first_of_parallel_calls() -> None:
    first = call(OWN, **signed(signature("abc")))
    calls = turn(first, call("function-call-8"))
    body = request(USER, calls, result(OWN, name="ping"), result("function-call-8", name="ping"))
    assert rules(body, "gemini") == []


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
        lambda body: body["messages"][2].update(tool_calls=[call(arguments="[" * 100_000)]),
    ],
)
def test_no_request_makes_the_checker_raise(profile: str, spoil: Callable[[JSON], None]) -> None:
    body = copy.deepcopy(LEGAL)
    spoil(body)
    assert check(body, PROVIDER_RULES[profile])
