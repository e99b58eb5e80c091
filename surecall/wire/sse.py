"""Decodes server-sent events from byte chunks of any size, as the WHATWG standard specifies.

    feed(bytes) ─► events completed by a blank line
    close()     ─► the last block if it has data but no blank line

WHATWG discards a final block without a blank line. `close` returns it because some providers
disconnect right after `data: [DONE]`. This is safe for JSON: a truncated object is never valid.

Lines are split as bytes and then decoded. CR and LF never occur inside a multi-byte UTF-8
sequence, so the result is the same as decoding first.
"""

import msgspec

from surecall.values.errors import ErrorCode, Fault, ProviderError

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_TOTAL_BYTES = 32 * 1024 * 1024
MAX_EVENTS = 100_000

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_BREAKS = (b"\r", b"\n")


class SseEvent(msgspec.Struct, frozen=True):
    """One event: its joined data lines, its name, and the last event id."""

    data: str
    event: str = "message"
    id: str = ""


class SseDecoder:
    """Decodes one stream, using memory for one event and time linear in the bytes.

    Exceeding a limit raises `ProviderError`; the decoder cannot be used afterwards.
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
        self._total_bytes = 0
        self._event_count = 0
        # A bytearray grows in place; a list of one-byte chunks would use eight times the memory.
        self._line = bytearray()
        self._is_at_start = True
        self._after_cr = False
        self._data: list[str] = []
        self._event_size = 0
        self._event = ""
        self._id = ""

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes buffered for the unfinished event."""
        return self._event_size + len(self._line)

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Add bytes and return the events they complete."""
        self._total_bytes += len(chunk)
        if self._total_bytes > self._max_total:
            raise stream_limit_error(self._max_total, "bytes in one stream")
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        lines = chunk.splitlines()
        if not lines:
            return []
        self._after_cr = chunk.endswith(b"\r")
        rest = b"" if chunk.endswith(_LINE_BREAKS) else lines.pop()
        events = [event for line in lines if (event := self._end_line(line)) is not None]
        self._line += rest
        if self._event_size + len(self._line) > self._max_event:
            raise stream_limit_error(self._max_event, "bytes in one event")
        return events

    def close(self) -> list[SseEvent]:
        """End the stream and return its unfinished last block, if it has data."""
        if self._line:
            self._end_line(b"")
        event = self._dispatch()
        return [] if event is None else [event]

    def _end_line(self, tail: bytes) -> SseEvent | None:
        """Complete a line by its tail; return the event that a blank line ends."""
        line = tail
        if self._line:
            self._line += tail
            line = bytes(self._line)
            self._line.clear()
        if self._is_at_start:
            self._is_at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if self._event_size + len(line) > self._max_event:
            raise stream_limit_error(self._max_event, "bytes in one event")
        if not line:
            return self._dispatch()
        self._read_field(line)
        return None

    def _read_field(self, line: bytes) -> None:
        # A comment is a field with an empty name; unknown fields are ignored.
        name, _, value = line.partition(b":")
        match name:
            case b"data":
                self._data.append(_decode_value(value))
                self._event_size += len(line) + 1
            case b"event":
                self._event = _decode_value(value)
            case b"id" if b"\0" not in value:
                self._id = _decode_value(value)

    def _dispatch(self) -> SseEvent | None:
        """Return the event of the fields since the last one; None if they have no data."""
        data, event = self._data, self._event
        self._data, self._event_size, self._event = [], 0, ""
        if not data:
            return None
        self._event_count += 1
        if self._event_count > self._max_events:
            raise stream_limit_error(self._max_events, "events in one stream")
        return SseEvent("\n".join(data), event or "message", self._id)


def _decode_value(value: bytes) -> str:
    return value.removeprefix(b" ").decode("utf-8", "replace")


def stream_limit_error(limit: int, what: str) -> ProviderError:
    """Return the error for a stream that exceeds a limit."""
    message = f"The streamed response has more than {limit} {what}."
    return ProviderError(Fault(ErrorCode.RESPONSE_TOO_LARGE, message))
