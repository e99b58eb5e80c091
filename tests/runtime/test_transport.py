"""Tests of `surecall.runtime.transport`."""

import asyncio
import socket
import threading
import traceback
import tracemalloc
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.core.outcome import RunFailed
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import Limits, RetryPolicy
from surecall.testing import ScriptedProvider, failure, says
from surecall.values.errors import ConfigError, ErrorCode, ProviderError
from surecall.values.types import HttpResponse, Secret
from tests.support.proxy import RawUpstream
from tests.support.servers import (
    BOMB,
    CHUNKED,
    ENDLESS,
    KEY,
    LENGTH_9,
    OK,
    PATIENT,
    SILENCE,
    Knock,
    Reply,
    asked,
    fault_of,
    listening,
    sent,
    served,
    streamed,
)
from tests.support.timing import PATIENCE_S, until_soon

# The transport against real sockets on this machine: raw servers, and the scripted provider


@pytest.mark.parametrize(
    ("base", "prefix", "url"),
    [
        ("http://example.com", "/v1", "http://example.com/v1/chat/completions"),
        ("  http://example.com//  ", "/v1", "http://example.com/v1/chat/completions"),
        ("http://example.com/v1", "/v1", "http://example.com/v1/chat/completions"),
        ("http://example.com/v1//", "v1/", "http://example.com/v1/chat/completions"),
        ("https://router.ai/api/v1", "/v1", "https://router.ai/api/v1/chat/completions"),
        ("http://v1", "/v1", "http://v1/v1/chat/completions"),
        ("http://example.com/xv1", "v1", "http://example.com/xv1/v1/chat/completions"),
        ("http://example.com/beta", None, "http://example.com/beta/chat/completions"),
        ("http://example.com/beta/", "  ", "http://example.com/beta/chat/completions"),
        ("http://[::1]:8000", "a/b", "http://[::1]:8000/a/b/chat/completions"),
        ("http://e.com/x?api-version=1", "", "http://e.com/x/chat/completions?api-version=1"),
    ],
)
def test_an_address_is_base_prefix_endpoint(base: str, prefix: str | None, url: str) -> None:
    client = OpenAICompatible(base, api_prefix=prefix)
    assert client.url("chat/completions") == client.url("/chat/completions") == url


@given(prefix=st.from_regex(r"(/[a-z0-9]{1,4}){1,3}", fullmatch=True), slashes=st.integers(0, 3))
def test_a_prefix_is_never_doubled(prefix: str, slashes: int) -> None:
    plain = OpenAICompatible("http://host", api_prefix=prefix)
    given_twice = OpenAICompatible(f"http://host{prefix}{'/' * slashes}", api_prefix=prefix)
    assert given_twice.url("models") == plain.url("models")


