"""Calls that the token limit cuts off: they make progress, and nothing runs before the whole."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import LimitExceeded, RequestFailed, ToolLoopRunner, tool
from surecall.core.cut_calls import _rest_of, refuse_cut_calls
from surecall.testing import Scripted, ScriptedProvider, failure
from surecall.values.errors import ErrorCode
from surecall.values.types import (
    JSON,
    Assistant,
    Plan,
    Problem,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from tests.support.scripted_runs import (
    LONG_ARGUMENTS,
    TOKEN_LIMIT,
    LimitedModel,
    completion_of,
)


def run(model: Any, *, streamed: bool = False, **options: Any) -> tuple[str, list[str]]:
    ran: list[str] = []

    @tool
    def put(value: str = "") -> str:
        """Put a value."""
        ran.append(value)
        return "ok"

    async def stream(runner: ToolLoopRunner) -> str:
        async with runner.stream("Put it.") as events:
            async for _ in events:
                pass
        return events.result.text

    with ScriptedProvider(model, repeat=True) as provider:
        runner = ToolLoopRunner(client=f"{provider.url}/v1", model="m", tools=[put], **options)
        text = asyncio.run(stream(runner)) if streamed else runner.run_sync("Put it.").text
    return text, ran


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_call_of_2000_tokens_is_finished_with_a_limit_of_300(
    *, as_text: bool, streamed: bool
) -> None:
    model = LimitedModel(as_text=as_text)

    text, ran = run(model, streamed=streamed)

    assert (text, ran) == ("Done.", [json.loads(LONG_ARGUMENTS)["value"]])
    assert len(model.requests) == 9


def test_a_limit_that_is_set_is_raised_once() -> None:
    model = LimitedModel(chars=2 * LimitedModel().chars)

    text, ran = run(model, llm_options_defaults={"max_tokens": TOKEN_LIMIT})

    assert (text, len(ran)) == ("Done.", 1)
    assert [request["max_tokens"] for request in model.requests] == [300, 1200, 300]


def test_a_limit_that_the_endpoint_refuses_is_not_raised() -> None:
    limited = LimitedModel()

    def strict(request: JSON) -> JSON | Scripted:
        is_raised = request["max_tokens"] > TOKEN_LIMIT
        reply = limited(request)
        return failure(400, "max_tokens is too large") if is_raised else reply

    text, ran = run(strict, llm_options_defaults={"max_tokens": TOKEN_LIMIT})

    assert (text, len(ran)) == ("Done.", 1)
    assert all(request["tools"] for request in limited.requests)


@pytest.mark.parametrize("status", [400, 401])
def test_other_refusals_still_end_the_run(status: int) -> None:
    limited = LimitedModel()

    def strict(request: JSON) -> JSON | Scripted:
        return limited(request) if len(request["messages"]) < 3 else failure(status, "no")

    with pytest.raises(RequestFailed):
        run(strict)


@pytest.mark.parametrize("destructive", [False, True])
def test_a_destructive_call_is_not_completed_by_text(*, destructive: bool) -> None:
    model = LimitedModel()
    spec = ToolSpec("put", "", {"type": "object", "properties": {}}, destructive=destructive)
    refused = cut_again(model, spec)
    assert ("smaller steps" in refused) is destructive


def cut_again(model: LimitedModel, spec: ToolSpec) -> str:
    problem = Problem(ErrorCode.ARGUMENTS_TRUNCATED, "cut")
    before = Assistant("", (ToolCall("c", "put", problem=problem),))
    codes = (str(ErrorCode.ARGUMENTS_TRUNCATED),)
    answered = ToolResult("c", "put", ok=False, content="{}", error_codes=codes)
    plan = Plan("m", (User("Go."), before, answered), (spec,))
    calls = refuse_cut_calls((ToolCall("d", "put"),), model.whole[:50], plan, 1_000)
    return str(calls[0].problem)


class Unable(LimitedModel):
    """Does not continue what it was asked to."""

    def __init__(self, answer: JSON, reason: str = "stop") -> None:
        super().__init__()
        self.answer, self.reason = answer, reason

    def continued(self, so_far: str) -> JSON:  # noqa: ARG002  # a model that ignores it
        return completion_of(self.answer, self.reason)


def native(arguments: str, name: str = "put") -> JSON:
    function = {"name": name, "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


@pytest.mark.parametrize(
    "answer",
    [
        {"content": "I cannot continue."},
        {"content": ""},
        {"content": LONG_ARGUMENTS[-300:]},
    ],
)
def test_what_does_not_continue_the_call_is_never_joined(answer: JSON) -> None:
    model = Unable(answer)

    with pytest.raises(LimitExceeded, match="MAX_TURNS"):
        run(model, config={"max_turns": 4})
    prompts = [request["messages"][-1]["content"] for request in model.requests]
    assert any("smaller steps" in prompt for prompt in prompts)


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_reply_that_adds_nothing_is_asked_for_smaller_steps(reason: str) -> None:
    model = Unable({"content": ""}, reason)
    with pytest.raises(LimitExceeded):
        run(model, config={"max_turns": 4})


def test_a_model_may_start_over_with_a_shorter_call() -> None:
    text, ran = run(Unable(native('{"value": "short"}'), "tool_calls"))
    assert (text, ran) == ("Done.", ["short"])


class Native(LimitedModel):
    """Continues in the arguments of a call."""

    def continued(self, so_far: str) -> JSON:
        return completion_of(native(so_far[-40:] + self.whole[len(so_far) :]), "tool_calls")


def test_a_call_may_be_continued_in_the_arguments_of_a_call() -> None:
    text, ran = run(Native())
    assert (text, len(ran)) == ("Done.", 1)


@given(st.text(max_size=200), st.text(max_size=60), st.integers(0, 80))
def test_a_join_never_invents_or_loses_a_character(so_far: str, rest: str, size: int) -> None:
    repeated = so_far[-size:] if size else ""
    joined = _rest_of(so_far, repeated + rest)
    if joined is not None and len(repeated) >= 12 and so_far.count(repeated) == 1:
        assert so_far + joined in {so_far + rest, (so_far + rest).rstrip("` \t\r\n")}


@pytest.mark.parametrize(
    ("so_far", "text", "rest"),
    [
        ("a" * 100, "a" * 40 + "b", None),
        ("0123456789abcdef", "456789abcdef!", "!"),
        ("0123456789abcdef", "\n 456789abcdef!", "!"),
        ("0123456789abcdef", "`456789abcdef!`", "!"),
        ("0123456789abcdef", "abcdef!", None),
        ("0123", "0123!", "!"),
        ("".join(map(str, range(300))), "".join(map(str, range(300))) + "!", "!"),
    ],
)
def test_only_one_possible_overlap_joins(so_far: str, text: str, rest: str | None) -> None:
    assert _rest_of(so_far, text) == rest
