"""One request and its answer: what a plan becomes on the wire, and what a body becomes."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.core.reply_parsing import parse_reply
from surecall.core.request_building import RequestBuilder
from surecall.runtime.retrying_requests import PromptRunner
from surecall.settings.capabilities import Capabilities
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, says
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode, Fault
from surecall.values.types import (
    Assistant,
    Message,
    Plan,
    Refusal,
    Reply,
    System,
    ToolSpec,
    Usage,
    User,
)


def read(body: Any) -> Reply | Fault:
    return parse_reply(body, Plan("m", ()), raw(), ToolRegistry())


def test_an_answer_without_choices_is_a_fault() -> None:
    heard = read({"choices": []})
    assert isinstance(heard, Fault)
    assert heard.code is ErrorCode.EMPTY_RESPONSE


def test_what_stands_beside_the_message_is_read_where_it_is_text() -> None:
    choice = {"message": {"content": "hi"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    body = {"choices": [choice], "model": "m1", "provider": "p", "id": "r", "usage": usage}

    assert read(body) == Reply("hi", (), "stop", Usage(3, 4, 7), "m1", "p", "r")
    assert read({"choices": [{"finish_reason": 5}], "id": 7}) == Reply()


TOOLS = (ToolSpec("a", "first", {"type": "object"}), ToolSpec("b", "", {"type": "object"}))
TOOLSETS = [(), TOOLS, TOOLS[:1]]
MESSAGES: list[Message] = [
    System("be brief"),
    User("one"),
    User("two"),
    Refusal(Fault(ErrorCode.TIMEOUT, "late")),
]


@given(st.lists(st.lists(st.sampled_from(MESSAGES), max_size=5), max_size=6))
def test_what_was_written_before_never_changes_what_is_written_now(
    turns: list[list[Message]],
) -> None:
    remembers = RequestBuilder(raw())
    for messages in turns:
        plan = Plan("m", tuple(messages), TOOLSETS[len(messages) % 3], "auto")
        assert remembers.build(plan) == RequestBuilder(raw()).build(plan)


def test_a_request_has_what_its_plan_says() -> None:
    config = raw(unsupported_options=("seed",))
    plan = Plan("m", (*MESSAGES,), TOOLS, "auto", None, {"seed": 1, "temperature": 0.5})
    request = RequestBuilder(config).build(plan)
    body = json.loads(request.body)

    assert list(body) == ["model", "messages", "tools", "tool_choice", "temperature"]
    assert (request.messages_count, request.tools_count) == (3, 2)
    assert [item["role"] for item in body["messages"]] == ["system", "user", "user"]


@pytest.mark.parametrize(
    ("plan", "capabilities"),
    [
        (Plan("m", (User("x"),), TOOLS, "auto", {"type": "json_object"}), None),
        (Plan("m", (User("x"),), TOOLS, "auto"), Capabilities(tools=False)),
    ],
)
def test_what_no_endpoint_serves_is_refused_before_it_is_sent(
    plan: Plan, capabilities: Capabilities | None
) -> None:
    model = ScriptedModel()
    with pytest.raises(ConfigError):
        asyncio.run(PromptRunner(model, capabilities=capabilities).ask(plan))
    assert model.requests == []


def test_a_response_format_without_tools_is_sent() -> None:
    model = ScriptedModel(says("{}"))
    plan = Plan("m", (User("x"),), response_format={"type": "json_object"})
    asyncio.run(PromptRunner(model, capabilities=Capabilities()).ask(plan))

    assert model.requests[0]["response_format"] == {"type": "json_object"}


def test_what_the_loop_says_after_a_blank_reply_becomes_part_of_what_the_user_said() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    nudge = User("And?", nudge=True)
    composer = RequestBuilder(raw())

    def sent(*messages: Message) -> list[Any]:
        return list(json.loads(composer.build(Plan("m", messages)).body)["messages"])

    assert sent(User("a"), nudge, nudge) == [{"role": "user", "content": "a\n\nAnd?\n\nAnd?"}]
    assert sent(User([picture]), Assistant(" "), nudge) == [
        {"role": "user", "content": [picture, {"type": "text", "text": "And?"}]}
    ]
    assert sent(User("a"), User("b")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]
    roles = [message["role"] for message in sent(User("a"), Assistant("b"), nudge)]
    assert roles == ["user", "assistant", "user"]
