"""The engine: one scan over a text takes the calls out of it and leaves the rest alone.

    next opener ─► in code, quoted, escaped?   stays text
                ─► an envelope or a tag        the body chooses a grammar
                ─► reasoning begins or ends    calls inside are drafts
                ─► no call after all           stays text; `passed_over` says why

No model name is needed and no regular expression is used. Work is paid for with fuel, so it grows
with the text and never with its square.
"""

from collections.abc import Callable, Sequence

from surecall.dialects.behind import read_behind
from surecall.dialects.body import read_section
from surecall.dialects.code import FENCE, Code, fence_end, is_quoted, starts_line
from surecall.dialects.found import (
    Draft,
    Found,
    NotACall,
    OutOfFuel,
    PassedOver,
    Recovered,
    Section,
)
from surecall.dialects.harmony import is_tool, read_frame, read_message, read_stripped
from surecall.dialects.openers import Openers, after_closers, is_marked, trailing_orphans
from surecall.dialects.source import Source
from surecall.dialects.spelling import FRAMES, THINKING, Opener
from surecall.dialects.thoughts import Pieces
from surecall.dialects.weak import may_begin, read_tool_tag, read_unmarked, section
from surecall.types import ToolSpec

_SNIPPET = 60
# So many broken calls in a text are looked at; after that many more, the rest of it stays text.
_REFUSAL_COST = 20_000
_ANYWHERE = "function_call:"
_STRIPPED_START = "analysis"


def recover(
    text: str, tools: Sequence[ToolSpec], *, weak: bool = False, keep_reasoning: bool = False
) -> Recovered:
    """Take the calls out of a text that a model wrote.

    Only marks that mean nothing else are believed, unless `weak`. Reasoning leaves the text as
    well, unless `keep_reasoning`.
    """
    if not is_marked(text, tools if weak else ()):
        return Recovered(text)
    scan = _Scan(text, tools, weak=weak)
    scan.run()
    return scan.pieces.recovered(keep_reasoning=keep_reasoning)


