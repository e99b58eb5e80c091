"""One request of a client, answered by the loop."""

import asyncio
import json
from typing import Any

import pytest

from surecall.core.streaming import DisplayDelta
from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.request_history import ConversationMemory, TurnMemory
from surecall.proxy.repair.upstream_request import build_tools
from surecall.proxy.serving.proxy_exchange import ExchangeResult, ProxyExchange
from surecall.proxy.serving.upstream import Upstream
from surecall.settings.connection import RetryPolicy
from surecall.testing import (
    ScriptedModel,
    ScriptedProvider,
    calls,
    calls_many,
    failure,
    says,
    streams,
)
from surecall.values.types import JSON
from surecall.wire.apis.adapter import ClientRequest
from surecall.wire.assembler import TextDelta
from surecall.wire.chat_format import encode
from tests.support.proxy import WEATHER, asked, call, completion, known, result, said, tool
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


# Many tools


def _office(count: int = 20) -> list[JSON]:
    things = ("invoice", "parcel", "ticket", "song")
    verbs = ("get", "delete", "update", "print", "copy")
    names = [f"{verb}.{thing}" for thing in things for verb in verbs]
    return [tool(name, description=name) for name in names[:count]]


def _names(request: JSON) -> list[str]:
    return [each.get("function", {}).get("name", each["type"]) for each in request["tools"]]


class Talk:
    """A conversation of a client that sends back what it got, as the SDKs do."""

    def __init__(self, tools: list[JSON], **settings: Any) -> None:
        self.memory = TurnMemory()
        self.messages: list[JSON] = []
        self.requests: list[JSON] = []
        self._tools = tools
        self._settings = ProxySettings(**settings)

    def ask(self, *script: Any, streamed: bool = False, **options: Any) -> ExchangeResult:
        request = asked(*self.messages, tools=self._tools, **options)
        shown: list[Any] = []

        async def work(url: str) -> ExchangeResult:
            exchange = begun(request, self._settings, known(memory=self.memory))
            show = shown.append if streamed else None
            return await exchange.run(Upstream(url), RetryPolicy(attempts=1), show)

        with ScriptedProvider(*script) as provider:
            done = asyncio.run(work(provider.url))
            self.requests += provider.requests
        if done.body is not None:
            message = done.body["choices"][0]["message"]
            self.messages.append(message)
            self.messages += [result(each["id"]) for each in message.get("tool_calls", ())]
        return done


def _search(words: str) -> JSON:
    return calls("search_tools", query=words)


