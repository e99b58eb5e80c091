"""Families: registries of named `T -> T` functions, such as the transforms and the presets.

A member is named after its function, and its docstring is its help text. It returns its argument
itself if it changes nothing, so `apply` can record which members changed the value.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from surecall.values.errors import ConfigError

T = TypeVar("T")
# Not `Callable[[T], T]`: a variable of its own keeps the member's default arguments.
M = TypeVar("M", bound=Callable[..., Any])

_MAX_COMPARED_CHARS = 64
_MAX_SUGGESTIONS = 3
_MAX_LISTED = 30


class Family(Generic[T]):
    """Named functions of one kind. Configurations store the names, never the functions."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._members: dict[str, Callable[[T], T]] = {}

    def register(self, member: M) -> M:
        """Add a function under its own name; raise `ConfigError` if the name is taken."""
        name = canonical_name(member.__name__)
        if name in self._members:
            raise ConfigError(f"a {self.kind} named {name!r} is already registered")
        self._members[name] = member
        return member

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order of registration."""
        return tuple(self._members)

    def help(self, name: str) -> str:
        """Return the first sentence of a member's docstring."""
        return (self[name].__doc__ or "").strip().split("\n", 1)[0]

    def check(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the distinct names in canonical spelling; raise if one is unknown."""
        checked: dict[str, None] = {}
        for given in names:
            name = canonical_name(given)
            if name not in self._members:
                raise ConfigError(unknown_name_message(self.kind, given, self._members))
            checked[name] = None
        return tuple(checked)

    def apply(self, names: Iterable[str], value: T, applied: list[str]) -> T:
        """Pass a value through members; append the names of those that change it to `applied`."""
        for name in names:
            before, value = value, self._members[name](value)
            if value is not before:
                applied.append(name)
        return value

    def __getitem__(self, name: str) -> Callable[[T], T]:
        """Return a member by its name, in any spelling."""
        return self._members[self.check([name])[0]]


def canonical_name(name: str) -> str:
    """Normalize a name: ignore case and outer blanks, and read hyphens as underscores."""
    return name.strip().lower().replace("-", "_")


def unknown_name_message(kind: str, name: str, known_names: Iterable[str]) -> str:
    """Return the error message for an unknown name, with suggestions."""
    return f'unknown {kind} "{name}"; {suggestion_text(name, sorted(known_names))}'


def suggestion_text(
    word: str, candidates: Iterable[str], fallback_names: Iterable[str] | None = None
) -> str:
    """Return the end of an error message: the closest candidates, or else `fallback_names`."""
    known = {canonical_name(name): name for name in candidates}
    # Comparison is quadratic in the length.
    near = closest_matches(canonical_name(word)[:_MAX_COMPARED_CHARS], known, _MAX_SUGGESTIONS)
    if near:
        return f"did you mean {_join_quoted(known[name] for name in near)}?"
    names = list(known.values() if fallback_names is None else fallback_names)
    if not names:
        return "none are available"
    return f"known: {_join_quoted(names[:_MAX_LISTED])}{', …' if len(names) > _MAX_LISTED else ''}"


def closest_matches(
    word: str, candidates: Iterable[str], limit: int, cutoff: float = 0.6
) -> list[str]:
    """Return the candidates closest to a word, best first; `cutoff` is from 0 to 1."""
    # Imported late: only error messages need it, and loading it takes two milliseconds.
    from difflib import get_close_matches  # noqa: PLC0415

    return get_close_matches(word, list(candidates), limit, cutoff)


def _join_quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
