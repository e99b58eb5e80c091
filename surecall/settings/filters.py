"""Tables of named entries: how a filter picks some, and how they are read from TOML.

One filter language serves models, sampling profiles and scenarios:

    google,qwen*           everything called `google` or beginning with `qwen`
    all,!minimax           everything but `minimax` (`all`, `full` and `*` mean everything)
    !minimax,!z-ai/*       the same idea; only exclusions start from everything

Items keep their own order. A name that matches nothing is a mistake, and so is a filter that
leaves nothing: neither ever turns into "everything" or into a run over no items.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from surecall.values.errors import ConfigError
from surecall.values.family import suggest, unknown
from surecall.values.types import JSON

T = TypeVar("T")

EVERYTHING = frozenset({"*", "all", "full"})


def select(
    items: Sequence[T], expression: str, names: Callable[[T], Iterable[str]]
) -> tuple[T, ...]:
    """Return the items that `expression` picks, in their own order."""
    table = [(item, tuple(names(item))) for item in items]
    tokens = [token for part in expression.split(",") if (token := part.strip())]
    if not tokens:
        raise ConfigError("the filter is empty; write `all` for everything")
    wanted = [token for token in tokens if not token.startswith("!")]
    unwanted = [token[1:].strip() for token in tokens if token.startswith("!")]
    for token in (*wanted, *unwanted):
        _check_known(token, [called for _, called in table])
    picked = tuple(
        item
        for item, called in table
        if (not wanted or _any_matches(wanted, called)) and not _any_matches(unwanted, called)
    )
    if not picked:
        raise ConfigError(f'the filter "{expression}" leaves nothing')
    return picked


def matches(token: str, names: Iterable[str]) -> bool:
    """Say whether a token means one of the names: equal or as a glob, whatever the case."""
    pattern = token.casefold()
    return any(glob(pattern, name.casefold()) for name in names)


def glob(pattern: str, text: str) -> bool:
    """Match the whole text, case and all. Only `*` is special: any run, `/` and `:` included."""
    head, *pieces = pattern.split("*")
    if not pieces:
        return head == text
    tail = pieces.pop()
    at, end = len(head), len(text) - len(tail)
    if at > end or not text.startswith(head) or not text.endswith(tail):
        return False
    # The leftmost place for each piece leaves most room for the next: no backtracking is needed.
    for piece in pieces:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def parse_tables(text: str, kinds: Iterable[str]) -> JSON:
    """Decode TOML whose top level holds nothing but the given arrays of tables."""
    # Loaded on demand: most programs never read a catalog, and importing it costs milliseconds.
    import tomllib  # noqa: PLC0415 - see above

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"not valid TOML: {problem}") from problem
    expected = tuple(kinds)
    for key in document:
        if key not in expected:
            raise ConfigError(unknown("table", key, expected))
    return document


def parse_entries(document: JSON, kind: str, shape: type[T]) -> tuple[T, ...]:
    """Turn the `[[kind]]` tables of a decoded document into values, strictly."""
    tables = document.get(kind, [])
    if not isinstance(tables, list):
        raise ConfigError(f"`{kind}` must be an array of tables: write [[{kind}]]")
    return tuple(
        _parse_entry(table, f"{kind} {place}", shape) for place, table in enumerate(tables, 1)
    )


def merged(first: Iterable[T], second: Iterable[T], key: Callable[[T], str]) -> tuple[T, ...]:
    """Lay one table over another: same key replaces in place, new keys follow at the end."""
    table = {key(item): item for item in first} | {key(item): item for item in second}
    return tuple(table.values())


def check_names(names: Iterable[str]) -> None:
    """Refuse names that no filter could address."""
    for name in names:
        plain = name == name.strip() and name[:1] not in {"", "!"} and "," not in name
        if not plain or name.casefold() in EVERYTHING:
            raise ConfigError(f'no filter could address the name "{name}"')


def check_unique(items: Iterable[T], key: Callable[[T], str]) -> None:
    """Refuse a table in which two entries have the same key."""
    seen: set[str] = set()
    for name in map(key, items):
        if name in seen:
            raise ConfigError(f'"{name}" is defined twice')
        seen.add(name)


def packaged(name: str) -> str:
    """Read a data file that ships with the package."""
    # Loaded on demand, for the same reason as tomllib; `importlib.resources` would cost far more.
    from pkgutil import get_data  # noqa: PLC0415 - see above

    data = get_data("surecall.settings", f"data/{name}")
    assert data is not None  # noqa: S101  # the package was imported, so it has a loader
    return data.decode("utf-8")


def _check_known(token: str, table: Sequence[tuple[str, ...]]) -> None:
    if any(_any_matches((token,), called) for called in table):
        return
    names = [name for called in table for name in called]
    hint = suggest(token.strip("*"), names, [name for called in table for name in called[:1]])
    raise ConfigError(f'nothing is called "{token}"; {hint}')


def _any_matches(tokens: Iterable[str], names: tuple[str, ...]) -> bool:
    return any(token.casefold() in EVERYTHING or matches(token, names) for token in tokens)


def _parse_entry(table: object, label: str, shape: type[T]) -> T:
    named = f' ("{table["id"]}")' if isinstance(table, dict) and "id" in table else ""
    try:
        return msgspec.convert(table, shape)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"{label}{named}: {problem}") from problem
