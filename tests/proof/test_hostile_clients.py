"""A client that gets more than it should, or costs more than it may, is found out."""

import asyncio

import pytest

from proof import hostile_clients
from proof.hostile_clients import KEY, Said, judged, staged, too_much, unsound, written
from proof.hostile_requests import MIB, TOKEN, Case, all_cases, posted
from proof.proxy_process import State
from proof.recording_upstream import Request, parsed

HOST = "127.0.0.1:1"
LINE = b"POST /v1/chat/completions HTTP/1.1"
HEAD = b"Host: 127.0.0.1:1\r\nAuthorization: Bearer " + KEY.encode()


def reached(line: bytes = LINE, head: bytes = HEAD, more: bytes = b"") -> Request:
    return parsed(line + b"\r\n" + head + more + b"\r\n\r\n", b"")


def state(rss: float = 0.0, peak: float = 0.0) -> State:
    return State(rss, peak, 0, 0, 0.0)


def test_what_should_reach_the_upstream_is_sound() -> None:
    assert list(unsound(reached(more=b"\r\nX-Title: t"), HOST)) == []


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (reached(more=b"\r\nCookie: a=1"), "headers cookie"),
        (reached(more=b"\r\nX-Title: a\r\nX-Title: b"), "a header twice"),
        (reached(head=b"Host: 127.0.0.1:1\r\nAuthorization: Bearer x"), "another key"),
        (reached(head=HEAD.replace(b":1\r\n", b":2\r\n")), "host [b'127.0.0.1:2']"),
        (reached(b"POST /admin HTTP/1.1"), "line b'POST /admin HTTP/1.1'"),
        (reached(more=b"\r\nX-Title: evil"), "what was meant for the proxy"),
        (reached(more=b"\r\nX-Title: " + TOKEN.encode()), "what was meant for the proxy"),
    ],
)
def test_whatever_else_reaches_it_is_told(request_: Request, told: str) -> None:
    assert list(unsound(request_, HOST)) == [told]


def test_an_answer_that_the_table_does_not_have_is_told() -> None:
    case = Case(b"", (400,))
    assert list(judged("a", case, Said((400,), is_closed=True, data=b""), [])) == []
    data = b"Access-Control-Allow-Origin: *\r\n\r\n" + KEY.encode()
    assert list(judged("a", case, Said((200,), is_closed=True, data=data), [reached()])) == [
        "a: (200,), not (400,)",
        "a: 1 requests went on, not 0",
        "a: another origin may read the answer",
        "a: the key came back",
    ]


def test_memory_is_measured_by_what_was_sent() -> None:
    assert list(too_much("a", MIB, state(50), state(peak=149))) == []
    assert list(too_much("a", MIB, state(50), state(peak=151))) == ["a: 101 MiB for 1.00"]
    assert list(too_much("a", 99 * MIB, state(), state(peak=161))) == ["a: 161 MiB for 99.00"]
    assert list(too_much("a", 1, state(), state(peak=8))) == []


def test_the_marks_are_filled_in_where_they_stand() -> None:
    assert b"Host: 127.0.0.1:7\r\nX-Request-Id: c3\r\n" in written(posted(), 7, "c3")
    assert written(b"a\r\n\r\n@PORT@", 7, "") == b"a\r\n\r\n@PORT@"


@pytest.mark.processes
def test_a_few_cases_hold_and_a_wrong_one_does_not() -> None:
    names = ("length and chunks", "hop by hop", "token: wrong", "token: right", "packed: a bomb")
    cases = all_cases()

    async def play() -> hostile_clients.Stage:
        async with staged() as stage:
            for number, name in enumerate(names):
                await stage.play(number, name, cases[name])
            await stage.play(9, "wrong", Case(posted(), (400,)))
            await stage.leaving()
            await stage.bent(1, 1)
            stage.looked_through()
        return stage

    stage = asyncio.run(play())
    assert stage.failures == ["wrong: (200,), not (400,)", "wrong: 1 requests went on, not 0"]
