"""Staging: the bytes of an answer, in the pieces in which a scene sends them."""

import gzip
import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from surecall.simulator.faults.stream_fault import bend_stream
from surecall.simulator.stream_events import events_of, frames_of
from surecall.simulator.transport_faults import Scene
from surecall.values.types import JSON

PLAIN: Final = Scene(id="", summary="")
_GZIP_WINDOW = 31
_HEADER_BYTES = 4096
_JSON: Final = {"Content-Type": "application/json"}
_EVENTS: Final = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class Staged(msgspec.Struct, frozen=True):
    """What goes out: the head, the pieces, and what is then repeated until the scene ends.

    `length` is what the head promises; None for a stream, whose end nobody knows beforehand.
    `plays` is false when the scene's fault does not apply to this reply.
    """

    status: int
    headers: dict[str, str]
    pieces: tuple[bytes, ...]
    again: bytes = b""
    length: int | None = None
    plays: bool = True


def staged_body(scene: Scene, body: Any, status: int = 200) -> Staged:
    """Stage a plain answer: the scene's own, or what the persona says."""
    if scene.status is not None:
        body, status = scene.body, scene.status
    data, headers = encoded(body), _JSON | _headers(scene)
    if scene.gzip:
        data, headers = gzip.compress(data, mtime=0), headers | {"Content-Encoding": "gzip"}
    pieces = _cut(scene, [data])
    return Staged(status, headers, pieces, length=len(data))


def staged_stream(scene: Scene, body: JSON, *, usage: bool, seed: int) -> Staged:
    """Stage a reply as a stream of events."""
    clean = events_of(body, usage=usage, seed=seed)
    events = bend_stream(scene.chunking, clean, seed) if scene.chunking else clean
    frames, again = frames_of(events), scene.forever.encode()
    headers = _EVENTS | _headers(scene)
    if scene.gzip:
        frames, again = _packed(frames, again)
        headers = headers | {"Content-Encoding": "gzip"}
    plays = not scene.chunking or events != clean
    return Staged(200, headers, _cut(scene, frames), again, plays=plays)


def encoded(body: Any) -> bytes:
    """Write a body; text stays as it is."""
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


def _headers(scene: Scene) -> dict[str, str]:
    padding = range(scene.header_bytes // _HEADER_BYTES)
    return scene.headers | {f"X-Padding-{number}": "x" * _HEADER_BYTES for number in padding}


def _cut(scene: Scene, frames: Sequence[bytes]) -> tuple[bytes, ...]:
    """Cut frames down to the share that is sent, and into the pieces that are asked for."""
    if scene.sends == 1 and not scene.piece_bytes:
        return tuple(frames)
    if scene.forever:
        # What is repeated must follow a whole frame, or it would be read as part of it.
        return tuple(frames[: int(len(frames) * scene.sends)])
    data = b"".join(frames)
    data = data[: int(len(data) * scene.sends)]
    size = scene.piece_bytes or max(1, len(data))
    return tuple(data[start : start + size] for start in range(0, len(data), size))


def _packed(frames: Sequence[bytes], again: bytes) -> tuple[list[bytes], bytes]:
    """Compress each frame so that it can be read at once, and a block so that it can be repeated.

    After a full flush the compressor has forgotten everything, so the same bytes may come again.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP_WINDOW)
    packed = [packer.compress(frame) + packer.flush(zlib.Z_FULL_FLUSH) for frame in frames]
    if not again:
        return [*packed, packer.flush()], b""
    return packed, packer.compress(again) + packer.flush(zlib.Z_FULL_FLUSH)
