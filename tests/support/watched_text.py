"""A text that counts how many of its characters are looked at, whoever looks.

Lines of Python are counted by `steps.py`; what a search inside of a built-in function costs is not
a line. A reader that looks at the same stretch again at every mark shows here, and not there.
"""

from collections.abc import Callable
from typing import Any, SupportsIndex

# Shorter slices are looked at again only by what is short itself.
_LONG = 256
_COPYING = (
    *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "lower", "upper"),
    *("casefold", "split", "rsplit", "splitlines", "partition", "rpartition", "translate"),
    *("encode", "isascii", "isspace", "__add__", "join"),
)


class Watched(str):
    """A text with a count of the characters that searches, slices and copies went over."""

    __slots__ = ("looks",)
    looks: list[int]

    @classmethod
    def of(cls, text: str, looks: list[int] | None = None) -> "Watched":
        """Watch a text; slices of it count for the same text."""
        made = cls(text)
        made.looks = [0] if looks is None else looks
        return made

    @property
    def looked(self) -> int:
        """How many characters were looked at, each as often as it was."""
        return self.looks[0]

    def _over(self, begin: SupportsIndex | None, end: SupportsIndex | None) -> None:
        start, stop, _ = slice(begin, end).indices(len(self))
        self.looks[0] += 1 + max(0, stop - start)

    def find(self, sub: str, *span: Any) -> int:
        """Find as any text does."""
        place = super().find(sub, *span)
        begin, end = (*span, None, None)[:2]
        self._over(begin, end if place < 0 else place)
        return place

    def rfind(self, sub: str, *span: Any) -> int:
        """Find as any text does, from the end."""
        place = super().rfind(sub, *span)
        begin, end = (*span, None, None)[:2]
        self._over(begin if place < 0 else place, end)
        return place

    def count(self, sub: str, *span: Any) -> int:
        """Count as any text does."""
        self._over(*(*span, None, None)[:2])
        return super().count(sub, *span)

    def __contains__(self, sub: object) -> bool:
        return isinstance(sub, str) and self.find(sub) >= 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        found = super().__getitem__(key)
        self.looks[0] += len(found)
        return Watched.of(found, self.looks) if len(found) > _LONG else found


def _copying(name: str) -> Callable[..., Any]:
    plain = getattr(str, name)

    def method(self: Watched, *arguments: Any, **named: Any) -> Any:
        self.looks[0] += len(self)
        found = plain(self, *arguments, **named)
        is_long = isinstance(found, str) and len(found) > _LONG
        return Watched.of(found, self.looks) if is_long else found

    return method


for _name in _COPYING:
    setattr(Watched, _name, _copying(_name))
