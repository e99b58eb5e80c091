"""Parses the response envelope into a choice or a typed `Fault`.

HTTP 200 does not mean success: the error may be the body, be in the choice, be wrapped in a list,
or be JSON text in `metadata.raw`, and `choices` may be null.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from surecall.values.errors import ErrorCode, Fault
from surecall.values.nesting import decode_json, encode_json
from surecall.values.text import join_surrogates
from surecall.values.types import JSON, object_or_empty
from surecall.wire.finish_reasons import FinishKind, finish_kind

MAX_MESSAGE_LENGTH = 400
MAX_PROVIDER_NAME = 100
MAX_BODY_EXCERPT = 2_000
# Stands for a wait too large to represent.
OVERFLOW_SECONDS = 1e30

# By HTTP status: the code, whether to retry, and a hint.
STATUS_TABLE: dict[int, tuple[ErrorCode, bool, str | None]] = {
    400: (ErrorCode.BAD_REQUEST, False, None),
    401: (ErrorCode.AUTH, False, "Check the API key."),
    402: (ErrorCode.PAYMENT_REQUIRED, False, "Add credit to the account."),
    403: (ErrorCode.FORBIDDEN, False, "Check the permissions of the key and the account's region."),
    404: (ErrorCode.NOT_FOUND, False, "Check the model id, base_url, and api_prefix."),
    408: (ErrorCode.TIMEOUT, True, None),
    409: (ErrorCode.CONFLICT, True, None),
    413: (ErrorCode.REQUEST_TOO_LARGE, False, "Send less history or fewer tools."),
    422: (ErrorCode.UNPROCESSABLE, False, None),
    425: (ErrorCode.PROVIDER_ERROR, True, None),
    429: (ErrorCode.RATE_LIMIT, True, "Slow down, or raise the limit with the provider."),
    501: (ErrorCode.UPSTREAM_5XX, False, None),
    505: (ErrorCode.UPSTREAM_5XX, False, None),
}

# Provider names in `error.type`, `error.code`, or `metadata.error_type`.
KIND_TABLE: dict[str, tuple[ErrorCode, bool]] = {
    "insufficient_quota": (ErrorCode.PAYMENT_REQUIRED, False),
    "context_length_exceeded": (ErrorCode.CONTEXT_TOO_LONG, False),
    "token_limit_exceeded": (ErrorCode.CONTEXT_TOO_LONG, False),
    "exceed_context_size_error": (ErrorCode.CONTEXT_TOO_LONG, False),
    "content_policy_violation": (ErrorCode.CONTENT_POLICY, False),
    "content_filter": (ErrorCode.CONTENT_POLICY, False),
    "refusal": (ErrorCode.CONTENT_POLICY, False),
    "tool_use_failed": (ErrorCode.MALFORMED_CALL, True),
    "provider_overloaded": (ErrorCode.UPSTREAM_5XX, True),
    "provider_unavailable": (ErrorCode.UPSTREAM_5XX, True),
    "server_error": (ErrorCode.UPSTREAM_5XX, True),
    "overloaded_error": (ErrorCode.UPSTREAM_5XX, True),
    "rate_limit_exceeded": (ErrorCode.RATE_LIMIT, True),
    "timeout": (ErrorCode.TIMEOUT, True),
}

# The status that a kind implies, for errors inside a 200 without a status.
KIND_STATUS: dict[str, int] = {
    "invalid_request": 400,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "max_tokens_exceeded": 400,
    "string_too_long": 400,
    "authentication": 401,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "payment_required": 402,
    "permission_denied": 403,
    "permission_error": 403,
    "not_found": 404,
    "not_found_error": 404,
    "model_not_found": 404,
    "precondition_failed": 412,
    "payload_too_large": 413,
    "request_too_large": 413,
    "unprocessable": 422,
    "rate_limit_error": 429,
    "server": 500,
    "unmapped": 500,
    "api_error": 500,
}

HINTS: dict[ErrorCode, str] = {code: hint for code, _, hint in STATUS_TABLE.values() if hint} | {
    ErrorCode.CONTEXT_TOO_LONG: "Send less history or fewer tools.",
    ErrorCode.CONTENT_POLICY: "Change the prompt; resending it will be refused again.",
    ErrorCode.NO_TOOL_USE_ENDPOINT: "Use a model or route that supports tools, or start the server "
    "with tool support enabled.",
}

# OpenRouter adds one of these when moderation or a guardrail refused the prompt.
_MODERATION_KEYS = frozenset({"reasons", "flagged_input", "patterns"})


# Messages of gateways that return 400 for upstream failures.
_UPSTREAM_FAILURE_PHRASES = (
    "failed to get response from",
    "no response from upstream",
    "upstream request failed",
    "upstream connect error",
    "upstream service error",
)


# Words of errors about one definition, message, or option, not about tool support.
_DETAIL_FIELDS = ("tools[", "tool_call_id", "parameters", "tool_choice", "parallel_tool_calls")


class _ErrorParts(msgspec.Struct, frozen=True):
    """An error object, the mapping around it, and its two sub-objects."""

    holder: JSON
    error: JSON
    metadata: JSON
    availability: JSON


def parse_choice(body: Any) -> JSON | Fault:
    """Return the first choice of a decoded response, or a fault."""
    if (error := find_error(body)) is not None:
        return parse_fault(error, None, {}, 0.0)
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return _missing_choice_fault(body)
    choice: JSON = choices[0]
    if find_error(choice) is not None:
        return parse_fault(choice, None, {}, 0.0)
    return _generation_fault(choice) or choice


def _generation_fault(choice: JSON) -> Fault | None:
    """Return a fault if a finish reason reports that the generation failed."""
    reason, native = choice.get("finish_reason"), choice.get("native_finish_reason")
    endings = {finish_kind(reason), finish_kind(native)}
    if FinishKind.BROKEN not in endings:
        return None
    code = ErrorCode.PROVIDER_ERROR
    if FinishKind.MALFORMED in endings:
        code = ErrorCode.MALFORMED_CALL
    words = native or (reason if reason != "error" else "no reason given")
    message = f"the generation failed: {join_surrogates(str(words)[:MAX_MESSAGE_LENGTH])}"
    return Fault(code, message, retryable=True, body=_body_excerpt(choice))


def find_error(body: Any) -> JSON | None:
    """Return the mapping that contains an error, in any known form."""
    match body:
        case [dict() as first, *_]:
            return find_error(first)
        case dict() if _is_error(body):
            return body
        case _:
            return None


def _is_error(body: JSON) -> bool:
    """Whether a response body reports an error."""
    # Some servers send `"error": null`, `""`, `{}`, or `false` in a valid response.
    return bool(body.get("error")) or "error" in (body.get("object"), body.get("type"))


def _missing_choice_fault(body: Any) -> Fault:
    """Return the fault for a body without a choice or an error."""
    if isinstance(body, dict) and ("choices" in body or not body):
        return Fault(
            ErrorCode.EMPTY_RESPONSE,
            "the response has no choices",
            retryable=True,
            body=_body_excerpt(body),
        )
    keys = (
        ", ".join(map(str, body))[:MAX_MESSAGE_LENGTH]
        if isinstance(body, dict)
        else type(body).__name__
    )
    return Fault(
        ErrorCode.DECODE_ERROR,
        f"the response is not a chat completion (it has: {keys})",
        hint="Check base_url and api_prefix.",
        retryable=False,
        body=_body_excerpt(body),
    )


def parse_fault(body: Any, status: int | None, headers: Mapping[str, str], now: float) -> Fault:
    """Classify an error by HTTP status, body, and headers."""
    parts = _split_error(body)
    kinds = _error_kinds(parts)
    status = status or _error_status(parts.error, kinds)
    if status == 403 and _MODERATION_KEYS.intersection(parts.metadata):  # noqa: PLR2004
        kinds = ["content_policy_violation"]
    # A stream may end with half of a surrogate pair.
    message = join_surrogates(
        _error_message(parts) or _plain_text(body) or f"HTTP {status or 'error'}"
    )
    code, retryable, hint = classify_error(status, kinds, message)
    provider = parts.metadata.get("provider_name")
    remedy = parts.metadata.get("remedy_hint")
    return Fault(
        code,
        message,
        status,
        join_surrogates(provider[:MAX_PROVIDER_NAME]) if isinstance(provider, str) else None,
        join_surrogates(remedy[:MAX_MESSAGE_LENGTH]) if isinstance(remedy, str) else hint,
        _is_retryable(parts.availability, headers, retryable=retryable),
        _retry_wait(parts.availability, headers, now),
        _body_excerpt(_without_flagged_input(body, parts)),
    )


def _split_error(body: Any) -> _ErrorParts:
    """Return the parts of the error in a body."""
    holder = find_error(body) or object_or_empty(body)
    match holder.get("error") or holder.get("errors"):
        case dict(error) | [dict(error), *_]:
            pass
        case _:
            error = holder
    return _ErrorParts(
        holder,
        error,
        object_or_empty(error.get("metadata")),
        object_or_empty(error.get("availability")),
    )


def _is_retryable(availability: JSON, headers: Mapping[str, str], *, retryable: bool) -> bool:
    """Whether to retry: the header overrides the body, and both override the table."""
    if (advice := headers.get("x-should-retry")) in {"true", "false"}:
        return advice == "true"
    given = availability.get("retryable")
    return given if isinstance(given, bool) else retryable


def _retry_wait(availability: JSON, headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait before a retry, if the headers or the body say so."""
    wait = retry_after(headers, now)
    return _parse_seconds(availability.get("retry_after")) if wait is None else wait


