"""What goes wrong on the way to an endpoint and back: each has a code, a sentence and a hint."""

import socket
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import Mock

import pytest

from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import Limits
from surecall.testing import ScriptedProvider
from surecall.values.errors import ErrorCode
from tests.support.raw_replies import BOMB, CHUNKED, ENDLESS, LENGTH_9
from tests.support.raw_server import KEY, OK, PATIENT, SILENCE, asked, fault_of, served, streamed


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
        ((LENGTH_9 + b"\r\n{}",), "CONNECTION_ERROR", "broke off"),
        ((CHUNKED + b"ff\r\nabc",), "CONNECTION_ERROR", "broke off"),
        ((LENGTH_9 + b"Content-Encoding: gzip\r\n\r\nnot gzip!",), "CONNECTION_ERROR", "garbled"),
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
        ("a..b", UnicodeError(), "a..b:80 is not a host name"),
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
