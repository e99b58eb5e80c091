"""How people write settings: one reader for each kind of value, and the `.env` file.

A reader takes the words of a flag or a variable, or a value of TOML, and returns the value meant.
What it cannot take it refuses with a `ConfigError` that says what it wants; the caller says where.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from surecall.settings.capabilities import CUSTOM, require_provider
from surecall.settings.config import check_options
from surecall.settings.connection import checked_key, checked_prefix, checked_url
from surecall.settings.overlay import names_in
from surecall.values.errors import ConfigError
from surecall.values.family import canonical, unknown
from surecall.values.types import JSON, Secret
from surecall.wire.messages import decode

Reader = Callable[[Any], Any]

AUTO: Final = "auto"
SIMULATOR: Final = "sim"
LOCAL: Final = "local"
DASK: Final = "dask"
_ON: Final = frozenset({"1", "true", "yes", "on"})
_OFF: Final = frozenset({"0", "false", "no", "off"})
_NOTHING: Final = frozenset({"none", "off", "0", "false"})
_EVERYTHING: Final = frozenset({"all", "full", "*"})
_CLUSTERS: Final = frozenset({"tcp", "tls"})
_MAX_QUOTE: Final = 40
_HUNDRED: Final = 100
_MOST_WORDS: Final = 2


class Shard(msgspec.Struct, frozen=True):
    """One part of an evaluation that several machines share. Parts count from one."""

    index: int
    count: int


class Gate(msgspec.Struct, frozen=True):
    """The pass rate to reach: by the interval's lower bound, or as `observed`."""

    percent: float
    observed: bool = False


def wrong(wanted: str, value: object) -> ConfigError:
    """Say what a value must be, and what it is; what looks like a key is not repeated."""
    text = str(value)
    if "sk-" in text or len(text) > _MAX_QUOTE:
        return ConfigError(f"must be {wanted}")
    return ConfigError(f'must be {wanted}, not "{text}"')


def text(value: Any) -> str:
    """Read one piece of text."""
    if not isinstance(value, str):
        raise wrong("text", value)
    return value.strip()


def expression(value: Any) -> str:
    """Read a filter; a list in TOML means the same as words between commas."""
    return ",".join(names(value))


def names(value: Any) -> tuple[str, ...]:
    """Read a list of names, in TOML or between commas."""
    if isinstance(value, str):
        return tuple(names_in(value))
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(stripped for item in value if (stripped := item.strip()))
    raise wrong("a list of names", value)


def allowlist(value: Any) -> tuple[str, ...] | None:
    """Read a list of tools; `all` masks none of them."""
    listed = names(value)
    return None if _EVERYTHING & set(listed) else listed


def transforms(value: Any) -> tuple[str, ...] | None:
    """Read the router's transforms: `auto` leaves them to it, `none` turns them off."""
    listed = names(value)
    if listed == (AUTO,):
        return None
    return () if len(listed) == 1 and listed[0].casefold() in _NOTHING else listed


def whole(least: int, most: float = math.inf) -> Reader:
    """Return the reader of a whole number within bounds."""
    limit = f"of at least {least}" if most == math.inf else f"from {least} to {most}"

    def read(value: Any) -> int:
        number = _number(value, int)
        if number is None or not least <= number <= most:
            raise wrong(f"a whole number {limit}", value)
        return int(number)

    return read


def number(least: float = -math.inf, most: float = math.inf) -> Reader:
    """Return the reader of a finite number within bounds."""
    bounds = "" if least == -math.inf else f" from {least:g}"
    bounds += "" if most == math.inf else f" to {most:g}"

    def read(value: Any) -> float:
        found = _number(value, float)
        if found is None or not (math.isfinite(found) and least <= found <= most):
            raise wrong(f"a number{bounds}", value)
        return float(found)

    return read


def positive(value: Any) -> float:
    """Read a finite number above zero."""
    found = _number(value, float)
    if found is None or not 0 < found < math.inf:
        raise wrong("a number above zero", value)
    return float(found)


def seconds(value: Any) -> float | None:
    """Read a time limit; zero or less means that there is none."""
    found = number()(value)
    return found if found > 0 else None


def percent(value: Any) -> float:
    """Read a share in percent, with or without its sign."""
    bare = value.strip().removesuffix("%") if isinstance(value, str) else value
    found = _number(bare, float)
    if found is None or not 0 <= found <= _HUNDRED:
        raise wrong("a share from 0 to 100 percent", value)
    return float(found)


def gate(value: Any) -> Gate:
    """Read a gate: `90` for the lower bound, `90:observed` for the rate itself."""
    share, colon, rule = str(value).partition(":")
    if colon and canonical(rule) not in {"observed", "lower"}:
        raise wrong("a share such as 90, 90:lower or 90:observed", value)
    return Gate(percent(share), canonical(rule) == "observed")


