"""What the headers of an answer say about the quota of its sender: how much is left, until when.

Providers write it in many ways; the same three words are in all of them:

    OpenAI, Groq, Azure   x-ratelimit-remaining-requests: 0    x-ratelimit-reset-requests: 6m0s
    OpenRouter, GitHub    x-ratelimit-remaining: 0             x-ratelimit-reset: 1731879000000
    Anthropic             anthropic-ratelimit-requests-remaining: 0    …-reset: 2026-01-27T12:00:30Z
    IETF, older drafts    ratelimit-remaining: 0               ratelimit-reset: 30
    IETF, newer drafts    ratelimit: "default";r=0;t=30        ratelimit-policy: "default";q=9;w=60

Whatever cannot be read, or cannot be true, is as if it had not been said.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from surecall.values.nesting import decode_json

# Quotas are renewed each minute or each day. What takes longer is a mistake, or no use to anyone.
LONGEST_RESET_S: Final = 86_400.0
_LARGEST: Final = 1e15
_LONGEST_TEXT: Final = 400
_LONGEST_REFUSAL: Final = 65_536
# A number as large as this is no period but a moment: in seconds since 1970, or in milliseconds.
_SECONDS_OF_A_MOMENT: Final = 1e9
_MILLISECONDS_OF_A_MOMENT: Final = 1e11

_WORDS: Final = ("remaining", "reset", "limit")
_FORMS: Final = (
    *(f"x-ratelimit-{{}}-{kind}" for kind in ("requests", "tokens")),
    "x-ratelimit-{}",
    *(
        f"anthropic-ratelimit-{kind}-{{}}"
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
    "ratelimit-{}",
)
_NAMES: Final = tuple(tuple(form.format(word) for word in _WORDS) for form in _FORMS)
_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_PART: Final = re.compile(r"(\d{1,15}(?:\.\d{0,15})?)(ms|us|d|h|m|s)", re.ASCII)


class Quota(msgspec.Struct, frozen=True):
    """So much is left, and in so many seconds there is `limit` again, if that is known.

    Of requests or of tokens: a request takes at least one of either.
    """

    remaining: int
    reset_s: float
    limit: int | None = None


class _Metadata(msgspec.Struct):
    headers: dict[str, str | int]


class _Error(msgspec.Struct):
    metadata: _Metadata


class _Refusal(msgspec.Struct):
    error: _Error


def headers_in(body: bytes) -> dict[str, str]:
    """Return the headers that OpenRouter hands on inside of a refusal, names in lower case."""
    try:
        error = decode_json(body[:_LONGEST_REFUSAL], _Refusal).error
    except ValueError:
        return {}
    return {name.lower(): f"{value}" for name, value in error.metadata.headers.items()}


def quota_in(headers: Mapping[str, str], now: float) -> Quota | None:
    """Return the quota of which least is left. `now` is in seconds since 1970."""
    return min(_quotas(headers, now), key=lambda quota: quota.remaining, default=None)


def _quotas(headers: Mapping[str, str], now: float) -> Iterator[Quota]:
    told = [
        (left, headers.get(reset, ""), headers.get(limit, ""))
        for remaining, reset, limit in _NAMES
        if (left := headers.get(remaining)) is not None
    ]
    told.extend(_drafted(headers.get("ratelimit", ""), headers.get("ratelimit-policy", "")))
    for left, reset, limit in told:
        remaining, reset_s = _count(left), _period(reset, now)
        if remaining is not None and reset_s is not None and 0 < reset_s <= LONGEST_RESET_S:
            yield Quota(remaining, reset_s, _count(limit) or None)


def _drafted(text: str, policies: str) -> Iterator[tuple[str, str, str]]:
    """Read the newer drafts, and the one that came before them: limit=10, remaining=1, reset=7."""
    if len(text) > _LONGEST_TEXT or len(policies) > _LONGEST_TEXT:
        return
    if "remaining" in text:
        whole = _parameters(text.replace(",", ";"))
        yield whole.get("remaining", ""), whole.get("reset", ""), whole.get("limit", "")
        return
    limits = {_named(policy): _parameters(policy).get("q", "") for policy in policies.split(",")}
    for member in text.split(","):
        found = _parameters(member)
        yield found.get("r", ""), found.get("t", ""), limits.get(_named(member), "")


def _named(member: str) -> str:
    return member.partition(";")[0].strip()


def _parameters(member: str) -> dict[str, str]:
    parts = (part.partition("=") for part in member.split(";"))
    return {name.strip(): value.strip() for name, _, value in parts}


def _number(text: str) -> float | None:
    try:
        return float(text) if len(text) <= _LONGEST_TEXT else None
    except ValueError:
        return None


def _count(text: str) -> int | None:
    """Read how many; of a list, such as `100, 100;w=60`, the first."""
    number = _number(text.partition(",")[0].partition(";")[0])
    return int(number) if number is not None and 0 <= number < _LARGEST else None


def _period(text: str, now: float) -> float | None:
    """Read in how many seconds: a number, a period such as 6m0s, or a moment."""
    text = text.strip()
    number = _number(text)
    if number is None:
        period = _written_period(text)
        return _until(text, now) if period is None else period
    if number >= _MILLISECONDS_OF_A_MOMENT:
        return number / 1000 - now
    return number - now if number >= _SECONDS_OF_A_MOMENT else number


def _written_period(text: str) -> float | None:
    parts = _PART.findall(text[:_LONGEST_TEXT])
    if "".join(map("".join, parts)) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _until(text: str, now: float) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return aware.timestamp() - now
    except (ValueError, OverflowError):
        return None
