"""Server-sent events: the WHATWG format, in pieces of any size, within bounds."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.errors import ErrorCode, ProviderError
from surecall.wire.sse import MAX_EVENT_BYTES, SseDecoder, SseEvent
from tests.support.timing import LINEAR, growth

MIB = 1024 * 1024


def decode(*chunks: bytes) -> list[SseEvent]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def data(*chunks: bytes) -> list[str]:
    return [event.data for event in decode(*chunks)]


def one_by_one(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


FORMAT = {
    "one line of data": (b"data: a\n\n", ["a"]),
    "lines of data are joined by a line feed": (b"data: a\ndata: b\n\n", ["a\nb"]),
    "a blank line of data stays a line": (b"data: a\ndata:\ndata: b\n\n", ["a\n\nb"]),
    "data without a colon is a blank line": (b"data\n\n", [""]),
    "two of them are a line feed": (b"data\ndata\n\n", ["\n"]),
    "data with nothing behind its colon": (b"data:\n\n", [""]),
    "one leading space goes": (b"data:  a\n\ndata:b\n\n", [" a", "b"]),
    "a leading tab stays": (b"data:\ta\n\n", ["\ta"]),
    "a trailing space stays": (b"data: a \n\n", ["a "]),
    "only the first colon divides": (b"data: a: b\n\ndata::c\n\n", ["a: b", ":c"]),
    "line feeds": (b"data: a\ndata: b\n\n", ["a\nb"]),
    "carriage returns": (b"data: a\rdata: b\r\r", ["a\nb"]),
    "both": (b"data: a\r\ndata: b\r\n\r\n", ["a\nb"]),
    "a mixture": (b"data: a\rdata: b\r\ndata: c\n\r", ["a\nb\nc"]),
    "LF CR is two line ends": (b"data: a\n\rdata: b\n\n", ["a", "b"]),
    "other separators are characters": (
        "data: a\x0bb\x0cc\x1cd\x85e\u2028f\n\n".encode(),
        ["a\x0bb\x0cc\x1cd\x85e\u2028f"],
    ),
    "comments": (b": x\n:\n:data: y\ndata: a\n: z\n\n", ["a"]),
    "comments alone": (b": x\n\n:\n\n", []),
    "blank lines alone": (b"\n\n\r\r\n", []),
    "unknown fields": (b"foo: 1\ndata: a\nfoo\n: \nretry: 7\nretry: x\n\n", ["a"]),
    "names are exact": (b"Data: a\n data: b\ndata : c\ndatab: d\ndata: e\n\n", ["e"]),
    "a byte order mark at the start": (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
    "a second one is part of a name": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", ["b"]),
    "one further down is part of a name": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", ["a"]),
    "one in a value stays": (b"data: \xef\xbb\xbfa\n\n", ["\ufeffa"]),
    "a blank first line after the mark": (b"\xef\xbb\xbf\ndata: a\n\n", ["a"]),
    "NUL is a character": (b"data: a\0b\n\n\0data: c\n\n", ["a\0b"]),
    "wide characters": ("data: é日😀\n\n".encode(), ["é日😀"]),
    "a stray byte": (b"data: a\xffb\n\n", ["a\ufffdb"]),
    "a sequence cut by a line end": (b"data: a\xe2\x82\ndata: \xacb\n\n", ["a\ufffd\n\ufffdb"]),
    "an overlong sequence": (b"data: \xc0\xaf\n\n", ["\ufffd\ufffd"]),
    "a surrogate": (b"data: \xed\xa0\x80\n\n", ["\ufffd\ufffd\ufffd"]),
    "an unfinished block is discarded": (b"data: a\n\ndata: b\n", ["a"]),
    "an unfinished line is discarded": (b"data: a\n\ndata: b", ["a"]),
}


@pytest.mark.parametrize("name", FORMAT)
def test_the_format_is_read_as_the_standard_says(name: str) -> None:
    stream, expected = FORMAT[name]

    assert data(stream) == expected


@pytest.mark.parametrize("name", FORMAT)
def test_it_does_not_matter_where_the_stream_is_cut(name: str) -> None:
    stream, expected = FORMAT[name]

    assert data(*one_by_one(stream)) == expected
    for first in range(len(stream)):
        for second in range(first, len(stream)):
            assert data(stream[:first], stream[first:second], stream[second:]) == expected


def test_an_event_keeps_its_name_and_the_last_id() -> None:
    events = decode(b"event: ping\nid: 1\ndata: a\n\ndata: b\n\nid\nevent:\ndata: c\n\n")

    assert events == [
        SseEvent("a", "ping", "1"),
        SseEvent("b", "message", "1"),
        SseEvent("c", "message", ""),
    ]


def test_a_name_without_data_is_forgotten() -> None:
    assert decode(b"event: ping\n\ndata: a\n\n") == [SseEvent("a")]


def test_an_id_with_a_nul_is_ignored() -> None:
    assert decode(b"id: 1\nid: 2\0\ndata: a\n\n") == [SseEvent("a", id="1")]


def test_an_id_without_data_counts_for_later_events() -> None:
    assert decode(b"id: 1\n\ndata: a\n\n") == [SseEvent("a", id="1")]


@pytest.mark.parametrize(
    ("stream", "left"),
    [
        (b"data: a\n\n", []),
        (b"", []),
        (b": x", []),
        (b"event: ping", []),
        (b"\xef\xbb\xbf", []),
        (b"data: a", [SseEvent("a")]),
        (b"\xef\xbb\xbfdata: a", [SseEvent("a")]),
        (b"data: a\r", [SseEvent("a")]),
        (b"event: ping\nid: 1\ndata: a\ndata: b\xe2", [SseEvent("a\nb\ufffd", "ping", "1")]),
    ],
)
def test_the_block_that_the_end_cut_off_is_handed_out_apart(
    stream: bytes, left: list[SseEvent]
) -> None:
    for chunks in ([stream], one_by_one(stream)):
        decoder = SseDecoder()
        for chunk in chunks:
            decoder.feed(chunk)
        assert decoder.close() == left
        assert decoder.close() == []


def test_an_empty_chunk_changes_nothing() -> None:
    assert data(b"data: a\r", b"", b"\ndata: b\r\n\r\n") == ["a\nb"]


STREAMS = st.lists(
    st.sampled_from([b"data", b":", b" ", b"a", b"\n", b"\r", b"\r\n", b"id: 1", b"event", b"\xe2"])
    | st.binary(max_size=3)
).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=5))
def test_any_partition_of_any_bytes_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]

    assert decode(*chunks) == decode(stream) == decode(*one_by_one(stream))


def too_large(decoder: SseDecoder, *chunks: bytes) -> bool:
    try:
        for chunk in chunks:
            decoder.feed(chunk)
    except ProviderError as error:
        return error.code is ErrorCode.RESPONSE_TOO_LARGE and not error.fault.retryable
    return False


LIMITED = [
    ("max_total_bytes", b"data: a\n\n"),
    ("max_total_bytes", b": a\n"),
    ("max_event_bytes", b"data: a\n"),
    ("max_event_bytes", b"dat"),
    ("max_event_bytes", b": a"),
    ("max_event_bytes", b"\xff"),
    ("max_events", b"data\n\n"),
]


@pytest.mark.parametrize(("limit", "piece"), LIMITED)
def test_an_endless_stream_is_refused_at_the_limit(limit: str, piece: bytes) -> None:
    for chunks in ([piece] * 100, [piece * 100], one_by_one(piece * 100)):
        assert too_large(SseDecoder(**{limit: 50}), *chunks)


def test_what_just_fits_is_not_refused() -> None:
    stream = b"data: 12\ndata: 3\n\n" * 4
    decoder = SseDecoder(max_total_bytes=len(stream), max_event_bytes=17, max_events=4)

    assert not too_large(decoder, stream)
    assert too_large(SseDecoder(max_event_bytes=16), stream)
    assert too_large(SseDecoder(max_events=3), stream)
    assert too_large(SseDecoder(max_total_bytes=len(stream) - 1), stream)


def test_comments_and_names_do_not_fill_an_event() -> None:
    decoder = SseDecoder(max_event_bytes=20, max_events=1)

    assert not too_large(decoder, b": keep-alive\n" * 50, b"event: ping\n" * 50, b"\n" * 50)
    assert decoder.feed(b"data: a\n\n") == [SseEvent("a")]


def test_an_event_beyond_four_mebibytes_is_refused_by_default() -> None:
    assert not too_large(SseDecoder(), b"data: ", b"a" * (MAX_EVENT_BYTES - 6))
    assert too_large(SseDecoder(), b"data: ", b"a" * (MAX_EVENT_BYTES - 5))


@pytest.mark.parametrize("step", [1, 64])
def test_the_steps_grow_with_the_bytes_and_not_with_their_square(step: int) -> None:
    def fed(size: int) -> None:
        decoder = SseDecoder()
        decoder.feed(b"data: ")
        for _ in range(size // step):
            decoder.feed(b"a" * step)
        assert len(decoder.feed(b"\n\n")[0].data) == size // step * step

    assert growth(fed, 1_024 * step) < LINEAR
    fed(MIB // 4)


def test_a_line_feed_belongs_to_the_carriage_return_before_it_and_the_next_one_does_not() -> None:
    decoder = SseDecoder()
    pieces = [b"data: x\r", b"\n", b"\n", b"\n"]
    assert [[event.data for event in decoder.feed(piece)] for piece in pieces] == [
        [],
        [],
        ["x"],
        [],
    ]
