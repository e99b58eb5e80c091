"""The proof about streams fails as soon as it matters where one is cut."""

import asyncio
import random

import pytest

from proof import event_streams
from surecall.core.streaming.body_reader import Listener
from surecall.parsing.sse import SseDecoder, SseEvent
from surecall.wire.assembler import Delta
from tests.support.streams import recorded

NAME = "clean_call"
STREAM = recorded(NAME)[0]


def _forgetful(decoder: SseDecoder, chunk: bytes) -> list[SseEvent]:
    """Forget how the last piece ended."""
    decoder._after_cr = False
    return REAL(decoder, chunk)


REAL = SseDecoder.feed


def test_the_table_and_a_recorded_stream_are_read_alike_however_they_are_cut() -> None:
    assert list(event_streams.table_problems()) == []
    rng = random.Random(1)  # noqa: S311  # cases, no secrets
    assert list(event_streams.stream_problems(NAME, STREAM, rng, partitions=20)) == []
    assert list(event_streams.pair_problems(NAME, STREAM[:80])) == []
    assert asyncio.run(event_streams.run_problems({NAME: STREAM})) == []


def test_a_decoder_that_forgets_a_carriage_return_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SseDecoder, "feed", _forgetful)
    (problem, *_) = event_streams.table_problems()
    assert "cut at" in problem
    (problem,) = event_streams.pair_problems(NAME, b"data: a\r\ndata: b\r\n\r\n")
    assert problem == "clean_call.sse cut at [1, 8] has other events"


def test_a_listener_that_loses_short_pieces_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Listener.feed

    def feed(listener: Listener, chunk: bytes) -> list[Delta]:
        return whole(listener, chunk) if len(chunk) > 1 else []

    monkeypatch.setattr(Listener, "feed", feed)
    rng = random.Random(1)  # noqa: S311  # cases, no secrets
    (problem,) = event_streams.stream_problems(NAME, STREAM, rng, partitions=0)
    assert problem == "clean_call.sse cut at [1] is heard otherwise"
    (problem,) = asyncio.run(event_streams.run_problems({NAME: STREAM}))
    assert "other digests" in problem


def test_the_claim_counts_what_it_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "RECORDED", ["d14_done_only", NAME])
    outcome = event_streams.attempt(4, 1)
    assert outcome.holds
    assert "2 recorded streams" in outcome.figures
