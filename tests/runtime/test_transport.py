"""The transport against real sockets on this machine: raw servers, and the scripted provider."""

import asyncio
import socket
import threading
import traceback
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import Limits
from surecall.testing import ScriptedProvider, failure, says
from surecall.values.errors import ConfigError, ProviderError
from surecall.values.types import Answer, Secret
from tests.support.patience import PATIENCE_S, until_soon
from tests.support.raw_replies import BOMB, ENDLESS
from tests.support.raw_server import KEY, OK, SILENCE, asked, sent, served


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
        ("http://", "names no host"),
        ("http://:80/v1", "names no host"),
        ("http://user:hunter2@host", "pass the key as api_key"),
        ("http://host:hunter2", "malformed host or port"),
        ("http://[::1", "malformed host or port"),
        ("http://ho st", "space or a control character"),
        ("http://host/\x00", "space or a control character"),
        ("http://host/#hunter2", "fragment"),
        ("http://host/v1/chat/completions/", "leave that out"),
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
    async def main() -> tuple[Answer, int]:
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
    async def main() -> tuple[Answer, list[bytes]]:
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
            return [*seen, len(wire.talks), len(client._lines)]

    assert asyncio.run(main()) == [1, False, 3, 0]


def test_overlapping_runs_of_a_loop_share_one_session() -> None:
    async def run(client: OpenAICompatible, others: asyncio.Event) -> object:
        async with client.opened():
            await client.send(b"{}")
            session = client._line().session
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
            return client._line().session

    with ScriptedProvider(says("hi"), repeat=True) as provider, ThreadPoolExecutor() as pool:
        client = OpenAICompatible(provider.url)
        sessions = list(pool.map(lambda _: asyncio.run(run(client)), range(2)))
    assert (len(set(sessions)), len(provider.requests), client._lines) == (2, 4, {})


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