@pytest.mark.parametrize(
    ("base", "sentence"),
    [
        ("localhost:8000", "must start with http://"),
        ("", "base_url is blank"),
        ("ftp://example.com", "must start with http://"),
        ("http://", "base_url has no host"),
        ("http://:80/v1", "base_url has no host"),
        ("http://user:hunter2@host", "pass the key as api_key"),
        ("http://host:hunter2", "malformed host or port"),
        ("http://[::1", "malformed host or port"),
        ("http://ho st", "space or a control character"),
        ("http://host/\x00", "space or a control character"),
        ("http://host/#hunter2", "fragment"),
    ],
)
def test_a_bad_address_is_refused_and_not_quoted(base: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        OpenAICompatible(base)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("key", ["", " \n", f"{KEY}\n", f"{KEY}\r\nX: y", f"{KEY}\x00", f"{KEY}…"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    for given_key in (key, Secret(key)):
        with pytest.raises(ConfigError, match="api_key") as caught:
            OpenAICompatible("http://host", given_key)
        assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("name", "value"),
    [("X", f"{KEY}\r\nY: z"), ("X\nY", KEY), ("X Y", KEY), ("X:", KEY), ("", KEY)],
)
def test_a_header_cannot_break_out_of_its_line(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match="header") as caught:
        OpenAICompatible("http://host", headers={name: value})
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("field", Limits.__struct_fields__)
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_limit_is_a_finite_number_above_zero(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"limits.{field}"):
        Limits(**{field: value})  # type: ignore[arg-type]  # one field at a time


def test_neither_key_nor_headers_nor_query_are_printed() -> None:
    client = OpenAICompatible("http://host/v1?token=hunter2", KEY, headers={"X-Key": "hunter2"})
    assert repr(client) == "OpenAICompatible('http://host/v1')"
    assert KEY not in str(vars(client)) + str(client)
    assert "X-Key': Secret" in str(vars(client))


def test_a_request_is_one_json_post_with_a_bearer_key() -> None:
    with ScriptedProvider(says("hi"), api_key=KEY) as provider:
        answer = sent(provider.url, body=b'{"model": "m"}')
    assert answer.status == 200
    assert b'"content":"hi"' in answer.body
    assert provider.requests == [{"model": "m"}]
    received = provider.headers[0]
    assert received["content-type"] == received["accept"] == "application/json"


@pytest.mark.parametrize("status", [201, 304, 400, 401, 404, 418, 429, 500, 503])
def test_any_status_is_an_answer(status: int) -> None:
    with ScriptedProvider(failure(status, b"why", {"Retry-After": "7"})) as provider:
        answer = sent(provider.url)
    assert (answer.status, answer.headers["retry-after"]) == (status, "7")
    assert answer.body == (b"" if status == 304 else b"why")


def test_headers_of_the_caller_win() -> None:
    own = {"authorization": "Basic eA==", "ACCEPT": "*/*", "X-Title": "t"}
    with ScriptedProvider(says("hi")) as provider:
        sent(provider.url, headers=own)
    received = provider.headers[0]
    assert received["authorization"] == "Basic eA=="
    assert (received["accept"], received["x-title"]) == ("*/*", "t")


def test_response_headers_are_lower_case_joined_and_text() -> None:
    head = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nX-B: \xff\xc3\xa9\r\nContent-Length: 0\r\n\r\n"
    answer = asyncio.run(asked(head))
    assert answer.headers == {"x-a": "1, 2", "x-b": "\ufffdé", "content-length": "0"}


def test_a_request_of_two_megabytes_is_sent_whole() -> None:
    with ScriptedProvider(says("hi")) as provider:
        sent(provider.url, body=b'{"text": "%s"}' % (b"x" * 2_000_000))
    assert len(provider.requests[0]["text"]) == 2_000_000


def test_a_redirect_is_returned_and_not_followed() -> None:
    async def main() -> tuple[HttpResponse, int]:
        async with served(OK) as elsewhere:
            redirect = f"HTTP/1.1 307 Go\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n"
            async with served(redirect.encode()) as wire:
                answer = await OpenAICompatible(wire.url, KEY).send(b"{}")
            return answer, len(elsewhere.talks)

    answer, followed = asyncio.run(main())
    assert (answer.status, followed) == (307, 0)


def test_a_netrc_file_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with ScriptedProvider(says("hi"), repeat=True) as provider:
        sent(provider.url)
        asyncio.run(OpenAICompatible(provider.url).send(b"{}"))
    received = [headers.get("authorization") for headers in provider.headers]
    assert received == [f"Bearer {KEY}", None]


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[bytes]:
        async with served(OK) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            await OpenAICompatible("http://far.invalid").send(b"{}")
        return proxy.heads

    assert asyncio.run(main())[0].startswith(b"POST http://far.invalid/v1/chat/completions")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_proxy_of_the_environment_is_not_asked_about_this_machine(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> tuple[HttpResponse, list[bytes]]:
        async with served(OK) as proxy, served(OK) as wire:
            monkeypatch.setenv("http_proxy", proxy.url)
            answer = await OpenAICompatible(wire.url.replace("127.0.0.1", host)).send(b"{}")
        return answer, proxy.heads

    answer, asked_of_the_proxy = asyncio.run(main())
    assert (answer.status, asked_of_the_proxy) == (200, [])


def test_a_compressed_bomb_is_not_unpacked() -> None:
    tracemalloc.start()
    with pytest.raises(ProviderError):
        asyncio.run(asked(BOMB))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


def test_a_body_of_exactly_the_limit_is_an_answer() -> None:
    assert len(asyncio.run(asked(ENDLESS + b"x" * 1_000_000)).body) == 1_000_000


def test_one_connection_serves_a_block_and_is_closed_with_it() -> None:
    async def main() -> list[int]:
        async with served(OK.replace(b"OK", b"OK\r\nSet-Cookie: a=b")) as wire:
            client, seen = OpenAICompatible(wire.url.replace("127.0.0.1", "localhost")), []
            async with client.opened():
                assert not wire.talks
            async with client:
                async with client.opened():
                    await client.send(b"{}")
                await client.send(b"{}")
                seen += [len(wire.talks), wire.talks[0].done()]
            await asyncio.gather(*wire.talks)
            await client.send(b"{}")
            await client.send(b"{}")
            assert not any(b"cookie" in head.lower() for head in wire.heads)
            return [*seen, len(wire.talks), len(client._shared_sessions)]

    assert asyncio.run(main()) == [1, False, 3, 0]


def test_overlapping_runs_of_a_loop_share_one_session() -> None:
    async def run(client: OpenAICompatible, others: asyncio.Event) -> object:
        async with client.opened():
            await client.send(b"{}")
            session = client._current_session().session
            await others.wait()
            await client.send(b"{}")
            return session

    async def main() -> tuple[int, int]:
        async with served(OK) as wire:
            client, others = OpenAICompatible(wire.url), asyncio.Event()
            longer = asyncio.create_task(run(client, others))
            at_once = asyncio.Event()
            at_once.set()
            sessions = [await run(client, at_once)]
            others.set()
            sessions.append(await longer)
        return len(set(sessions)), len(wire.talks)

    assert asyncio.run(main()) == (1, 2)


def test_loops_in_several_threads_do_not_share_a_session() -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE_S)

    async def run(client: OpenAICompatible) -> object:
        async with client.opened():
            await client.send(b"{}")
            meeting.wait()
            await client.send(b"{}")
            return client._current_session().session

    with ScriptedProvider(says("hi"), repeat=True) as provider, ThreadPoolExecutor() as pool:
        client = OpenAICompatible(provider.url)
        sessions = list(pool.map(lambda _: asyncio.run(run(client)), range(2)))
    assert (len(set(sessions)), len(provider.requests), client._shared_sessions) == (2, 4, {})


def test_a_cancelled_request_closes_its_socket() -> None:
    async def main() -> None:
        async with served(SILENCE) as wire:
            sending = asyncio.create_task(OpenAICompatible(wire.url).send(b"{}"))
            await until_soon(lambda: wire.heads)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending

    asyncio.run(main())


def test_the_list_of_models_is_asked_for_with_the_key() -> None:
    with ScriptedProvider(api_key=KEY) as provider:
        listed = asyncio.run(OpenAICompatible(provider.url, KEY).models())
        refused = asyncio.run(OpenAICompatible(provider.url, "another").models())

    assert (listed.status, b'"scripted"' in listed.body) == (200, True)
    assert refused.status == 401
    with socket.socket() as held:  # nobody listens there
        held.bind(("127.0.0.1", 0))
        nowhere = OpenAICompatible(f"http://127.0.0.1:{held.getsockname()[1]}")
        with pytest.raises(ProviderError, match="Cannot connect"):
            asyncio.run(nowhere.models())


# What goes wrong on the way to an endpoint and back: each has a code, a sentence and a hint


@pytest.mark.parametrize("reply", [b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", None])
def test_a_bad_proxy_is_named(reply: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with served(reply or b"", stays=False) as proxy:
            address = proxy.url if reply else "http://127.0.0.1:1"
            monkeypatch.setenv("https_proxy", address.replace("//", f"//me:{KEY}@"))
            await OpenAICompatible("https://far.invalid", KEY).send(b"{}")

    fault = fault_of(main())
    assert fault.code is ErrorCode.CONNECTION_ERROR
    assert "proxy for far.invalid:443" in fault.message


@pytest.mark.parametrize(
    ("reply", "code", "told"),
    [
        ((), "CONNECTION_ERROR", "without an answer"),
        ((LENGTH_9[:20],), "CONNECTION_ERROR", "without an answer"),
        ((LENGTH_9 + b"\r\n{}",), "CONNECTION_ERROR", "incomplete"),
        ((CHUNKED + b"ff\r\nabc",), "CONNECTION_ERROR", "incomplete"),
        ((LENGTH_9 + b"Content-Encoding: gzip\r\n\r\nnot gzip!",), "CONNECTION_ERROR", "corrupt"),
        ((b"SSH-2.0-OpenSSH\r\n\r\n",), "DECODE_ERROR", "not HTTP"),
        ((CHUNKED + b"zz\r\n",), "DECODE_ERROR", "not HTTP"),
        ((LENGTH_9 + b"X: " + b"x" * 70_000 + b"\r\n\r\n",), "DECODE_ERROR", "too large"),
        ((LENGTH_9 + b"X: y\r\n" * 3_000 + b"\r\n",), "DECODE_ERROR", "too large"),
        ((ENDLESS, b"x" * 1_000_001, SILENCE), "RESPONSE_TOO_LARGE", "1000000 bytes"),
        ((BOMB,), "RESPONSE_TOO_LARGE", "1000000 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_without_a_usable_answer_there_is_a_fault(
    reply: tuple[bytes | None, ...], code: str, told: str
) -> None:
    fault = fault_of(asked(*reply))
    assert fault.code == code
    assert told in fault.message
    assert "127.0.0.1:" in fault.message
    assert fault.hint
    assert fault.retryable is (code == "CONNECTION_ERROR")


@pytest.mark.parametrize("ask", [asked, streamed])
@pytest.mark.parametrize("begun", [(), (LENGTH_9[:20],), (LENGTH_9 + b"\r\n{}",)])
@pytest.mark.parametrize(
    ("limit", "told"),
    [("idle_s", "Idle timeout: 127.0.0.1:"), ("total_s", "Total timeout: no complete answer")],
)
def test_an_answer_that_never_ends_is_a_timeout(
    ask: Callable[..., Coroutine[Any, Any, object]],
    begun: tuple[bytes, ...],
    limit: str,
    told: str,
) -> None:
    fault = fault_of(ask(*begun, SILENCE, **{limit: 0.1}))
    assert fault.code is ErrorCode.TIMEOUT
    assert told in fault.message
    assert "127.0.0.1:" in fault.message
    assert fault.hint
    assert fault.retryable


def test_a_tls_handshake_that_never_ends_is_a_connect_timeout() -> None:
    assert "Connect timeout" in fault_of(asked(OK, scheme="https", connect_s=0.1)).message


def test_an_endpoint_without_tls_is_named() -> None:
    with ScriptedProvider() as provider:
        client = OpenAICompatible(
            provider.url.replace("http", "https"), KEY, limits=Limits(**PATIENT)
        )
        assert "No TLS" in fault_of(client.send(b"{}")).message


@pytest.mark.parametrize(
    ("place", "cause", "told"),
    [
        ("far.invalid", socket.gaierror(), "The host name of far.invalid:80 cannot be resolved."),
        ("a..b", UnicodeError(), "a..b:80 is not a valid host name"),
        ("127.0.0.1:1", None, "Cannot connect to 127.0.0.1:1. Check the URL, and whether the"),
    ],
)
def test_an_endpoint_that_is_not_there_is_named(
    place: str, cause: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=cause))
    fault = fault_of(OpenAICompatible(f"http://{place}", KEY).send(b"{}"))
    assert fault.code is ErrorCode.CONNECTION_ERROR
    assert fault.retryable is (place != "a..b")
    assert told in str(fault)


# What a client knows and must not show: its key, its own headers, the query of its address


SECRET = "canary/47+11=abcdEF"
QUOTED = "canary%2F47%2B11%3DabcdEF"


def secrets_of(client: OpenAICompatible) -> list[str]:
    return [secret.reveal() for secret in client.secrets]


def test_the_key_the_headers_and_the_query_are_secrets() -> None:
    client = OpenAICompatible(
        f"http://h?code={QUOTED}", "sk-key", headers={"X-Api-Key": "header-key"}
    )
    found = secrets_of(client)

    assert found[:2] == ["sk-key", "header-key"]
    assert {f"code={QUOTED}", QUOTED, SECRET} <= set(found)
    assert QUOTED not in repr(client) + client.base_url


def test_what_a_header_says_to_everyone_is_no_secret() -> None:
    headers = {
        "X-Title": "My evaluation",
        "HTTP-Referer": "http://x",
        "X-OpenRouter-Metadata": "enabled",
    }

    assert secrets_of(OpenAICompatible("http://h", headers=headers)) == []


def test_a_token_in_a_header_for_everyone_is_a_secret_all_the_same() -> None:
    headers = {"X-Title": "4711-canary-in-a-title"}

    assert secrets_of(OpenAICompatible("http://h", headers=headers)) == ["4711-canary-in-a-title"]


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_endpoint_that_echoes_the_query_does_not_get_it_into_an_error(
    status: int, *, quoted: bool
) -> None:
    def echo(knock: Knock) -> Reply:
        said = knock.path if quoted else f"code was {SECRET}"
        return status, {"error": {"message": said, "metadata": {"raw": said}}}

    with listening(echo) as listener:
        client = OpenAICompatible(f"{listener.url}?code={QUOTED}")
        runner = ToolLoopRunner(client=client, model="m", tools=[], retry=RetryPolicy(attempts=1))
        with pytest.raises(ProviderError) as failure:
            asyncio.run(runner.run("hi"))

    assert "canary/47%2B11%3DabcdEF" in listener.heard[0].path  # as the library writes it
    assert isinstance(failure.value, RunFailed)
    told = f"{failure.value} {failure.value.fault!r} {failure.value.result!r}"
    assert [word for word in ("canary", "47", "abcdEF") if word in told] == []


# Other APIs than chat completions

ASKED = b'{"model":"m","messages":[{"role":"user","content":"Hi."}]}'
MESSAGE = {"content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn"}
TOOLS = b'{"model":"gpt-5.6","tools":[{}],"messages":[]}'
JSON_TYPE = {"Content-Type": "application/json"}


def given_to(upstream: RawUpstream) -> tuple[str, dict[str, str], Any]:
    _, path, headers, data = upstream.requests[-1]
    return path, headers, msgspec.json.decode(data)


def streamed_by(client: OpenAICompatible, body: bytes) -> tuple[int, bytes]:
    async def main() -> tuple[int, bytes]:
        async with client.stream(body) as incoming:
            return incoming.status, b"".join([chunk async for chunk in incoming.chunks])

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("base", "api", "url"),
    [
        ("http://host/v1/responses", "responses", "http://host/v1/responses"),
        ("http://host/x/messages/", "messages", "http://host/x/messages"),
        ("http://host/v1/chat/completions", "chat", "http://host/v1/chat/completions"),
        ("http://host/messages?a=1", "messages", "http://host/messages?a=1"),
    ],
)
def test_an_address_of_an_api_is_complete(base: str, api: str, url: str) -> None:
    client = OpenAICompatible(base)
    assert client.api == client.usual_api == api
    path = {"chat": "chat/completions"}.get(api, api)
    assert client.url(path) == url


def test_the_api_depends_on_the_address_the_model_and_the_lessons() -> None:
    def name(client: OpenAICompatible, body: bytes = TOOLS) -> str:
        api = client.native_api(body)
        return "chat" if api is None else api.name

    openai, plain = OpenAICompatible("https://api.openai.com"), OpenAICompatible("http://host")
    assert name(OpenAICompatible("https://api.anthropic.com")) == "messages"
    assert OpenAICompatible("https://api.anthropic.com").usual_api == "messages"
    assert name(OpenAICompatible("https://api.anthropic.com", api="chat")) == "chat"
    assert (name(openai), name(openai, ASKED), name(openai, b"{")) == ("responses", "chat", "chat")
    assert openai.usual_api == plain.usual_api == "chat"
    assert name(plain) == "chat"
    plain.lessons["gpt-5.6"] = ("stream", "api:messages", "api:responses", "top_p")
    assert (name(plain), name(plain, ASKED)) == ("responses", "chat")


def test_a_request_goes_out_in_the_api_and_its_answer_comes_back_as_a_chat_completion() -> None:
    with RawUpstream((200, JSON_TYPE, msgspec.json.encode(MESSAGE))) as upstream:
        client = OpenAICompatible(upstream.url, KEY, api="messages", headers={"X-Mine": "1"})
        answer = asyncio.run(client.send(ASKED))
        asyncio.run(client.models())
        assert upstream.requests[-1][2]["anthropic-version"]
        upstream.requests.pop()
        path, headers, body = given_to(upstream)
        status, data = streamed_by(client, ASKED)

    assert path == "/v1/messages"
    assert body["messages"] == [{"role": "user", "content": "Hi."}]
    assert headers["x-api-key"] == KEY
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (headers["anthropic-version"], headers["x-mine"]) == ("2023-06-01", "1")
    assert msgspec.json.decode(answer.body)["choices"][0]["message"]["content"] == "Hello."
    assert (status, data) == (200, answer.body)


def test_anthropic_gets_the_key_in_one_header() -> None:
    client = OpenAICompatible("https://api.anthropic.com", KEY)
    headers = client._request_headers(client._native_headers("messages"))
    assert headers["x-api-key"] == KEY
    assert "Authorization" not in headers
    assert OpenAICompatible("https://api.anthropic.com")._native_headers("messages").keys() == {
        "anthropic-version"
    }


def test_a_stream_is_translated_as_it_arrives() -> None:
    body = {
        "type": "response.completed",
        "response": {"id": "r", "output": [], "status": "completed"},
    }
    data = b"data: " + msgspec.json.encode(body) + b"\n\n"
    with RawUpstream((200, {"Content-Type": "text/event-stream"}, data)) as upstream:
        client = OpenAICompatible(upstream.url, api="responses")
        status, chunks = streamed_by(client, ASKED)
        assert given_to(upstream)[0] == "/v1/responses"
    assert status == 200
    assert chunks.endswith(b"data: [DONE]\n\n")


def test_errors_of_another_api_pass_unchanged() -> None:
    data = b'{"type":"error","error":{"type":"overloaded_error","message":"Busy."}}'
    with RawUpstream((529, JSON_TYPE, data)) as upstream:
        client = OpenAICompatible(upstream.url, api="messages")
        assert asyncio.run(client.send(ASKED)).body == data
        assert streamed_by(client, ASKED) == (529, data)


def test_a_request_that_the_api_cannot_express_is_refused_and_not_sent() -> None:
    audio = b'{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio"}]}]}'
    with RawUpstream((200, JSON_TYPE, b"{}")) as upstream:
        client = OpenAICompatible(upstream.url, api="messages")
        answer = asyncio.run(client.send(audio))
        assert streamed_by(client, audio) == (400, answer.body)
        assert not upstream.requests
    assert answer.status == 400
    assert b"input_audio" in answer.body


def test_a_saved_turn_is_not_sent_to_chat_completions() -> None:
    saved = b'{"role":"assistant","content":"A","native_turn":{"api":"messages","items":[]}}'
    body = b'{"model":"m","messages":[' + saved + b"]}"
    with RawUpstream((200, JSON_TYPE, b"{}")) as upstream:
        client = OpenAICompatible(upstream.url)
        asyncio.run(client.send(body))
        assert given_to(upstream)[2]["messages"] == [{"role": "assistant", "content": "A"}]
        streamed_by(client, body)
        assert given_to(upstream)[2]["messages"] == [{"role": "assistant", "content": "A"}]


def test_a_large_answer_is_translated_in_a_thread() -> None:
    long = MESSAGE | {"content": [{"type": "text", "text": "x" * 200_000}]}
    with RawUpstream((200, JSON_TYPE, msgspec.json.encode(long))) as upstream:
        answer = asyncio.run(OpenAICompatible(upstream.url, api="messages").send(ASKED))
    assert len(msgspec.json.decode(answer.body)["choices"][0]["message"]["content"]) == 200_000
