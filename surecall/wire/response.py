"""The envelope of an answer: the one choice in it, or the fault it really is.

HTTP 200 is not success. An error may be the body, sit in the choice, be wrapped in a list, or
hide as JSON text in `metadata.raw`; `choices` may be null. All of it ends in one typed `Fault`.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from surecall.values.errors import ErrorCode, Fault
from surecall.values.nesting import decode_json, encode_json
from surecall.values.types import JSON
from surecall.wire.finish_reasons import Ending, ending_of
from surecall.wire.messages import scrub

MAX_QUOTE = 400
MAX_NAME = 100
MAX_BODY = 2_000
# What a number says that is too large to be read: longer than anyone waits.
MANY_SECONDS = 1e30

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

# The status that a kind means, where an error inside a 200 names the kind alone.
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
    ErrorCode.CONTENT_POLICY: "Change the prompt; the same one will be refused again.",
    ErrorCode.NO_TOOL_USE_ENDPOINT: "Use a model or route that supports tools, or start the server "
    "so that it does.",
}

# OpenRouter puts one of these beside an error when moderation or a guardrail refused the prompt.
_MODERATION_KEYS = frozenset({"reasons", "flagged_input", "patterns"})


# Said by gateways that answer 400 for what went wrong behind them.
_UPSTREAM_FAILED = (
    "failed to get response from",
    "no response from upstream",
    "upstream request failed",
    "upstream connect error",
    "upstream service error",
)


# What complaints name that are about one definition, message or option, not about tools as such.
_ONE_DETAIL = ("tools[", "tool_call_id", "parameters", "tool_choice", "parallel_tool_calls")


class _Parts(msgspec.Struct, frozen=True):
    """Where an error keeps what: the mapping around it, itself, and its two annexes."""

    holder: JSON
    error: JSON
    metadata: JSON
    availability: JSON


def read_choice(body: Any) -> JSON | Fault:
    """Return the first choice of a decoded answer, or the fault that it is."""
    if (error := find_error(body)) is not None:
        return fault_of(error, None, {}, 0.0)
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return _no_choice(body)
    choice: JSON = choices[0]
    if find_error(choice) is not None:
        return fault_of(choice, None, {}, 0.0)
    return _broken(choice) or choice


def _broken(choice: JSON) -> Fault | None:
    """Say that the generation broke off, if a finish reason says so: what came is not all."""
    reason, native = choice.get("finish_reason"), choice.get("native_finish_reason")
    endings = {ending_of(reason), ending_of(native)}
    if Ending.BROKEN not in endings:
        return None
    code = ErrorCode.PROVIDER_ERROR
    if Ending.MALFORMED in endings:
        code = ErrorCode.MALFORMED_CALL
    words = native or (reason if reason != "error" else "no reason given")
    message = f"the generation failed: {scrub(str(words)[:MAX_QUOTE])}"
    return Fault(code, message, retryable=True, body=_quote(choice))


def find_error(body: Any) -> JSON | None:
    """Return the mapping that holds an error, in the forms known from the wild."""
    match body:
        case [dict() as first, *_]:
            return find_error(first)
        case dict() if _erred(body):
            return body
        case _:
            return None


def _erred(body: JSON) -> bool:
    # Some servers send `"error": null`, `""`, `{}` or `false` beside a good answer.
    return bool(body.get("error")) or "error" in (body.get("object"), body.get("type"))


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
    parts = _parts(body)
    kinds = _kinds(parts)
    status = status or _status(parts.error, kinds)
    if status == 403 and _MODERATION_KEYS.intersection(parts.metadata):  # noqa: PLR2004
        kinds = ["content_policy_violation"]
    # A stream may hold half a character, whose other half never came.
    message = str(scrub(_message(parts) or _plain(body) or f"HTTP {status or 'error'}"))
    code, retryable, hint = judge(status, kinds, message)
    provider = parts.metadata.get("provider_name")
    remedy = parts.metadata.get("remedy_hint")
    return Fault(
        code,
        message,
        status,
        scrub(provider[:MAX_NAME]) if isinstance(provider, str) else None,
        scrub(remedy[:MAX_QUOTE]) if isinstance(remedy, str) else hint,
        _advised(parts.availability, headers, retryable=retryable),
        _wait(parts.availability, headers, now),
        _quote(_presentable(body, parts)),
    )


def _parts(body: Any) -> _Parts:
    holder = find_error(body) or (body if isinstance(body, dict) else {})
    match holder.get("error") or holder.get("errors"):
        case dict(error) | [dict(error), *_]:
            pass
        case _:
            error = holder
    return _Parts(
        holder, error, _mapping(error.get("metadata")), _mapping(error.get("availability"))
    )


def _mapping(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def _advised(availability: JSON, headers: Mapping[str, str], *, retryable: bool) -> bool:
    """Let the server overrule the table: the header before the body."""
    if (advice := headers.get("x-should-retry")) in {"true", "false"}:
        return advice == "true"
    given = availability.get("retryable")
    return given if isinstance(given, bool) else retryable


def _wait(availability: JSON, headers: Mapping[str, str], now: float) -> float | None:
    wait = retry_after(headers, now)
    return _seconds(availability.get("retry_after")) if wait is None else wait


def _presentable(body: Any, parts: _Parts) -> Any:
    # What moderation flagged is a piece of the user's prompt; it does not belong into a log.
    if "flagged_input" not in parts.metadata:
        return body
    metadata = {key: parts.metadata[key] for key in parts.metadata if key != "flagged_input"}
    return {"error": parts.error | {"metadata": metadata}}


def judge(status: int | None, kinds: list[str], message: str) -> tuple[ErrorCode, bool, str | None]:
    """Decide code, retry and hint: by kind, by three rules about the words, by status."""
    text = message.lower()
    code: ErrorCode | None = None
    retryable = False
    if (kind := next((kind for kind in kinds if kind in KIND_TABLE), None)) is not None:
        code, retryable = KIND_TABLE[kind]
    elif status in {400, 404, 422} and refuses_tools(text):
        code = ErrorCode.NO_TOOL_USE_ENDPOINT
    elif status in {400, 413, 422} and ("context length" in text or "context window" in text):
        code = ErrorCode.CONTEXT_TOO_LONG
    elif status == 400 and any(words in text for words in _UPSTREAM_FAILED):  # noqa: PLR2004
        code, retryable = ErrorCode.UPSTREAM_5XX, True
    elif status == 403 and ("moderation" in text or "safety_check" in text):  # noqa: PLR2004
        code = ErrorCode.CONTENT_POLICY
    return _by_status(status) if code is None else (code, retryable, HINTS.get(code))


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
    if any(word in text for word in _ONE_DETAIL):
        return False
    about_tools = "tool" in text or "function call" in text
    return about_tools and any(word in text for word in ("support", "--enable", "not enabled"))


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Read how long to wait: milliseconds, seconds, or an HTTP date. Never negative."""
    if (milliseconds := _seconds(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    given = headers.get("retry-after", "")
    seconds = _seconds(given)
    return _until(given, now) if seconds is None else seconds


def _until(date: str, now: float) -> float | None:
    # Imported here because few answers carry a date, and every `import surecall` would pay.
    from datetime import UTC  # noqa: PLC0415
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        moment = parsedate_to_datetime(date)
        # An HTTP date is always GMT, whether it says so or not.
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0.0, aware.timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return MANY_SECONDS if value > 0 else 0.0
    except (TypeError, ValueError):
        return None
    if math.isinf(seconds) and isinstance(value, str) and value.strip()[:1].isdigit():
        return MANY_SECONDS
    return max(0.0, seconds) if math.isfinite(seconds) and value is not True else None


def _status(error: JSON, kinds: list[str]) -> int | None:
    for key in ("code", "http_status", "status", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:4])
        if isinstance(value, int) and 400 <= value < 600:  # noqa: PLR2004  # statuses of errors
            return value
    return next((KIND_STATUS[kind] for kind in kinds if kind in KIND_STATUS), None)


def _kinds(parts: _Parts) -> list[str]:
    error, metadata = parts.error, parts.metadata
    given = (
        metadata.get("error_type"),
        error.get("error_type"),
        error.get("code"),
        error.get("type"),
    )
    return [kind for kind in given if isinstance(kind, str)]


def _message(parts: _Parts) -> str:
    """Find the sentence that says most: upstream's own words before the router's."""
    holder, error = parts.holder, parts.error
    plain = holder.get("error")
    candidates = (
        _inner(parts.metadata.get("raw")),
        error.get("message"),
        plain if isinstance(plain, str) else None,
        holder.get("message"),
        holder.get("detail"),
    )
    for candidate in candidates:
        if candidate and (text := _line(_quote(candidate))):
            return text
    return ""


def _inner(raw: Any) -> str:
    """Dig the message out of `metadata.raw`: text, JSON in text, a mapping or a list of them."""
    if isinstance(raw, str):
        try:
            parsed = decode_json(raw)
        except ValueError:
            return "" if raw.lstrip().startswith("<") else raw
        return _inner(parsed) if isinstance(parsed, dict | list) else raw
    match raw:
        case [dict() as first, *_]:
            return _inner(first)
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
            return text
        case dict() | list() if raw:
            return _quote(raw)
        case _:
            return ""


def _plain(body: Any) -> str:
    text = _line(body) if isinstance(body, str) else ""
    return "an HTML page instead of JSON" if text.startswith("<") else text


def _line(text: str) -> str:
    return " ".join(text[:MAX_BODY].split())[:MAX_QUOTE]


def _quote(body: Any) -> str:
    if isinstance(body, str):
        return body[:MAX_BODY]
    try:
        return encode_json(body, msgspec.json.encode).decode()[:MAX_BODY]
    except ValueError:
        return "(a body that cannot be shown)"
