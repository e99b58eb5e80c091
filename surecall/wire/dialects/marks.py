"""Where marks stand: a quick no for plain text, openers from left to right, closers, and code."""

import itertools
from collections.abc import Iterable, Sequence
from functools import cache

from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.source import BLANKS, Source
from surecall.wire.dialects.tagged import dsml_prefix

_MAX_TAG = 64
_PEEK = 4
_LOOK_BACK = 200
_INDENT = frozenset(BLANKS + ">")
_MARKS = (
    *(opener for opener in spelling.OPENERS if not opener.weak),
    *spelling.THOUGHT_MARKS,
    spelling.Opener(spelling.STRIPPED_FINAL, "", kind="final"),
)
_STEMS = tuple(mark.stem for mark in _MARKS)
# Nearly every mark has one of these, and plain text has few of them.
_SIGNS = "<[`=◁"
# A mark with `<` goes on like one of these; the others are looked for as a whole.
_PEEKS = frozenset(
    stem[place : place + _PEEK]
    for stem in (*_STEMS, *spelling.ORPHANS, *spelling.FRAMES)
    for place, mark in enumerate(stem)
    if mark == "<" and len(stem) >= place + _PEEK
) | frozenset(
    f"<{''.join(bars)}{spelling.DSML}"[:_PEEK]
    for width in range(1, _PEEK)
    for bars in itertools.product(f"{spelling.BARS} ", repeat=width)
    if set(bars) != {" "}
)


def is_marked(text: str, tools: Sequence[ToolSpec] = ()) -> bool:
    """Say quickly whether there may be anything to recover; `tools` for calls without a mark."""
    # A search for one character is twenty times as fast as one for a word.
    return (
        ("<" in text and _peeks(text))
        or ("[" in text and _has_bracket_mark(text))
        or ("`" in text and "```tool_code" in text)
        or ("=" in text and "to=functions." in text)
        or "◁" in text
        or spelling.STRIPPED_FINAL in text
        or any(tool.name in text for tool in tools)
    )


def _peeks(text: str) -> bool:
    at = text.find("<")
    while at >= 0 and text[at : at + _PEEK] not in _PEEKS:
        at = text.find("<", at + 1)
    return at >= 0


def _has_bracket_mark(text: str) -> bool:
    return (
        ("_" in text and "TOOL_CALLS]" in text)
        or ("{" in text and "functools[" in text)
        or ("N" in text and ("THINK]" in text or "FINAL RESPONSE]" in text))
    )


def marks_of(tools: Iterable[str], *, weak: bool) -> list[spelling.Opener]:
    """List the marks to look for; a `weak` look is also for tags that are called like tools."""
    if not weak:
        return [*_MARKS]
    tags = [spelling.Opener(f"<{name}>", "C13", kind="tool", weak=True) for name in tools]
    return [*_MARKS, *(opener for opener in spelling.OPENERS if opener.weak), *tags]


class Marks:
    """Marks in their order in a text, and code; each is searched for only while it occurs."""

    def __init__(self, text: str, marks: Iterable[spelling.Opener]) -> None:
        self._text = text
        self._next = {mark: text.find(mark.stem) for mark in (*marks, *spelling.CODE_MARKS)}

    def after(self, at: int) -> tuple[int, spelling.Opener] | None:
        """Return the first mark at or after `at`; of two that begin together, the longer."""
        for mark in [mark for mark, place in self._next.items() if place < at]:
            self._next[mark] = self._text.find(mark.stem, at)
            if self._next[mark] < 0:
                del self._next[mark]
        first = min(self._next.items(), key=_earliest, default=None)
        return (first[1], first[0]) if first else None


def _earliest(mark: tuple[spelling.Opener, int]) -> tuple[int, int]:
    return mark[1], -len(mark[0].stem)


def first_opener(text: str, stems: tuple[str, ...] = _STEMS) -> int:
    """Return the earliest place that is, or with more text may become, an opener; -1 if none.

    Text before that place can be shown while a reply is still being streamed.
    """
    if not _may_open(text, stems):
        return -1
    places = [place for stem in stems if (place := text.find(stem)) >= 0]
    marked = text.find(spelling.DSML)
    if marked >= 0:
        places.append(max(0, text.rfind("<", 0, marked)))
    longest = max(map(len, stems))
    for at in range(max(0, len(text) - longest), len(text)):
        tail = text[at:]
        bare = tail[1:].strip(spelling.BARS + " ")
        if any(stem.startswith(tail) for stem in stems) or (
            tail[0] == "<" and tail[1:2] in (*spelling.BARS, " ") and spelling.DSML.startswith(bare)
        ):
            places.append(at)
            break
    return min(places, default=-1)


