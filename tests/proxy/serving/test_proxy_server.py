"""Tests of `surecall.proxy.serving.proxy_server`."""

import asyncio

import aiohttp
import pytest

from surecall.proxy import Proxy
from surecall.proxy.serving.proxy_server import render_page
from surecall.proxy.serving.request_records import Record, RequestLog
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedProvider, calls, says
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from surecall.wire.chat_format import encode
from tests.support.proxy import USER, WEATHER, RawUpstream, asked, completion, post, said, send

# The proxy's server: who comes in, where a request goes, and what comes back


JSON_TYPE = {"Content-Type": "application/json"}
HELLO = (200, JSON_TYPE, encode(completion(said(text="Hello."))))


def test_a_bent_call_is_healed_on_its_way() -> None:
    bent = completion(
        said(text='<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>')
    )
    with ScriptedProvider(bent) as upstream, Proxy(upstream.url) as proxy:
        got = post(proxy.url, asked().body)

    assert got.status == 200
    choice = got.json["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city":"Oslo"}'
    assert "x-surecall-fired" in got.headers
    assert got.headers["x-surecall-attempts"] == "1"


def test_it_can_be_used_in_an_event_loop() -> None:
    async def work(upstream: str) -> int:
        async with Proxy(upstream) as proxy:
            url = proxy.url
            return (await asyncio.to_thread(post, url, asked().body)).status

    with ScriptedProvider(says("Hi.")) as upstream:
        assert asyncio.run(work(upstream.url)) == 200


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/chat/completions", "/v1/v1/chat/completions"]
)
def test_the_prefix_may_be_there_or_not(path: str) -> None:
    with ScriptedProvider(says("Hi.")) as upstream, Proxy(upstream.url) as proxy:
        assert post(proxy.url, asked().body, path).status == 200


def test_other_paths_pass_through_and_strange_ones_do_not() -> None:
    with RawUpstream(HELLO) as upstream, Proxy(upstream.url) as proxy:
        assert send(proxy.url, "GET", "/v1/models?limit=2").status == 200
        assert send(proxy.url, "PUT", "/v1/models").status == 405
        for path in ("/v1/../secret", "/v1//evil", "/v1/%2e%2e/x", "/", "/v1", "/v1/a\\b"):
            assert send(proxy.url, "GET", path).status == 404
        assert send(proxy.url, "GET", "/surecall/").status == 404
    assert [(method, path) for method, path, _, _ in upstream.requests] == [
        ("GET", "/v1/models?limit=2")
    ]


def test_a_query_of_the_upstream_and_one_of_the_client_are_one() -> None:
    with RawUpstream(HELLO) as upstream, Proxy(f"{upstream.url}/v1?api-version=7") as proxy:
        send(proxy.url, "GET", "/v1/models?limit=2&after=m")
        send(proxy.url, "GET", "/v1/models")
    assert [path for _, path, _, _ in upstream.requests] == [
        "/v1/models?api-version=7&limit=2&after=m",
        "/v1/models?api-version=7",
    ]


def test_a_token_is_wanted_where_there_is_one() -> None:
    with (
        RawUpstream(HELLO) as upstream,
        Proxy(upstream.url, api_key="sk-upstream-1", token="let-me-in") as proxy,
    ):
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "let-me-in"},
            {"x-api-key": "é"},
        ):
            refused = post(proxy.url, asked().body, **headers)
            assert refused.status == 401
            assert refused.json["error"]["code"] == "invalid_api_key"
        assert post(proxy.url, b"{}", "/v1/messages").json["type"] == "error"
        assert post(proxy.url, asked().body, Authorization="Bearer let-me-in").status == 200
        assert post(proxy.url, asked().body, **{"x-api-key": "let-me-in"}).status == 200
    assert [seen[2]["authorization"] for seen in upstream.requests] == ["Bearer sk-upstream-1"] * 2


def test_anything_but_loopback_needs_a_token() -> None:
    with pytest.raises(ConfigError, match="not loopback"):
        Proxy("http://127.0.0.1:1", host="0.0.0.0")  # noqa: S104  # it is refused
    with pytest.raises(ConfigError, match="blank"):
        Proxy("http://127.0.0.1:1", token=" ")
    with pytest.raises(ConfigError):
        Proxy("not an address")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "x/#@evil.example"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
def test_a_page_of_another_site_is_not_let_in(headers: dict[str, str]) -> None:
    with RawUpstream(HELLO) as upstream, Proxy(upstream.url) as proxy:
        got = send(proxy.url, "POST", "/v1/chat/completions", asked().client_bytes, headers)
    assert got.status in {400, 403}
    assert not any(name.startswith("access-control") for name in got.headers)
    assert upstream.requests == []


def test_a_request_that_cannot_be_read_is_the_clients_mistake() -> None:
    with RawUpstream(HELLO) as upstream, Proxy(upstream.url) as proxy:
        assert post(proxy.url, b"{").status == 400
        assert (
            post(proxy.url, b"{", "/v1/responses").json["error"]["type"] == "invalid_request_error"
        )
        refused = post(proxy.url, b"{", "/v1/messages").json
        assert refused["error"]["type"] == "invalid_request_error"
        conversation = {"model": "m", "input": "hi", "previous_response_id": "resp_1"}
        assert post(proxy.url, conversation, "/v1/responses").status == 400
    assert upstream.requests == []


