"""The upstream: what of a client's headers goes there, and when its stream begins."""

import asyncio

import pytest

from surecall.proxy.serving.upstream import Upstream, first_event_head, returnable_headers
from surecall.testing import ScriptedProvider, raw, says, streams
from surecall.values.errors import ProviderError
from surecall.values.types import JSON, Secret
from tests.support.proxy import RawUpstream
from tests.support.servers import KEY, fault_of


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (b"", None),
        (b": hello\n\n", None),
        (b'data: {"id": "x"', None),
        (b'data: {"id":"x","model":"m","choices":[]}\n\n', {"id": "x", "model": "m"}),
        (b': c\r\n\r\ndata:{"created":7,"model":null}\r\n', {"created": 7}),
        (b"data: {oops\n", {}),
        (b"data: [1]\n", None),
        (b'data: {"error": {}}\n', None),
    ],
)
def test_the_first_event_says_what_the_answer_is_called(data: bytes, head: JSON | None) -> None:
    assert first_event_head(data) == head


def test_listed_headers_are_returned() -> None:
    headers = {"X-Request-Id": "1", "x-ratelimit-limit": "2", "Set-Cookie": "c", "Retry-After": "3"}
    assert returnable_headers(headers) == {
        "x-request-id": "1",
        "x-ratelimit-limit": "2",
        "retry-after": "3",
    }


def test_a_header_that_cannot_be_sent_stays_here() -> None:
    said = {"x-title": "a\udcff", "x-request-id": "a\nb", "http-referer": "", "openai-beta": "é"}
    assert list(Upstream("http://127.0.0.1:9").for_client(said, None)._headers) == ["openai-beta"]


def test_one_request_has_its_own_key_and_shares_the_rest() -> None:
    base = Upstream("http://127.0.0.1:9")
    one = base.for_client({"user-agent": "me", "cookie": "x"}, Secret("mine"))
    own = Upstream("http://127.0.0.1:9", "ours").for_client({}, Secret("mine"))

    assert one.api_key is not None
    assert one.api_key.reveal() == "mine"
    assert one.lessons is base.lessons
    assert base.api_key is None
    assert own.api_key is not None
    assert own.api_key.reveal() == "ours"


def test_the_last_answer_is_remembered() -> None:
    async def work(url: str) -> tuple[int, list[JSON]]:
        upstream = Upstream(url).for_client({}, None)
        begun: list[JSON] = []
        upstream.on_begin = begun.append
        await upstream.send(b"{}")
        assert upstream.last_answer is not None
        async with upstream.stream(b"{}") as incoming:
            async for _ in incoming.chunks:
                pass
        async with upstream.stream(b"{}") as incoming:
            async for _ in incoming.chunks:
                pass
        return upstream.last_answer.status, begun

    script = (says("a"), streams(says("b"), piece_bytes=7), raw(b": " + b"x" * 70_000 + b"\n\n"))
    with ScriptedProvider(*script) as provider:
        status, begun = asyncio.run(work(provider.url))
    assert status == 200
    assert len(begun) == 1
    assert begun[0]["model"]


def test_a_request_that_is_none_of_ours_is_forwarded() -> None:
    async def work(url: str, body: bytes) -> tuple[int, bytes]:
        upstream = Upstream(url).for_client({}, Secret("mine-123"))
        async with upstream.forward("POST", "/embeddings?a=%20", body, "text/x") as incoming:
            return incoming.status, b"".join([chunk async for chunk in incoming.chunks])

    with RawUpstream((201, {"Content-Type": "a/b"}, b"vec")) as raw_upstream:
        for body in (b"hello", b"x" * 2_000_000):
            assert asyncio.run(work(raw_upstream.url, body)) == (201, b"vec")
    method, path, headers, data = raw_upstream.requests[0]
    assert (method, path, data) == ("POST", "/v1/embeddings?a=%20", b"hello")
    assert (headers["content-type"], headers["authorization"]) == ("text/x", "Bearer mine-123")
    with pytest.raises(ProviderError):
        asyncio.run(work("http://127.0.0.1:9", b""))


def test_a_request_handed_on_in_vain_shows_neither_the_key_nor_the_proxys_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:{KEY}@127.0.0.1:1")

    async def work() -> None:
        async with Upstream("http://far.invalid", KEY).forward("GET", "/models", b"", None):
            pass

    assert "proxy for far.invalid:80" in fault_of(work()).message


def test_an_upstream_with_the_messages_api_gets_its_headers() -> None:
    with RawUpstream((200, {}, b"{}")) as raw:
        base = Upstream(raw.url, api="messages").for_client({"anthropic-beta": "x"}, Secret(KEY))

        async def work() -> None:
            async with base.forward("GET", "/models", b"", None):
                pass

        asyncio.run(work())
        [(_, path, headers, _)] = raw.requests
    assert (path, headers["x-api-key"], headers["anthropic-beta"]) == ("/v1/models", KEY, "x")
    other = Upstream("http://127.0.0.1:9").for_client({"anthropic-beta": "x"}, None)
    assert not other._headers
