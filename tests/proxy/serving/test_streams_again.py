"""A model that is asked again after a part of its answer was sent: what becomes of the stream."""

from typing import Any

import pytest

from surecall.proxy import Proxy
from surecall.settings.connection import RetryPolicy
from surecall.testing import ScriptedProvider, calls, says, streams
from surecall.values.types import JSON
from tests.support.proxy import Got, asked, call, completion, post, result, said

QUICK = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.02)
QUOTED = 'It says: <tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>'


def streamed(*script: Any, history: tuple[JSON, ...] = ()) -> Got:
    replies = [reply if not isinstance(reply, dict) else streams(reply) for reply in script]
    with ScriptedProvider(*replies) as upstream, Proxy(upstream.url, retry=QUICK) as proxy:
        return post(proxy.url, asked(*history, stream=True).body)


def text_of(got: Got) -> str:
    chunks = [event["choices"][0]["delta"] for event in got.events if "choices" in event]
    return "".join(delta.get("content") or "" for delta in chunks)


def test_a_call_that_was_only_quoted_is_no_error() -> None:
    history = (said(call("c1", city="Oslo")), result("c1", QUOTED))
    got = streamed(says(f"I read it. {QUOTED}"), says("That is all."), history=history)

    assert text_of(got).startswith("I read it. It says:")
    assert text_of(got).endswith("\n\nThat is all.")
    assert got.body.endswith(b"data: [DONE]\n\n")


def test_an_answer_follows_the_text_beside_a_call_that_could_not_run() -> None:
    bad = calls("get_weather", town="Oslo")["choices"][0]["message"]
    looking = completion(bad | {"content": "Let me look."}, "tool_calls")
    got = streamed(looking, says("I cannot."))

    assert text_of(got) == "Let me look.\n\nI cannot."


def test_a_thought_that_shows_only_at_its_end_does_not_cost_the_answer() -> None:
    got = streamed(says("The user is brief.</think>Hello."))

    assert text_of(got).endswith("Hello.")
    assert got.events[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "broken",
    [
        completion(said(text="It is 12."), "error"),
        streams(says("It is 12 degrees in Oslo, and it rains."), after=700),
    ],
)
def test_another_text_does_not_follow_one_that_broke_off(broken: Any) -> None:
    got = streamed(broken, says("We have 13."))

    assert text_of(got).startswith("It is 12")
    assert got.events[-1]["error"]["code"] == "STREAM_CHANGED"
    assert b"[DONE]" not in got.body
