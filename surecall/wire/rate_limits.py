"""Parses rate-limit headers: the remaining quota and the time until it resets.

Providers use different names and formats for the same three fields:

    OpenAI, Groq, Azure   x-ratelimit-remaining-requests: 0    x-ratelimit-reset-requests: 6m0s
    OpenRouter, GitHub    x-ratelimit-remaining: 0             x-ratelimit-reset: 1731879000000
    Anthropic             anthropic-ratelimit-requests-remaining: 0    …-reset: 2026-01-27T12:00:30Z
    IETF, older drafts    ratelimit-remaining: 0               ratelimit-reset: 30
    IETF, newer drafts    ratelimit: "default";r=0;t=30        ratelimit-policy: "default";q=9;w=60

Unparsable and impossible values are ignored.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from surecall.values.nesting import decode_json

# Quotas reset every minute or day; longer periods are ignored.
MAX_RESET_S: Final = 86_400.0
_MAX_COUNT: Final = 1e15
_MAX_HEADER_LENGTH: Final = 400
_MAX_BODY_BYTES: Final = 65_536
# Numbers from here on are Unix timestamps, in seconds or milliseconds.
_MIN_EPOCH_S: Final = 1e9
_MIN_EPOCH_MS: Final = 1e11

_FIELDS: Final = ("remaining", "reset", "limit")
_HEADER_FORMATS: Final = (
    *(f"x-ratelimit-{{}}-{kind}" for kind in ("requests", "tokens")),
    "x-ratelimit-{}",
    *(
        f"anthropic-ratelimit-{kind}-{{}}"
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
    "ratelimit-{}",
)
_HEADER_NAMES: Final = tuple(
    tuple(form.format(word) for word in _FIELDS) for form in _HEADER_FORMATS
)
_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_DURATION_PART: Final = re.compile(r"(\d{1,15}(?:\.\d{0,15})?)(ms|us|d|h|m|s)", re.ASCII)


class Quota(msgspec.Struct, frozen=True):
    """The remaining requests or tokens, and the seconds until `limit` are available again.

    Both units are treated alike because a request uses at least one of either.
    """

    remaining: int
    reset_s: float
    limit: int | None = None


class _ErrorMetadata(msgspec.Struct):
    headers: dict[str, str | int]


class _ErrorObject(msgspec.Struct):
    metadata: _ErrorMetadata


class _ErrorBody(msgspec.Struct):
    error: _ErrorObject


def embedded_headers(body: bytes) -> dict[str, str]:
    """Return the headers that OpenRouter embeds in an error body, with lower-case names."""
    try:
        error = decode_json(body[:_MAX_BODY_BYTES], _ErrorBody).error
    except ValueError:
        return {}
    return {name.lower(): f"{value}" for name, value in error.metadata.headers.items()}


def tightest_quota(headers: Mapping[str, str], now: float) -> Quota | None:
    """Return the quota with the least remaining; `now` is a Unix timestamp."""
    return min(_quotas(headers, now), key=lambda quota: quota.remaining, default=None)


def _quotas(headers: Mapping[str, str], now: float) -> Iterator[Quota]:
    """Yield the quotas that headers state, in any known format."""
    fields = [
        (left, headers.get(reset, ""), headers.get(limit, ""))
        for remaining, reset, limit in _HEADER_NAMES
        if (left := headers.get(remaining)) is not None
    ]
    fields.extend(_draft_fields(headers.get("ratelimit", ""), headers.get("ratelimit-policy", "")))
    for left, reset, limit in fields:
        remaining, reset_s = _parse_count(left), _parse_reset(reset, now)
        if remaining is not None and reset_s is not None and 0 < reset_s <= MAX_RESET_S:
            yield Quota(remaining, reset_s, _parse_count(limit) or None)


def _draft_fields(text: str, policies: str) -> Iterator[tuple[str, str, str]]:
    """Parse the newer drafts and their predecessor `limit=10, remaining=1, reset=7`."""
    if len(text) > _MAX_HEADER_LENGTH or len(policies) > _MAX_HEADER_LENGTH:
        return
    if "remaining" in text:
        whole = _parameters(text.replace(",", ";"))
        yield whole.get("remaining", ""), whole.get("reset", ""), whole.get("limit", "")
        return
    limits = {
        _policy_name(policy): _parameters(policy).get("q", "") for policy in policies.split(",")
    }
    for member in text.split(","):
        found = _parameters(member)
        yield found.get("r", ""), found.get("t", ""), limits.get(_policy_name(member), "")


def _policy_name(member: str) -> str:
    """Return the name at the beginning of a member of a header list."""
    return member.partition(";")[0].strip()


def _parameters(member: str) -> dict[str, str]:
    """Return the parameters of a member of a header list, by name."""
    parts = (part.partition("=") for part in member.split(";"))
    return {name.strip(): value.strip() for name, _, value in parts}


def _parse_number(text: str) -> float | None:
    try:
        return float(text) if len(text) <= _MAX_HEADER_LENGTH else None
    except ValueError:
        return None


def _parse_count(text: str) -> int | None:
    """Parse a count; of a list such as `100, 100;w=60`, the first."""
    number = _parse_number(text.partition(",")[0].partition(";")[0])
    return int(number) if number is not None and 0 <= number < _MAX_COUNT else None


def _parse_reset(text: str, now: float) -> float | None:
    """Parse the seconds until a reset: a number, a duration such as 6m0s, or a timestamp."""
    text = text.strip()
    number = _parse_number(text)
    if number is None:
        period = _parse_duration(text)
        return _seconds_until(text, now) if period is None else period
    if number >= _MIN_EPOCH_MS:
        return number / 1000 - now
    return number - now if number >= _MIN_EPOCH_S else number


def _parse_duration(text: str) -> float | None:
    parts = _DURATION_PART.findall(text[:_MAX_HEADER_LENGTH])
    if "".join(map("".join, parts)) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _seconds_until(text: str, now: float) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return aware.timestamp() - now
    except (ValueError, OverflowError):
        return None
