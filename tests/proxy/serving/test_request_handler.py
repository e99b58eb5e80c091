"""Tests of `surecall.proxy.serving.request_handler`."""

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from surecall.proxy import Proxy, Record
from surecall.proxy.repair.repaired_reply import StreamedReply
from surecall.proxy.serving.proxy_exchange import ExchangeResult
from surecall.proxy.serving.request_handler import (
    KEEP_ALIVE,
    StreamQueue,
    is_plain_path,
    summary_comment,
)
from surecall.runtime.recording import load_trace
from surecall.settings.connection import Limits, RetryPolicy
from surecall.testing import (
    ScriptedProvider,
    calls,
    calls_many,
    cuts,
    failure,
    hangs,
    hangs_up,
    raw,
    says,
    streams,
)
from surecall.values.types import JSON
from surecall.wire.apis.chat_api import ChatEventWriter
from surecall.wire.assembler import TextDelta
from surecall.wire.chat_format import encode
from tests.support.proxy import Got, RawUpstream, asked, call, completion, post, result, said, send
from tests.support.timing import until

# One visit of a client: repair turns, errors in its own form, headers, retries, books


QUICK = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.02)
BAD = calls("get_weather", town="Oslo")
GOOD = calls("get_weather", city="Oslo")
USAGE = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


@contextmanager
def proxied(*script: Any, repeat: bool = False, **settings: Any) -> Iterator[tuple[Any, str]]:
    """Put a proxy in front of a script."""
    provider = ScriptedProvider(*script, repeat=repeat)
    with provider as upstream, Proxy(upstream.url, **settings) as proxy:
        yield upstream, proxy.url


