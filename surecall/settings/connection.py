"""A connection: its limits, its address and key, and when a failed request is sent again.

Everything is checked before anything is sent. Messages never quote a secret.
"""

import math
import re
import string
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, quote, unquote, unquote_plus, urlsplit, urlunsplit

import msgspec

from surecall.parsing.budget import MAX_BYTES, MAX_VALUES
from surecall.values.errors import ConfigError, Fault
from surecall.values.types import Secret

ENDPOINT = "chat/completions"
MODELS = "models"
HIDDEN: Final = "..."
_PORTS: Final = {"http": 80, "https": 443}
_ODD_IN_HOSTS: Final = frozenset("\\^|`{}<>\"'$&*+,;=!()~")
# What versions are made of, as in 2024-06-01-preview. Such a value is no secret, and taking it
# for one would take dates out of answers.
_VERSIONS: Final = ("api-version", "api_version")
_IN_VERSIONS: Final = frozenset("0123456789.-")
_ASCII: Final = string.printable
_HEX_DIGITS: Final = frozenset(string.hexdigits)
_UNQUOTED: Final = frozenset(string.ascii_letters + string.digits + "-._~!$'()*,?/:@")
# A host, a port and a path, and nothing that may be a key: a lone word is none of them.
_WITHOUT_SCHEME: Final = re.compile(
    r"(?P<local>localhost|\d+(?:\.\d+){3}|[a-z0-9.-]+(?=:\d))(?::\d{1,5})?(?:/[\w./-]*)?"
    r"|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?:/[\w./-]*)?"
)
_LONGEST_QUOTE: Final = 60


T = TypeVar("T")


class Limits(msgspec.Struct, frozen=True):
    """How long and how much an endpoint may take: seconds, decoded bytes, JSON values, sockets."""

    connect_s: float = 5.0
    idle_s: float = 60.0
    total_s: float = 600.0
    max_response_bytes: int = MAX_BYTES
    max_response_values: int = MAX_VALUES
    max_connections: int = 100

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            # Zero means "no limit" to aiohttp, and an infinite number overflows in it.
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ConfigError(f"limits.{name} must be a finite number above zero")


DEFAULT_LIMITS = Limits()


class RetryPolicy(msgspec.Struct, frozen=True):
    """Bounds of the retry of one request. `attempts` counts the first one too."""

    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0
    longest_retry_after_s: float = 120.0

    def wait(self, fault: Fault, attempt: int, jitter: float) -> float | None:
        """Return the seconds to wait before the next attempt; None means: give up.

        `jitter` is a random number from 0 to 1. A server's Retry-After is followed exactly if it
        is short enough, and means giving up if it is not. One that is already over (a date in the
        past, zero) does not count.
        """
        if not fault.retryable or attempt >= self.attempts:
            return None
        if fault.retry_after is not None and fault.retry_after > 0:
            return fault.retry_after if fault.retry_after <= self.longest_retry_after_s else None
        backoff = min(self.first_wait_s * 2.0 ** min(attempt - 1, 99), self.longest_wait_s)
        return backoff * (0.5 + jitter / 2)


def _address_text(base_url: Any) -> str:
    if not isinstance(base_url, str):
        hint = "; pass its url" if hasattr(base_url, "url") else ""
        raise ConfigError(
            "base_url must be an address such as http://localhost:8000, "
            f"not {type(base_url).__name__}{hint}"
        )
    if not base_url.strip():
        raise ConfigError(
            "base_url is blank: write it as in http://localhost:8000, and use a Simulator or a "
            "Proxy inside `with`"
        )
    return base_url.strip()


def checked_url(base_url: str) -> SplitResult:
    """Split the address. Messages quote no part of it that may hold a password or a key."""
    text = _address_text(base_url)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("base_url has a malformed host or port") from None
    problems = {
        f"base_url must start with http:// or https://{_corrected(text)}": (
            parts.scheme not in {"http", "https"}
        ),
        "base_url holds a user name or password; pass the key as api_key instead": (
            "@" in parts.netloc
        ),
        "base_url names no host; write it as in http://localhost:8000": not host,
        # Two libraries read the address; in such a name they could see two different hosts.
        "base_url has a character in its host that no host has": bool(
            _ODD_IN_HOSTS & set(host or "")
        ),
        "base_url contains a space or a control character": not text.isprintable() or " " in text,
        "base_url has a fragment (#…); leave it out": bool(parts.fragment),
        f"base_url ends with /{ENDPOINT}; leave that out, it is added to every request": (
            parts.path.rstrip("/").endswith(f"/{ENDPOINT}")
        ),
    }
    for sentence, found in problems.items():
        if found:
            raise ConfigError(sentence)
    return parts