class _Scan:
    """One pass from left to right."""

    def __init__(self, text: str, tools: Sequence[ToolSpec], *, weak: bool) -> None:
        self.pieces = Pieces(text)
        self._source = Source(text, tools)
        self._text = text
        self._weak = weak
        self._code = Code(text)
        self._openers = Openers(self._source, weak=weak)
        self._line = 0
        self._followed = 0
        self._handlers: dict[str, Callable[[int, Opener], int]] = {
            "think": self._think,
            "thought": self._thought,
            "final": self._final,
            "frame": self._frame,
        }

    def run(self) -> None:
        """Go through the text until it ends, or the fuel does."""
        try:
            if not (self._weak and self._fenced_whole()):
                self._run()
        except OutOfFuel:
            self._pass_over(self.pieces.end, "too much of the text is broken; the rest stays text")
        self._trim()

    def _run(self) -> None:
        at = 0
        while True:
            place, opener = self._openers.after(at) or (len(self._text), None)
            line = self._next_line(at, place)
            if line is not None:
                place, opener = line, None
            elif opener is None:
                return
            hidden = self._code.end_around(place)
            if hidden is not None:
                at = max(hidden, place + 1)
            else:
                at = self._handle(place, opener) if opener else self._unmarked(place)

    def _next_line(self, at: int, limit: int) -> int | None:
        """Return the next place before `limit` where a call without a mark may begin."""
        self._line = max(self._line, at) if self._weak else limit
        while self._line < limit:
            place = self._source.blanks(self._line)
            if place >= limit:
                break
            self._line = place
            if may_begin(self._source, place):
                return place
            self._line = self._end_of_line(place)
        return None

    def _handle(self, place: int, opener: Opener) -> int:
        after = place + len(opener.stem)
        special = self._handlers.get(opener.kind)
        if special is not None:
            return special(place, opener)
        if opener.kind == "dsml":
            place = max(self._text.rfind("<", max(0, place - 8), place), 0)
        if self._text[place - 1 : place] == "\\" and place:
            self._escape(place)
            return after
        if is_quoted(self._text, place):
            self._pass_over(place, "it is quoted")
            return after
        return self._try(place, after, lambda: self._read(place, opener))

    def _escape(self, place: int) -> None:
        """Show an escaped tag as what it means."""
        self._pass_over(place, "it is escaped")
        if self._text[place] == "<":
            self.pieces.cut(place - 1, place + 1, "&lt;")

    def _try(self, place: int, after: int, read: Callable[[], Section]) -> int:
        """Take what is read; whatever is no call stays text, and is looked into."""
        try:
            found = read()
            return self._take(place, found)
        except NotACall as refusal:
            if place >= self._followed:
                self._pass_over(place, refusal.reason)
            self._followed = max(self._followed, refusal.at)
            self._source.pay(_REFUSAL_COST)
            return after

    def _read(self, place: int, opener: Opener) -> Section:
        source, floor = self._source, self.pieces.end
        if opener.kind == "stripped":
            return read_stripped(source, place, floor)
        if opener.kind == "back":
            return read_behind(source, place, opener, floor)
        if opener.weak and opener.stem != _ANYWHERE and not starts_line(self._text, place):
            raise NotACall("it does not begin a line", place)
        if opener.kind == "tool":
            return read_tool_tag(source, place, opener.stem[1:-1])
        try:
            found = read_section(source, place)
        except NotACall:
            if opener.row != "A7":
                raise
            return read_behind(source, place, opener, floor)
        if opener.weak:
            return section(source, found.row, list(found.calls), found.end, found.body)
        return found

    def _take(self, place: int, found: Section) -> int:
        """Accept a section unless it is part of a sentence, or a draft that swallows more."""
        start = found.start if found.start >= 0 else place
        end = after_closers(self._source, found.end)
        if self._swallows_thought_end(place, found):
            raise NotACall("the reasoning ends in the middle of it", place)
        if self._plain(found) and self._is_mentioned(start, found.end, end):
            self._pass_over(start, "it is part of a sentence")
            self._source.pay(end - start)
            self._code.jump(end)
            return end
        end = self._after_echo(found, end)
        self.pieces.take(start, end, tuple(_found(call, found.row) for call in found.calls))
        self._code.jump(end)
        self._line = end
        return end

    def _plain(self, found: Section) -> bool:
        return found.plain or "|" not in self._text[found.body - 2 : found.body]

    def _is_mentioned(self, start: int, stop: int, end: int) -> bool:
        """Whether words go on around it on the same line."""
        text = self._text
        inside = text[stop : stop + 2].lstrip(" ")
        if end == stop and inside[:1].isalnum():
            return not (self._weak and may_begin(self._source, self._source.blanks(end)))
        after = text[end : end + 2].lstrip(" ")
        return after[:1].isalpha() and not starts_line(text, start) and start > self.pieces.end

    def _swallows_thought_end(self, place: int, found: Section) -> bool:
        if not self.pieces.thinking or not found.calls[-1].truncated:
            return False
        return self._source.first(THINKING.values(), place) >= 0

    def _after_echo(self, found: Section, end: int) -> int:
        """Pass over the same calls written once more after their closing mark."""
        echo = self._text[found.body : found.end]
        after = self._source.blanks(end)
        if found.row == "D3" and end > found.end and self._text.startswith(echo, after):
            return after + len(echo)
        return end

    def _unmarked(self, place: int) -> int:
        """Take what begins here without a mark; its own lines are not looked at again."""
        try:
            return self._take(place, self._ending_line(read_unmarked(self._source, place)))
        except NotACall as refusal:
            if self._text[place] in "{[":
                self._pass_over(place, refusal.reason)
            self._line = self._end_of_line(max(refusal.at, place))
            self._source.pay(_REFUSAL_COST)
            return place

    def _ending_line(self, found: Section) -> Section:
        """Refuse what is followed by more on its line; the next call may be."""
        end = after_closers(self._source, found.end)
        rest = self._text[end : self._end_of_line(end)].strip()
        if rest and end == found.end and not may_begin(self._source, self._source.blanks(end)):
            raise NotACall("more follows on its line", found.end)
        return found

    def _end_of_line(self, at: int) -> int:
        found = self._source.find("\n", at)
        return found + 1 if found >= 0 else len(self._text)

    def _fenced_whole(self) -> bool:
        """Read a code block that is the whole reply, if it holds a call without a mark."""
        text = self._text.strip()
        label = text.partition("\n")[0]
        if not text.startswith(FENCE) or fence_end(text, 0, len(FENCE)) < len(text):
            return False
        begin = self._text.index(label) + len(label)
        place = self._source.blanks(begin)
        if label == f"{FENCE}tool_code" or not may_begin(self._source, place):
            return False
        try:
            found = read_unmarked(self._source, place)
        except NotACall:
            return False
        whole = self._text[found.end :].strip().strip("`") == ""
        if whole:
            calls = tuple(_found(call, found.row) for call in found.calls)
            self.pieces.take(0, len(self._text), calls)
        return whole

    def _think(self, place: int, opener: Opener) -> int:
        after = place + len(opener.stem)
        if not self.pieces.thinking:
            first = self._source.blanks(self.pieces.end) == place
            closed = self._source.find(THINKING[opener.stem], after) >= 0
            if first or (closed and starts_line(self._text, place)):
                self.pieces.open_thought(place, after)
        return after

    def _thought(self, place: int, opener: Opener) -> int:
        """End the reasoning; its beginning may have been part of the prompt."""
        after = place + len(opener.stem)
        stands_out = starts_line(self._text, place) or self._text[after : after + 1] in ("", "\n")
        if self.pieces.thinking or stands_out:
            self.pieces.close_thought(place, after)
            self._line = after
        return after

    def _final(self, place: int, opener: Opener) -> int:
        after = place + len(opener.stem)
        start = len(self._text) - len(self._text.lstrip())
        if self._text.startswith(_STRIPPED_START, start):
            self.pieces.close_thought(place, after, since=(start, start + len(_STRIPPED_START)))
        return after

    def _frame(self, place: int, opener: Opener) -> int:
        after = place + len(opener.stem)
        try:
            frame = read_frame(self._source, place)
        except NotACall:
            return after
        if is_tool(self._source, frame.recipient):
            at = self._source.blanks(frame.body)
            if self._text.startswith("<atem", at):
                self.pieces.cut(place, at)
                return at
            return self._try(place, after, lambda: read_message(self._source, frame, place))
        if frame.is_thought:
            end = after_closers(self._source, frame.end)
            self.pieces.close_thought(frame.end, end, since=(place, frame.body))
            return end
        self.pieces.cut(place, frame.body)
        self.pieces.cut(frame.end, after_closers(self._source, frame.end))
        return frame.body

    def _trim(self) -> None:
        """Take away the closing marks and frames that the text begins and ends with."""
        begin = len(self._text) - len(self._text.lstrip())
        frame = next((mark for mark in FRAMES if self._text.startswith(mark, begin)), "")
        if frame:
            self.pieces.cut(begin, begin + len(frame))
        end = trailing_orphans(self._text)
        last = len(self._text.rstrip())
        orphaned = end < last and not self.pieces.only_refused
        if orphaned and self._code.end_around(end) is None:
            self.pieces.cut(end, last)

    def _pass_over(self, place: int, reason: str) -> None:
        self.pieces.pass_over(PassedOver(place, self._text[place : place + _SNIPPET], reason))


def _found(call: Draft, row: str) -> Found:
    return Found(
        name=call.name,
        arguments=call.arguments,
        id=call.id,
        dialect=row,
        grammar=row[0],
        truncated=call.truncated,
        start=call.start,
        end=call.end,
    )
