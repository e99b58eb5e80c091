"""Finding openers: a quick no for plain text, then all of them from left to right."""

import heapq
import itertools
from collections.abc import Iterable, Sequence

from surecall.dialects.grammar_c import dsml_prefix
from surecall.dialects.source import Source
from surecall.dialects.spelling import (
    BARS,
    CLOSERS,
    DSML,
    FRAMES,
    OPENERS,
    ORPHANS,
    STRIPPED_FINAL,
    THINKING,
    THOUGHTS_END,
    Opener,
)
from surecall.types import ToolSpec

_MAX_TAG = 64
_PEEK = 4
_MARKS = (
    *(opener for opener in OPENERS if not opener.weak),
    *(Opener(stem, "", kind="think") for stem in THINKING),
    *(Opener(stem, "", kind="thought") for stem in THOUGHTS_END),
    Opener(STRIPPED_FINAL, "", kind="final"),
)
_WEAK_MARKS = tuple(opener for opener in OPENERS if opener.weak)
_STEMS = tuple(mark.stem for mark in _MARKS)
# A mark with `<` goes on like one of these; the others are looked for as a whole.
_PEEKS = frozenset(
    stem[place : place + _PEEK]
    for stem in (*_STEMS, *ORPHANS, *FRAMES)
    for place, mark in enumerate(stem)
    if mark == "<" and len(stem) >= place + _PEEK
) | frozenset(
    f"<{''.join(bars)}{DSML}"[:_PEEK]
    for width in range(1, _PEEK)
    for bars in itertools.product(f"{BARS} ", repeat=width)
    if set(bars) != {" "}
)


def is_marked(text: str, tools: Sequence[ToolSpec] = ()) -> bool:
    """Say quickly whether there may be anything to recover; `tools` for calls without a mark."""
    # A search for one character is twenty times as fast as one for a word.
    return (
        ("<" in text and ">" in text and _peeks(text))
        or ("[" in text and _has_bracket_mark(text))
        or ("`" in text and "```tool_code" in text)
        or ("=" in text and "to=functions." in text)
        or "◁" in text
        or STRIPPED_FINAL in text
        or (bool(tools) and _names_a_tool(text, tools))
    )


def _peeks(text: str) -> bool:
    find, peeks = text.find, _PEEKS
    at = find("<")
    while at >= 0:
        if text[at : at + _PEEK] in peeks:
            return True
        at = find("<", at + 1)
    return False


def _has_bracket_mark(text: str) -> bool:
    return (
        ("_" in text and "TOOL_CALLS]" in text)
        or ("{" in text and "functools[" in text)
        or ("N" in text and ("THINK]" in text or "FINAL RESPONSE]" in text))
    )


def _names_a_tool(text: str, tools: Sequence[ToolSpec]) -> bool:
    return ("{" in text or "[" in text or "<" in text) and any(tool.name in text for tool in tools)


class Openers:
    """All marks of a text in order; each spelling is searched for only while it occurs."""

    def __init__(self, source: Source, *, weak: bool) -> None:
        self._text = source.text
        marks: list[Opener] = [*_MARKS, *(_WEAK_MARKS if weak else ())]
        if weak:
            tags = (f"<{name}>" for name in source.tools.specs)
            marks += (Opener(tag, "C13", kind="tool", plain=True, weak=True) for tag in tags)
        self._marks = marks
        self._heap = [
            (place, -len(mark.stem), index)
            for index, mark in enumerate(marks)
            if (place := self._text.find(mark.stem)) >= 0
        ]
        heapq.heapify(self._heap)

    def after(self, at: int) -> tuple[int, Opener] | None:
        """Return the first mark at or after `at`; of two that begin together, the longer."""
        heap = self._heap
        while heap and heap[0][0] < at:
            _, length, index = heap[0]
            place = self._text.find(self._marks[index].stem, at)
            if place < 0:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (place, length, index))
        return (heap[0][0], self._marks[heap[0][2]]) if heap else None


def first_opener(text: str, start: int = 0) -> int:
    """Return the earliest place that is, or with more text may become, an opener; -1 if none.

    Text before that place can be shown while a reply is still being streamed.
    """
    places = [place for stem in _STEMS if (place := text.find(stem, start)) >= 0]
    marked = text.find(DSML, start)
    if marked >= 0:
        places.append(max(start, text.rfind("<", start, marked)))
    longest = max(map(len, _STEMS))
    for at in range(max(start, len(text) - longest), len(text)):
        tail = text[at:]
        bare = tail[1:].strip(BARS + " ")
        if any(stem.startswith(tail) for stem in _STEMS) or (
            tail[0] == "<" and tail[1:2] in (*BARS, " ") and DSML.startswith(bare)
        ):
            places.append(at)
            break
    return min(places, default=-1)


def closer_at(source: Source, at: int) -> int:
    """Return the end of the closing mark that stands here, or -1."""
    text = source.text
    if text.startswith(CLOSERS, at) or (
        text.startswith("</", at) and dsml_prefix(text, at) is not None
    ):
        closer = next((mark for mark in CLOSERS if text.startswith(mark, at)), "</")
        if closer[-1] in ">]":
            return at + len(closer)
        end = text.find(">", at + len(closer), at + _MAX_TAG)
        return end + 1 if end >= 0 else -1
    rest = text[at : at + _MAX_TAG]
    cut = 1 < len(rest) < _MAX_TAG and any(mark.startswith(rest) for mark in CLOSERS)
    return len(text) if cut else -1


def after_closers(source: Source, at: int) -> int:
    """Pass over all closing marks that follow, also over one that is cut off."""
    while (end := closer_at(source, source.blanks(at))) >= 0:
        at = end
    return at


def trailing_orphans(text: str) -> int:
    """Return where the closing marks begin that end a text without belonging to a call."""
    end = len(text.rstrip())
    while True:
        mark = next((mark for mark in _LAST if text.endswith(mark, 0, end)), None)
        # After a blank it is the last word of a sentence about it.
        if mark is None or text.endswith(f" {mark}", 0, end):
            return end
        end -= len(mark)
        while text[end - 1 : end].isspace():
            end -= 1


def _whole_orphans() -> Iterable[str]:
    for mark in (*CLOSERS, "</tool_call>", "</tool_calls>"):
        if mark.startswith(ORPHANS) and mark[-1] in ">]":
            yield mark


_LAST = tuple(dict.fromkeys((*_whole_orphans(), *FRAMES)))
