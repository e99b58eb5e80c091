"""Listening: an answer is read the same way however it is cut, and whatever it claims to be."""

import itertools
import random
from collections import deque
from typing import Any

import pytest

from surecall.core.streaming.body_reader import Listener
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.wire.assembler import Assembler, Delta, TextDelta
from tests.support.streams import RECORDED, recorded

HELLO = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def heard(pieces: list[bytes], **given: Any) -> tuple[Any, list[Delta]]:
    listener = Listener(Assembler(**given))
    deltas = [delta for piece in pieces for delta in listener.feed(piece)] + listener.close()
    return listener.finish(), joined(deltas)


def joined(deltas: list[Delta]) -> list[Delta]:
    """Join texts that follow each other; where they are cut is the network's business."""
    together: list[Delta] = []
    for delta in deltas:
        last = together[-1] if together else None
        if isinstance(delta, TextDelta) and isinstance(last, TextDelta):
            together[-1] = TextDelta(last.text + delta.text)
        else:
            together.append(delta)
    return together


def split(data: bytes, *places: int) -> list[bytes]:
    return [data[start:end] for start, end in itertools.pairwise((0, *places, len(data)))]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_every_single_cut_and_single_bytes_and_random_parts_give_one_answer(name: str) -> None:
    stream, expected = recorded(name)
    given = expected.get("given", {})
    whole = heard([stream], **given)
    generator = random.Random(name)  # noqa: S311  # no secret

    assert heard([bytes([byte]) for byte in stream], **given) == whole
    for place in range(1, len(stream)):
        assert heard(split(stream, place), **given) == whole
    for _ in range(20):
        places = sorted(generator.sample(range(1, len(stream)), min(7, len(stream) - 1)))
        assert heard(split(stream, *places), **given) == whole


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": []}',
        b'\xef\xbb\xbf \r\n{"choices": []}',
        b"[1]",
        b"<html>no</html>",
        b"Service unavailable",
        b"",
        b" \n ",
    ],
)
def test_a_body_that_is_no_stream_is_handed_back_as_it_came(body: bytes) -> None:
    assert heard([body]) == (body, [])
    assert heard([bytes([byte]) for byte in body]) == (body, [])


@pytest.mark.parametrize("lead", [b"", b"\n", b"\xef\xbb\xbf", b": hello\n\n", b"retry: 5\n"])
def test_a_stream_is_known_by_how_it_begins(lead: bytes) -> None:
    body, deltas = heard([lead + HELLO + STOP])

    assert body["choices"][0]["message"]["content"] == "Hi"
    assert deltas == [TextDelta("Hi")]


def test_the_body_of_an_error_is_never_read_as_a_stream() -> None:
    listener = Listener(Assembler(), is_plain=True)

    assert listener.feed(HELLO) == []
    assert listener.finish() == HELLO


def test_what_follows_the_end_mark_changes_nothing() -> None:
    listener = Listener(Assembler())
    listener.feed(HELLO + STOP)

    assert listener.ended
    assert listener.feed(HELLO) == []
    body: Any = listener.finish()
    assert body["choices"][0]["message"]["content"] == "Hi"


def test_a_last_block_without_its_blank_line_counts() -> None:
    body, _ = heard([HELLO + STOP.rstrip()])

    assert body["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("begin", [b"{", b"data: "])
def test_neither_a_stream_nor_a_body_outgrows_the_limit(begin: bytes) -> None:
    listener = Listener(Assembler(), max_bytes=1000)

    with pytest.raises(ProviderError) as refusal:
        deque(map(listener.feed, (begin, *[b"x" * 50] * 200)), maxlen=0)
    assert refusal.value.fault.code is ErrorCode.RESPONSE_TOO_LARGE


def test_a_fault_in_a_stream_is_the_outcome() -> None:
    fault, _ = heard([HELLO, b'event: error\ndata: {"error":{"message":"busy","code":503}}\n\n'])

    assert isinstance(fault, Fault)
    assert fault.retryable


def test_the_size_of_an_answer_is_that_of_what_it_says() -> None:
    stream, plain = Listener(Assembler()), Listener(Assembler())
    stream.feed(b": a comment\n\n" + HELLO + STOP + HELLO)
    plain.feed(b"{}")

    assert stream.size == len(HELLO) + len(STOP) - 3 * len("data: \n\n")
    assert plain.size == 2
