"""The Responses object: an answer as a whole, whatever has become of it."""

from typing import Any, Final

from surecall.proxy.faces.face import Asked, Failure
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON

# What an answer repeats of its request, and what stands there if it was not said.
_ECHOED: Final[JSON] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
# The names that clients act upon: they shorten the history, wait, or give up.
_CODES: Final = {
    ErrorCode.CONTEXT_TOO_LONG: "context_length_exceeded",
    ErrorCode.PAYMENT_REQUIRED: "insufficient_quota",
    ErrorCode.RATE_LIMIT: "rate_limit_exceeded",
}
_RATE_LIMITED: Final = 429
_SERVER_ERRORS: Final = 500
# Statuses of requests that may succeed if they are made again.
_PASSING: Final = frozenset({408, 409, 425})


def answer(asked: Asked, head: JSON, status: str, output: list[JSON]) -> JSON:
    """Write an answer; `head` has the `id` without its prefix, `created` and `model`."""
    return {
        "id": f"resp_{head['id']}",
        "object": "response",
        "created_at": head.get("created") or 0,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": head.get("model") or asked.given.get("model") or "",
        "output": output,
        "usage": None,
        "background": False,
        "previous_response_id": None,
        "store": False,
    } | {key: _said(asked.given.get(key), default) for key, default in _ECHOED.items()}


def _said(value: Any, default: Any) -> Any:
    return default if value is None else value


def ended(response: JSON, body: JSON, cut: str | None) -> JSON:
    """Add how an answer ended and what it cost."""
    tier = body.get("service_tier")
    return response | {
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": cut} if cut else None,
        "service_tier": _said(tier, response["service_tier"]),
        "usage": _usage(_mapping(body.get("usage"))),
    }


def _usage(usage: JSON) -> JSON:
    spent = _mapping(usage.get("prompt_tokens_details"))
    made = _mapping(usage.get("completion_tokens_details"))
    asked, answered = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    return {
        "input_tokens": asked,
        "input_tokens_details": {
            "cached_tokens": _count(spent, "cached_tokens"),
            "cache_write_tokens": _count(spent, "cache_write_tokens"),
        },
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": _count(made, "reasoning_tokens")},
        "total_tokens": _count(usage, "total_tokens") or asked + answered,
    }


def _mapping(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def _count(mapping: JSON, key: str) -> int:
    value = mapping.get(key)
    return value if isinstance(value, int) else 0


def failed(response: JSON, failure: Failure) -> JSON:
    """Add why an answer failed."""
    error = {
        "code": _stream_code(failure),
        "message": failure.message,
        "param": failure.param,
        "type": failure.code,
    }
    return response | {"status": "failed", "error": error}


def _stream_code(failure: Failure) -> str:
    if (code := _known(failure)) is not None:
        return code
    # Clients ask again unless they are told that the request itself is at fault.
    is_final = failure.status < _SERVER_ERRORS and failure.status not in _PASSING
    return "invalid_prompt" if is_final else "server_error"


def _known(failure: Failure) -> str | None:
    by_name = {str(code): name for code, name in _CODES.items()}
    limit = _CODES[ErrorCode.RATE_LIMIT] if failure.status == _RATE_LIMITED else None
    return by_name.get(failure.code, limit)


def error(failure: Failure) -> JSON:
    """Write an error that is the whole answer."""
    is_theirs = failure.status < _SERVER_ERRORS
    return {
        "error": {
            "message": failure.message,
            "type": "invalid_request_error" if is_theirs else "server_error",
            "param": failure.param,
            "code": _known(failure) or failure.code,
        }
    }
