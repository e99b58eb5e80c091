"""An endpoint that takes too much, is followed elsewhere or breaks the reader is found out."""

import asyncio

import pytest

from proof import hostile_endpoints
from proof.hostile_answers import CASES, MODES, REDIRECTS, Case, Listener
from proof.hostile_endpoints import Ended, judged, own_names


def test_a_case_is_its_parts_in_order() -> None:
    case = Case(b"head", b"first", b"again", 2, b"last")
    assert list(case.pieces()) == [b"head", b"first", b"again", b"again", b"last"]


def test_what_an_issue_of_memory_or_time_looks_like() -> None:
    assert list(judged("a", "plain", Ended("TIMEOUT", 64.0, 3.9), ())) == []
    assert list(judged("a", "plain", Ended("TIMEOUT", 65.0, 4.1), ())) == [
        "a, plain: 65 MiB over the base",
        "a, plain: 4.1 s",
    ]


@pytest.mark.parametrize(
    ("ended", "answered", "told"),
    [
        (Ended(raised="KeyError: 'x'"), None, ["a b, plain: KeyError: 'x'"]),
        (Ended(), (), ["a b, plain: it was taken for an answer"]),
        (Ended(), ("streamed",), ["a b, plain: it was taken for an answer"]),
        (Ended("DECODE_ERROR"), MODES, ["a b, plain: DECODE_ERROR, though it can be read"]),
        (Ended("DECODE_ERROR"), None, []),
        (Ended(), None, []),
    ],
)
def test_what_else_can_go_wrong_is_told(
    ended: Ended, answered: tuple[str, ...] | None, told: list[str]
) -> None:
    assert list(judged("a+b", "plain", ended, answered)) == told


def test_whoever_comes_to_the_other_host_is_seen() -> None:
    async def follow() -> list[bytes]:
        listener = Listener()
        async with listener as url:
            port = int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /302/v1 HTTP/1.1\r\n\r\n")
            head = await reader.readuntil(b"Content-Length")
            writer.close()
            other = int(head.partition(b"http://localhost:")[2].partition(b"/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", other)
            writer.write(b"Authorization: Bearer x")
            writer.write_eof()
            await reader.read()
            writer.close()
        return listener.strangers

    assert asyncio.run(follow()) == [b"Authorization: Bearer x"]


def test_every_case_comes_in_both_modes() -> None:
    assert len(own_names()) == 2 * (len(CASES) + len(REDIRECTS))


@pytest.mark.processes
def test_a_few_answers_hold() -> None:
    names = [("302", "plain"), ("302", "streamed"), ("no+last+blank+line", "streamed")]
    failures, ended = asyncio.run(hostile_endpoints._tried(names))
    assert failures == []
    assert [one.code for one in ended] == ["NOT_FOUND", "NOT_FOUND", ""]