def test_all_three_faces_reach_the_same_upstream() -> None:
    with ScriptedProvider(says("Hi."), repeat=True) as upstream, Proxy(upstream.url) as proxy:
        responses = post(proxy.url, {"model": "m", "input": "hi"}, "/v1/responses")
        body = {"model": "m", "max_tokens": 9, "messages": [USER]}
        messages = post(proxy.url, body, "/v1/messages")
        counted = post(proxy.url, body, "/v1/messages/count_tokens")

    assert responses.json["output"][-1]["content"][0]["text"] == "Hi."
    assert messages.json["content"] == [{"type": "text", "text": "Hi."}]
    assert counted.json["input_tokens"] > 0
    assert len(upstream.requests) == 2


def test_the_page_shows_the_last_requests_to_those_who_know_its_address() -> None:
    with (
        ScriptedProvider(calls("get_weather", city="Oslo")) as upstream,
        Proxy(upstream.url) as proxy,
    ):
        post(proxy.url, asked(model="<script>alert(1)</script>").body)
        page = send(proxy.url, "GET", proxy.page.removeprefix(proxy.url))
        assert send(proxy.url, "POST", proxy.page.removeprefix(proxy.url)).status == 404
        assert send(proxy.url, "GET", "/surecall/guess/").status == 404

    text = page.body.decode()
    assert "get_weather" in text
    assert "<script>" not in text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "1 request to" in text


def test_a_browser_reaches_the_page_alone() -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    link |= {"Sec-Fetch-Dest": "document"}
    with RawUpstream(HELLO) as upstream, Proxy(upstream.url, api_key="sk-upstream-1") as proxy:
        assert send(proxy.url, "GET", "/v1/models", headers=link).status == 403
        assert (
            send(proxy.url, "GET", proxy.page.removeprefix(proxy.url), headers=link).status == 200
        )
    assert upstream.requests == []


# The page of the last requests


def test_an_empty_page_says_what_to_do() -> None:
    page = render_page(RequestLog(), "http://127.0.0.1:1/v1")
    assert "Point an agent at this proxy" in (page.text or "")
    assert page.headers["Cache-Control"] == "no-store"


def test_what_comes_from_outside_is_escaped() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    records = RequestLog()
    records.add(
        Record(
            number=1,
            at=0.0,
            api="chat",
            model=hostile,
            streamed=True,
            status=502,
            outcome=hostile,
            elapsed_ms=3,
            turns=3,
            repairs=(hostile,),
            error_codes=(hostile,),
            tools=(hostile,),
            message=hostile,
        )
    )
    text = render_page(records, hostile).text or ""
    assert "<img" not in text
    assert "re-prompted 2" in text


# What the proxy itself refuses is refused for good, and clients are told so


TOKEN = "let-me-in"
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens")
NOWHERE = "http://127.0.0.1:9"


async def refused(path: str, key: str) -> tuple[int, str | None]:
    """Send something that is no request; return the status, and what is told about retries."""
    async with (
        Proxy(NOWHERE, token=TOKEN) as proxy,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session,
        session.post(proxy.url + path, data=b"{") as response,
    ):
        return response.status, response.headers.get("x-should-retry")


@pytest.mark.parametrize("path", PATHS)
def test_a_client_without_the_token_is_told_not_to_try_again(path: str) -> None:
    assert asyncio.run(refused(path, "wrong")) == (401, "false")


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_sends_no_request_is_told_not_to_try_again(path: str) -> None:
    assert asyncio.run(refused(path, TOKEN)) == (400, "false")


# An upstream with another API


def test_a_request_that_needs_no_repair_is_translated_and_not_repaired() -> None:
    body: JSON = {"model": "sim/clean", "messages": [USER]}
    with Simulator() as simulator, Proxy(simulator.url, api="messages") as proxy:
        plain = post(proxy.url, body)
        streamed = post(proxy.url, body | {"stream": True})
        assert [request["max_tokens"] for request in simulator.requests] == 2 * [8192]

    assert plain.json["choices"][0]["message"]["content"]
    assert streamed.events[-1]["choices"][0]["finish_reason"] == "stop"
    assert "x-surecall-run" not in plain.headers


def test_a_chat_client_gets_the_errors_of_another_api_in_its_own_form() -> None:
    data = b'{"type":"error","error":{"type":"invalid_request_error","message":"No."}}'
    with (
        RawUpstream((400, {"Content-Type": "application/json"}, data)) as upstream,
        Proxy(upstream.url, api="messages") as proxy,
    ):
        got = post(proxy.url, {"model": "m", "messages": [USER], "tools": [WEATHER]})
    assert got.status == 400
    assert got.json["error"]["message"] == "No."
    assert "type" not in got.json


def test_a_claude_client_keeps_its_options_and_cache_markers_at_a_messages_upstream() -> None:
    mark = {"type": "ephemeral"}
    text = {"type": "text", "text": "Hi.", "cache_control": mark}
    tool = {"name": "add", "input_schema": {"type": "object"}, "cache_control": mark}
    body = {
        "model": "sim/clean",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "messages": [{"role": "user", "content": [text]}],
        "tools": [tool],
        "thinking": {"type": "enabled", "budget_tokens": 10},
    }
    with Simulator() as simulator, Proxy(f"{simulator.url}/v1/messages") as proxy:
        assert post(proxy.url, body, "/v1/messages").status == 200
        [sent] = simulator.requests
    assert sent == body
