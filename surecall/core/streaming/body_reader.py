"""Listening to one answer as it arrives: a stream of events, or the plain body that came instead.

    feed(bytes), close() ─► what is new
    finish()             ─► the body of the whole answer, or the `Fault` that it is

What was sent decides, not what the headers promise: endpoints ignore `stream`, label streams as
JSON and errors as streams. A stream begins with a field name or a comment, and JSON never does.
"""

import itertools
from collections.abc import Iterable
from typing import Any

from surecall.parsing.budget import FRAMING
from surecall.parsing.sse import SseDecoder, SseEvent, too_large
from surecall.settings.connection import DEFAULT_LIMITS
from surecall.values.errors import Fault
from surecall.wire.assembler import Assembler, Delta, TextDelta

_BLANKS = b"\xef\xbb\xbf \t\r\n"
# A comment, `data`, `event`, `id` or `retry`.
_STREAMS = (b":", b"d", b"e", b"i", b"r")


class Listener:
    """Reads one answer. Memory is bounded by `max_bytes`; an error's body `is_plain` for sure."""

    def __init__(
        self,
        assembler: Assembler,
        max_bytes: int = DEFAULT_LIMITS.max_response_bytes,
        *,
        is_plain: bool = False,
    ) -> None:
        self._assembler = assembler
        self._decoder = SseDecoder(max_total_bytes=FRAMING * max_bytes)
        self._max_bytes = max_bytes
        # Before the first byte that is not blank, this may still be anything.
        self._is_stream: bool | None = False if is_plain else None
        self._plain = bytearray()
        self._streamed = 0

    @property
    def size(self) -> int:
        """How large the answer is: its bytes, or the data of its events up to the end mark."""
        return self._streamed if self._is_stream else len(self._plain)

    @property
    def waiting(self) -> int:
        """How many bytes of an unfinished event are waiting for its end."""
        return self._decoder.waiting

    @property
    def is_stream(self) -> bool:
        """Whether events have begun to arrive."""
        return bool(self._is_stream)

    @property
    def ended(self) -> bool:
        """Whether nothing that follows can change the outcome."""
        return self._assembler.ended

    def feed(self, chunk: bytes) -> list[Delta]:
        """Take the next bytes; raise `ProviderError` when they are too many."""
        if self._is_stream:
            return self._deltas(self._decoder.feed(chunk))
        self._plain += chunk
        if len(self._plain) > self._max_bytes:
            raise too_large(self._max_bytes, "bytes")
        if self._is_stream is None and (begin := chunk.lstrip(_BLANKS)):
            self._is_stream = begin.startswith(_STREAMS)
            if self._is_stream:
                return self._deltas(self._decoder.feed(bytes(self._plain)))
        return []

    def close(self) -> list[Delta]:
        """Take the end of the bytes; what it cut off may be whole all the same."""
        return self._deltas(self._decoder.close())

    def finish(self) -> Any | bytes | Fault:
        """Return the assembled body; the bytes, if it was no stream; or why there is neither."""
        return self._assembler.finish() if self._is_stream else bytes(self._plain)

    def _deltas(self, events: Iterable[SseEvent]) -> list[Delta]:
        deltas: list[Delta] = []
        for event in events:
            if self.ended:
                break
            self._streamed += len(event.data.encode())
            deltas += self._assembler.add(event.data, event.event)
        # Tokens that arrive together are shown together: it is a tenth of the work.
        runs = (list(run) for _, run in itertools.groupby(deltas, type))
        return [delta for run in runs for delta in _together(run)]


def _together(run: list[Delta]) -> list[Delta]:
    """Join deltas of one kind, if they are texts."""
    texts = [delta.text for delta in run if isinstance(delta, TextDelta)]
    return [TextDelta("".join(texts))] if texts else run
