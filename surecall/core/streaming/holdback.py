"""Holding back what may be a mark: of a call written as text, or of reasoning inside the text.

    text so far ─► what can be shown now │ what may become a mark

Text in front of the first possible mark is free, all but the blanks at its end, which belong to
the mark if it is one. A mark that is complete holds back the rest of the reply, unless it is in
inline code; and reasoning ends where its closing mark is. The code that shows the text compares
it with the reply in the end, so a doubt costs time and never an answer.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple, Protocol, TypeAlias

from surecall.wire.assembler import ReasoningDelta, TextDelta
from surecall.wire.call_styles import TextCalls
from surecall.wire.dialects.marks import STEMS
from surecall.wire.dialects.spelling import BARS, DSML, OPENERS, STRIPPED_LEADS, THINKING
from surecall.wire.protocols.field_reader import FieldReader, Reader, Without
from surecall.wire.protocols.guided import ANSWER, BEFORE_A_STEP

Free: TypeAlias = TextDelta | ReasoningDelta
_TICK = "`"
# Nearly every mark has one of these, and plain text has few of them.
_SIGNS = "<[`=◁"
_LONGEST_CLOSER = max(map(len, THINKING.values()))
# How a line may begin that holds a call without an unmistakable mark.
_STEMS = ("{", "```", *(opener.stem for opener in OPENERS if opener.weak))
# Whatever is longer than this and still in doubt waits for the end of the reply.
_LONG = 4096
_PORTION = 512
_HEADERS = tuple(f"{lead}to=" for lead in STRIPPED_LEADS)
_MOST_MARKS = 100
# Stems that begin alike are looked for only where that is found.
_HEAD = 2
# What can follow the name of a tool, if a call without any mark begins with it.
_CALL_GOES_ON = ("(", "{", "[", "<", ":", "=")


class Filter(Protocol):
    """What lets pass what may be shown of a text that is still arriving."""

    def feed(self, piece: str) -> list[Free]:
        """Take more of the text; give what may be shown of it."""


class AnswerOnly:
    """Goes with one guided reply: of its JSON object, only the answer is shown."""

    def __init__(self) -> None:
        self._answer: Reader = FieldReader(ANSWER)
        for name in reversed(BEFORE_A_STEP):
            self._answer = Without(name, self._answer)

    def feed(self, piece: str) -> list[Free]:
        """Take more of the object; give what it adds to the answer."""
        text = self._answer.feed(piece)
        return [TextDelta(text)] if text else []


class Silent:
    """Goes with one guided reply whose answer is JSON, too: all of it is shown in the end."""

    def feed(self, piece: str) -> list[Free]:  # noqa: ARG002  # a filter's signature
        """Take more of the object; give nothing."""
        return []


class Holdback:
    """Goes with one streamed text; the settings are those of the config."""

    def __init__(
        self, mode: TextCalls, tools: Sequence[str] = (), *, strip_thinking: bool = True
    ) -> None:
        self._is_open = mode == "off" and not strip_thinking
        self._is_weak = mode == "any"
        self._find = partial(first_opener, stems=tuple(THINKING)) if mode == "off" else first_opener
        self._strips = strip_thinking
        self._tools = tools
        self._pending = ""
        self._closer = ""
        self._is_held = False
        self._has_thought = False
        self._marks = 0
        # The last character that was shown, and whether it is in inline code.
        self._last = ""
        self._in_code = 0

    def feed(self, piece: str) -> list[Free]:
        """Take more of the text; give what may be shown of it."""
        if self._is_open:
            return [TextDelta(piece)]
        free: list[Free] = []
        # In small portions: what is looked at again and again must not be long.
        for at in range(0, len(piece), _PORTION):
            if self._is_held:
                break
            self._pending += piece[at : at + _PORTION]
            while self._thought(free) if self._closer else self._free(free):
                self._marks += 1
                # Real replies do not have so many; each of them is costly.
                self._is_held = self._marks > _MOST_MARKS
        return free

    def _thought(self, free: list[Free]) -> bool:
        """Show reasoning as such; whether its end is there, and there may be more."""
        thought, closer, rest = self._pending.partition(self._closer)
        if closer:
            self._closer, self._has_thought = "", True
        else:
            # The closing mark may have begun.
            cut = max(0, len(thought) - _LONGEST_CLOSER)
            rest, thought = thought[cut:], thought[:cut]
        self._pending = rest
        if thought:
            free.append(ReasoningDelta(thought))
        return bool(closer)

    def _free(self, free: list[Free]) -> bool:
        """Show what is before the first place that may be a mark; whether to look again."""
        text = self._pending
        if self._has_thought and not self._last:
            text = text.lstrip()
        place = 0 if self._begins_header(text) else self._find(text)
        if self._is_weak:
            place = min(filter(lambda at: at >= 0, (place, self._unmarked(text))), default=-1)
        shown = (text if place < 0 else text[:place]).rstrip()
        self._pending = text[len(shown) :]
        self._show(shown, free)
        # With something after it that no mark has, a mark that was only begun is none any more.
        is_marked = place >= 0 and self._find(self._pending + "\0") >= 0
        goes_on = is_marked and self._marked(place - len(shown), free)
        self._is_held = self._is_held or len(self._pending) > _LONG
        return goes_on and not self._is_held

    def _begins_header(self, text: str) -> bool:
        """Whether a reply begins with the rest of a header that began in the prompt."""
        begun = text.lstrip()
        return not self._last and (
            begun.startswith(_HEADERS) or any(header.startswith(begun) for header in _HEADERS)
        )

    def _show(self, text: str, free: list[Free]) -> None:
        if not text:
            return
        free.append(TextDelta(text))
        self._last = text[-1]
        line = text.rpartition("\n")[2]
        ticks = line.count(_TICK) + (0 if "\n" in text else self._in_code)
        self._in_code = ticks % 2

    def _marked(self, place: int, free: list[Free]) -> bool:
        """Deal with a complete mark: in inline code, of thoughts, or perhaps of a call."""
        if place == 0 and self._in_code and self._last == _TICK:
            line, newline, _ = self._pending.partition("\n")
            inside, tick, _ = line.partition(_TICK)
            if tick:
                self._pending = self._pending[len(inside) + 1 :]
                self._show(inside + tick, free)
                return True
            if not newline:
                return False  # the code may end, or not
        opener = next((mark for mark in THINKING if self._pending.startswith(mark, place)), None)
        if opener is None or self._last or not self._strips:
            self._is_held = True
            return False
        self._pending = self._pending[place + len(opener) :]
        self._closer = THINKING[opener]
        return True

    def _unmarked(self, text: str) -> int:
        """Return where a line begins that may be a call without a mark, or -1."""
        first = len(text) - len(text.lstrip())
        first = text.rfind("\n", 0, first) + 1
        at = first if first or not self._last else text.find("\n") + 1
        while at < len(text) and (at or not self._last):
            end = text.find("\n", at)
            line = (text[at:] if end < 0 else text[at:end]).lstrip()
            if line and self._may_call(line):
                return at
            if end < 0:
                break
            at = end + 1
        return -1

    def _may_call(self, line: str) -> bool:
        if any(stem.startswith(line) or line.startswith(stem) for stem in _STEMS):
            return True
        match line[0]:
            case "[":
                inside = line[1:].lstrip()
                return inside[:1] in ("", "{") or self._may_name(inside)
            case "<":
                return self._may_name(line[1:])
            case _:
                return self._may_name(line)

    def _may_name(self, text: str) -> bool:
        """Whether a tool's name, or the beginning of one, is here, with a call after it."""
        for name in self._tools:
            rest = text[len(name) :].lstrip(" ")
            if name.startswith(text) or (
                text.startswith(name) and (not rest or rest.startswith((*_CALL_GOES_ON, ">")))
            ):
                return True
        return False


