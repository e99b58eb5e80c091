"""Parsers for the values of settings, and for `.env` files.

A parser takes the text of a flag or variable, or a TOML value, and returns the parsed value. It
raises `ConfigError` with the expected form; the caller adds the source.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from surecall.settings.capabilities import CUSTOM, require_provider
from surecall.settings.config import check_options
from surecall.settings.connection import normalize_prefix, parse_base_url, wrap_api_key
from surecall.settings.overlay import split_names
from surecall.values.errors import ConfigError
from surecall.values.family import canonical_name, unknown_name_message
from surecall.values.types import JSON, Secret
from surecall.wire.chat_format import decode

Parser = Callable[[Any], Any]

AUTO: Final = "auto"
SIMULATOR: Final = "sim"
LOCAL: Final = "local"
DASK: Final = "dask"
_ON: Final = frozenset({"1", "true", "yes", "on"})
_OFF: Final = frozenset({"0", "false", "no", "off"})
_MAX_QUOTE: Final = 40
_MAX_VERBOSITY: Final = 2


class Shard(msgspec.Struct, frozen=True):
    """One part of an evaluation divided among machines. `index` starts at one."""

    index: int
    count: int


class Gate(msgspec.Struct, frozen=True):
    """The pass rate to reach: by the interval's lower bound, or by the `observed` rate."""

    percent: float
    observed: bool = False


def invalid_value(expected_form: str, value: object) -> ConfigError:
    """Return the error for an invalid value; a value that looks like a key is not repeated."""
    text = str(value)
    if "sk-" in text or len(text) > _MAX_QUOTE:
        return ConfigError(f"must be {expected_form}")
    return ConfigError(f'must be {expected_form}, not "{text}"')


def parse_text(value: Any) -> str:
    """Parse text."""
    if not isinstance(value, str):
        raise invalid_value("text", value)
    return value.strip()


def parse_filter(value: Any) -> str:
    """Parse a filter: comma-separated text, or a TOML list."""
    return ",".join(parse_names(value))


def parse_names(value: Any) -> tuple[str, ...]:
    """Parse names: comma-separated text, or a TOML list."""
    if isinstance(value, str):
        return tuple(split_names(value))
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(stripped for item in value if (stripped := item.strip()))
    raise invalid_value("a list of names", value)


def parse_allowlist(value: Any) -> tuple[str, ...] | None:
    """Parse a tool allowlist; `all` allows every tool."""
    listed = parse_names(value)
    return None if {"all", "full", "*"} & set(listed) else listed


def parse_transforms(value: Any) -> tuple[str, ...] | None:
    """Parse the router's transforms: `auto` means its default, `none` disables them."""
    listed = parse_names(value)
    if listed == (AUTO,):
        return None
    is_none = len(listed) == 1 and listed[0].casefold() in {"none", "off", "0", "false"}
    return () if is_none else listed


def integer_parser(minimum: int, maximum: float = math.inf) -> Parser:
    """Return a parser of integers within bounds."""
    limit = f"of at least {minimum}" if maximum == math.inf else f"from {minimum} to {maximum}"
    return lambda value: int(
        _bounded_number(value, int, minimum, maximum, f"a whole number {limit}")
    )


def number_parser(minimum: float = -math.inf, maximum: float = math.inf) -> Parser:
    """Return a parser of finite numbers within bounds."""
    bounds = "" if minimum == -math.inf else f" from {minimum:g}"
    bounds += "" if maximum == math.inf else f" to {maximum:g}"
    return lambda value: float(_bounded_number(value, float, minimum, maximum, f"a number{bounds}"))


def parse_positive(value: Any) -> float:
    """Parse a finite number above zero."""
    return float(_bounded_number(value, float, math.ulp(0.0), math.inf, "a number above zero"))


def parse_timeout(value: Any) -> float | None:
    """Parse a time limit; zero and less mean no limit."""
    found = number_parser()(value)
    return found if found > 0 else None


def parse_percent(value: Any) -> float:
    """Parse a percentage, with or without a percent sign."""
    bare = value.strip().removesuffix("%") if isinstance(value, str) else value
    try:
        return float(number_parser(0, 100)(bare))
    except ConfigError:
        raise invalid_value("a percentage from 0 to 100", value) from None


def parse_gate(value: Any) -> Gate:
    """Parse a gate: `90` for the lower bound, `90:observed` for the rate itself."""
    share, colon, rule = str(value).partition(":")
    if colon and canonical_name(rule) not in {"observed", "lower"}:
        raise invalid_value("a percentage such as 90, 90:lower, or 90:observed", value)
    return Gate(parse_percent(share), canonical_name(rule) == "observed")


def parse_count(value: Any) -> int | str:
    """Parse a positive integer, or `auto`."""
    if isinstance(value, str) and canonical_name(value) == AUTO:
        return AUTO
    return int(_bounded_number(value, int, 1, math.inf, f"a whole number of at least 1, or {AUTO}"))


