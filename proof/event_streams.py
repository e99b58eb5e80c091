"""D3: a stream says the same however its bytes are cut.

The table below follows the text of the WHATWG standard, "Server-sent events", sections 9.2.5 and
9.2.6; it is written from that text, one row for each subject of the web platform tests `format-*`
(byte order mark, comments, data before the final blank line, the fields, leading spaces, line
ends, NUL, UTF-8, unknown fields). Recorded streams are those of `tests/corpus/streams`.

What is compared is the assembled body, the text that was shown, and for whole runs the digest of
the trace. Pairs of cuts are compared by their events alone: the rest is a function of these.
"""

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from proof.claims import Claim, Outcome, gathered
from surecall import RetryPolicy, RunFailed, ToolLoopRunner, tool
from surecall.core.streaming import ResponseReader
from surecall.testing import Scripted, ScriptedModel, says
from surecall.wire.assembler import Assembler, ReasoningDelta, TextDelta
from surecall.wire.sse import SseDecoder, SseEvent
from tests.support.replies import RECORDED, recorded

Rows: TypeAlias = list[tuple[str, str, str]]  # data, event, id
_NAMES: Final = ("weather", "clock", "edit", "edit_existing_file")
_PIECES: Final = (None, 1, 2, 3, 7, 64)
_SHORT: Final = 600


def _messages(*data: str) -> Rows:
    return [(each, "message", "") for each in data]


STANDARD: Final[dict[str, tuple[bytes, Rows]]] = {
    "a mark of the byte order is skipped": (
        b"\xef\xbb\xbfdata: a\n\ndata: b\n\n",
        _messages("a", "b"),
    ),
    "a second mark is part of the field name": (
        b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\ndata: c\n\n",
        _messages("b", "c"),
    ),
    "a line that begins with a colon is a comment": (
        b"data: a\n:\n:data: x\n:" + b"x" * 2048 + b"\ndata: b\n:data: y\n\n",
        _messages("a\nb"),
    ),
    "what no blank line ends is discarded": (
        b"retry: 1000\ndata: a\n\nid: b\nretry: 1\ndata: c",
        _messages("a"),
    ),
    "data without a value is an empty line": (
        b"data:\n\ndata\ndata\n\ndata:test\n\n",
        _messages("", "\n", "test"),
    ),
    "event names the event": (
        b"event: test\ndata: a\n\ndata: b\n\n",
        [("a", "test", ""), ("b", "message", "")],
    ),
    "an empty event is a message": (b"event: \ndata: a\n\nevent\ndata: b\n\n", _messages("a", "b")),
    "an event without data is nothing": (b"event: test\n\ndata: a\n\n", _messages("a")),
    "the last event name holds": (b"event: x\nevent: y\ndata: a\n\n", [("a", "y", "")]),
    "an id lasts": (
        b"id: 1\ndata: a\n\ndata: b\n\n",
        [("a", "message", "1"), ("b", "message", "1")],
    ),
    "an empty id takes the last one back": (
        b"data: a\nid: 1\n\ndata:b\nid\n\ndata:  c",
        [("a", "message", "1"), ("b", "message", "")],
    ),
    "an id without data still counts": (b"id: 2\n\ndata: a\n\n", [("a", "message", "2")]),
    "an id with NUL is ignored": (
        b"id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n",
        [("a", "message", "1"), ("b", "message", "1")],
    ),
    "a field name is exact": (
        b"data:\x00\ndata:  2\rData:1\ndata\x00:2\ndata:1\r\x00data:4\nda-ta:3\rdata:3\n\n",
        _messages("\x00\n 2\n1\n3"),
    ),
    "retry is no event": (
        b"retry: 3000\ndata: a\n\nretry: 3000x\ndata: b\n\nretry\ndata: c\n\n",
        _messages("a", "b", "c"),
    ),
    "an unknown field is ignored": (b"data: a\ndatax: b\nx\nx:y\nfield\n\n", _messages("a")),
    "one leading space goes": (
        b"data:\ttest\rdata: \ndata:test\ndata:  x\n\n",
        _messages("\ttest\n\ntest\n x"),
    ),
    "three ends of a line": (b"data:test\r\ndata\ndata:test\r\n\r\n", _messages("test\n\ntest")),
    "a carriage return and a line feed are one end": (
        b"data: a\r\n\r\ndata: b\r\n\n",
        _messages("a", "b"),
    ),
    "a line feed and a carriage return are two ends": (
        b"data: a\n\rdata: b\n\r",
        _messages("a", "b"),
    ),
    "NUL is a character": (b"data: a\x00b\n\n\x00\n\n", _messages("a\x00b")),
    "UTF-8 is decoded": ("data: ok…\n\n".encode(), _messages("ok…")),
    "what is no UTF-8 is replaced": (b"data: \xff\xc3(\n\n", _messages("\ufffd\ufffd(")),
    "other separators do not end a line": (
        "data: a\x0b\x0c\x1c\x85\u2028b\n\n".encode(),
        _messages("a\x0b\x0c\x1c\x85\u2028b"),
    ),
    "stocks, the first example": (b"data: YHOO\ndata: +2\ndata: 10\n\n", _messages("YHOO\n+2\n10")),
    "the second example": (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
        [("first event", "message", "1"), ("second event", "message", "")],
    ),
    "the third example": (b"data\n\ndata\ndata\n\ndata:", _messages("", "\n")),
    "the fourth example": (b"data:test\n\ndata: test\n\n", _messages("test", "test")),
    "nothing": (b"", []),
    "blank lines": (b"\n\r\n\r\r\n\n", []),
}


class Heard(NamedTuple):
    """What came of a stream: its body or fault, the text and the thoughts, and its size."""

    body: Any
    text: str
    thoughts: str
    size: int