def count_or_auto(value: Any) -> int | str:
    """Read a whole number from one, or the word that leaves it to the program."""
    if isinstance(value, str) and canonical(value) == AUTO:
        return AUTO
    found = _number(value, int)
    if found is None or found < 1:
        raise wrong(f"a whole number of at least 1, or {AUTO}", value)
    return int(found)


def yes_no(value: Any) -> bool:
    """Read a switch. Any word that is not clearly yes or no is an error, never a guess."""
    if isinstance(value, bool):
        return value
    word = canonical(str(value))
    if word not in _ON | _OFF:
        raise wrong("1 or 0", value)
    return word in _ON


def level(value: Any) -> int:
    """Read how much to say: 0 nothing, 1 progress, 2 everything; yes and no count too."""
    if isinstance(value, bool) or canonical(str(value)) in (_ON | _OFF) - {"0", "1"}:
        return int(yes_no(value))
    return min(int(whole(0)(value)), _MOST_WORDS)


def choice(kind: str, words: Iterable[str]) -> Reader:
    """Return the reader of one word out of several."""
    known = tuple(words)

    def read(value: Any) -> str:
        word = canonical(str(value))
        if word not in known:
            raise ConfigError(unknown(kind, str(value), known))
        return word

    return read


def json_object(value: Any) -> JSON:
    """Read request options: a JSON object, or a table of TOML."""
    try:
        found = decode(value.encode()) if isinstance(value, str) else value
    except ValueError:
        raise ConfigError("must be a JSON object, but is not even JSON") from None
    if not isinstance(found, dict):
        raise ConfigError("must be a JSON object")
    check_options(found, "it")
    return found


def shard(value: Any) -> Shard:
    """Read one part of several, such as 1/4."""
    index, _, count = str(value).partition("/")
    part, parts = _number(index, int), _number(count, int)
    if part is None or parts is None or not 1 <= part <= parts:
        raise wrong("a part of several, such as 1/4", value)
    return Shard(int(part), int(parts))


def key(value: Any) -> Secret | None:
    """Wrap the key; what is wrong with one is said without repeating it."""
    return checked_key(text(value))


def address(value: Any) -> str:
    """Check the address of an endpoint; `sim` means the simulator."""
    given = text(value)
    if canonical(given) in {SIMULATOR, "simulator"}:
        return SIMULATOR
    checked_url(given)
    return given


def endpoint(value: Any) -> str:
    """Read whose presets fit the endpoint; `local` is a model that is served here."""
    given = text(value)
    if given and canonical(given) != LOCAL:
        provider(given)
    return given


def provider(value: Any) -> str:
    """Read a provider by any of its names; `custom` is an endpoint of no known provider."""
    try:
        return require_provider(text(value))
    except ConfigError as problem:
        said = str(problem)
        more = f"Use {CUSTOM} for an endpoint that `surecall ls endpoints` does not list."
        raise ConfigError(f"{said}{'' if said.endswith('?') else '.'} {more}") from None


def engine(value: Any) -> str:
    """Read who runs the trials: this process, Dask, or a cluster of Dask's at an address."""
    given = text(value)
    if canonical(given) in {LOCAL, DASK}:
        return canonical(given)
    wanted = f"{LOCAL}, {DASK}, or an address like tls://host:8786"
    if not _is_cluster(given):
        raise wrong(wanted, value)
    return given.lower()


def _is_cluster(given: str) -> bool:
    """Whether this is the address of a scheduler: scheme, host and port, and nothing else."""
    try:
        parts = urlsplit(given)
        whole = parts.scheme in _CLUSTERS and parts.hostname and parts.port
    except ValueError:
        return False
    return bool(whole) and "@" not in given and not parts.path + parts.query + parts.fragment


def prefix(value: Any) -> str:
    """Read the path between address and endpoint, which may be empty."""
    return checked_prefix(text(value))


def _number(value: Any, kind: type[int] | type[float]) -> float | None:
    # True is a number to Python, but never meant as one.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and kind is int and not value.is_integer():
        return None
    try:
        return kind(value)
    except (ValueError, OverflowError):
        return None


def parse_dotenv(content: str) -> dict[str, str]:
    """Read a `.env` file: NAME=value lines, optionally quoted or exported; nothing is expanded."""
    found: dict[str, str] = {}
    for line in content.removeprefix("\ufeff").splitlines():
        name, equals, rest = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip() and not name.lstrip().startswith("#"):
            found[name.strip()] = _unquoted(rest.strip())
    return found


def _unquoted(rest: str) -> str:
    """Take a value out of its quotes; outside of quotes a comment ends it."""
    quote = rest[:1]
    if quote in {'"', "'"} and quote in rest[1:]:
        return rest[1 : rest.index(quote, 1)]
    return "" if quote == "#" else rest.partition(" #")[0].rstrip()