def _without_flagged_input(body: Any, parts: _ErrorParts) -> Any:
    """Return an error body without the part of the prompt that it repeats."""
    # `flagged_input` is part of the user's prompt and must not be logged.
    if "flagged_input" not in parts.metadata:
        return body
    metadata = {key: parts.metadata[key] for key in parts.metadata if key != "flagged_input"}
    return {"error": parts.error | {"metadata": metadata}}


def classify_error(
    status: int | None, kinds: list[str], message: str
) -> tuple[ErrorCode, bool, str | None]:
    """Return code, retryable, and hint, from the kind, the message, or the status."""
    text = message.lower()
    code: ErrorCode | None = None
    retryable = False
    if (kind := next((kind for kind in kinds if kind in KIND_TABLE), None)) is not None:
        code, retryable = KIND_TABLE[kind]
    elif status in {400, 404, 422} and is_tool_support_error(text):
        code = ErrorCode.NO_TOOL_USE_ENDPOINT
    elif status in {400, 413, 422} and ("context length" in text or "context window" in text):
        code = ErrorCode.CONTEXT_TOO_LONG
    elif status == 400 and any(words in text for words in _UPSTREAM_FAILURE_PHRASES):  # noqa: PLR2004
        code, retryable = ErrorCode.UPSTREAM_5XX, True
    elif status == 403 and ("moderation" in text or "safety_check" in text):  # noqa: PLR2004
        code = ErrorCode.CONTENT_POLICY
    return _classify_status(status) if code is None else (code, retryable, HINTS.get(code))


