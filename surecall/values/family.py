"""A family is a set of named `T -> T` functions: five kinds of transform, and the presets.

A member's name is its function's name, its docstring is its help text. It returns its very
argument when it has nothing to do, so `apply` can tell which members fired.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from surecall.values.errors import ConfigError

T = TypeVar("T")
# A member takes a T and returns a T; as a variable of its own it keeps its default argument.
M = TypeVar("M", bound=Callable[..., Any])

_COMPARED = 64
_SUGGESTIONS = 3
_LISTED = 30


class Family(Generic[T]):
    """Named functions of one kind. Configurations store the names, never the functions."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._members: dict[str, Callable[[T], T]] = {}

    def register(self, member: M) -> M:
        """Add a function under its own name; a name is taken once and for all."""
        name = canonical(member.__name__)
        if name in self._members:
            raise ConfigError(f"there is a {self.kind} called {name!r} already")
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
        """Return the names in canonical spelling, each once; an unknown one is an error."""
        checked: dict[str, None] = {}
        for given in names:
            name = canonical(given)
            if name not in self._members:
                raise ConfigError(unknown(self.kind, given, self._members))
            checked[name] = None
        return tuple(checked)

    def apply(self, names: Iterable[str], value: T, fired: list[str]) -> T:
        """Send a value through members; note in `fired` the names of those that changed it."""
        for name in names:
            before, value = value, self._members[name](value)
            if value is not before:
                fired.append(name)
        return value

    def __getitem__(self, name: str) -> Callable[[T], T]:
        """Return a member by any spelling of its name."""
        return self._members[self.check([name])[0]]


def canonical(name: str) -> str:
    """Fold the spellings of a name: case, hyphens and outer blanks do not count."""
    return name.strip().lower().replace("-", "_")


def unknown(kind: str, given: str, known: Iterable[str]) -> str:
    """Say that a name is unknown, and what may have been meant."""
    return f'unknown {kind} "{given}"; {suggest(given, sorted(known))}'


def suggest(word: str, candidates: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """Finish an error message: the nearest candidates, or failing that the `listed` ones."""
    known = {canonical(name): name for name in candidates}
    # Comparing takes quadratic time in the length.
    near = closest(canonical(word)[:_COMPARED], known, _SUGGESTIONS)
    if near:
        return f"did you mean {_quoted(known[name] for name in near)}?"
    names = list(known.values() if listed is None else listed)
    if not names:
        return "there is nothing to choose from"
    return f"known: {_quoted(names[:_LISTED])}{', …' if len(names) > _LISTED else ''}"


def closest(word: str, candidates: Iterable[str], most: int, likeness: float = 0.6) -> list[str]:
    """Return the candidates most like a word, best first; from 0 to 1, so like they must be."""
    # Imported late: only mistakes need it, and loading it takes two milliseconds.
    from difflib import get_close_matches  # noqa: PLC0415

    return get_close_matches(word, list(candidates), most, likeness)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