def _corrected(text: str) -> str:
    """Write an address with the scheme that it lacks, if it is a plain host, port and path."""
    found = _WITHOUT_SCHEME.fullmatch(text) if len(text) <= _LONGEST_QUOTE else None
    if found is None or "sk-" in text:
        return ", as in http://localhost:8000"
    return f', not "{text}"; write {"http" if found["local"] else "https"}://{text}'


def origin_of(url: str) -> str:
    """Return scheme, host and port: what a key is bound to. The port is always written.

    Blank if there is none of them. Two spellings of one host may count as two, never the other
    way round.
    """
    try:
        parts = checked_url(url)
    except ConfigError:
        return ""
    host = parts.hostname or ""
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def shown_url(url: str) -> str:
    """Return an address without the parts that can hold a secret: user, password, query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = HIDDEN if parts.query else ""
    return urlunsplit(parts._replace(netloc=host, query=query, fragment=""))


def secrets_in(query: str) -> tuple[Secret, ...]:
    """Return what must not be shown of the query of an address, as it is written and decoded."""
    return tuple(Secret(text) for text in dict.fromkeys(_secret_words(query)) if text)


def _secret_words(query: str) -> Iterator[str]:
    pairs = [pair.partition("=") for pair in query.replace(";", "&").split("&")]
    secret = [value or name for name, _, value in pairs if not _is_version(name, value)]
    whole = [query] if len(secret) == len(pairs) else []
    for text in (*whole, *secret):
        yield from (text, _as_sent(text), unquote(text), unquote_plus(text))


def _as_sent(text: str) -> str:
    """Return a part of a query as the HTTP library writes it, and an endpoint may echo it."""
    first, *rest = quote(text, safe=_ASCII).split("%")
    return first + "".join(map(_requoted, rest))


def _requoted(part: str) -> str:
    number, after = part[:2], part[2:]
    if len(number) != len("ff") or not set(number) <= _HEX_DIGITS:
        return f"%25{part}"  # a mere percent sign
    char = chr(int(number, 16))
    return f"{char if char in _UNQUOTED else f'%{number.upper()}'}{after}"


def _is_version(name: str, value: str) -> bool:
    plain = value.removesuffix("-preview")
    return name.casefold() in _VERSIONS and set(plain) <= _IN_VERSIONS


def checked_kind(value: Any, kind: type[T], name: str) -> T:
    """Return a value of a class; anything else is refused by name."""
    if not isinstance(value, kind):
        raise ConfigError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
    return value


def checked_prefix(api_prefix: str | None) -> str:
    """Force one leading slash and no trailing one; nothing stays nothing."""
    if api_prefix is not None and not isinstance(api_prefix, str):
        raise ConfigError(f'api_prefix must be text such as "/v1", not {type(api_prefix).__name__}')
    path = (api_prefix or "").strip().strip("/")
    return f"/{path}" if path else ""


def checked_key(api_key: str | Secret | None) -> Secret | None:
    """Wrap the key; refuse one that could not be sent. Messages never quote it."""
    if api_key is None:
        return None
    if not isinstance(api_key, str | Secret):
        raise ConfigError(f"api_key must be text, not {type(api_key).__name__}")
    secret = api_key if isinstance(api_key, Secret) else Secret(api_key)
    text = secret.reveal()
    if not text.strip():
        raise ConfigError("api_key is blank; pass None if the endpoint needs no key")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigError(
            "api_key contains a space, line break, control or non-ASCII character; copy it again"
        )
    return secret


def checked_headers(headers: Mapping[str, str]) -> dict[str, Secret]:
    """Wrap the values, which may be keys; refuse what could break out of its line."""
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        checked_kind(name, str, "a header name")
        checked_kind(value, str, f"header {name!r}")
        token = name.isascii() and name.isprintable() and not set(name) & set(" :")
        if not (name and token):
            raise ConfigError("a header name is empty or contains a space, colon or line break")
        if not value.isprintable():
            raise ConfigError(f"header {name!r} contains a line break or control character")
    return {name: Secret(value) for name, value in headers.items()}
