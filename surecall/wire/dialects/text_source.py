"""The scanned text with its cursor functions, and the types of recovered calls."""

from collections.abc import Iterable, Sequence
from functools import cache

import msgspec

from surecall.parsing.budget import MAX_TEXT
from surecall.parsing.coercion import SchemaShape, SchemaShapes
from surecall.parsing.names import fold_name, spellings
from surecall.values.types import JSON, ToolSpec

# Fuel keeps parsing linear: every search and every decoded stretch costs its length, and the fuel
# is proportional to the length of the text.

FUEL_PER_CHARACTER = 96
INITIAL_FUEL = 10_000_000
MAX_NAME = 128
BLANKS = " \t\n\r"

_NAME_PUNCTUATION = frozenset("_-.:/")
# The shapes of schemas by identity, because deriving one costs far more than parsing a call. Each
# entry keeps its schema alive, so identities stay unique.
_MOST_SHAPES = 256
_SHAPES: dict[int, tuple[JSON, SchemaShape | None]] = {}
# The shape of undeclared values: anything but a string.
_UNDECLARED = SchemaShape(kinds=SchemaShape().kinds - {"string"})


class KnownTools:
    """The exposed tools, found by the names that models use for them."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.specs = {tool.name: tool for tool in tools}
        self._cache: dict[str, ToolSpec | None] = {}
        self._folded: dict[str, list[ToolSpec]] = {}
        for tool in self.specs.values():
            self._folded.setdefault(fold_name(tool.name), []).append(tool)

    def find(self, name: str) -> ToolSpec | None:
        """Return the tool that `name` means, if it is unambiguous."""
        if name not in self._cache:
            self._cache[name] = self._find(name)
        return self._cache[name]

    def _find(self, asked: str) -> ToolSpec | None:
        plain = strip_namespace(asked)
        half = plain[: len(plain) // 2]
        doubled = half if plain == f"{half}.{half}" else plain
        for name in (
            asked,
            plain,
            plain.removesuffix(".call"),
            plain.removesuffix("json"),
            plain.rpartition(":")[2],
            doubled,
        ):
            for spelling in spellings(name):
                if spelling in self.specs:
                    return self.specs[spelling]
        close = self._folded.get(fold_name(plain), ())
        return close[0] if len(close) == 1 else None

    def find_with_key(self, joined: str) -> ToolSpec | None:
        """Return the tool whose name and one of its keys make up `joined`, if there is one."""
        fitting = [
            tool
            for name, tool in self.specs.items()
            if joined.startswith(name) and joined[len(name) :] in tool_shape(tool).properties
        ]
        return fitting[0] if len(fitting) == 1 else None

    def find_by_keys(self, keys: Iterable[str]) -> ToolSpec | None:
        """Return the tool that accepts these arguments, if there is exactly one."""
        given = set(keys)
        fitting = [
            tool
            for tool in self.specs.values()
            if given and (shape := tool_shape(tool)).required <= given <= shape.properties.keys()
        ]
        return fitting[0] if len(fitting) == 1 else None


def strip_namespace(asked: str) -> str:
    """Remove the namespace and the counter that the dialect adds to a tool name."""
    name = asked.removeprefix("functions.")
    return name.rpartition(":")[0] if has_counter(name) else name


def has_counter(name: str) -> bool:
    """Whether a name ends in a counter, as in `functions.f:0`."""
    head, _, counter = name.rpartition(":")
    return head != "" and counter.isdigit()


def is_name(text: str) -> bool:
    """Whether this can be a tool name, known or not."""
    marks = all(mark.isalnum() or mark in _NAME_PUNCTUATION for mark in text)
    return marks and len(text) <= MAX_NAME and any(mark.isalnum() for mark in text)


def tool_shape(spec: ToolSpec | None) -> SchemaShape:
    """Return the declared shape of a tool; empty for an unknown tool."""
    if spec is None:
        return SchemaShape()
    parameters = spec.parameters
    cached = _SHAPES.get(id(parameters))
    if cached is None:
        if len(_SHAPES) >= _MOST_SHAPES:
            _SHAPES.clear()
        cached = _SHAPES[id(parameters)] = (
            parameters,
            SchemaShapes(parameters).shape_for([parameters]),
        )
    return cached[1] or SchemaShape()


def declared_shape(shape: SchemaShape | None, key: str) -> SchemaShape | None:
    """Return the declared shape of a key, or of the items of an array."""
    if shape and "array" in shape.kinds and "object" not in shape.kinds:
        return shape.items or _UNDECLARED
    return shape.properties.get(key, _UNDECLARED) if shape else _UNDECLARED


@cache
def _marks_by_prefix(marks: tuple[str, ...]) -> tuple[int, dict[str, list[str]]]:
    """Return the length of the shortest mark, and the marks by their prefix of that length."""
    length = min(map(len, marks))
    heads: dict[str, list[str]] = {}
    for mark in marks:
        heads.setdefault(mark[:length], []).append(mark)
    return length, heads


class TextSource:
    """A text with cached searches and a fuel limit."""

    def __init__(self, text: str, tools: Sequence[ToolSpec], fuel: int = INITIAL_FUEL) -> None:
        self.text = text
        self.tools = KnownTools(tools)
        self.fuel = fuel + FUEL_PER_CHARACTER * len(text)
        self._searches: dict[str, tuple[int, int]] = {}

    def spend_fuel(self, characters: int) -> None:
        """Spend fuel for scanned characters; raise `OutOfFuel` if none is left."""
        self.fuel -= characters
        if self.fuel < 0:
            raise OutOfFuel

    def find(self, needle: str, start: int) -> int:
        """Find like `str.find`, reusing the results of earlier searches."""
        since, place = self._searches.get(needle, (-1, -1))
        if since < 0 or start < since or 0 <= place < start:
            place = self.text.find(needle, start)
            self.spend_fuel((place if place >= 0 else len(self.text)) - start + 1)
            self._searches[needle] = (start, place)
        return place

    def find_first(self, needles: Iterable[str], start: int) -> int:
        """Return the place of the first of several strings, or -1."""
        places = [place for needle in needles if (place := self.find(needle, start)) >= 0]
        return min(places, default=-1)

    def starts_with(self, marks: str | tuple[str, ...], place: int) -> bool:
        """Whether one of these marks is at `place`."""
        return self.text.startswith(marks, place)

    def mark_at(self, marks: tuple[str, ...], place: int) -> str:
        """Return the mark at `place`, or an empty string."""
        if not self.starts_with(marks, place):
            return ""
        length, heads = _marks_by_prefix(marks)
        near = heads[self.text[place : place + length]]
        return next(mark for mark in near if self.starts_with(mark, place))

    def skip_blanks(self, at: int) -> int:
        """Return the place of the next non-blank character."""
        return self.skip_chars("", at)

    def skip_chars(self, marks: str, at: int) -> int:
        """Return the place of the next character that is neither blank nor in `marks`."""
        text, marks = self.text, marks + BLANKS
        while at < len(text) and text[at] in marks:
            at += 1
        return at

    def line_end(self, at: int) -> int:
        """Return the place of the next line break or of the end of the text."""
        found = self.find("\n", at)
        return found if found >= 0 else len(self.text)

    def name_at(self, at: int) -> str:
        """Return the name that begins at `at`, possibly empty."""
        text, end = self.text, at
        limit = min(len(text), at + MAX_NAME)
        while end < limit and (text[end].isalnum() or text[end] in _NAME_PUNCTUATION):
            end += 1
        return text[at:end]

    def name_start(self, at: int, floor: int) -> int:
        """Return where the name that ends at `at` begins."""
        while at > floor and (
            self.text[at - 1].isalnum() or self.text[at - 1] in _NAME_PUNCTUATION
        ):
            at -= 1
        return at


# Results of recovery: calls, the remaining text, and skipped candidates.

_SNIPPET_LENGTH = 60


class RecoveredCall(msgspec.Struct, frozen=True):
    """One recovered call. `arguments` is raw text if it could not be parsed.

    `was_repaired` means that a missing closing bracket was added. `value_ends` are the marks that
    may have ended a value earlier, if values are not escaped.
    """

    name: str
    arguments: JSON | str
    start: int
    end: int
    id: str | None = None
    truncated: bool = False
    dialect: str = ""
    in_reasoning: bool = False
    was_repaired: bool = False
    value_ends: tuple[str, ...] = ()

    @property
    def grammar(self) -> str:
        """The letter of the grammar that the dialect belongs to."""
        return self.dialect[:1]


class SkippedCandidate(msgspec.Struct, frozen=True):
    """Text that looked like a call but was not recovered, and the reason.

    If it names a tool and is not clearly a quotation, it is an ambiguous call: `tool` is the tool,
    and `rule` the violated rule.
    """

    start: int
    snippet: str
    reason: str
    tool: str = ""
    rule: str = ""


class RecoveredText(msgspec.Struct, frozen=True):
    """The calls of a text and its remaining text.

    `unextracted` is the text including its calls. `call_texts` has the text of each call.
    `has_trailing_text` means that text follows the last call, `may_end_early` that a call may have
    ended too early, for example because a closing mark is left over. `has_recipient` means that
    marks address the text to the user or to the model itself.
    """

    text: str
    unextracted: str
    calls: tuple[RecoveredCall, ...] = ()
    passed_over: tuple[SkippedCandidate, ...] = ()
    reasoning: str = ""
    call_texts: tuple[str, ...] = ()
    has_trailing_text: bool = False
    may_end_early: bool = False
    has_recipient: bool = False


class CallSection(msgspec.Struct, frozen=True):
    """The calls after one opener, and where they, their body, and the section begin and end."""

    calls: list[RecoveredCall]
    row: str
    start: int
    body_start: int
    end: int


class NotACall(Exception):  # a result, not an error
    """Raised if no call of `tool` follows; `at` is the place up to which the text was parsed.

    If the text names a tool, it is an ambiguous call, unless it `has_other_meaning`.
    """

    def __init__(
        self, reason: str, at: int, *, has_other_meaning: bool = False, tool: str = ""
    ) -> None:
        super().__init__(reason)
        self.tool = tool
        self.reason = reason
        self.at = at
        self.has_other_meaning = has_other_meaning


class OutOfFuel(Exception):  # only ends the scan
    """Raised if scanning used up its fuel; the rest of the text is not parsed."""


def unknown_tool(name: str, at: int) -> NotACall:
    """Return the exception for a call of an unknown tool."""
    return NotACall(f"no tool is named {name[:40]!r}", at)


def unsearched_text(text: str, names: Iterable[str]) -> RecoveredText:
    """Return an overlong text unchanged; if it names a tool, it may be an ambiguous call."""
    named = next((name for name in names if name in text), "")
    reason = f"the text has more than {MAX_TEXT} characters and is not searched"
    return RecoveredText(
        text, text, passed_over=(skipped_candidate(text, 0, reason, named, "whole"),)
    )


def skipped_candidate(text: str, place: int, reason: str, tool: str, rule: str) -> SkippedCandidate:
    """Return a skipped candidate with a snippet; `rule` counts only if it names a tool."""
    snippet = text[place : place + _SNIPPET_LENGTH]
    return SkippedCandidate(place, snippet, reason, tool, rule if tool else "")
