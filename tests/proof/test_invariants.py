"""The checker of what is read and sent finds what it is for."""

import math

import pytest

from proof.invariants import reply_problems, request_problems
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Problem, Reply, ToolCall

PROBLEM = Problem(ErrorCode.ARGUMENT_ERROR, "no")


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (None, "neither a reply nor a fault"),
        (Fault("X", "y"), "a fault of no code"),  # type: ignore[arg-type]  # on purpose
        (Reply("", (ToolCall(" ", "add"),)), "a blank id"),
        (Reply("", (ToolCall("a", "add"), ToolCall("a", "add"))), "not unique"),
        (Reply("", (ToolCall("old", "add"),)), "not unique"),
        (Reply("", (ToolCall("a", "sub"),)), "no known tool"),
        (Reply("", (ToolCall("a", "add", {"x": math.inf}),)), "no JSON can hold"),
        (Reply("\ud800"), "cannot be written down"),
    ],
)
def test_what_is_not_sound_is_told(read: object, told: str) -> None:
    assert any(told in problem for problem in reply_problems(read, ["add"], ["old"]))


def test_what_is_sound_passes() -> None:
    calls = (ToolCall("a", "add", {"x": [1.5]}), ToolCall("b", "what ever", problem=PROBLEM))
    assert list(reply_problems(Reply("Hi.", calls), ["add"], ["old"])) == []
    assert list(reply_problems(Fault(ErrorCode.AUTH, "no"), ["add"])) == []


def _calling(*ids: str) -> JSON:
    function = {"name": "add", "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": each, "function": function} for each in ids]}


def _told(call_id: str) -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": "{}"}


def test_a_request_that_answers_every_call_once_passes() -> None:
    user = {"role": "user", "content": "hi"}
    messages = [user, _calling("a", "b"), _told("a"), _told("b"), _calling("c"), _told("c"), user]
    assert list(request_problems(messages)) == []


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([_calling("a")], "calls without an answer: ['a']"),
        ([_calling("a"), {"role": "user"}, _told("a")], "before user"),
        ([_told("a")], "an answer to no call: 'a'"),
        ([_calling("a"), _told("a"), _told("a")], "an answer to no call"),
        ([_calling("a"), _told("a"), _calling("a"), _told("a")], "used before"),
        ([_calling("a"), _told("a"), _told("b")], "differ"),
    ],
)
def test_a_request_that_does_not_is_told(messages: list[JSON], told: str) -> None:
    assert any(told in problem for problem in request_problems(messages))


def test_what_no_provider_accepts_is_told() -> None:
    call = {"id": "a", "function": {"name": "a b", "arguments": "[]"}}
    found = list(request_problems([{"role": "assistant", "tool_calls": [call]}, _told("a")]))
    assert ["name" in found[0], "arguments" in found[1]] == [True, True]
