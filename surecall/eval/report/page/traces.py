"""Encodes traces for the page: the events of each run, and the requests that it sent.

A trace does not store request bodies; they are composed again from its events. Runs are grouped
into compressed blocks, because neighboring runs are similar: together they take a quarter of the
space. Blocks are embedded in the page or, if that would make it too large, stored beside it as
scripts, because a page opened from a file can load nothing else.
"""

import base64
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from surecall.eval.storage.trial import Trial
from surecall.runtime.recording import parse_trace
from surecall.runtime.replay import sent_requests
from surecall.values.errors import SurecallError
from surecall.values.trace import Trace
from surecall.wire.chat_format import encode


class SentLine(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="sent", omit_defaults=True
):
    """One request, as the difference from the previous one.

    The first `kept` messages are those of the previous request. `rest` (tools, schema, options) is
    omitted if unchanged. `exact` means that the composed bytes match the recorded hash.
    """

    turn: int
    exact: bool
    kept: int = 0
    messages: tuple[msgspec.Raw, ...] = ()
    rest: dict[str, msgspec.Raw] | None = None


def sent_lines(events: bytes) -> bytes:
    """Return the request lines of a run as JSON lines; empty if its events cannot be parsed."""
    try:
        trace = parse_trace(events)
    except SurecallError:
        return b""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in sent_request_lines(trace))


def sent_request_lines(trace: Trace) -> list[SentLine]:
    """Return the difference of each request from the previous one."""
    found: list[SentLine] = []
    before: list[msgspec.Raw] = []
    rest_before: dict[str, msgspec.Raw] = {}
    for request in sent_requests(trace):
        rest = msgspec.json.decode(request.body, type=dict[str, msgspec.Raw])
        messages = msgspec.json.decode(rest.pop("messages"), type=list[msgspec.Raw])
        kept = _common_prefix(before, messages)
        found.append(
            SentLine(
                turn=request.turn,
                exact=request.exact,
                kept=kept,
                messages=tuple(messages[kept:]),
                rest=None if rest == rest_before else rest,
            )
        )
        before, rest_before = messages, rest
    return found


def _common_prefix(first: list[msgspec.Raw], second: list[msgspec.Raw]) -> int:
    """Return the length of the common prefix of two lists of messages."""
    pairs = zip(first, second, strict=False)
    return next(
        (at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second))
    )


TraceKind: TypeAlias = Literal["none", "inline", "bundle"]
PackedTrials: TypeAlias = Iterable[tuple[Trial, bytes | None]]


class TraceBlock(msgspec.Struct, frozen=True):
    """The compressed JSON lines of consecutive runs in base64. `start` is the first run's index."""

    start: int
    text: str


class TraceSource(msgspec.Struct, frozen=True):
    """The location of a page's traces: inline, in a folder beside the page, or none.

    `note` explains why some are missing.
    """

    kind: TraceKind = "none"
    starts: tuple[int, ...] = ()
    inline: Iterable[str] = ()
    note: str = ""
    folder: str = ""

    @property
    def is_bundled(self) -> bool:
        """Whether the traces are in files beside the page."""
        return self.kind == "bundle"


NO_TRACES: Final = TraceSource()


def trace_blocks(packed: PackedTrials, max_bytes: int = 256 * 1024) -> Iterator[TraceBlock]:
    """Yield blocks of consecutive runs. A block ends once it has `max_bytes` or more."""
    pieces: list[bytes] = []
    start = size = 0
    for place, (trial, lines) in enumerate(packed):
        piece = run_record(trial, lines)
        pieces.append(piece)
        size += len(piece)
        if size >= max_bytes:
            yield _make_block(start, pieces)
            pieces, start, size = [], place + 1, 0
    if pieces:
        yield _make_block(start, pieces)


def run_record(trial: Trial, lines: bytes | None) -> bytes:
    """Return one run as JSON lines: its record, its events as recorded, its requests."""
    head = {"type": "trial", **msgspec.to_builtins(trial)}
    events = b"" if lines is None else _decompress(lines)
    end = b"" if not events or events.endswith(b"\n") else b"\n"
    return encode(head) + b"\n" + events + end + (sent_lines(events) if events else b"")


def block_script(block: TraceBlock) -> str:
    """Return the script file of a block. Base64 needs no escaping."""
    return f'surecallBlock({block.start},"{block.text}");\n'


def block_file_name(start: int) -> str:
    """Return the file name of a block."""
    return f"traces_{start}.js"


def _decompress(lines: bytes) -> bytes:
    try:
        return zlib.decompress(lines)
    except zlib.error:
        return b'{"type":"damaged"}\n'


def _make_block(start: int, pieces: list[bytes]) -> TraceBlock:
    packed = zlib.compress(b"".join(pieces), 6)
    return TraceBlock(start, base64.b64encode(packed).decode())
