"""The upstream that keeps what reached it."""

import asyncio

from proof.hostile_clients import talk
from proof.recording_upstream import ENDLESS, LARGE, PIECES, RecordingUpstream, parsed

HEAD = b"POST /v1/x HTTP/1.1\r\nX-Request-Id: r1\r\nContent-Length: %d\r\n\r\n"


def test_a_head_is_taken_apart() -> None:
    request = parsed(b"GET / HTTP/1.1\r\nA: 1\r\na:2\r\n\r\n", b"body")
    assert request.said(b"a") == [b"1", b"2"]
    assert (request.line, request.id) == (b"GET / HTTP/1.1", "")


def test_it_answers_in_one_piece_or_in_many_and_keeps_the_request() -> None:
    async def work() -> tuple[RecordingUpstream, bytes, bytes]:
        upstream = RecordingUpstream()
        async with upstream.opened():
            plain = await talk(upstream.port, HEAD % 2 + b"{}", 0.5)
            large = await talk(upstream.port, HEAD % len(LARGE) + LARGE)
            assert upstream.streaming == 0
            leaving = asyncio.create_task(talk(upstream.port, HEAD % len(ENDLESS) + ENDLESS))
            while not upstream.streaming:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0)
            leaving.cancel()
            while upstream.streaming:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0)
        return upstream, plain.data, large.data

    upstream, plain, large = asyncio.run(work())
    assert b"Hello." in plain
    assert large.count(b"data: ") == PIECES + 2
    assert [request.id for request in upstream.requests] == ["r1"] * 3
