"""The bytes of an answer, in the pieces in which a transport fault sends them."""

import gzip
import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from surecall.simulator.faults.stream_fault import apply_stream_fault
from surecall.simulator.stream_events import events_of, frames_of
from surecall.simulator.transport_faults import TransportFault
from surecall.values.types import JSON

PLAIN: Final = TransportFault(id="", summary="")
_GZIP_WINDOW = 31
_HEADER_BYTES = 4096
_JSON: Final = {"Content-Type": "application/json"}
_EVENTS: Final = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class AnswerBytes(msgspec.Struct, frozen=True):
    """What goes out: the head, the pieces, and what is then repeated until the end.

    `length` is what the head promises; None for a stream, whose length is not known beforehand.
    `faulty` is false if the fault of the stream does not apply to this reply.
    """

    status: int
    headers: dict[str, str]
    pieces: tuple[bytes, ...]
    again: bytes = b""
    length: int | None = None
    faulty: bool = True


def body_bytes(fault: TransportFault, body: Any, status: int = 200) -> AnswerBytes:
    """Write a plain answer: the fault's own, or what the persona says."""
    if fault.status is not None:
        body, status = fault.body, fault.status
    data, headers = encoded(body), _JSON | _headers(fault)
    if fault.gzip:
        data, headers = gzip.compress(data, mtime=0), headers | {"Content-Encoding": "gzip"}
    pieces = _cut(fault, [data])
    return AnswerBytes(status, headers, pieces, length=len(data))


def stream_bytes(fault: TransportFault, body: JSON, *, usage: bool, seed: int) -> AnswerBytes:
    """Write a reply as a stream of events."""
    clean = events_of(body, usage=usage, seed=seed)
    events = apply_stream_fault(fault.stream_fault, clean, seed) if fault.stream_fault else clean
    frames, again = frames_of(events), fault.forever.encode()
    headers = _EVENTS | _headers(fault)
    if fault.gzip:
        frames, again = _packed(frames, again)
        headers = headers | {"Content-Encoding": "gzip"}
    faulty = not fault.stream_fault or events != clean
    return AnswerBytes(200, headers, _cut(fault, frames), again, faulty=faulty)


def encoded(body: Any) -> bytes:
    """Write a body; text stays as it is."""
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


def _headers(fault: TransportFault) -> dict[str, str]:
    padding = range(fault.header_bytes // _HEADER_BYTES)
    return fault.headers | {f"X-Padding-{number}": "x" * _HEADER_BYTES for number in padding}


def _cut(fault: TransportFault, frames: Sequence[bytes]) -> tuple[bytes, ...]:
    """Cut frames down to the share that is sent, and into the pieces that are asked for."""
    if fault.sends == 1 and not fault.piece_bytes:
        return tuple(frames)
    if fault.forever:
        # What is repeated must follow a whole frame, or it would be read as part of it.
        return tuple(frames[: int(len(frames) * fault.sends)])
    data = b"".join(frames)
    data = data[: int(len(data) * fault.sends)]
    size = fault.piece_bytes or max(1, len(data))
    return tuple(data[start : start + size] for start in range(0, len(data), size))


def _packed(frames: Sequence[bytes], again: bytes) -> tuple[list[bytes], bytes]:
    """Compress each frame so that it can be read on arrival, and a block that can be repeated.

    After a full flush the compressor has forgotten everything, so the same bytes may come again.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP_WINDOW)
    packed = [packer.compress(frame) + packer.flush(zlib.Z_FULL_FLUSH) for frame in frames]
    if not again:
        return [*packed, packer.flush()], b""
    return packed, packer.compress(again) + packer.flush(zlib.Z_FULL_FLUSH)
