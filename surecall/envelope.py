"""The envelope of an answer: the one choice in it, or the fault it really is.

HTTP 200 is not success. An error may be the body, sit in the choice, be wrapped in a list, or
hide as JSON text in `metadata.raw`; `choices` may be null. All of it ends in one typed `Fault`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from surecall.errors import ErrorCode, Fault
from surecall.types import JSON

MAX_QUOTE = 400
MAX_BODY = 2_000

# By HTTP status: the code, whether to try again, and what to do about it.
STATUS_TABLE: dict[int, tuple[ErrorCode, bool, str | None]] = {
    400: (ErrorCode.BAD_REQUEST, False, None),
    401: (ErrorCode.AUTH, False, "Check the API key."),
    402: (ErrorCode.PAYMENT_REQUIRED, False, "Add credit to the account."),
    403: (ErrorCode.FORBIDDEN, False, "Check what the key may use, and the account's region."),
    404: (ErrorCode.NOT_FOUND, False, "Check the model id, base_url and api_prefix."),
    408: (ErrorCode.TIMEOUT, True, None),
    409: (ErrorCode.CONFLICT, True, None),
    413: (ErrorCode.REQUEST_TOO_LARGE, False, "Send less history or fewer tools."),
    422: (ErrorCode.UNPROCESSABLE, False, None),
    425: (ErrorCode.PROVIDER_ERROR, True, None),
    429: (ErrorCode.RATE_LIMIT, True, "Slow down, or raise the limit with the provider."),
    501: (ErrorCode.UPSTREAM_5XX, False, None),
    505: (ErrorCode.UPSTREAM_5XX, False, None),
}

# What providers call it in `error.type`, `error.code` or `metadata.error_type`.
KIND_TABLE: dict[str, tuple[ErrorCode, bool]] = {
    "insufficient_quota": (ErrorCode.PAYMENT_REQUIRED, False),
    "context_length_exceeded": (ErrorCode.CONTEXT_TOO_LONG, False),
    "content_policy_violation": (ErrorCode.CONTENT_POLICY, False),
    "content_filter": (ErrorCode.CONTENT_POLICY, False),
    "refusal": (ErrorCode.CONTENT_POLICY, False),
    "provider_overloaded": (ErrorCode.UPSTREAM_5XX, True),
    "provider_unavailable": (ErrorCode.UPSTREAM_5XX, True),
    "server_error": (ErrorCode.UPSTREAM_5XX, True),
    "overloaded_error": (ErrorCode.UPSTREAM_5XX, True),
    "rate_limit_exceeded": (ErrorCode.RATE_LIMIT, True),
    "timeout": (ErrorCode.TIMEOUT, True),
}


def read_choice(body: Any) -> JSON | Fault:
    """Return the first choice of a decoded answer, or the fault that it is."""
    if (error := find_error(body)) is not None:
        return fault_of(error, None, {}, 0.0)
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return _no_choice(body)
    choice: JSON = choices[0]
    if isinstance(choice.get("error"), dict | str):
        return fault_of(choice, None, {}, 0.0)
    if choice.get("finish_reason") == "error":
        native = str(choice.get("native_finish_reason") or "no reason given")[:MAX_QUOTE]
        malformed = "MALFORMED" in native.upper()
        code = ErrorCode.MALFORMED_CALL if malformed else ErrorCode.PROVIDER_ERROR
        return Fault(code, f"the generation failed: {native}", retryable=True)
    return choice


def find_error(body: Any) -> JSON | None:
    """Return the mapping that holds an error, in the forms known from the wild."""
    match body:
        case [dict() as first, *_]:
            return find_error(first)
        case dict() if isinstance(body.get("error"), dict | str):
            return body
        case dict() if body.get("object") == "error" or body.get("type") == "error":
            return body
        case _:
            return None


def _no_choice(body: Any) -> Fault:
    if isinstance(body, dict) and ("choices" in body or not body):
        return Fault(
            ErrorCode.EMPTY_RESPONSE, "the answer has no choices", retryable=True, body=_quote(body)
        )
    keys = ", ".join(map(str, body))[:MAX_QUOTE] if isinstance(body, dict) else type(body).__name__
    return Fault(
        ErrorCode.DECODE_ERROR,
        f"the answer is not a chat completion (it has: {keys})",
        hint="Check base_url and api_prefix.",
        retryable=False,
        body=_quote(body),
    )


def fault_of(body: Any, status: int | None, headers: Mapping[str, str], now: float) -> Fault:
    """Judge an error: by the HTTP status, by what the body calls it, by what the headers advise."""
    holder = find_error(body) or (body if isinstance(body, dict) else {})
    error = holder.get("error")
    error = error if isinstance(error, dict) else holder
    metadata = error.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    availability = error.get("availability")
    availability = availability if isinstance(availability, dict) else {}
    status = status or _status(error)
    message = _message(holder, error, metadata) or _plain(body) or f"HTTP {status or 'error'}"
    code, retryable, hint = judge(status, _kinds(error, metadata), message)
    if isinstance(availability.get("retryable"), bool):
        retryable = availability["retryable"]
    if (advice := headers.get("x-should-retry")) in {"true", "false"}:
        retryable = advice == "true"
    wait = retry_after(headers, now)
    if wait is None:
        wait = _seconds(availability.get("retry_after"))
    provider = metadata.get("provider_name")
    return Fault(
        code,
        message,
        status,
        provider if isinstance(provider, str) else None,
        hint,
        retryable,
        wait,
        _quote(body),
    )


def judge(status: int | None, kinds: list[str], message: str) -> tuple[ErrorCode, bool, str | None]:
    """Decide code, retry and hint. One table by status, one by kind, one rule about tools."""
    code, retryable, hint = _by_status(status)
    if status in {400, 404, 422} and refuses_tools(message):
        return ErrorCode.NO_TOOL_USE_ENDPOINT, False, "Use a model or route that supports tools."
    for kind in kinds:
        if kind in KIND_TABLE:
            code, retryable = KIND_TABLE[kind]
            return code, retryable, None
    return code, retryable, hint


def _by_status(status: int | None) -> tuple[ErrorCode, bool, str | None]:
    if status is None:  # an error inside a 200, without a status: most often upstream's hiccup
        return ErrorCode.PROVIDER_ERROR, True, None
    if status in STATUS_TABLE:
        return STATUS_TABLE[status]
    if 500 <= status < 600:  # noqa: PLR2004  # the class of server errors
        return ErrorCode.UPSTREAM_5XX, True, None
    if 300 <= status < 400:  # noqa: PLR2004  # redirects are not followed: they would carry the key
        return ErrorCode.NOT_FOUND, False, "The endpoint redirects; use the final base_url."
    return ErrorCode.PROVIDER_ERROR, False, None


def refuses_tools(message: str) -> bool:
    """Whether an error is about tools as such, not about one bad message."""
    text = message.lower()
    about_tools = "tool" in text or "function call" in text
    return about_tools and any(word in text for word in ("support", "--enable", "not enabled"))


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Read how long to wait: milliseconds, seconds, or an HTTP date. Never negative."""
    if (milliseconds := _seconds(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    if given is None or (seconds := _seconds(given)) is not None:
        return seconds if given is not None else None
    # Imported here because few answers carry a date, and every `import surecall` would pay.
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, seconds) if seconds == seconds and seconds != float("inf") else None  # noqa: PLR0124  # NaN


def _status(error: JSON) -> int | None:
    for key in ("code", "http_status", "status", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:4])
        if isinstance(value, int) and 100 <= value < 600:  # noqa: PLR2004  # HTTP statuses
            return value
    return None


