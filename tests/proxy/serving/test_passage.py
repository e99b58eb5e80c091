"""A request that is none of ours: handed on as it is, and its answer back as it comes."""

import http.client
import socket
from urllib.parse import urlsplit

import pytest

from surecall.proxy import Proxy, Record
from surecall.proxy.serving.passage import is_plain_path
from surecall.settings.connection import Limits
from surecall.testing import ScriptedProvider, cuts, hangs
from tests.support.proxy import RawUpstream, asked, post, send


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
        got = post(proxy.url, request.data)

    assert (got.status, got.body) == (200, answer[2])
    assert got.headers["content-type"] == "text/event-stream"
    assert upstream.requests[0][3] == request.data
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
        assert post(proxy.url, asked(tools=()).data).status == 504


def test_an_answer_that_breaks_off_breaks_off() -> None:
    cut = pytest.raises(http.client.IncompleteRead)
    with ScriptedProvider(cuts(b"x" * 5000, 1000)) as upstream, Proxy(upstream.url) as proxy, cut:
        post(proxy.url, asked(tools=()).data)


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