def parse_switch(value: Any) -> bool:
    """Parse a boolean. Raise `ConfigError` for any word that is not clearly yes or no."""
    if isinstance(value, bool):
        return value
    word = canonical_name(str(value))
    if word not in _ON | _OFF:
        raise invalid_value("1 or 0", value)
    return word in _ON


def parse_verbosity(value: Any) -> int:
    """Parse a verbosity: 0 nothing, 1 progress, 2 everything; booleans are accepted."""
    if isinstance(value, bool) or canonical_name(str(value)) in (_ON | _OFF) - {"0", "1"}:
        return int(parse_switch(value))
    return min(int(integer_parser(0)(value)), _MAX_VERBOSITY)


def choice_parser(kind: str, words: Iterable[str]) -> Parser:
    """Return a parser of one of several words."""
    known = tuple(words)

    def parse_word(value: Any) -> str:
        word = canonical_name(str(value))
        if word not in known:
            raise ConfigError(unknown_name_message(kind, str(value), known))
        return word

    return parse_word


def parse_json_object(value: Any) -> JSON:
    """Parse request options: a JSON object, or a TOML table."""
    try:
        found = decode(value.encode()) if isinstance(value, str) else value
    except ValueError:
        raise ConfigError("must be a JSON object, but is not valid JSON") from None
    if not isinstance(found, dict):
        raise ConfigError("must be a JSON object")
    check_options(found, "it")
    return found


def parse_shard(value: Any) -> Shard:
    """Parse a shard, such as 1/4."""
    index, _, count = str(value).partition("/")
    part, parts = _to_number(index, int), _to_number(count, int)
    if part is None or parts is None or not 1 <= part <= parts:
        raise invalid_value("a shard such as 1/4", value)
    return Shard(int(part), int(parts))


def parse_key(value: Any) -> Secret | None:
    """Parse an API key; errors do not repeat it."""
    return wrap_api_key(parse_text(value))


def parse_address(value: Any) -> str:
    """Parse the URL of an endpoint; `sim` means the simulator."""
    given = parse_text(value)
    if canonical_name(given) in {SIMULATOR, "simulator"}:
        return SIMULATOR
    parse_base_url(given)
    return given


def parse_endpoint(value: Any) -> str:
    """Parse a provider whose presets to use; `local` means a file served with `--gguf`."""
    given = parse_text(value)
    if given and canonical_name(given) != LOCAL:
        parse_provider(given)
    return given


def parse_provider(value: Any) -> str:
    """Parse a provider by any of its names; `custom` means no known provider."""
    try:
        return require_provider(parse_text(value))
    except ConfigError as problem:
        message = str(problem)
        more = f"Use {CUSTOM} for an endpoint that `surecall ls endpoints` does not list."
        raise ConfigError(f"{message}{'' if message.endswith('?') else '.'} {more}") from None


def parse_engine(value: Any) -> str:
    """Parse where trials run: in this process, on Dask, or on a Dask scheduler's address."""
    given = parse_text(value)
    if canonical_name(given) in {LOCAL, DASK}:
        return canonical_name(given)
    wanted = f"{LOCAL}, {DASK}, or an address like tls://host:8786"
    if not _is_scheduler_address(given):
        raise invalid_value(wanted, value)
    return given.lower()


def _is_scheduler_address(text: str) -> bool:
    """Whether text is a scheduler's address: only scheme, host, and port."""
    try:
        parts = urlsplit(text)
        whole = parts.scheme in {"tcp", "tls"} and parts.hostname and parts.port
    except ValueError:
        return False
    return bool(whole) and "@" not in text and not parts.path + parts.query + parts.fragment


def parse_prefix(value: Any) -> str:
    """Parse the path after the URL, which may be empty."""
    return normalize_prefix(parse_text(value))


def _bounded_number(
    value: Any, kind: type[int] | type[float], minimum: float, maximum: float, expected_form: str
) -> float:
    """Parse a finite number within bounds; `expected_form` describes it in the error."""
    found = _to_number(value, kind)
    if found is None or not (-math.inf < found < math.inf and minimum <= found <= maximum):
        raise invalid_value(expected_form, value)
    return found


def _to_number(value: Any, kind: type[int] | type[float]) -> float | None:
    # True is an int in Python, but never meant as a number.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and kind is int and not value.is_integer():
        return None
    try:
        return kind(value)
    except (ValueError, OverflowError):
        return None


def parse_dotenv(content: str) -> dict[str, str]:
    """Parse a `.env` file: NAME=value lines, optionally quoted or exported, without expansion."""
    found: dict[str, str] = {}
    for line in content.removeprefix("\ufeff").splitlines():
        name, equals, rest = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip() and not name.lstrip().startswith("#"):
            found[name.strip()] = _strip_quotes(rest.strip())
    return found


def _strip_quotes(value: str) -> str:
    """Return a value without quotes; outside quotes, a comment ends it."""
    quote = value[:1]
    if quote in {'"', "'"} and quote in value[1:]:
        return value[1 : value.index(quote, 1)]
    return "" if quote == "#" else value.partition(" #")[0].rstrip()
