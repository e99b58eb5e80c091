"""One request of a client, answered by the loop."""

import asyncio
import json
from typing import Any

import pytest

from surecall.core.streaming import DisplayDelta
from surecall.proxy.apis.adapter import ClientRequest
from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.request_history import ConversationMemory, TurnMemory
from surecall.proxy.repair.upstream_request import build_tools
from surecall.proxy.serving.proxy_exchange import ExchangeResult, ProxyExchange
from surecall.proxy.serving.upstream import Upstream
from surecall.settings.connection import RetryPolicy
from surecall.testing import ScriptedModel, ScriptedProvider, calls, failure, says
from surecall.values.types import JSON
from surecall.wire.assembler import TextDelta
from tests.support.proxy import asked, call, completion, known, result, said, tool
from tests.support.scripted_runs import LONG_ARGUMENTS, LimitedModel


def begun(
    request: ClientRequest, settings: ProxySettings, kept: ConversationMemory
) -> ProxyExchange:
    return ProxyExchange(request, settings, kept, build_tools(request.body.get("tools") or ()))


def settled(*script: Any, request: Any = None, **settings: Any) -> ExchangeResult:
    async def work(url: str) -> ExchangeResult:
        exchange = begun(request or asked(), ProxySettings(**settings), known(memory=TurnMemory()))
        return await exchange.run(Upstream(url), RetryPolicy(first_wait_s=0.01))

    with ScriptedProvider(*script) as provider:
        return asyncio.run(work(provider.url))


def test_text_is_an_answer() -> None:
    done = settled(says("Hi."))
    assert done.body is not None
    assert done.body["choices"][0]["message"]["content"] == "Hi."
    assert (done.attempts, done.turns, done.repairs) == (1, 1, ())


def test_an_empty_reply_is_asked_for_again() -> None:
    done = settled(says(""), says("Hi."))
    assert (done.attempts, done.turns) == (2, 2)
    failed = settled(says(""), says(""))
    assert failed.failure is not None
    assert (failed.failure.status, failed.failure.code) == (502, "EMPTY_FINAL")
    passed = settled(says(""), repair=0)
    assert passed.body is not None


def test_an_announcement_is_asked_about_once() -> None:
    announced = says("Let me read the file:")
    called = settled(announced, calls("get_weather", city="Oslo"))
    assert (called.attempts, called.turns) == (2, 2)
    again = settled(announced, announced)
    assert again.body is not None
    assert (again.attempts, again.failure) == (2, None)
    passed = settled(announced, repair=0)
    assert (passed.attempts, passed.failure) == (1, None)


def test_refused_calls_are_told_by_their_code() -> None:
    done = settled(calls("nope"), says("Hi."))
    assert done.error_codes == ("TOOL_NOT_ALLOWED",)
    assert done.received["tool_calls"][0]["function"]["name"] == "nope"


def test_a_fault_keeps_its_status() -> None:
    failed = settled(failure(402))
    assert failed.failure is not None
    assert failed.failure.status == 402
    assert failed.received is None


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
    assert begun(asked(*earlier), ProxySettings(guards={"turns": 9}), known())._run.start == 1


def test_a_call_that_the_client_forbids_is_withheld_and_reported() -> None:
    forbids = asked(tool_choice="none")
    beside = completion(said(call("c1", city="Oslo"), text="It is cold."), "tool_calls")
    done = settled(beside, request=forbids)
    assert done.body is not None
    choice = done.body["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "It is cold."}
    assert (choice["finish_reason"], done.attempts) == ("stop", 1)
    assert done.repairs == ("ignored_tool_calls",)


def test_a_reply_of_forbidden_calls_alone_is_asked_for_again() -> None:
    done = settled(completion(said(call("c1", city="Oslo"))), says("Cold."), request=_forbidding())
    assert done.body is not None
    assert done.body["choices"][0]["message"]["content"] == "Cold."
    assert (done.attempts, done.repairs) == (2, ("ignored_tool_calls",))


def _forbidding() -> ClientRequest:
    return asked(tool_choice="none")


def test_text_that_looks_like_a_call_stays_text_where_calls_are_forbidden() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    for request in (_forbidding(), asked(tools=())):
        done = settled(completion(said(text=text)), request=request)
        assert done.body is not None
        assert done.body["choices"][0]["message"]["content"] == text
        assert done.repairs == ()


def test_one_call_per_turn_goes_out_and_the_next_request_answers_the_others() -> None:
    memory = TurnMemory()
    cities = ("Oslo", "Rome", "Bern")
    turn = completion(said(*(call(f"c{at}", city=city) for at, city in enumerate(cities))))

    async def work(*messages: JSON, script: Any) -> tuple[ExchangeResult, list[JSON]]:
        model: Any = ScriptedModel(script)
        request = asked(*messages, parallel_tool_calls=False)
        exchange = begun(request, ProxySettings(), known(memory=memory))
        return await exchange.run(model, RetryPolicy()), model.requests

    first, _ = asyncio.run(work(script=turn))
    assert first.body is not None
    message = first.body["choices"][0]["message"]
    assert [each["id"] for each in message["tool_calls"]] == ["c0"]
    assert first.repairs == ("ignored_tool_calls",)

    second, requests = asyncio.run(work(message, result("c0"), script=says("Cold.")))
    assert second.repairs == ()
    _, turn_sent, *results = requests[0]["messages"]
    assert [each["id"] for each in turn_sent["tool_calls"]] == ["c0", "c1", "c2"]
    assert [each["tool_call_id"] for each in results] == ["c0", "c1", "c2"]
    assert "TOOL_CALL_NOT_EXECUTED" in results[1]["content"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_call_that_is_cut_off_again_and_again_reaches_the_client_whole(
    *, as_text: bool, streamed: bool
) -> None:
    shown: list[DisplayDelta] = []
    put = tool("put", parameters={"type": "object", "properties": {"value": {"type": "string"}}})

    async def work(url: str) -> ExchangeResult:
        exchange = begun(asked(tools=(put,)), ProxySettings(), known(memory=TurnMemory()))
        show = shown.append if streamed else None
        return await exchange.run(Upstream(url), RetryPolicy(), show)

    with ScriptedProvider(LimitedModel(as_text=as_text), repeat=True) as provider:
        done = asyncio.run(work(provider.url))

    assert done.body is not None
    message = done.body["choices"][0]["message"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == json.loads(
        LONG_ARGUMENTS
    )
    assert not any(isinstance(each, TextDelta) for each in shown)
    assert done.turns == 8
