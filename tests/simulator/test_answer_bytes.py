"""How transport faults put answers on the wire."""

import zlib

import pytest

from surecall.simulator.answer_bytes import PLAIN, body_bytes, stream_bytes
from surecall.simulator.stream_events import events_of, frames_of
from surecall.simulator.transport_faults import TRANSPORT_FAULTS, TransportFault
from surecall.testing import says
from surecall.values.types import JSON
from tests.simulator.test_stream_events import REPLIES

NOTHING = TransportFault(id="x", summary="", sends=0.0)


def test_a_plain_answer_is_one_piece_of_known_length() -> None:
    answer = body_bytes(PLAIN, {"a": 1})
    assert (answer.status, answer.pieces, answer.length) == (200, (b'{"a":1}',), 7)
    torn = body_bytes(TRANSPORT_FAULTS["drip"], {"a": "x" * 40})
    assert (max(map(len, torn.pieces)), len(torn.pieces)) == (16, 3)
    packed = body_bytes(TRANSPORT_FAULTS["gzip"], {"a": 1}, 400)
    assert (packed.status, zlib.decompress(packed.pieces[0], 31)) == (400, b'{"a":1}')
    html = body_bytes(TRANSPORT_FAULTS["html-502"], {"a": 1})
    assert (html.status, html.headers["Content-Type"][:9]) == (502, "text/html")


@pytest.mark.parametrize("clean", REPLIES)
def test_a_packed_stream_can_be_read_event_by_event(clean: JSON) -> None:
    answer = stream_bytes(TRANSPORT_FAULTS["gzip"], clean, usage=True, seed=3)
    unpacker = zlib.decompressobj(31)
    frames = [unpacker.decompress(piece) for piece in answer.pieces]

    assert frames[:-1] == frames_of(events_of(clean, usage=True, seed=3))
    assert (unpacker.eof, answer.headers["Content-Encoding"]) == (True, "gzip")


def test_a_bomb_is_small_on_the_wire_and_never_stops_unpacking() -> None:
    fault = TRANSPORT_FAULTS["stream-gzip-bomb"]
    answer = stream_bytes(fault, says("3"), usage=False, seed=0)
    unpacker = zlib.decompressobj(31)
    for piece in answer.pieces:
        unpacker.decompress(piece)
    block = fault.forever.encode()

    assert all(unpacker.decompress(answer.again) == block for _ in range(5))
    assert fault.at_most / len(answer.again) * len(block) > 2**29


def test_what_is_repeated_follows_whole_events() -> None:
    for fault in TRANSPORT_FAULTS.values():
        if fault.forever and not fault.gzip:
            answer = stream_bytes(fault, says("It is three."), usage=False, seed=0)
            assert answer.pieces[-1].endswith(b"\n\n")
            assert answer.again == fault.forever.encode()


def test_streams_are_cut_and_torn_where_the_fault_says() -> None:
    whole = b"".join(stream_bytes(PLAIN, says("3"), usage=False, seed=0).pieces)
    cut = stream_bytes(TRANSPORT_FAULTS["stream-cut"], says("3"), usage=False, seed=0)
    torn = stream_bytes(TRANSPORT_FAULTS["stream-torn"], says("3"), usage=False, seed=0)

    assert cut.pieces == (whole[: int(len(whole) * 0.6)],)
    assert (b"".join(torn.pieces), max(map(len, torn.pieces))) == (whole, 7)
    unsaid = stream_bytes(NOTHING, says("3"), usage=False, seed=0)
    assert unsaid.pieces == ()
