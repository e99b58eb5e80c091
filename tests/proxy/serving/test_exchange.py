"""One request of a client, answered by the loop."""

import asyncio
from typing import Any

from surecall.proxy.healing.memory import Memory
from surecall.proxy.healing.settings import ProxySettings
from surecall.proxy.serving.exchange import Exchange, Settled
from surecall.proxy.serving.upstream import Upstream
from surecall.settings.connection import RetryPolicy
from surecall.testing import ScriptedProvider, calls, failure, says
from tests.support.proxy import asked, call, completion, known, result, said


def settled(*script: Any, request: Any = None, **settings: Any) -> Settled:
    async def work(url: str) -> Settled:
        exchange = Exchange(request or asked(), ProxySettings(**settings), known(memory=Memory()))
        return await exchange.settled(Upstream(url), RetryPolicy(first_wait_s=0.01))

    with ScriptedProvider(*script) as provider:
        return asyncio.run(work(provider.url))


def test_text_is_an_answer() -> None:
    done = settled(says("Hi."))
    assert done.body is not None
    assert done.body["choices"][0]["message"]["content"] == "Hi."
    assert (done.attempts, done.turns, done.fired) == (1, 1, ())


def test_an_empty_reply_is_asked_for_again() -> None:
    done = settled(says(""), says("Hi."))
    assert (done.attempts, done.turns) == (2, 2)
    failed = settled(says(""), says(""))
    assert failed.failure is not None
    assert (failed.failure.status, failed.failure.code) == (502, "EMPTY_FINAL")
    passed = settled(says(""), repair=0)
    assert passed.body is not None


def test_refused_calls_are_told_by_their_code() -> None:
    done = settled(calls("nope"), says("Hi."))
    assert done.refused == ("TOOL_NOT_ALLOWED",)
    assert done.came["tool_calls"][0]["function"]["name"] == "nope"


def test_a_fault_keeps_its_status() -> None:
    failed = settled(failure(402))
    assert failed.failure is not None
    assert failed.failure.status == 402
    assert failed.came is None


def test_ids_of_calls_from_text_are_new_in_their_conversation() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    earlier = (said(call("text_tc_2", city="Rome")), result("text_tc_2"))
    done = settled(completion(said(text=text)), request=asked(*earlier))
    assert done.body is not None
    (only,) = done.body["choices"][0]["message"]["tool_calls"]
    assert only["id"].startswith("text_")
    assert only["id"] != "text_tc_2"


def test_a_conversation_without_a_user_can_be_guarded() -> None:
    request = asked()
    turns = [said(call("c1", city="Oslo")), result("c1")]
    request.body["messages"][:] = turns
    done = settled(says("Hi."), request=request, guards={"calls": 5})
    assert done.body is not None


def test_a_stray_result_is_not_taken_for_the_user_speaking() -> None:
    earlier = (said(call("c1", city="Rome")), result("c1"), said(text="Hm."), result("c9", "?"))
    assert Exchange(asked(*earlier), ProxySettings(guards={"turns": 9}), known())._run.start == 1
