"""Holding back what may be a mark: of a call written as text, or of reasoning inside the text.

    text so far ─► what can be shown now │ what may become a mark

Text in front of the first possible mark is free, all but the blanks at its end, which belong to
the mark if it is one. A mark that is complete holds back the rest of the reply, unless it stands
in inline code; and reasoning ends where its closing mark stands. Whoever shows the text compares
it with the reply in the end, so a doubt costs time and never an answer.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias

from surecall.dialects import first_opener
from surecall.dialects.spelling import OPENERS, THINKING
from surecall.stream import ReasoningDelta, TextDelta
from surecall.textcalls import TextCalls

Free: TypeAlias = TextDelta | ReasoningDelta
_TICK = "`"
_LONGEST_CLOSER = max(map(len, THINKING.values()))
# How a line may begin that holds a call without an unmistakable mark.
_STEMS = ("{", "```", *(opener.stem for opener in OPENERS if opener.weak))
# Whatever is longer than this and still in doubt waits for the end of the reply.
_LONG = 4096
# What can follow the name of a tool, if a call without any mark begins with it.
_CALL_GOES_ON = ("(", "{", "[", "<", ":", "=")


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
        # The last character that was shown.
        self._last = ""

    def feed(self, piece: str) -> Iterator[Free]:
        """Take more of the text; give what may be shown of it."""
        if self._is_open:
            yield TextDelta(piece)
        elif not self._is_held:
            self._pending += piece
            yield from self._thought() if self._closer else self._free()

    def _thought(self) -> Iterator[Free]:
        """Show reasoning as such, up to its end."""
        thought, closer, rest = self._pending.partition(self._closer)
        if closer:
            self._closer = ""
        else:
            # The closing mark may have begun.
            cut = max(0, len(thought) - _LONGEST_CLOSER)
            rest, thought = thought[cut:], thought[:cut]
        self._pending = rest
        if thought:
            yield ReasoningDelta(thought)
        if closer:
            self._has_thought = True
            yield from self._free()

    def _free(self) -> Iterator[Free]:
        """Show what stands before the first place that may be a mark."""
        text = self._pending
        if self._has_thought and not self._last:
            text = text.lstrip()
        place = self._find(text)
        if self._is_weak:
            place = min(filter(lambda at: at >= 0, (place, self._unmarked(text))), default=-1)
        free = (text if place < 0 else text[:place]).rstrip()
        self._pending = text[len(free) :]
        if free:
            self._last = free[-1]
            yield TextDelta(free)
        # With something after it that no mark has, a mark that was only begun is none any more.
        if place >= 0 and self._find(self._pending + "\0") >= 0:
            yield from self._marked(place - len(free))
        self._is_held = self._is_held or len(self._pending) > _LONG

    def _marked(self, place: int) -> Iterator[Free]:
        """Deal with a mark that is complete: in inline code, of thoughts, or perhaps of a call."""
        if (place == 0 and self._last == _TICK) and (code := self._code()) is not None:
            yield from code
            return
        opener = next((mark for mark in THINKING if self._pending.startswith(mark, place)), None)
        if opener is None or self._last or not self._strips:
            self._is_held = True
            return
        self._pending = self._pending[place + len(opener) :]
        self._closer = THINKING[opener]
        yield from self._thought()

    def _code(self) -> Iterator[Free] | None:
        """Show inline code that begins here, or wait for its end; None if it has none."""
        line, newline, _ = self._pending.partition("\n")
        inside, tick, _ = line.partition(_TICK)
        if not tick:
            return None if newline else iter(())
        self._pending = self._pending[len(inside) + 1 :]
        self._last = _TICK
        return itertools.chain([TextDelta(inside + tick)], self._free())

    def _unmarked(self, text: str) -> int:
        """Return where a line begins that may be a call without a mark, or -1."""
        at = 0 if not self._last else text.find("\n") + 1
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
        """Whether a tool's name, or the beginning of one, stands here, with a call after it."""
        for name in self._tools:
            rest = text[len(name) :].lstrip(" ")
            if name.startswith(text) or (
                text.startswith(name) and (not rest or rest.startswith((*_CALL_GOES_ON, ">")))
            ):
                return True
        return False