class _Stems(NamedTuple):
    """Stems in the ways in which they are looked up; trying each of them is what costs time."""

    by_head: dict[str, list[str]]
    beginnings: frozenset[str]
    endings: dict[str, tuple[str, ...]]
    signless: tuple[str, ...]
    longest: int


def first_opener(text: str, stems: tuple[str, ...] = STEMS) -> int:
    """Return the earliest place that is, or with more text may become, an opener; -1 if none.

    Text before that place can be shown while a reply is still being streamed.
    """
    known = _known(stems)
    if not _may_open(text, known):
        return -1
    near = (stem for head, group in known.by_head.items() if head in text for stem in group)
    places = [place for stem in near if (place := text.find(stem)) >= 0]
    marked = text.find(DSML)
    if marked >= 0:
        places.append(max(0, text.rfind("<", 0, marked)))
    for at in range(max(0, len(text) - known.longest), len(text)):
        tail = text[at:]
        if tail in known.beginnings or (tail[0] == "<" and _begins_dsml(tail)):
            places.append(at)
            break
    return min(places, default=-1)


def _begins_dsml(tail: str) -> bool:
    return tail[1:2] in (*BARS, " ") and DSML.startswith(tail[1:].strip(BARS + " "))


def _may_open(text: str, known: _Stems) -> bool:
    """Say quickly whether a piece of text holds an opener, or ends with the beginning of one."""
    return (
        any(sign in text for sign in _SIGNS)
        or any(stem in text for stem in known.signless)
        or text.endswith(known.endings.get(text[-1:], ()))
    )


@cache
def _known(stems: tuple[str, ...]) -> _Stems:
    by_head: dict[str, list[str]] = {}
    for stem in stems:
        by_head.setdefault(stem[:_HEAD], []).append(stem)
    begun = frozenset(stem[:length] for stem in stems for length in range(1, len(stem) + 1))
    endings: dict[str, list[str]] = {}
    for beginning in sorted(begun):
        endings.setdefault(beginning[-1], []).append(beginning)
    signless = tuple(stem for stem in (*stems, DSML) if not set(_SIGNS) & set(stem))
    by_end = {last: tuple(found) for last, found in endings.items()}
    return _Stems(by_head, begun, by_end, signless, max(map(len, stems)))
