"""Segments: where in a text a call is only shown, because somebody else is speaking.

    block quote, quotation marks, table    seen on the line of the call
    indented code                          an indented line after prose
    comment, `<example>` and its kind      opened before the call and not closed yet
    made-up transcript                     after lines that say `User:` and `Assistant:`

Fences and inline code are passed over by the scan itself. What is shown stays text. Where quoting
is likely but not sure, the call is `doubtful`: the model is asked about it.
"""

import re
from collections import deque
from collections.abc import Iterator
from functools import cache

from surecall.wire.dialects import spelling
from surecall.wire.dialects.source import BLANKS, Source

SHOWN = "it is only shown"
DOUBTFUL = "it may be a quotation"
_LOOK_BACK = 200
_CODE_INDENT = 4
_BULLETS = "-*+•"
_PAIRS = (("“", "”„"), ("«", "»"), ("„", "“”"), ("「", "」"), ("『", "』"))
_INDENT = frozenset(BLANKS + ">")
_USER, _MODEL = "user", "model"
_ELEMENTS = "|".join((*spelling.SHOWING, *(f"{name}s" for name in spelling.SHOWING)))
_LABEL = r"^[ \t>*_#\[<|]{0,8}"
_SIGNS = (
    rf"<(?P<opens>!--|(?:{_ELEMENTS})(?=[ >]))|(?P<closes>--|</(?:{_ELEMENTS})) ?>"
    rf"|(?P<user>{_LABEL}(?:{'|'.join(spelling.USER_SPEAKS)})[*_]{{0,2}}[:\]>|]"
    rf"|^#{{1,4}} (?:user|human)$|{'|'.join(map(re.escape, spelling.USER_TOKENS))})"
    rf"|{_LABEL}(?:{'|'.join(spelling.MODEL_SPEAKS)})[*_]{{0,2}}[:\]>|]"
    rf"|^#{{1,4}} (?:assistant|ai)$|{'|'.join(map(re.escape, spelling.MODEL_TOKENS))}"
)


@cache
def _signs() -> re.Pattern[str]:
    """Compile what to look for when the first text has a mark: it takes some milliseconds."""
    return re.compile(_SIGNS, re.IGNORECASE | re.MULTILINE)


class Segments:
    """Answers for one text, asked from left to right: everything is looked at once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        self._signs: Iterator[re.Match[str]] | None = None
        self._next: re.Match[str] | None = None
        # What is open, and where it was opened.
        self._open: dict[str, int] = {}
        self._speaker, self._label = "", 0
        self._deaf: deque[tuple[int, int]] = deque()
        # A place up to which the text was read, and where the first word after it is.
        self._words = (-1, -1)

    def skip(self, start: int, end: int) -> None:
        """Take no notice of what is said here: it is code, a thought or a call."""
        self._deaf.append((start, end))

    def shown(self, at: int, floor: int) -> str:
        """Say why a mark that is here is not believed, if so; what is before `floor` was read."""
        self._go_to(at)
        line = line_before(self._text, at)
        line = line[max(0, len(line) - at + floor) :]
        bare = line.lstrip()
        quoted = bare.startswith(">") and not bare.startswith(">>>")
        quoted = quoted or self._text[max(0, at - 1) : at] in spelling.QUOTATION_MARKS
        if quoted or bare.startswith("|") or self._is_enclosed(at):
            return SHOWN
        wide = "\t" in line or len(line) >= _CODE_INDENT
        if wide and not line.strip() and self.follows_words(at - len(line), floor):
            return SHOWN
        if self._speaker == _MODEL:
            return SHOWN if self._text.count("\n", self._label, at) <= 1 else DOUBTFUL
        return DOUBTFUL if self._is_begun() or _describes(bare) or _in_quotes(line) else ""

    def _is_enclosed(self, at: int) -> bool:
        """Whether an element was opened before this and is closed after it."""
        closers = ("-->" if name == "--" else f"</{name}" for name in self._open)
        return any(self._source.find(closer, at) >= 0 for closer in closers)

    def _is_begun(self) -> bool:
        """Whether an element is open that began its line; others are placeholders in prose."""
        return any(starts_line(self._text, at) for at in self._open.values())

    def follows_words(self, at: int, floor: int) -> bool:
        """Whether anything but blanks is before this, up to where the text was read."""
        if self._words[0] != floor:
            self._words = floor, self._source.blanks(floor)
        return self._words[1] < at

    def _go_to(self, at: int) -> None:
        """Take notice of whoever begins or ends to speak before this."""
        if self._signs is None:
            self._source.pay(len(self._text))
            self._signs = _signs().finditer(self._text)
            self._next = next(self._signs, None)
        while self._next is not None and self._next.end() <= at:
            while self._deaf and self._deaf[0][1] <= self._next.start():
                self._deaf.popleft()
            if not (self._deaf and self._deaf[0][0] <= self._next.start()):
                self._notice(self._next)
            self._next = next(self._signs, None)

    def _notice(self, sign: re.Match[str]) -> None:
        if sign["opens"]:
            self._open[sign["opens"].lower().removeprefix("!")] = sign.start()
        elif sign["closes"]:
            self._open.pop(sign["closes"].lower().removeprefix("</"), None)
        elif sign["user"]:
            self._speaker = _USER
        elif self._speaker:
            self._speaker, self._label = _MODEL, sign.start() + 1


def _describes(line: str) -> bool:
    """Whether a line begins like an item of a list."""
    number = line.lstrip("0123456789")
    bullet = line[:1] in _BULLETS and line[1:2] in (" ", "\t")
    return bullet or (number != line and number[:1] in (".", ")") and number[1:2] in (" ", ""))


def _in_quotes(line: str) -> bool:
    """Whether a quotation has begun on this line and not ended."""
    opened = sum(line.startswith('"') + line.count(f'{before}"') for before in " (")
    return opened > line.count('"') - opened or any(
        line.count(opening) > sum(map(line.count, closing)) for opening, closing in _PAIRS
    )


def starts_line(text: str, at: int) -> bool:
    """Whether nothing but blanks and marks of quotation is before this on its line."""
    return _INDENT.issuperset(line_before(text, at))


def line_before(text: str, at: int) -> str:
    """Return the line up to here, or the last part of a long one, which is never blank."""
    floor = max(0, at - _LOOK_BACK)
    start = text.rfind("\n", floor, at) + 1
    return text[start:at] if start or not floor else f"…{text[floor:at]}"