def _kinds(error: JSON, metadata: JSON) -> list[str]:
    given = (
        metadata.get("error_type"),
        error.get("error_type"),
        error.get("code"),
        error.get("type"),
    )
    return [kind for kind in given if isinstance(kind, str)]


def _message(holder: JSON, error: JSON, metadata: JSON) -> str:
    """Find the sentence that says most: upstream's own words before the router's."""
    plain = holder.get("error")
    candidates = (
        _inner(metadata.get("raw")),
        error.get("message"),
        plain if isinstance(plain, str) else None,
        holder.get("message"),
        holder.get("detail"),
    )
    for candidate in candidates:
        if candidate:
            text = candidate if isinstance(candidate, str) else _quote(candidate)
            return " ".join(text.split())[:MAX_QUOTE]
    return ""


def _inner(raw: Any) -> str:
    """Dig the message out of `metadata.raw`: text, JSON in text, a mapping or a list of them."""
    if isinstance(raw, str):
        try:
            parsed = msgspec.json.decode(raw)
        except (ValueError, RecursionError):
            return raw
        return _inner(parsed) if isinstance(parsed, dict | list) else raw
    match raw:
        case [dict() as first, *_]:
            return _inner(first)
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
            return text
        case _:
            return ""


def _plain(body: Any) -> str:
    if not isinstance(body, str):
        return ""
    text = " ".join(body[:MAX_BODY].split())
    return "an HTML page instead of JSON" if text.startswith("<") else text[:MAX_QUOTE]


def _quote(body: Any) -> str:
    if isinstance(body, str):
        return body[:MAX_BODY]
    return msgspec.json.encode(body).decode()[:MAX_BODY]
