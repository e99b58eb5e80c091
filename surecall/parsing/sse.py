"""Server-sent events: bytes in pieces of any size become the events that WHATWG's text describes.

    feed(bytes) ─► events that a blank line has ended
    close()     ─► the block that the end of the stream cut off, if it holds data

WHATWG discards a block without its blank line; a reader that wants the letter of the standard
ignores what `close` returns. It is returned all the same, because providers hang up after
`data: [DONE]` without one. That is safe for JSON: a cut object is never a shorter valid one.

Lines are split as bytes and decoded one by one. Neither CR nor LF can be part of a longer UTF-8
sequence, broken or not, so this equals decoding first, and no sequence is ever read in halves.
"""

import msgspec

from surecall.values.errors import ErrorCode, Fault, ProviderError

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_TOTAL_BYTES = 32 * 1024 * 1024
MAX_EVENTS = 100_000

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BREAKS = (b"\r", b"\n")


class SseEvent(msgspec.Struct, frozen=True):
    """One event: its data lines joined, its name, and the last id the stream has set."""

    data: str
    event: str = "message"
    id: str = ""


class SseDecoder:
    """Reads one stream. Memory is bounded by one event, time by the bytes that were fed.

    Going beyond a limit raises a `ProviderError`; the stream is then of no further use.
    """

    def __init__(
        self,
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_total_bytes: int = MAX_TOTAL_BYTES,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._max_event = max_event_bytes
        self._max_total = max_total_bytes
        self._max_events = max_events
        self._total = 0
        self._count = 0
        # A bytearray grows in place: a list of one-byte pieces would take eight times the room.
        self._line = bytearray()
        self._first = True
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._event = ""
        self._id = ""

    @property
    def waiting(self) -> int:
        """How many bytes of an unfinished event have arrived."""
        return self._size + len(self._line)

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take the next bytes; return the events that are complete now."""
        self._total += len(chunk)
        if self._total > self._max_total:
            raise too_large(self._max_total, "bytes in one stream")
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        lines = chunk.splitlines()
        if not lines:
            return []
        self._after_cr = chunk.endswith(b"\r")
        rest = b"" if chunk.endswith(_BREAKS) else lines.pop()
        events = [event for line in lines if (event := self._end_line(line)) is not None]
        self._line += rest
        if self._size + len(self._line) > self._max_event:
            raise too_large(self._max_event, "bytes in one event")
        return events

    def close(self) -> list[SseEvent]:
        """End the stream; return the unfinished last block as one event, if it holds data."""
        if self._line:
            self._end_line(b"")
        event = self._dispatch()
        return [] if event is None else [event]

    def _end_line(self, ending: bytes) -> SseEvent | None:
        line = ending
        if self._line:
            self._line += ending
            line = bytes(self._line)
            self._line.clear()
        if self._first:
            self._first = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if self._size + len(line) > self._max_event:
            raise too_large(self._max_event, "bytes in one event")
        if not line:
            return self._dispatch()
        self._field(line)
        return None

    def _field(self, line: bytes) -> None:
        # A comment is a field without a name, and like other unknown fields it is ignored.
        name, _, value = line.partition(b":")
        match name:
            case b"data":
                self._data.append(_text(value))
                self._size += len(line) + 1
            case b"event":
                self._event = _text(value)
            case b"id" if b"\0" not in value:
                self._id = _text(value)

    def _dispatch(self) -> SseEvent | None:
        data, event = self._data, self._event
        self._data, self._size, self._event = [], 0, ""
        if not data:
            return None
        self._count += 1
        if self._count > self._max_events:
            raise too_large(self._max_events, "events in one stream")
        return SseEvent("\n".join(data), event or "message", self._id)


def _text(value: bytes) -> str:
    return value.removeprefix(b" ").decode("utf-8", "replace")


def too_large(limit: int, what: str) -> ProviderError:
    """Say that a streamed answer goes beyond a limit."""
    message = f"The streamed answer has more than {limit} {what}."
    return ProviderError(Fault(ErrorCode.RESPONSE_TOO_LARGE, message))
