"""The connection to an endpoint: its address, limits, and retry policy."""

import ipaddress
import math
import re
import string
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, quote, unquote, unquote_plus, urlsplit, urlunsplit

import msgspec

from surecall.parsing.budget import MAX_BYTES, MAX_VALUES
from surecall.values.errors import ConfigError, Fault
from surecall.values.family import unknown_name_message
from surecall.values.types import Secret

# Host names and loopback addresses.

LOOPBACK: Final = "127.0.0.1"
_HTTP_PORT: Final = 80


def split_host(host: str) -> tuple[str, int]:
    """Split a `Host` header into name and port."""
    name, colon, digits = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, digits = host, str(_HTTP_PORT)
    port = int(digits) if digits.isascii() and digits.isdigit() else 0
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name.lower(), port


def is_ip_address(name: str) -> bool:
    """Whether a host is an IP address rather than a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a server on this host is reachable only from this machine."""
    return host == "localhost" or (is_ip_address(host) and ipaddress.ip_address(host).is_loopback)


# Limits, retry policy, URL, key, and headers of a connection.
#
# Everything is validated before a request is sent. Error messages never quote a secret.

CHAT_COMPLETIONS_PATH = "chat/completions"
AUTO_API, CHAT_API, RESPONSES_API, MESSAGES_API = "auto", "chat", "responses", "messages"
UPSTREAM_APIS: Final = (AUTO_API, CHAT_API, RESPONSES_API, MESSAGES_API)
_API_PATHS: Final = {
    CHAT_API: f"/{CHAT_COMPLETIONS_PATH}",
    RESPONSES_API: "/responses",
    MESSAGES_API: "/messages",
}
MODELS_PATH = "models"
REDACTED: Final = "..."
_PORTS: Final = {"http": 80, "https": 443}
_INVALID_HOST_CHARS: Final = frozenset("\\^|`{}<>\"'$&*+,;=!()~")
# API versions, as in 2024-06-01-preview, are not secrets; hiding them would remove dates from
# replies.
_VERSION_PARAMETERS: Final = ("api-version", "api_version")
_VERSION_CHARS: Final = frozenset("0123456789.-")
_ASCII: Final = string.printable
_HEX_DIGITS: Final = frozenset(string.hexdigits)
_UNQUOTED_CHARS: Final = frozenset(string.ascii_letters + string.digits + "-._~!$'()*,?/:@")
# A host, port, and path. A single word does not match, as it may be a key.
_WITHOUT_SCHEME: Final = re.compile(
    r"(?P<local>localhost|\d+(?:\.\d+){3}|[a-z0-9.-]+(?=:\d))(?::\d{1,5})?(?:/[\w./-]*)?"
    r"|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?:/[\w./-]*)?"
)
_MAX_QUOTED_CHARS: Final = 60


T = TypeVar("T")


class Limits(msgspec.Struct, frozen=True):
    """Limits of a connection: seconds, decoded bytes, JSON values, and sockets."""

    connect_s: float = 5.0
    idle_s: float = 60.0
    total_s: float = 600.0
    max_response_bytes: int = MAX_BYTES
    max_response_values: int = MAX_VALUES
    max_connections: int = 100

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            # To aiohttp, zero means "no limit", and infinity overflows.
            if not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"limits.{name} must be a finite number above zero, not {value}")


DEFAULT_LIMITS = Limits()


class RetryPolicy(msgspec.Struct, frozen=True):
    """When to retry a failed request. `attempts` includes the first one."""

    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0
    longest_retry_after_s: float = 120.0

    def wait(self, fault: Fault, attempt: int, jitter: float) -> float | None:
        """Return the seconds to wait before the next attempt; None means giving up.

        `jitter` is a random number from 0 to 1. A `Retry-After` of at most `longest_retry_after_s`
        is followed exactly; a longer one means giving up. A past or zero one is ignored.
        """
        if not fault.retryable or attempt >= self.attempts:
            return None
        if fault.retry_after is not None and fault.retry_after > 0:
            return fault.retry_after if fault.retry_after <= self.longest_retry_after_s else None
        backoff = min(self.first_wait_s * 2.0 ** min(attempt - 1, 99), self.longest_wait_s)
        return backoff * (0.5 + jitter / 2)


def _require_url_text(base_url: Any) -> str:
    if not isinstance(base_url, str):
        hint = "; pass its url" if hasattr(base_url, "url") else ""
        raise ConfigError(
            "base_url must be a URL such as http://localhost:8000, "
            f"not {type(base_url).__name__}{hint}"
        )
    if not base_url.strip():
        raise ConfigError(
            "base_url is blank. Pass a URL such as http://localhost:8000. The URL of a Simulator "
            "or a Proxy is only set inside its `with` block."
        )
    return base_url.strip()


def parse_base_url(base_url: str) -> SplitResult:
    """Split and validate a URL. Errors quote no part that may contain a password or a key."""
    text = _require_url_text(base_url)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("base_url has a malformed host or port") from None
    problems = {
        f"base_url must start with http:// or https://{_scheme_hint(text)}": (
            parts.scheme not in {"http", "https"}
        ),
        "base_url contains a user name or password; pass the key as api_key instead": (
            "@" in parts.netloc
        ),
        "base_url has no host; pass a URL such as http://localhost:8000": not host,
        # Two libraries parse the URL; with such a character they could see different hosts.
        "base_url has an invalid character in its host": bool(
            _INVALID_HOST_CHARS & set(host or "")
        ),
        "base_url contains a space or a control character": not text.isprintable() or " " in text,
        "base_url has a fragment (#…); remove it": bool(parts.fragment),
    }
    for sentence, found in problems.items():
        if found:
            raise ConfigError(sentence)
    return parts


