"""What a stream can be instead of an answer: an error it reports, or one that it is."""

from http import HTTPStatus

from surecall.parsing.almost_json import mended
from surecall.parsing.call_fragments import written
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON

MAX_QUOTE = 2_000
_ERROR_STATUSES = frozenset(map(str, range(400, 600)))


def plain_fault(holder: JSON) -> Fault:
    """Read an error without any vendor's vocabulary: its words, and the status it names."""
    inner = holder.get("error")
    error = inner if isinstance(inner, dict) else holder
    words = error.get("message") or inner
    code = str(error.get("code"))
    status = int(code) if code in _ERROR_STATUSES else None
    match status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            kind, retryable = ErrorCode.RATE_LIMIT, True
        case int() if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind, retryable = ErrorCode.UPSTREAM_5XX, True
        case _:
            kind = ErrorCode.PROVIDER_ERROR
            retryable = status is None or status == HTTPStatus.REQUEST_TIMEOUT
    unknown = "The provider reports an error in the stream."
    message = mended(words) if isinstance(words, str) else unknown
    body = written(holder)[:MAX_QUOTE]
    return Fault(kind, message[:MAX_QUOTE], status, retryable=retryable, body=body)


def holds_error(holder: JSON) -> bool:
    """Whether a chunk, or a choice in it, reports an error."""
    # Some servers send `"error": null`, `""`, `{}` or `false` beside a good chunk.
    error = holder.get("error")
    return "error" in (holder.get("object"), holder.get("type")) or (
        bool(error) and (isinstance(error, dict | list | str) or not holder.get("choices"))
    )


def too_much(message: str) -> Fault:
    """Say that a stream goes beyond a limit."""
    return Fault(ErrorCode.RESPONSE_TOO_LARGE, message)


def unreadable(count: int) -> Fault:
    """Say that so many events of a stream are no chunks."""
    message = f"The stream cannot be read: {count} of its events are not JSON objects."
    return Fault(ErrorCode.DECODE_ERROR, message, retryable=True)


def broken_off(*, in_call: bool) -> Fault:
    """Say that a stream stopped too early."""
    place = "inside the arguments of a call" if in_call else "before the answer was complete"
    return Fault(
        ErrorCode.CONNECTION_ERROR,
        f"The stream broke off {place}.",
        hint="Try again; if it stays, look at the server's log.",
        retryable=True,
    )
