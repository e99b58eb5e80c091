"""Answers that fail, and what must follow: tables of OpenAI, of OpenRouter, of errors in a 200.

The `Retry-After` rows are those that OpenAI's own client is tested with (openai 3.49,
`tests/test_client.py`). The kinds and the availability block are in OpenRouter's documentation of
errors.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from surecall.testing import Scripted, failure, hangs_up, raw
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON

BACKOFF: Final = (0.5, 1.0)


class Row(NamedTuple):
    """An answer, whether it is asked for again, and after how long; None is our own backoff."""

    name: str
    answer: Scripted
    code: ErrorCode
    again: bool
    wait: float | None = None
    dated: bool = False

    def waits(self, retries: int) -> list[float]:
        """Return the waits before so many further attempts; a date is over after the first."""
        if not self.again:
            return []
        first, *later = BACKOFF
        given = (self.wait or first, *((not self.dated and self.wait) or each for each in later))
        return list(given[:retries])


# The header, and the seconds to wait: None is the backoff, 0 means that it is not tried again.
OPENAI: Final[dict[str, float | None]] = {
    "20": 20.0,
    "0": None,
    "-10": None,
    "60": 60.0,
    "61": 61.0,
    "120": 120.0,
    "121": 0,
    "Fri, 29 Sep 2023 16:26:57 GMT": 20.0,
    "Fri, 29 Sep 2023 16:26:37 GMT": None,
    "Fri, 29 Sep 2023 16:26:27 GMT": None,
    "Fri, 29 Sep 2023 16:27:37 GMT": 60.0,
    "Fri, 29 Sep 2023 16:27:38 GMT": 61.0,
    "Fri, 29 Sep 2023 16:28:37 GMT": 120.0,
    "Fri, 29 Sep 2023 16:28:38 GMT": 0,
    "99999999999999999999999999999999999": 0,
    "inf": None,
    "nan": None,
    "Zun, 29 Sep 2023 16:26:27 GMT": None,
    "Fri, 29 Sep 100000 16:26:57 GMT": None,
    "": None,
    # Our own: a number that overflows is a long wait, not a malformed one.
    "9" * 400: 0,
    "1e999": 0,
}
MILLISECONDS: Final[dict[str, float | None]] = {
    "1500": 1.5,
    "120000": 120.0,
    "120001": 0,
    "soon": None,
    "-1": None,
}
# OpenRouter's availability codes: the status, and whether another attempt may help.
AVAILABILITY: Final[dict[str, tuple[int, bool]]] = {
    "model_not_found": (404, False),
    "wrong_endpoint": (400, False),
    "no_endpoints": (404, False),
    "model_deprecated": (404, False),
    "model_unavailable_upstream": (503, False),
    "capacity_exhausted": (429, True),
    "temporarily_unavailable": (503, True),
    "region_restricted": (403, False),
    "privacy_restricted": (404, False),
    "constraint_filtered": (404, False),
    "free_variant_ended": (404, False),
}
_BY_STATUS: Final = {
    400: ErrorCode.BAD_REQUEST,
    401: ErrorCode.AUTH,
    402: ErrorCode.PAYMENT_REQUIRED,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    412: ErrorCode.PROVIDER_ERROR,
    413: ErrorCode.REQUEST_TOO_LARGE,
    422: ErrorCode.UNPROCESSABLE,
    429: ErrorCode.RATE_LIMIT,
    500: ErrorCode.UPSTREAM_5XX,
    502: ErrorCode.UPSTREAM_5XX,
    503: ErrorCode.UPSTREAM_5XX,
}
# OpenRouter's `metadata.error_type`: the code that we make of it, its status, and the decision.
KINDS: Final[dict[str, tuple[ErrorCode, int, bool]]] = {
    "context_length_exceeded": (ErrorCode.CONTEXT_TOO_LONG, 400, False),
    "max_tokens_exceeded": (ErrorCode.BAD_REQUEST, 400, False),
    "token_limit_exceeded": (ErrorCode.CONTEXT_TOO_LONG, 400, False),
    "string_too_long": (ErrorCode.BAD_REQUEST, 400, False),
    "authentication": (ErrorCode.AUTH, 401, False),
    "payment_required": (ErrorCode.PAYMENT_REQUIRED, 402, False),
    "permission_denied": (ErrorCode.FORBIDDEN, 403, False),
    "rate_limit_exceeded": (ErrorCode.RATE_LIMIT, 429, True),
    "provider_overloaded": (ErrorCode.UPSTREAM_5XX, 503, True),
    "provider_unavailable": (ErrorCode.UPSTREAM_5XX, 502, True),
    "invalid_request": (ErrorCode.BAD_REQUEST, 400, False),
    "invalid_prompt": (ErrorCode.BAD_REQUEST, 400, False),
    "not_found": (ErrorCode.NOT_FOUND, 404, False),
    "precondition_failed": (ErrorCode.PROVIDER_ERROR, 412, False),
    "payload_too_large": (ErrorCode.REQUEST_TOO_LARGE, 413, False),
    "unprocessable": (ErrorCode.UNPROCESSABLE, 422, False),
    "content_policy_violation": (ErrorCode.CONTENT_POLICY, 400, False),
    "refusal": (ErrorCode.CONTENT_POLICY, 400, False),
    "server": (ErrorCode.UPSTREAM_5XX, 500, True),
    "unmapped": (ErrorCode.UPSTREAM_5XX, 500, True),
    "timeout": (ErrorCode.TIMEOUT, 504, True),
}


def rows() -> list[Row]:
    """Return the rows of all tables."""
    return [*_headers(), *_availability(), *_kinds(), *_hidden()]


def _headers() -> Iterator[Row]:
    for header, table in (("retry-after", OPENAI), ("retry-after-ms", MILLISECONDS)):
        for value, wait in table.items():
            answer = failure(429, None, {header: value})
            code, dated = ErrorCode.RATE_LIMIT, "GMT" in value
            yield Row(f"{header}: {value}", answer, code, wait != 0, wait, dated)
    both = {"retry-after-ms": "2500", "retry-after": "7"}
    yield Row("both headers", failure(429, None, both), ErrorCode.RATE_LIMIT, True, 2.5)  # noqa: FBT003
    for advice, again in (("true", True), ("false", False)):
        for status in (400, 429, 503):
            answer = failure(status, None, {"x-should-retry": advice})
            yield Row(f"{status} x-should-retry: {advice}", answer, _BY_STATUS[status], again)


def _availability() -> Iterator[Row]:
    for name, (status, again) in AVAILABILITY.items():
        for after in (None, 5, 121):
            block = {"code": name, "retryable": again, "requested_models": ["m"]}
            block |= {} if after is None else {"retry_after": after}
            error = {"message": name, "http_status": status, "availability": block}
            may = again and after != 121
            for sent in (status, 200):
                where = f"availability {name}, retry_after {after}, HTTP {sent}"
                answer = failure(sent, {"error": error})
                yield Row(where, answer, _BY_STATUS[status], may, after)


def _kinds() -> Iterator[Row]:
    for kind, (code, status, again) in KINDS.items():
        typed: JSON = {"message": "x", "metadata": {"error_type": kind}}
        coded = typed | {"code": status}
        bodies = {
            "with its status": failure(status, {"error": coded}),
            "in a 200 with its code": failure(200, {"error": coded}),
            "in a 200 by kind alone": failure(200, {"error": typed}),
            "in a choice": failure(200, {"choices": [_partial() | {"error": coded}]}),
        }
        yield from (Row(f"{kind} {how}", body, code, again) for how, body in bodies.items())


def _partial() -> JSON:
    message = {"role": "assistant", "content": "I have"}
    return {"index": 0, "message": message, "finish_reason": "error"}


def _hidden() -> Iterator[Row]:
    """Yield failures that call themselves successes, and those of the connection."""
    empty, decode = ErrorCode.EMPTY_RESPONSE, ErrorCode.DECODE_ERROR
    provider = ErrorCode.PROVIDER_ERROR
    table: dict[str, tuple[JSON | list[JSON] | str, ErrorCode, bool]] = {
        "nothing": ("", empty, True),
        "null": ("null", empty, True),
        "an empty object": ({}, empty, True),
        "all fields null": ({"id": None, "choices": None, "model": None}, empty, True),
        "no choices": ({"choices": []}, empty, True),
        "a page": ("<!doctype html><title>hi</title>", decode, False),
        "half a body": ('{"choices":[{"mess', decode, True),
        "another API": ({"models": []}, decode, False),
        "an error that is text": ({"error": "broken"}, provider, True),
        "an error in a list": (
            [{"error": {"code": 429, "message": "x"}}],
            ErrorCode.RATE_LIMIT,
            True,
        ),
        "an error of another form": (
            {"object": "error", "message": "x", "code": 400},
            ErrorCode.BAD_REQUEST,
            False,
        ),
        "a code that is text": ({"error": {"code": "401", "message": "x"}}, ErrorCode.AUTH, False),
        "an error without code": ({"error": {"message": "x"}}, provider, True),
        "a generation that failed": ({"choices": [_partial()]}, provider, True),
        "a call that the provider could not read": (
            {"choices": [_partial() | {"native_finish_reason": "MALFORMED_FUNCTION_CALL"}]},
            ErrorCode.MALFORMED_CALL,
            True,
        ),
    }
    for name, (body, code, again) in table.items():
        data = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
        yield Row(f"200 with {name}", raw(data), code, again)
    yield Row("a hang-up", hangs_up(), ErrorCode.CONNECTION_ERROR, True)  # noqa: FBT003