def _classify_status(status: int | None) -> tuple[ErrorCode, bool, str | None]:
    if status is None:  # an error inside a 200 is usually a temporary upstream failure
        return ErrorCode.PROVIDER_ERROR, True, None
    if status in STATUS_TABLE:
        return STATUS_TABLE[status]
    if 500 <= status < 600:  # noqa: PLR2004  # the class of server errors
        return ErrorCode.UPSTREAM_5XX, True, None
    if 300 <= status < 400:  # noqa: PLR2004  # following a redirect would leak the key
        return ErrorCode.NOT_FOUND, False, "The endpoint redirects; use the final base_url."
    return ErrorCode.PROVIDER_ERROR, False, None


def is_tool_support_error(message: str) -> bool:
    """Whether an error says that tools are not supported, not that one message is invalid."""
    text = message.lower()
    if any(word in text for word in _DETAIL_FIELDS):
        return False
    about_tools = "tool" in text or "function call" in text
    return about_tools and any(word in text for word in ("support", "--enable", "not enabled"))


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Parse the seconds to wait from the headers: milliseconds, seconds, or an HTTP date."""
    if (milliseconds := _parse_seconds(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    given = headers.get("retry-after", "")
    seconds = _parse_seconds(given)
    return _seconds_until(given, now) if seconds is None else seconds


def _seconds_until(date: str, now: float) -> float | None:
    # Imported here to keep `import surecall` fast; few responses carry a date.
    from datetime import UTC  # noqa: PLC0415
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        moment = parsedate_to_datetime(date)
        # An HTTP date is always GMT, even without a time zone.
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0.0, aware.timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _parse_seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return OVERFLOW_SECONDS if value > 0 else 0.0
    except (TypeError, ValueError):
        return None
    if math.isinf(seconds) and isinstance(value, str) and value.strip()[:1].isdigit():
        return OVERFLOW_SECONDS
    return max(0.0, seconds) if math.isfinite(seconds) and value is not True else None


def _error_status(error: JSON, kinds: list[str]) -> int | None:
    """Return the HTTP status that an error object states or implies."""
    for key in ("code", "http_status", "status", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:4])
        if isinstance(value, int) and 400 <= value < 600:  # noqa: PLR2004  # statuses of errors
            return value
    return next((KIND_STATUS[kind] for kind in kinds if kind in KIND_STATUS), None)


def _error_kinds(parts: _ErrorParts) -> list[str]:
    """Return the names of an error in its type and code fields, most specific first."""
    error, metadata = parts.error, parts.metadata
    given = (
        metadata.get("error_type"),
        error.get("error_type"),
        error.get("code"),
        error.get("type"),
    )
    return [kind for kind in given if isinstance(kind, str)]


def _error_message(parts: _ErrorParts) -> str:
    """Return the most specific message: the upstream's before the router's."""
    holder, error = parts.holder, parts.error
    plain = holder.get("error")
    candidates = (
        _raw_message(parts.metadata.get("raw")),
        error.get("message"),
        plain if isinstance(plain, str) else None,
        holder.get("message"),
        holder.get("detail"),
    )
    for candidate in candidates:
        if candidate and (text := _one_line(_body_excerpt(candidate))):
            return text
    return ""


def _raw_message(raw: Any) -> str:
    """Return the message in `metadata.raw`: text, JSON text, a mapping, or a list of mappings."""
    if isinstance(raw, str):
        try:
            parsed = decode_json(raw)
        except ValueError:
            return "" if raw.lstrip().startswith("<") else raw
        return _raw_message(parsed) if isinstance(parsed, dict | list) else raw
    match raw:
        case [dict() as first, *_]:
            return _raw_message(first)
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
            return text
        case dict() | list() if raw:
            return _body_excerpt(raw)
        case _:
            return ""


def _plain_text(body: Any) -> str:
    """Return a text body on one line, or a note that it is an HTML page."""
    text = _one_line(body) if isinstance(body, str) else ""
    return "an HTML page instead of JSON" if text.startswith("<") else text


def _one_line(text: str) -> str:
    return " ".join(text[:MAX_BODY_EXCERPT].split())[:MAX_MESSAGE_LENGTH]


def _body_excerpt(body: Any) -> str:
    """Return the beginning of a body as text."""
    if isinstance(body, str):
        return body[:MAX_BODY_EXCERPT]
    try:
        return encode_json(body, msgspec.json.encode).decode()[:MAX_BODY_EXCERPT]
    except ValueError:
        return "(body cannot be displayed)"