def split_api_path(parts: SplitResult) -> tuple[SplitResult, str]:
    """Split the path of an API, such as `/responses`, off a URL; blank if it has none."""
    path = parts.path.rstrip("/")
    for name, suffix in _API_PATHS.items():
        if path.endswith(suffix):
            return parts._replace(path=path.removesuffix(suffix)), name
    return parts, ""


def resolve_api(given: str, found: str) -> str:
    """Return the upstream API: the one of the address, or the given one."""
    if given not in UPSTREAM_APIS:
        raise ConfigError(unknown_name_message("api", str(given), UPSTREAM_APIS))
    if found and given not in {AUTO_API, found}:
        raise ConfigError(
            f"base_url is the address of the {found} API, but api is {given}; remove one of them"
        )
    return found or given


def _scheme_hint(text: str) -> str:
    """Return the suggestion of a scheme for a plain host, port, and path; else an example URL."""
    found = _WITHOUT_SCHEME.fullmatch(text) if len(text) <= _MAX_QUOTED_CHARS else None
    if found is None or "sk-" in text:
        return ", as in http://localhost:8000"
    return f', not "{text}"; write {"http" if found["local"] else "https"}://{text}'


def url_origin(url: str) -> str:
    """Return scheme, host, and explicit port, to which a key is bound; blank if the URL is invalid.

    Two spellings of one host may have different origins, but two hosts never share one.
    """
    try:
        parts = parse_base_url(url)
    except ConfigError:
        return ""
    host = parts.hostname or ""
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def redact_url(url: str) -> str:
    """Return a URL without the parts that can contain a secret: user, password, and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = REDACTED if parts.query else ""
    return urlunsplit(parts._replace(netloc=host, query=query, fragment=""))


def query_secrets(query: str) -> tuple[Secret, ...]:
    """Return the secrets in the query of a URL, as written, as sent, and decoded."""
    return tuple(Secret(text) for text in dict.fromkeys(_secret_spellings(query)) if text)


def _secret_spellings(query: str) -> Iterator[str]:
    """Yield each secret in a query, in every spelling in which it may be echoed."""
    pairs = [pair.partition("=") for pair in query.replace(";", "&").split("&")]
    secret = [value or name for name, _, value in pairs if not _is_version(name, value)]
    whole = [query] if len(secret) == len(pairs) else []
    for text in (*whole, *secret):
        yield from (text, _encode_as_sent(text), unquote(text), unquote_plus(text))


def _encode_as_sent(text: str) -> str:
    """Return a part of a query as the HTTP library encodes it, as an endpoint may echo it."""
    first, *rest = quote(text, safe=_ASCII).split("%")
    return first + "".join(map(_requote_after_percent, rest))


def _requote_after_percent(part: str) -> str:
    """Return a part that follows a percent sign, normalized as the HTTP library does."""
    number, after = part[:2], part[2:]
    if len(number) != len("ff") or not set(number) <= _HEX_DIGITS:
        return f"%25{part}"  # a literal percent sign
    char = chr(int(number, 16))
    return f"{char if char in _UNQUOTED_CHARS else f'%{number.upper()}'}{after}"


def _is_version(name: str, value: str) -> bool:
    """Whether a parameter is an API version, which is no secret."""
    plain = value.removesuffix("-preview")
    return name.casefold() in _VERSION_PARAMETERS and set(plain) <= _VERSION_CHARS


def require_type(value: Any, expected: type[T], name: str) -> T:
    """Return a value of the given type; any other is an error that names the parameter."""
    if not isinstance(value, expected):
        raise ConfigError(f"{name} must be a {expected.__name__}, not {type(value).__name__}")
    return value


def normalize_prefix(api_prefix: str | None) -> str:
    """Return a path prefix with a leading slash and no trailing one; blank stays blank."""
    if api_prefix is not None and not isinstance(api_prefix, str):
        raise ConfigError(f'api_prefix must be text such as "/v1", not {type(api_prefix).__name__}')
    path = (api_prefix or "").strip().strip("/")
    return f"/{path}" if path else ""


def wrap_api_key(api_key: str | Secret | None) -> Secret | None:
    """Wrap the key as a secret; one that cannot be sent is an error that does not quote it."""
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


def wrap_headers(headers: Mapping[str, str]) -> dict[str, Secret]:
    """Wrap header values as secrets; names and values that cannot be sent are errors."""
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        require_type(name, str, "a header name")
        require_type(value, str, f"header {name!r}")
        token = name.isascii() and name.isprintable() and not set(name) & set(" :")
        if not (name and token):
            raise ConfigError("a header name is empty or contains a space, colon or line break")
        if not value.isprintable():
            raise ConfigError(f"header {name!r} contains a line break or control character")
    return {name: Secret(value) for name, value in headers.items()}