def _may_open(text: str, stems: tuple[str, ...]) -> bool:
    """Say quickly whether a piece of text holds an opener, or ends with the beginning of one."""
    signless, endings = _quick(stems)
    return (
        any(sign in text for sign in _SIGNS)
        or any(stem in text for stem in signless)
        or text.endswith(endings.get(text[-1:], ()))
    )


@cache
def _quick(stems: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the stems without a sign, and what stems begin with, by its last character."""
    signless = [stem for stem in (*stems, spelling.DSML) if not set(_SIGNS) & set(stem)]
    begun = {stem[:length] for stem in stems for length in range(1, len(stem) + 1)}
    endings: dict[str, list[str]] = {}
    for beginning in sorted(begun):
        endings.setdefault(beginning[-1], []).append(beginning)
    return tuple(signless), {last: tuple(found) for last, found in endings.items()}


def after_closers(source: Source, at: int) -> int:
    """Pass over all closing marks that follow, also over one that is cut off."""
    text, end = source.text, at
    while True:
        at = source.blanks(end)
        closer = source.mark(spelling.CLOSERS, at)
        if not closer and source.at("</", at) and dsml_prefix(text, at) != spelling.DSML:
            closer = "</"
        closed = at + len(closer)
        if not closer:
            rest = text[at : at + _MAX_TAG]
            cut = 1 < len(rest) < _MAX_TAG and any(
                mark.startswith(rest) for mark in spelling.CLOSERS
            )
            closed = len(text) if cut else 0
        elif closer[-1] not in ">]":
            closed = text.find(">", closed, at + _MAX_TAG) + 1
        if not closed:
            return end
        end = closed


def trailing_orphans(text: str) -> int:
    """Return where the closing marks begin that end a text without belonging to a call."""
    end = len(text.rstrip())
    while True:
        mark = next((mark for mark in _LAST if text.endswith(mark, 0, end)), None)
        # After a blank it is the last word of a sentence about it.
        if mark is None or text.endswith(f" {mark}", 0, end):
            return end
        end = len(text[: end - len(mark)].rstrip())


_LAST = tuple(
    mark
    for mark in dict.fromkeys(
        (*spelling.CLOSERS, "</tool_call>", "</tool_calls>", *spelling.FRAMES)
    )
    if (mark.startswith(spelling.ORPHANS) and mark[-1] in ">]") or mark in spelling.FRAMES
)


def starts_line(text: str, at: int) -> bool:
    """Whether nothing but blanks and quotation marks is before this on its line."""
    return _INDENT.issuperset(_line_before(text, at))


def is_quoted(text: str, at: int) -> bool:
    """Whether this is behind a quotation mark, or in a quoted line."""
    line = _line_before(text, at).lstrip()
    quoted = line.startswith(">") and not line.startswith(">>>")
    return quoted or text[max(0, at - 1) : at] in spelling.QUOTATION_MARKS


def _line_before(text: str, at: int) -> str:
    """Return the line up to here, or the last part of a long one, which is never blank."""
    floor = max(0, at - _LOOK_BACK)
    start = text.rfind("\n", floor, at) + 1
    return text[start:at] if start or not floor else f"…{text[floor:at]}"


def code_end(source: Source, at: int) -> int:
    """Return the end of the code that opens here; without an end there is none on one line."""
    text, line_end = source.text, source.line_end(at)
    width = _run(text, at)
    opens_block = width >= len(spelling.FENCES[0]) and starts_line(text, at)
    if text[at] == "~" or (opens_block and "`" not in text[at + width : line_end]):
        return _fence_end(source, at, width) if opens_block else at + width
    # No run of this width is left on the line if this finds none, so it is not looked for again.
    kind, close = min(width, len(spelling.FENCES[0])), at + width
    while (close := text.find("`" * kind, close, line_end)) >= 0:
        found = _run(text, close)
        close += found
        if min(found, len(spelling.FENCES[0])) == kind:
            return close
    return at + width


def _fence_end(source: Source, at: int, width: int) -> int:
    """Find the end of a fenced block; one that is never closed goes on to the end."""
    text, fence = source.text, source.text[at] * width
    close = at + width
    while (close := text.find(fence, close)) >= 0:
        end = close + _run(text, close)
        if starts_line(text, close) and not text[end : source.line_end(end)].strip():
            return end
        close = end
    return len(text)


def _run(text: str, at: int) -> int:
    """Count how often the mark that is here comes in a row."""
    end = at
    while text[end : end + 1] == text[at]:
        end += 1
    return end - at
