"""Finds marks: a fast check for plain text, openers in order, closers, and code."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace

from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.segments import starts_line
from surecall.wire.dialects.tagged_calls import dsml_prefix
from surecall.wire.dialects.text_source import CallSection, TextSource

_MAX_CLOSER = 64
_PREFIX_LENGTH = 4
# The maximum length of a header that began in the prompt.
_MAX_PARTIAL_HEADER = 40
_MARKS = (
    *(opener for opener in spelling.OPENERS if not opener.weak),
    *spelling.REASONING_MARKS,
    spelling.Opener(spelling.STRIPPED_FINAL_MARK, "", kind="final"),
    *(
        spelling.Opener(stem, "", kind="answer", required_closer=end)
        for stem, end in spelling.ANSWER_TAGS.items()
    ),
)
STEMS = (*(mark.stem for mark in _MARKS), f"{spelling.REACT_MARKS[0]} ")
# The prefixes of all marks at a `<`; other marks are searched for as a whole.
_MARK_PREFIXES = frozenset(
    stem[place : place + _PREFIX_LENGTH]
    for stem in (*STEMS, *spelling.ORPHANS, *spelling.ANSWER_FRAMES)
    for place, mark in enumerate(stem)
    if mark == "<" and len(stem) >= place + _PREFIX_LENGTH
) | frozenset(
    f"<{''.join(bars)}{spelling.DSML}"[:_PREFIX_LENGTH]
    for width in range(1, _PREFIX_LENGTH)
    for bars in itertools.product(f"{spelling.BARS} ", repeat=width)
    if set(bars) != {" "}
)


def may_hold_calls(text: str, tools: Sequence[ToolSpec] = ()) -> bool:
    """Quickly check whether a text may contain calls; pass `tools` for calls without a mark."""
    # Searching for a character is twenty times as fast as searching for a word.
    return (
        ("<" in text and _has_angle_mark(text))
        or ("[" in text and _has_bracket_mark(text))
        or ("`" in text and any(f"```{label}" in text for label in spelling.FENCE_LABELS))
        or ("=" in text and ("to=functions." in text or "to=" in text[:_MAX_PARTIAL_HEADER]))
        or "◁" in text
        or (":" in text and spelling.REACT_MARKS[1] in text)
        or spelling.STRIPPED_FINAL_MARK in text
        or any(tool.name in text for tool in tools)
    )


def _has_angle_mark(text: str) -> bool:
    at = text.find("<")
    while at >= 0 and text[at : at + _PREFIX_LENGTH] not in _MARK_PREFIXES:
        at = text.find("<", at + 1)
    return at >= 0


def _has_bracket_mark(text: str) -> bool:
    return (
        ("_" in text and "TOOL_CALL" in text)
        or ("{" in text and "functools[" in text)
        or ("N" in text and ("THINK]" in text or "FINAL RESPONSE]" in text))
    )


def marks_to_find(tools: Iterable[str], *, weak: bool) -> list[spelling.Opener]:
    """Return the marks to search for; with `weak`, also tags named after tools."""
    if not weak:
        return [*_MARKS]
    tags = [spelling.Opener(f"<{name}>", "C13", kind="tool", weak=True) for name in tools]
    return [*_MARKS, *(opener for opener in spelling.OPENERS if opener.weak), *tags]


class MarkScanner:
    """Iterates over marks and code in text order; a mark that no longer occurs is dropped."""

    def __init__(self, text: str, marks: Iterable[spelling.Opener]) -> None:
        self._text = text
        # Of two marks at one place, the longer comes first.
        places = (
            (text.find(mark.stem), -len(mark.stem), number, mark)
            for number, mark in enumerate((*marks, *spelling.CODE_MARKS))
        )
        self._next = [place for place in places if place[0] >= 0]
        heapify(self._next)

    def next_mark(self, at: int) -> tuple[int, spelling.Opener] | None:
        """Return the first mark at or after `at`."""
        while self._next and self._next[0][0] < at:
            _, length, number, mark = self._next[0]
            place = self._text.find(mark.stem, at)
            if place < 0:
                heappop(self._next)
            else:
                heapreplace(self._next, (place, length, number, mark))
        return (self._next[0][0], self._next[0][3]) if self._next else None


def skip_closers(source: TextSource, at: int) -> int:
    """Skip all closing marks that follow, including a truncated one."""
    for end in _closer_ends(source, at):
        at = end
    return at


def has_spare_closer(source: TextSource, found: CallSection) -> bool:
    """Whether a closing mark repeats after a call: the first may belong to a value."""
    text, last = (
        source.text,
        max(found.body_start, source.text.rfind("</", found.body_start, found.end)),
    )
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


def ends_with_closer(source: TextSource, found: CallSection) -> bool:
    """Whether a section ends with a closing mark."""
    last = source.text.rfind("<", found.body_start, found.end)
    is_tag = source.text[found.end - 1 : found.end] == ">"
    return is_tag and last >= 0 and source.starts_with(spelling.CLOSERS, last)


def _closer_ends(source: TextSource, at: int) -> Iterator[int]:
    """Yield the end of each closing mark that follows."""
    text, end = source.text, at
    while True:
        at = source.skip_blanks(end)
        closer = source.mark_at(spelling.CLOSERS, at)
        if not closer and source.starts_with("</", at) and dsml_prefix(text, at) != spelling.DSML:
            closer = "</"
        closed = at + len(closer)
        if not closer:
            rest = text[at : at + _MAX_CLOSER]
            cut = 1 < len(rest) < _MAX_CLOSER and any(
                mark.startswith(rest) for mark in spelling.CLOSERS
            )
            closed = len(text) if cut else 0
        elif closer[-1] not in ">]":
            closed = text.find(">", closed, at + _MAX_CLOSER) + 1
        if not closed:
            return
        end = closed
        yield end


def trailing_orphans_start(text: str) -> int:
    """Return where trailing closing marks that belong to no call begin."""
    end = len(text.rstrip())
    while True:
        mark = next((mark for mark in _TRAILING_MARKS if text.endswith(mark, 0, end)), None)
        # After a blank, it is the last word of a sentence.
        if mark is None or text.endswith(f" {mark}", 0, end):
            return end
        end -= len(mark)
        while end and text[end - 1].isspace():
            end -= 1


_TRAILING_MARKS = tuple(
    mark
    for mark in dict.fromkeys(
        (*spelling.CLOSERS, "</tool_call>", "</tool_calls>", *spelling.ANSWER_FRAMES)
    )
    if (mark.startswith(spelling.ORPHANS) and mark[-1] in ">]") or mark in spelling.ANSWER_FRAMES
)


def code_end(source: TextSource, at: int) -> int:
    """Return the end of the code that opens here; inline code must end on its line."""
    text, line_end = source.text, source.line_end(at)
    width = _run_length(text, at)
    opens_block = width >= len(spelling.FENCES[0]) and starts_line(text, at)
    if text[at] == "~" or (opens_block and "`" not in text[at + width : line_end]):
        return _fence_end(source, at, width) if opens_block else at + width
    # If this finds nothing, no run of this width is left on the line.
    kind, close = min(width, len(spelling.FENCES[0])), at + width
    while (close := text.find("`" * kind, close, line_end)) >= 0:
        found = _run_length(text, close)
        close += found
        if min(found, len(spelling.FENCES[0])) == kind:
            return close
    return at + width


def _fence_end(source: TextSource, at: int, width: int) -> int:
    """Return the end of a fenced block; an unclosed one extends to the end of the text."""
    text, fence = source.text, source.text[at] * width
    close = at + width
    while (close := text.find(fence, close)) >= 0:
        end = close + _run_length(text, close)
        if starts_line(text, close) and source.skip_blanks(end) >= source.line_end(end):
            return end
        close = end
    return len(text)


def _run_length(text: str, at: int) -> int:
    """Return how often the character at `at` repeats."""
    end = at
    while text[end : end + 1] == text[at]:
        end += 1
    return end - at
