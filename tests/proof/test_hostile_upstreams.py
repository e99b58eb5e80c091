"""What the clients of a proxy get of hostile answers."""

import asyncio
from typing import Any

import pytest

from proof.hostile_answers import CASES, KEY, REDIRECTS, Listener
from proof.hostile_upstreams import FEW, Asked, Got, asked_through, code_of, judged, questions, read
from surecall.wire.messages import encode

CHAT = {"error": {"message": "m", "type": "api_error", "code": "TIMEOUT", "param": None}}
FAILED = {"type": "response.failed", "response": {"error": {"code": "server_error"}}}
ERROR = {"type": "error", "error": {"type": "api_error", "message": "m"}}
DRIP = Asked("drip of a body", "chat", "plain")


@pytest.mark.parametrize(
    ("face", "error", "code"),
    [
        ("chat", CHAT, "TIMEOUT"),
        ("passed", CHAT, "TIMEOUT"),
        ("responses", CHAT, "TIMEOUT"),
        ("responses", FAILED, "server_error"),
        ("messages", ERROR, "api_error"),
    ],
)
def test_each_face_has_its_form_of_an_error(face: str, error: Any, code: str) -> None:
    assert code_of(error, face) == code
    with pytest.raises(ValueError, match="no error of this face"):
        code_of({"error": "oops"}, face)


def test_an_error_of_another_face_is_none() -> None:
    with pytest.raises(ValueError, match="no error of this face"):
        code_of(CHAT, "messages")


def test_an_answer_is_read_in_every_way_it_comes() -> None:
    stream = b'data: {"choices":[{"delta":{"content":"Hello."}}]}\n\ndata: [DONE]\n\n'
    broken = b"data: {}\n\ndata: " + encode(CHAT) + b"\n\n"
    assert read("chat", 200, "application/json", b'{"a":"Hello."}') == ""
    assert read("chat", 200, "text/event-stream", stream) == ""
    assert read("chat", 200, "text/event-stream", broken) == "TIMEOUT"
    assert read("chat", 502, "application/json", encode(CHAT)) == "TIMEOUT"
    assert read("passed", 302, "", b"") == "status 302"
    assert read("passed", 200, "", b"anything") == ""
    with pytest.raises(ValueError, match="no answer"):
        read("chat", 200, "text/event-stream", b"data: {}\n\n")


def test_whatever_is_wrong_is_told() -> None:
    assert judged(DRIP, Got("TIMEOUT", 64, 3.0), 64, 1) == []
    assert judged(DRIP, Got("", 65, 3.1), 64, 1) == [
        "drip of a body, chat, plain: 65 MiB over the base",
        "drip of a body, chat, plain: 3.1 s",
        "drip of a body, chat, plain: it was taken for an answer",
    ]
    assert judged(DRIP, Got(problem="KeyError: 1"), 64, 1) == [
        "drip of a body, chat, plain: KeyError: 1"
    ]
    readable = Asked("byte order mark", "chat", "plain")
    assert judged(readable, Got("DECODE_ERROR"), 64, 1) == [
        "byte order mark, chat, plain: DECODE_ERROR, though it can be read"
    ]


def test_every_answer_is_asked_of_chat_and_a_few_of_the_others() -> None:
    every = len(CASES) + len(REDIRECTS)
    assert len(set(map(str, questions()))) == 2 * every + 5 * len(FEW)


@pytest.mark.processes
def test_a_few_questions_hold() -> None:
    names = [
        Asked("302", "chat", "plain"),
        Asked("gzip bomb", "messages", "streamed"),
        Asked("byte order mark in a stream", "responses", "streamed"),
        Asked("endless body", "passed", "plain"),
    ]
    listener = Listener()

    async def work() -> list[tuple[Asked, Got]]:
        async with listener as url:
            return await asked_through(url, names)

    done = asyncio.run(work())
    assert [problem for asked, got in done for problem in judged(asked, got, 64, 60)] == []
    assert {asked.face: got.code for asked, got in done} == {
        "chat": "NOT_FOUND",
        "messages": "api_error",
        "responses": "",
        "passed": "broken off",
    }
    assert listener.strangers == []
    assert all(KEY.encode() in head for head in listener.heads)
