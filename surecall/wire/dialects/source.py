"""The text being read, the tools it may name, and the fuel that keeps reading linear.

Every search and every decoded stretch is paid for by its length. The fuel grows with the text, so
however the text is built the work is bounded by a multiple of its length.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from surecall.parsing.coercion import Shape, Shapes
from surecall.parsing.names import fold, spellings
from surecall.values.types import ToolSpec
from surecall.wire.dialects.found import OutOfFuel

FUEL_PER_CHARACTER = 96
FUEL_TO_START = 10_000_000
MAX_NAME = 128
BLANKS = " \t\n\r"

_NAME_MARKS = frozenset("_-.:/")
# What raw text may be where nothing is declared: anything that does not read as mere text.
_FREE = Shape(kinds=Shape().kinds - {"string"})


class Tools:
    """The tools on offer, by the names that models give them."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.specs = {tool.name: tool for tool in tools}
        self._known: dict[str, ToolSpec | None] = {}
        self._folded: dict[str, list[ToolSpec]] = {}
        for tool in self.specs.values():
            self._folded.setdefault(fold(tool.name), []).append(tool)

    def find(self, asked: str) -> ToolSpec | None:
        """Return the tool that `asked` means, if there is exactly one."""
        if asked not in self._known:
            self._known[asked] = self._find(asked)
        return self._known[asked]

    def _find(self, asked: str) -> ToolSpec | None:
        plain = plain_name(asked)
        half = plain[: len(plain) // 2]
        doubled = half if plain == f"{half}.{half}" else plain
        for name in (
            asked,
            plain,
            plain.removesuffix(".call"),
            plain.removesuffix("json"),
            doubled,
        ):
            for spelling in spellings(name):
                if spelling in self.specs:
                    return self.specs[spelling]
        close = self._folded.get(fold(plain), ())
        return close[0] if len(close) == 1 else None

    def by_keys(self, keys: Iterable[str]) -> ToolSpec | None:
        """Return the only tool that takes these arguments, if there is exactly one."""
        given = set(keys)
        fitting = [
            tool
            for tool in self.specs.values()
            if given and (shape := shape_of(tool)).required <= given <= shape.properties.keys()
        ]
        return fitting[0] if len(fitting) == 1 else None


def plain_name(asked: str) -> str:
    """Take off the namespace and the counter that belong to the dialect, not to the tool."""
    name = asked.removeprefix("functions.")
    return name.rpartition(":")[0] if is_numbered(name) else name


def is_numbered(name: str) -> bool:
    """Whether a name ends in a counter, as in `functions.f:0`."""
    head, _, counter = name.rpartition(":")
    return head != "" and counter.isdigit()


def is_name(text: str) -> bool:
    """Whether this can be the name of a tool, known or not."""
    marks = all(mark.isalnum() or mark in _NAME_MARKS for mark in text)
    return marks and len(text) <= MAX_NAME and any(mark.isalnum() for mark in text)


def shape_of(spec: ToolSpec | None) -> Shape:
    """Return what a tool declares; an unknown one declares nothing."""
    parameters = spec.parameters if spec else {}
    return Shapes(parameters).of([parameters]) or Shape()


def declared(shape: Shape | None, key: str) -> Shape | None:
    """Return what is declared of a key, or of any item; None where anything is allowed."""
    if shape and "array" in shape.kinds and "object" not in shape.kinds:
        return shape.items or _FREE
    return shape.properties.get(key, _FREE) if shape else _FREE


@cache
def _heads(marks: tuple[str, ...]) -> tuple[int, dict[str, list[str]]]:
    """Return the marks by how they begin, and how many characters that are."""
    length = min(map(len, marks))
    heads: dict[str, list[str]] = {}
    for mark in marks:
        heads.setdefault(mark[:length], []).append(mark)
    return length, heads


class Source:
    """A text with a memory of its searches."""

    def __init__(self, text: str, tools: Sequence[ToolSpec]) -> None:
        self.text = text
        self.tools = Tools(tools)
        self._fuel = FUEL_TO_START + FUEL_PER_CHARACTER * len(text)
        self._found: dict[str, tuple[int, int]] = {}

    def pay(self, characters: int) -> None:
        """Spend fuel for a stretch of text that was read."""
        self._fuel -= characters
        if self._fuel < 0:
            raise OutOfFuel

    def find(self, needle: str, start: int) -> int:
        """Find like `str.find`; what is known from an earlier search is not searched again."""
        since, place = self._found.get(needle, (-1, -1))
        if since < 0 or start < since or 0 <= place < start:
            place = self.text.find(needle, start)
            self.pay((place if place >= 0 else len(self.text)) - start + 1)
            self._found[needle] = (start, place)
        return place

    def first(self, needles: Iterable[str], start: int) -> int:
        """Find the earliest of several strings."""
        places = [place for needle in needles if (place := self.find(needle, start)) >= 0]
        return min(places, default=-1)

    def at(self, marks: str | tuple[str, ...], place: int) -> bool:
        """Whether one of these marks is here."""
        return self.text.startswith(marks, place)

    def mark(self, marks: tuple[str, ...], place: int) -> str:
        """Return the one of these marks that is here, or nothing."""
        if not self.at(marks, place):
            return ""
        length, heads = _heads(marks)
        near = heads[self.text[place : place + length]]
        return next(mark for mark in near if self.at(mark, place))

    def blanks(self, at: int) -> int:
        """Return the place of the next character that is not blank."""
        return self.past("", at)

    def past(self, marks: str, at: int) -> int:
        """Return the place of the next character that is neither blank nor one of these."""
        text, marks = self.text, marks + BLANKS
        while at < len(text) and text[at] in marks:
            at += 1
        return at

    def line_end(self, at: int) -> int:
        """Return the place of the next line break, or of the end."""
        found = self.find("\n", at)
        return found if found >= 0 else len(self.text)

    def name(self, at: int) -> str:
        """Read the name that is here, as far as it looks like one."""
        text, end = self.text, at
        limit = min(len(text), at + MAX_NAME)
        while end < limit and (text[end].isalnum() or text[end] in _NAME_MARKS):
            end += 1
        return text[at:end]

    def name_before(self, at: int, floor: int) -> int:
        """Return where the name that ends here begins."""
        while at > floor and (self.text[at - 1].isalnum() or self.text[at - 1] in _NAME_MARKS):
            at -= 1
        return at
