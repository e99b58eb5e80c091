"""Traces in blocks: neighbours are alike, so together they shrink to a quarter of what they take.

A block is the JSON lines of some runs in a row, compressed and written in base64. Each run begins
with a line of its own, its record. A page holds its blocks; where it would grow too large they
are files beside it, each a script that hands over its block, because a page that was opened
from a file may read nothing else.
"""

import base64
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from surecall.eval.report.page.sent import sent_lines
from surecall.eval.storage.trial import Trial
from surecall.wire.messages import encode

Kind: TypeAlias = Literal["none", "inline", "bundle"]
Packed: TypeAlias = Iterable[tuple[Trial, bytes | None]]

BLOCK_BYTES: Final = 256 * 1024
_LEVEL: Final = 6


class Block(msgspec.Struct, frozen=True):
    """Some runs in a row. `start` is the place of the first among all runs of the report."""

    start: int
    text: str


class Source(msgspec.Struct, frozen=True):
    """Where a page finds its traces: in itself, in a folder beside it, or not at all.

    `note` says why some are missing.
    """

    kind: Kind = "none"
    starts: tuple[int, ...] = ()
    inline: Iterable[str] = ()
    note: str = ""
    folder: str = ""

    @property
    def bundled(self) -> bool:
        """Whether they are in files beside the page."""
        return self.kind == "bundle"


NO_TRACES: Final = Source()


def blocks(packed: Packed, most_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Put runs together, in their order, until a block has `most_bytes` or more."""
    pieces: list[bytes] = []
    start = size = 0
    for place, (trial, lines) in enumerate(packed):
        piece = record(trial, lines)
        pieces.append(piece)
        size += len(piece)
        if size >= most_bytes:
            yield _block(start, pieces)
            pieces, start, size = [], place + 1, 0
    if pieces:
        yield _block(start, pieces)


def record(trial: Trial, lines: bytes | None) -> bytes:
    """Return one run: its result in a line, its events as they were recorded, what was sent."""
    head = {"type": "trial", **msgspec.to_builtins(trial)}
    events = b"" if lines is None else _unpacked(lines)
    end = b"" if not events or events.endswith(b"\n") else b"\n"
    return encode(head) + b"\n" + events + end + (sent_lines(events) if events else b"")


def script(block: Block) -> str:
    """Return the file of a block: base64 within quotes, so there is nothing to escape."""
    return f'surecallBlock({block.start},"{block.text}");\n'


def file_name(start: int) -> str:
    """Return the name of a block's file."""
    return f"traces_{start}.js"


def _unpacked(lines: bytes) -> bytes:
    try:
        return zlib.decompress(lines)
    except zlib.error:
        return b'{"type":"damaged"}\n'


def _block(start: int, pieces: list[bytes]) -> Block:
    packed = zlib.compress(b"".join(pieces), _LEVEL)
    return Block(start, base64.b64encode(packed).decode())