def test_a_call_that_cannot_run_is_answered_here_and_asked_for_again() -> None:
    script = (BAD | {"usage": USAGE}, GOOD | {"usage": USAGE})
    with proxied(*script) as (upstream, url):
        got = post(url, asked().body)

    assert got.json["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert got.json["usage"]["total_tokens"] == 10
    assert got.headers["x-surecall-attempts"] == "2"
    again = upstream.requests[1]["messages"]
    assert [message["role"] for message in again] == ["user", "assistant", "tool"]
    assert "city" in again[2]["content"]


def test_a_model_that_does_not_learn_is_an_error_with_the_reason() -> None:
    with proxied(BAD, repeat=True, repair=1) as (upstream, url):
        got = post(url, asked().body)

    assert got.status == 502
    assert got.json["error"]["code"] == "ARGUMENT_ERROR"
    assert "city" in got.json["error"]["message"]
    assert got.headers["x-should-retry"] == "false"
    assert len(upstream.requests) == 2


def test_of_a_mixed_turn_the_good_calls_go_out_and_the_bad_ones_come_back_refused() -> None:
    mixed = calls_many(calls("nope"), GOOD)
    with proxied(mixed, says("Done.")) as (upstream, url):
        turn = post(url, asked().body).json["choices"][0]["message"]
        (only,) = turn["tool_calls"]
        post(url, asked(said(only), result(only["id"])).body)

    first, second = upstream.requests[1]["messages"][1]["tool_calls"]
    assert (first["function"]["name"], second["id"]) == ("nope", only["id"])
    answers = upstream.requests[1]["messages"][2:]
    assert [answer["tool_call_id"] for answer in answers] == [first["id"], only["id"]]
    assert "There is no tool" in answers[0]["content"]


def test_reasoning_comes_back_for_clients_that_strip_it() -> None:
    thought: JSON = {
        "reasoning_content": "Hm… \u2028é",
        "reasoning_details": [{"signature": "s=="}],
    }
    turn = completion(said(call("c1", city="Oslo") | {"extra_content": {"x": 1}}, **thought))
    with proxied(turn, says("Done.")) as (upstream, url):
        given = post(url, asked().body).json["choices"][0]["message"]
        assert given["reasoning_content"] == thought["reasoning_content"]
        stripped = said(call(given["tool_calls"][0]["id"], city="Oslo"))
        post(url, asked(stripped, result(given["tool_calls"][0]["id"])).body)

    sent = upstream.requests[1]["messages"][1]
    assert {key: sent[key] for key in thought} == thought
    assert sent["tool_calls"][0]["extra_content"] == {"x": 1}


def test_a_call_from_text_is_known_as_one_in_the_next_request() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    other = text.replace("Oslo", "Rome")
    with proxied(says(text), says(other)) as (upstream, url):
        (first,) = post(url, asked().body).json["choices"][0]["message"]["tool_calls"]
        got = post(url, asked(said(first), result(first["id"])).body)

    assert got.json["choices"][0]["message"]["tool_calls"][0]["id"] != first["id"]
    assert len(upstream.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_upstreams_own_error_is_passed_on(stream: bool) -> None:  # noqa: FBT001
    body = {"error": {"message": "No such model.", "code": "model_not_found", "own": 1}}
    with proxied(failure(404, body)) as (_upstream, url):
        got = post(url, asked(stream=stream).body)
    assert (got.status, got.json["error"]["message"]) == (404, "No such model.")
    assert got.json == body or stream


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_other_faces_say_it_in_their_own_words(path: str) -> None:
    body = {
        "model": "m",
        "max_tokens": 9,
        "input": "hi",
        "messages": [{"role": "user", "content": "x"}],
    }
    with proxied(failure(404, {"error": {"message": "No."}})) as (_upstream, url):
        got = post(url, body, path)
    assert got.status == 404
    kind = got.json["error"]["type"]
    assert kind == ("not_found_error" if path == "/v1/messages" else "invalid_request_error")


def test_a_key_is_never_told() -> None:
    key = "sk-canary-0123456789abcdef"
    body = {"error": {"message": f"bad key {key}", "key": key}}
    told: list[Record] = []
    with proxied(failure(401, body), api_key=key, watch=told.append) as (_upstream, url):
        got = post(url, asked().body)
    assert key.encode() not in got.body
    assert key not in told[0].line


def test_only_listed_headers_go_on_in_both_directions() -> None:
    headers = {
        "Content-Type": "application/json",
        "x-request-id": "r1",
        "x-ratelimit-remaining-tokens": "7",
        "Set-Cookie": "a=1",
        "Server": "secret",
    }
    answer = (200, headers, encode(completion(said(text="Hi."))))
    with RawUpstream(answer) as upstream, Proxy(upstream.url) as proxy:
        got = post(
            proxy.url,
            asked().body,
            Authorization="Bearer mine-123456",
            Cookie="a=1",
            Forwarded="for=1",
            **{"OpenAI-Project": "p", "X-Evil": "1", "Proxy-Authorization": "x"},
        )
    assert (got.headers["x-request-id"], got.headers["x-ratelimit-remaining-tokens"]) == ("r1", "7")
    assert "set-cookie" not in got.headers
    sent = upstream.requests[0][2]
    assert sent["authorization"] == "Bearer mine-123456"
    assert sent["openai-project"] == "p"
    assert not {"cookie", "forwarded", "x-evil", "proxy-authorization"} & sent.keys()


def test_passing_faults_are_tried_again_unless_the_client_does_so_itself() -> None:
    script = (failure(503), says("Hi."))
    with proxied(*script, retry=QUICK) as (_upstream, url):
        assert post(url, asked().body).headers["x-surecall-attempts"] == "2"
    with proxied(*script, retry=QUICK) as (_upstream, url):
        got = post(url, asked().body, **{"x-stainless-retry-count": "1"})
        assert got.status == 503
        assert "x-should-retry" not in got.headers


def test_an_upstream_that_is_gone_or_silent_is_a_gateway_error() -> None:
    with Proxy("http://127.0.0.1:9", retry=QUICK) as proxy:
        got = post(proxy.url, asked().body)
        assert (got.status, got.json["error"]["code"]) == (502, "CONNECTION_ERROR")
    with proxied(hangs_up(), repeat=True, retry=QUICK) as (_upstream, url):
        assert post(url, asked().body).status == 502
    limits = Limits(idle_s=0.2)
    with proxied(hangs(9), repeat=True, limits=limits, retry=RetryPolicy(attempts=1)) as (
        _upstream,
        url,
    ):
        assert post(url, asked().body).status == 504


def test_a_stream_is_healed_and_ends_as_it_should() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    with proxied(streams(says(f"Let me look. {text}"))) as (_upstream, url):
        got = post(url, asked(stream=True).body)

    deltas = [event["choices"][0]["delta"] for event in got.events]
    said_text = "".join(delta.get("content") or "" for delta in deltas)
    assert said_text.strip() == "Let me look."
    (made,) = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
    assert made[0]["function"]["arguments"] == '{"city":"Oslo"}'
    assert got.events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert got.body.endswith(b"data: [DONE]\n\n")
    assert b": surecall attempts=1" in got.body
    assert got.headers["content-type"].startswith("text/event-stream")
    assert "x-surecall-run" in got.headers


@pytest.mark.parametrize("mode", ["live", "buffered"])
def test_a_repaired_stream_is_one_answer(mode: Any) -> None:
    script = (streams(BAD), streams(GOOD))
    with proxied(*script, stream=mode) as (_upstream, url):
        got = post(url, asked(stream=True).body)
    made = [event for event in got.events if "tool_calls" in event["choices"][0]["delta"]]
    assert len(made) == 1
    assert len({event["id"] for event in got.events}) == 1


def test_an_upstream_that_does_not_stream_is_streamed_all_the_same() -> None:
    with proxied(says("Hi.")) as (_upstream, url):
        got = post(url, asked(stream=True).body)
    assert "".join(e["choices"][0]["delta"].get("content") or "" for e in got.events) == "Hi."


def test_a_stream_that_breaks_off_for_good_ends_with_an_error_event() -> None:
    cut = streams(says("A long answer that never ends."), after=600)
    with proxied(cut, repeat=True, retry=QUICK) as (_upstream, url):
        got = post(url, asked(stream=True).body)
    assert got.status == 200
    assert "error" in got.events[-1]
    assert b"[DONE]" not in got.body


def test_a_slow_upstream_shows_a_sign_of_life() -> None:
    slow = streams(says("Hi."))
    slow = type(slow)(200, slow.body, slow.headers, wait=0.6)
    with proxied(slow, keep_alive_s=0.1) as (_upstream, url):
        got = post(url, asked(stream=True).body)
    assert got.body.startswith(b": waiting\n\n")
    assert got.events[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_noted_and_its_request_dropped(stream: bool) -> None:  # noqa: FBT001
    told: list[Record] = []
    with proxied(hangs(5), repeat=True, watch=told.append) as (upstream, url):
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        connection.request("POST", "/v1/chat/completions", asked(stream=stream).client_bytes)
        until(lambda: upstream.requests)
        connection.close()
        until(lambda: told)
    assert [record.outcome for record in told] == ["left"]


def test_a_trace_of_each_request_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    key = "sk-canary-0123456789abcdef"
    echo = says(f"Your key is {key}.")
    with proxied(BAD, echo, api_key=key, trace_dir=tmp_path / "t") as (_upstream, url):
        got = post(url, asked().body)
    (file,) = (tmp_path / "t").iterdir()
    assert got.headers["x-surecall-run"] in file.name
    assert key not in file.read_text("utf-8")
    kinds = [json.loads(line)["type"] for line in file.read_text("utf-8").splitlines()]
    assert kinds[0] == "run_start"
    assert kinds[-1] == "final"
    assert len(load_trace(file)) == len(kinds)
    assert file.stat().st_mode & 0o077 == 0


def test_a_guard_counts_what_the_model_did_since_the_user_spoke() -> None:
    turns = [item for n in (1, 2) for item in (said(call(f"c{n}", city="Oslo")), result(f"c{n}"))]
    with proxied(GOOD, repeat=True, guards={"turns": 2}, repair=0) as (upstream, url):
        got = post(url, asked(*turns).body)
        assert got.json["error"]["code"] == "MAX_TURNS_EXCEEDED"
        assert post(url, asked(*turns, {"role": "user", "content": "?"}).body).status == 200
        with Proxy(upstream.url, guards={"repeats": 2}, repair=0) as proxy:
            assert post(proxy.url, asked(*turns).body).json["error"]["code"] == "REPEATED_CALL"
        with Proxy(upstream.url, repair=0) as proxy:
            assert post(proxy.url, asked(*turns).body).status == 200


def test_a_model_may_be_led_by_a_preset() -> None:
    guided = says('{"tool": "get_weather", "arguments": {"city": "Oslo"}}')
    with proxied(guided, presets=("guided_calls",)) as (upstream, url):
        got = post(url, asked(seed=3).body)
    assert got.json["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert upstream.requests[0]["response_format"]["type"] == "json_schema"
    assert upstream.requests[0]["seed"] == 3


def test_an_answer_that_is_no_answer_is_told() -> None:
    with proxied(raw(b"<html>", 200), repeat=True, retry=QUICK) as (_upstream, url):
        got = post(url, asked().body)
    assert (got.status, got.json["error"]["code"]) == (502, "DECODE_ERROR")


# A request that is none of ours: handed on as it is, and its answer back as it comes


@pytest.mark.parametrize(
    ("path", "is_plain"),
    [
        ("/models", True),
        ("/files/file-1/content", True),
        ("/models/org/name:free@1", True),
        ("", False),
        ("/", False),
        ("/a//b", False),
        ("/a/../b", False),
        ("/a/./b", False),
        ("/%2e%2e/b", False),
        ("/a\\b", False),
        ("/a b", False),
        ("/é", False),
        ("models", False),
    ],
)
def test_a_path_stays_below_the_upstreams_own(path: str, is_plain: bool) -> None:  # noqa: FBT001
    assert is_plain_path(path) is is_plain


def test_bytes_pass_in_both_directions() -> None:
    told: list[Record] = []
    answer = (200, {"Content-Type": "text/event-stream"}, b"data: {}\n\n: x\n\ndata: [DONE]\n\n")
    request = asked(tools=(), stream=True, weird=1.50)
    with RawUpstream(answer) as upstream, Proxy(upstream.url, watch=told.append) as proxy:
        got = post(proxy.url, request.client_bytes)

    assert (got.status, got.body) == (200, answer[2])
    assert got.headers["content-type"] == "text/event-stream"
    assert upstream.requests[0][3] == request.client_bytes
    assert [record.outcome for record in told] == ["passed"]


def test_an_error_of_the_upstream_is_its_own() -> None:
    answer = (418, {"Content-Type": "application/json"}, b'{"error":"tea"}')
    with RawUpstream(answer) as upstream, Proxy(upstream.url) as proxy:
        got = send(proxy.url, "DELETE", "/v1/files/1")
    assert (got.status, got.body) == (418, answer[2])


def test_an_upstream_that_is_gone_is_told() -> None:
    with Proxy("http://127.0.0.1:9") as proxy:
        got = send(proxy.url, "GET", "/v1/models")
    assert (got.status, got.json["error"]["code"]) == (502, "CONNECTION_ERROR")


def test_an_upstream_that_is_silent_is_told() -> None:
    limits = Limits(idle_s=0.2)
    with ScriptedProvider(hangs(5)) as upstream, Proxy(upstream.url, limits=limits) as proxy:
        assert post(proxy.url, asked(tools=()).client_bytes).status == 504


def test_an_answer_that_breaks_off_breaks_off() -> None:
    cut = pytest.raises(http.client.IncompleteRead)
    with ScriptedProvider(cuts(b"x" * 5000, 1000)) as upstream, Proxy(upstream.url) as proxy, cut:
        post(proxy.url, asked(tools=()).client_bytes)


def test_nothing_follows_an_answer_that_breaks_off() -> None:
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\n{}"
    with ScriptedProvider(cuts(b"x" * 5000, 1000)) as upstream, Proxy(upstream.url) as proxy:
        place = urlsplit(proxy.url)
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(request % place.netloc.encode())
            said = connection.makefile("rb").read()
    assert said.count(b"HTTP/1.1") == 1
    assert said.endswith(b"x" * 100 + b"\r\n")


def test_an_answer_that_says_too_much_is_cut() -> None:
    answer = (200, {"Content-Type": "text/plain"}, b"x" * 200_000)
    limits = Limits(max_response_bytes=50_000)
    cut = pytest.raises(http.client.IncompleteRead)
    with RawUpstream(answer) as upstream, Proxy(upstream.url, limits=limits) as proxy, cut:
        send(proxy.url, "GET", "/v1/files/1")


# What a client is told about trying again: not to, where the proxy did or where it is in vain


HEADER = "x-should-retry"
FUNCTION: JSON = {"name": "add", "parameters": {"type": "object"}}
TOOL: JSON = {"type": "function", "function": FUNCTION}
ASKED: JSON = {"role": "user", "content": "Hi."}
CHAT: JSON = {"model": "m", "messages": [ASKED], "tools": [TOOL]}
REQUESTS: dict[str, JSON] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"model": "m", "input": "Hi.", "tools": [FUNCTION | {"type": "function"}]},
    "/v1/messages": {
        "model": "m",
        "max_tokens": 9,
        "messages": [ASKED],
        "tools": [{"name": "add", "input_schema": {"type": "object"}}],
    },
}


def told(status: int, path: str, attempts: int, *, stream: bool) -> tuple[int, str | None]:
    """Return the status that a client gets, and what it is told about trying again."""
    return asyncio.run(answered(status, path, attempts, stream=stream))


async def answered(
    status: int, path: str, attempts: int, *, stream: bool
) -> tuple[int, str | None]:
    retry = RetryPolicy(attempts=attempts, first_wait_s=0.0)
    with ScriptedProvider(failure(status), repeat=True) as provider:
        async with (
            Proxy(provider.url, retry=retry) as proxy,
            aiohttp.ClientSession() as session,
            session.post(proxy.url + path, json=REQUESTS[path] | {"stream": stream}) as response,
        ):
            return response.status, response.headers.get(HEADER)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
def test_a_client_does_not_try_again_what_is_in_vain(
    status: int, path: str, *, stream: bool
) -> None:
    assert told(status, path, 1, stream=stream) == (status, "false")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_client_may_try_again_what_was_tried_once(status: int) -> None:
    assert told(status, "/v1/messages", 1, stream=True) == (status, None)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_client_does_not_try_again_what_the_proxy_did(status: int) -> None:
    assert told(status, "/v1/messages", 2, stream=True) == (status, "false")


@pytest.mark.parametrize("guard", ["turns", "calls"])
def test_a_client_does_not_try_again_what_a_guard_forbids(guard: str) -> None:
    async def asked() -> tuple[int, str | None]:
        turn = calls("add")["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
        chat = CHAT | {"messages": [ASKED, turn, result]}
        with ScriptedProvider(calls("add"), repeat=True) as provider:
            async with (
                Proxy(provider.url, guards={guard: 1}) as proxy,
                aiohttp.ClientSession() as session,
                session.post(f"{proxy.url}/v1/chat/completions", json=chat) as response,
            ):
                return response.status, response.headers.get(HEADER)

    assert asyncio.run(asked()) == (502, "false")


# A model that is asked again after a part of its answer was sent: what becomes of the stream


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


# Sending a stream while the loop is at work


def news() -> StreamQueue:
    return StreamQueue(
        StreamedReply(ChatEventWriter(wants_usage=False), {"id": "x"}, buffered=False)
    )


def test_news_come_in_order_and_a_pause_is_filled() -> None:
    async def work() -> list[bytes]:
        told, goes_on = news(), asyncio.Event()

        async def speak() -> None:
            told.on_begin({"id": "up"})
            told.on_begin({"id": "again"})
            await goes_on.wait()
            told.show(TextDelta("Hi."))

        heard: list[bytes] = []
        async for data in told.drain(asyncio.create_task(speak()), 0.01):
            heard.append(data)
            if data == KEEP_ALIVE:
                goes_on.set()
        return heard

    first, *pauses, last = asyncio.run(work())
    assert b'"id":"up"' in first
    assert set(pauses) == {KEEP_ALIVE}
    assert b"Hi." in last


def test_a_summary_is_a_comment() -> None:
    said = summary_comment(ExchangeResult("r", None, repairs=("a", "b", "a"), attempts=2))
    assert said == b": surecall attempts=2 fired=a,b\n\n"