def test_a_client_never_sees_a_search_and_the_upstream_sees_it_again() -> None:
    talk = Talk(_office(), max_tools=8)
    done = talk.ask(_search("song"), calls("get_song"))
    assert done.body is not None
    (made,) = done.body["choices"][0]["message"]["tool_calls"]
    assert made["function"]["name"] == "get.song"
    assert b"search_tools" not in encode(done.body)
    assert (done.attempts, done.turns) == (2, 2)
    talk.ask(says("Done."))
    first, second, third = talk.requests
    assert _names(first) == ["search_tools"]
    assert _names(second)[:2] == ["search_tools", "get_song"]
    # A growing conversation begins with the same bytes, so that it stays cached.
    assert third["tools"] == second["tools"]
    assert third["messages"][: len(second["messages"])] == second["messages"]
    roles = [each["role"] for each in third["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]


def test_a_search_beside_a_call_is_answered_in_the_next_request() -> None:
    talk = Talk(_office(), max_tools=8)
    done = talk.ask(calls_many(calls("get_parcel"), _search("song")))
    assert done.body is not None
    (made,) = done.body["choices"][0]["message"]["tool_calls"]
    assert made["function"]["name"] == "get.parcel"
    talk.ask(says("Done."))
    _, sent = talk.requests
    turn, *results = sent["messages"][1:]
    assert [each["function"]["name"] for each in turn["tool_calls"]] == [
        *("get_parcel", "search_tools"),
    ]
    assert "get_song" in results[-1]["content"] or "get_song" in results[0]["content"]
    assert "get_song" in _names(sent)


def test_without_its_memory_the_tools_that_were_called_are_exposed_again() -> None:
    talk = Talk(_office(), max_tools=8)
    talk.ask(_search("song"), calls("get_song"))
    talk.memory = TurnMemory()
    talk.ask(says("Done."))
    assert _names(talk.requests[-1]) == ["search_tools", "get_song"]


def test_a_streamed_search_is_not_shown() -> None:
    talk = Talk(_office(), max_tools=8)
    done = talk.ask(
        streams(_search("song")), streams(calls("get_song")), streamed=True, stream=True
    )
    assert done.body is not None
    assert b"search_tools" not in encode(done.body)


def test_a_model_that_only_searches_is_stopped() -> None:
    talk = Talk(_office(), max_tools=8, repair=1)
    failed = talk.ask(*[_search(f"song {at}") for at in range(6)])
    assert failed.failure is not None
    assert (failed.failure.status, failed.failure.code) == (502, "MAX_TURNS_EXCEEDED")
    assert failed.attempts == 6


def test_searches_take_no_repair_turn() -> None:
    talk = Talk(_office(), max_tools=8, repair=0, guards={"turns": 9})
    done = talk.ask(_search("song"), _search("print a song"), calls("print_song"))
    assert done.failure is None
    assert talk.ask(_search("parcel"), calls("get_parcel")).failure is None
    assert talk.ask(_search("ticket"), says("Done.")).failure is None


def test_other_tools_stay_and_take_room() -> None:
    hosted = {"type": "web_search"}
    talk = Talk([*_office(), hosted], max_tools=4)
    talk.ask(_search("get delete update print copy"), says("Done."))
    for request in talk.requests:
        assert _names(request)[:2] == ["web_search", "search_tools"]
        assert len(request["tools"]) <= 4


def test_a_tool_choice_of_the_client_is_exposed_under_the_name_of_the_upstream() -> None:
    choice = {"type": "function", "function": {"name": "copy.ticket"}}
    talk = Talk(_office(), max_tools=2)
    talk.ask(calls("copy_ticket"), tool_choice=choice)
    assert _names(talk.requests[0]) == ["search_tools", "copy_ticket"]
    assert talk.requests[0]["tool_choice"]["function"]["name"] == "copy_ticket"


def test_the_limit_of_a_provider_holds_without_a_setting() -> None:
    many = [tool(f"get_thing_{at}") for at in range(200)]
    for provider, most in (("openai", 128), ("", 200)):
        talk = Talk(many, provider=provider)
        talk.ask(says("Hi."))
        assert (
            len(talk.requests[0]["tools"]) <= most,
            "search_tools" in _names(talk.requests[0]),
        ) == (
            True,
            most < 200,
        )


def test_below_the_limit_a_request_keeps_its_bytes() -> None:
    model: Any = ScriptedModel(says("Hi."))
    sent: list[bytes] = []
    send = model.send

    async def keep(body: bytes) -> Any:
        sent.append(body)
        return await send(body)

    model.send = keep
    request = asked(tools=[WEATHER], temperature=0.5)
    exchange = begun(request, ProxySettings(max_tools=1), known())
    asyncio.run(exchange.run(model, RetryPolicy()))
    assert sent == [request.client_bytes]


def test_a_guided_model_searches_as_well() -> None:
    talk = Talk(_office(), max_tools=8, presets=("guided_calls",))
    script = (
        {"tool": "search_tools", "arguments": {"query": "song"}},
        {"tool": "get_song", "arguments": {}},
    )
    done = talk.ask(*(says(encode(each).decode()) for each in script))
    assert done.body is not None
    (made,) = done.body["choices"][0]["message"]["tool_calls"]
    assert made["function"]["name"] == "get.song"


def test_a_limit_that_the_upstream_names_is_learned() -> None:
    refused = failure(
        400,
        {
            "error": {
                "message": "Invalid 'tools': array too long. Expected an array with maximum length "
                "6, but got an array with length 20 instead.",
                "code": "array_above_max_length",
            }
        },
    )
    talk = Talk(_office())
    done = talk.ask(refused, _search("get song"), calls("get_song"))
    assert done.failure is None
    assert [len(each["tools"]) for each in talk.requests] == [20, 1, 6]
