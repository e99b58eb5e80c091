"""The text being read, the tools it may name, and the fuel that keeps reading linear.

Every search and every decoded stretch is paid for by its length. The fuel grows with the text, so
however the text is built the work is bounded by a multiple of its length.
"""

from collections.abc import Iterable, Sequence

from surecall.dialects.found import OutOfFuel
from surecall.names import fold, spellings
from surecall.types import JSON, ToolSpec

FUEL_PER_CHARACTER = 96
FUEL_TO_START = 2_000_000
MAX_NAME = 128
BLANKS = " \t\n\r"

_NAME_MARKS = frozenset("_-.:/")


class Tools:
    """The tools on offer, by the names that models give them."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.specs = {tool.name: tool for tool in tools}
        self._folded: dict[str, list[ToolSpec]] = {}
        for tool in self.specs.values():
            self._folded.setdefault(fold(tool.name), []).append(tool)

    def find(self, asked: str) -> ToolSpec | None:
        """Return the tool that `asked` stands for, if there is exactly one."""
        for spelling in spellings(asked):
            if spelling in self.specs:
                return self.specs[spelling]
        half = asked[: len(asked) // 2]
        if half in self.specs and asked == f"{half}.{half}":
            return self.specs[half]
        close = self._folded.get(fold(asked), ())
        return close[0] if len(close) == 1 else None

    def by_keys(self, keys: Iterable[str]) -> ToolSpec | None:
        """Return the only tool that takes these arguments, if there is exactly one."""
        given = set(keys)
        fitting = [tool for tool in self.specs.values() if given and _takes(tool, given)]
        return fitting[0] if len(fitting) == 1 else None


def properties(spec: ToolSpec | None) -> JSON:
    """Return the declared parameters of a tool, none for an unknown one."""
    declared = spec.parameters.get("properties") if spec else None
    return declared if isinstance(declared, dict) else {}


def _takes(tool: ToolSpec, given: set[str]) -> bool:
    required = tool.parameters.get("required")
    wanted = set(required) if isinstance(required, list) else set()
    return wanted <= given <= properties(tool).keys()


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

    def blanks(self, at: int) -> int:
        """Return the place of the next character that is not blank."""
        text = self.text
        while at < len(text) and text[at] in BLANKS:
            at += 1
        return at

    def name(self, at: int) -> str:
        """Read the name that stands here, as far as it looks like one."""
        text, end = self.text, at
        limit = min(len(text), at + MAX_NAME)
        while end < limit and (text[end].isalnum() or text[end] in _NAME_MARKS):
            end += 1
        return text[at:end]

    def name_before(self, at: int, floor: int) -> int:
        """Return where the name that ends here begins."""
        text, start = self.text, at
        floor = max(floor, at - MAX_NAME)
        while start > floor and (text[start - 1].isalnum() or text[start - 1] in _NAME_MARKS):
            start -= 1
        return start


def is_name(text: str) -> bool:
    """Whether this can be the name of a tool, known or not."""
    marks = all(mark.isalnum() or mark in _NAME_MARKS for mark in text)
    return marks and len(text) <= MAX_NAME and any(mark.isalnum() for mark in text)
