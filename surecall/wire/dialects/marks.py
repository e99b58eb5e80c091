"""Where marks are: a quick no for plain text, openers from left to right, closers, and code."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace

from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.found import Section
from surecall.wire.dialects.segments import starts_line
from surecall.wire.dialects.source import Source
from surecall.wire.dialects.tagged import dsml_prefix

_MAX_TAG = 64
_PEEK = 4
# So far into a text a header may reach that began in the prompt.
_BEGUN = 40
_MARKS = (
    *(opener for opener in spelling.OPENERS if not opener.weak),
    *spelling.THOUGHT_MARKS,
    spelling.Opener(spelling.STRIPPED_FINAL, "", kind="final"),
    *(
        spelling.Opener(stem, "", kind="answer", closer=end)
        for stem, end in spelling.ANSWERS.items()
    ),
)
STEMS = tuple(mark.stem for mark in _MARKS)
# A mark with `<` goes on like one of these; the others are looked for as a whole.
_PEEKS = frozenset(
    stem[place : place + _PEEK]
    for stem in (*STEMS, *spelling.ORPHANS, *spelling.FRAMES)
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
        or ("`" in text and any(f"```{label}" in text for label in spelling.LABELS))
        or ("=" in text and ("to=functions." in text or "to=" in text[:_BEGUN]))
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
        ("_" in text and "TOOL_CALL" in text)
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
        # Of two that begin together the longer one comes first.
        places = (
            (text.find(mark.stem), -len(mark.stem), number, mark)
            for number, mark in enumerate((*marks, *spelling.CODE_MARKS))
        )
        self._next = [place for place in places if place[0] >= 0]
        heapify(self._next)

    def after(self, at: int) -> tuple[int, spelling.Opener] | None:
        """Return the first mark at or after `at`."""
        while self._next and self._next[0][0] < at:
            _, length, number, mark = self._next[0]
            place = self._text.find(mark.stem, at)
            if place < 0:
                heappop(self._next)
            else:
                heapreplace(self._next, (place, length, number, mark))
        return (self._next[0][0], self._next[0][3]) if self._next else None


def after_closers(source: Source, at: int) -> int:
    """Pass over all closing marks that follow, also over one that is cut off."""
    for end in _closer_ends(source, at):
        at = end
    return at


def has_spare_closer(source: Source, found: Section) -> bool:
    """Whether a closing mark comes twice after a call: the first may have been part of a value."""
    text, last = source.text, max(found.body, source.text.rfind("</", found.body, found.end))
    seen: set[str] = {text[last : found.end].strip()}
    begin = found.end
    for stop in _closer_ends(source, found.end):
        mark, begin = text[begin:stop].strip(), stop
        tagged = found.row in spelling.TAGGED_ROWS
        if mark in seen or (tagged and mark.endswith(spelling.VALUE_ENDS)):
            return True
        if mark not in spelling.END_TOKENS:
            seen.add(mark)
    return False


def ends_closed(source: Source, found: Section) -> bool:
    """Whether the last thing in a section is a closing mark of its own."""
    last = source.text.rfind("<", found.body, found.end)
    is_tag = source.text[found.end - 1 : found.end] == ">"
    return is_tag and last >= 0 and source.at(spelling.CLOSERS, last)


def _closer_ends(source: Source, at: int) -> Iterator[int]:
    """Go through the closing marks that follow, and tell where each ends."""
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
            return
        end = closed
        yield end


def trailing_orphans(text: str) -> int:
    """Return where the closing marks begin that end a text without belonging to a call."""
    end = len(text.rstrip())
    while True:
        mark = next((mark for mark in _LAST if text.endswith(mark, 0, end)), None)
        # After a blank it is the last word of a sentence about it.
        if mark is None or text.endswith(f" {mark}", 0, end):
            return end
        end -= len(mark)
        while end and text[end - 1].isspace():
            end -= 1


_LAST = tuple(
    mark
    for mark in dict.fromkeys(
        (*spelling.CLOSERS, "</tool_call>", "</tool_calls>", *spelling.FRAMES)
    )
    if (mark.startswith(spelling.ORPHANS) and mark[-1] in ">]") or mark in spelling.FRAMES
)


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
        if starts_line(text, close) and source.blanks(end) >= source.line_end(end):
            return end
        close = end
    return len(text)


def _run(text: str, at: int) -> int:
    """Count how often the mark that is here comes in a row."""
    end = at
    while text[end : end + 1] == text[at]:
        end += 1
    return end - at