def heard(pieces: Sequence[bytes]) -> Heard:
    """Listen to a stream that comes in these pieces."""
    listener = ResponseReader(Assembler(_NAMES, 1 << 20))
    deltas = [
        delta for piece in pieces if not listener.is_complete for delta in listener.feed(piece)
    ]
    deltas += listener.close()
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    thoughts = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return Heard(listener.finish(), text, thoughts, listener.size)


def events_in(pieces: Sequence[bytes]) -> list[SseEvent]:
    """Decode a stream to the letter of the standard: what is unfinished is discarded."""
    decoder = SseDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


def cut(stream: bytes, places: Sequence[int]) -> list[bytes]:
    """Cut a stream at these places."""
    edges = (0, *places, len(stream))
    return [stream[begin:end] for begin, end in itertools.pairwise(edges)]


def attempt(size: int, seed: int) -> Outcome:
    """Try the table, then every single cut, then `size` thousand pairs and random partitions."""
    rng = random.Random(seed)
    streams = {name: recorded(name)[0] for name in RECORDED}
    failures = list(table_problems())
    singles = sum(len(stream) for stream in streams.values())
    for name, stream in streams.items():
        failures += stream_problems(name, stream, rng, partitions=size // 4)
    pairs = 0
    for name, stream in sorted(streams.items(), key=lambda item: len(item[1])):
        if pairs >= size * 1000 or len(stream) > _SHORT:
            break
        pairs += len(stream) * (len(stream) - 1) // 2
        failures += pair_problems(name, stream)
    failures += asyncio.run(run_problems(streams))
    random_ones = size // 4 * len(streams)
    runs = len(streams) * (len(_PIECES) + 1)
    table = sum(len(stream) for stream, _ in STANDARD.values())
    figures = (
        f"{len(STANDARD)} rows of the standard, cut everywhere, {len(streams)} recorded streams: "
        f"{singles} single cuts, {pairs} pairs, {random_ones} random partitions, one byte at a "
        f"time, {runs} whole runs asynchronous and blocking, each stream with one digest"
    )
    cases = table + singles + pairs + random_ones + len(streams) + runs
    ran = "server-sent events of the standard and recorded ones, cut at every place and at random "
    ran += "places"
    return Outcome(ran, cases, gathered(failures), figures=figures)


def table_problems() -> Iterator[str]:
    """Yield the rows of the standard that are read otherwise, whole or cut."""
    for name, (stream, wanted) in STANDARD.items():
        expected = [SseEvent(*row) for row in wanted]
        places = [(), *((at,) for at in range(1, len(stream))), tuple(range(1, len(stream)))]
        for at in places:
            if (found := events_in(cut(stream, at))) != expected:
                yield f"{name}, cut at {at!r:.40}: {found}"
                break


def stream_problems(name: str, stream: bytes, rng: random.Random, partitions: int) -> Iterator[str]:
    """Yield how a stream that is cut once, everywhere, or at random places is heard otherwise."""
    whole = heard([stream])
    chosen: list[Sequence[int]] = [(at,) for at in range(1, len(stream))]
    chosen.append(range(1, len(stream)))
    for _ in range(partitions):
        count = rng.randint(2, min(40, len(stream) - 1))
        chosen.append(sorted(rng.sample(range(1, len(stream)), count)))
    for places in chosen:
        if heard(cut(stream, places)) != whole:
            yield f"{name}.sse cut at {list(places)!r:.200} is heard otherwise"
            break


def pair_problems(name: str, stream: bytes) -> Iterator[str]:
    """Yield the first pair of cuts that makes other events of a stream."""
    whole = events_in([stream])
    for first in range(1, len(stream)):
        head, rest = stream[:first], stream[first:]
        for second in range(1, len(rest)):
            decoder = SseDecoder()
            found = decoder.feed(head)
            found += decoder.feed(rest[:second])
            found += decoder.feed(rest[second:])
            if found != whole:
                yield f"{name}.sse cut at [{first}, {first + second}] has other events"
                return


@tool(name="weather")
def _weather(city: str = "") -> str:
    """Tell the weather."""
    return f"rain in {city}"


async def run_problems(streams: dict[str, bytes]) -> list[str]:
    """List the streams that make another run when they come in other pieces, or to a thread."""
    problems = []
    for name, stream in streams.items():
        digests: dict[object, str] = {size: await _digest(stream, size) for size in _PIECES}
        digests["blocking"] = await asyncio.to_thread(_blocking_digest, stream)
        if len(set(digests.values())) > 1:
            problems.append(f"{name}.sse in pieces of some bytes has other digests: {digests}")
    return problems


def _runner(stream: bytes, piece_bytes: int | None) -> ToolLoopRunner:
    events = {"content-type": "text/event-stream"}
    answer = Scripted(body=stream, headers=events, piece_bytes=piece_bytes)
    model = ScriptedModel(answer, *[says("The end.")] * 4)
    return ToolLoopRunner(client=model, model="m", tools=[_weather], retry=RetryPolicy(attempts=1))


async def _digest(stream: bytes, piece_bytes: int | None) -> str:
    watched = _runner(stream, piece_bytes).stream("Go on.")
    try:
        async for _ in watched:
            pass
    except RunFailed as error:
        return error.result.trace.digest
    return watched.result.trace.digest


def _blocking_digest(stream: bytes) -> str:
    runner = _runner(stream, None)
    try:
        watched = runner.stream_sync("Go on.")
        for _ in watched:
            pass
    except RunFailed as error:
        return error.result.trace.digest
    else:
        return watched.result.trace.digest
    finally:
        runner.close()


CLAIM = Claim(
    "D3",
    "Streams parse as the standard requires, however their bytes are split.",
    attempt,
    (600, 8_000, 40_000),
)
