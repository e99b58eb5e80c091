"""The engine: one scan over a text takes the calls out of it and leaves the rest alone.

    next mark ─► code opens                 passed over, up to its end
              ─► quoted, escaped?           stays text
              ─► an envelope or a tag       the body chooses a grammar
              ─► reasoning begins or ends   calls inside are drafts
              ─► no call after all          stays text; `passed_over` says why

No model name is needed and no regular expression is used. Work is paid for with fuel, so it grows
with the text and never with its square.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.body import (
    closed,
    may_begin,
    only_known,
    read_behind,
    read_section,
    read_tool_tag,
    read_unmarked,
)
from surecall.wire.dialects.found import NotACall, OutOfFuel, PassedOver, Recovered, Section
from surecall.wire.dialects.marks import (
    Marks,
    after_closers,
    code_end,
    is_marked,
    is_quoted,
    marks_of,
    starts_line,
    trailing_orphans,
)
from surecall.wire.dialects.named import read_named
from surecall.wire.dialects.pieces import Pieces, Taken, Thought
from surecall.wire.dialects.source import Source

_SNIPPET = 60
_MAX_BARS = 8
_MAX_HEADER = 400
# So many broken calls in a text are looked at; after that many more, the rest of it stays text.
_REFUSAL_COST = 20_000
_ANYWHERE = "function_call:"
_STRIPPED_START = "analysis"
_TO = "to="


def recover(
    text: str, tools: Sequence[ToolSpec], *, weak: bool = False, keep_reasoning: bool = False
) -> Recovered:
    """Take the calls out of a text that a model wrote.

    Only marks that mean nothing else are believed, unless `weak`. Reasoning leaves the text as
    well, unless `keep_reasoning`.
    """
    if not is_marked(text, tools if weak else ()):
        return Recovered(text)
    source = Source(text, tools)
    marks = marks_of(source.tools.specs, weak=weak)
    pieces = _Scan(source, marks, weak=weak).run()
    if pieces.thoughts and not pieces.taken and not pieces.rest().strip():
        last = pieces.thoughts[-1]
        source = Source(text[: last.stop], tools)
        pieces.adopt(_Scan(source, marks, weak=weak).run(last.inside).taken)
    return pieces.recovered(keep_reasoning=keep_reasoning)


def without_thoughts(text: str) -> Recovered:
    """Take the reasoning out of a text, and nothing else."""
    if not is_marked(text):
        return Recovered(text)
    pieces = _Scan(Source(text, ()), spelling.THOUGHT_MARKS, weak=False).run(trimmed=False)
    return pieces.recovered(keep_reasoning=False)


class _Scan:
    """One pass from left to right."""

    def __init__(self, source: Source, marks: Iterable[spelling.Opener], *, weak: bool) -> None:
        self._source = source
        self._text = source.text
        self._weak = weak
        self._marks = Marks(source.text, marks)
        self._pieces = Pieces(source.text)
        self._line = 0
        self._followed = 0
        self._code_end = 0
        self._thinking: spelling.Opener | None = None
        self._thought = (0, 0)

    def run(self, at: int = 0, *, trimmed: bool = True) -> Pieces:
        """Go through the text until it ends, or the fuel does."""
        self._line = at
        try:
            done = self._weak and self._fenced_whole()
            while not done and (found := self._next(at)):
                at = self._handle(*found)
        except OutOfFuel:
            self._pass_over(self._pieces.end, "too much of the text is broken; the rest stays text")
        if self._thinking:
            # A call ends the reasoning that it is in.
            start, inside = self._thought
            calls = [taken.start for taken in self._pieces.taken if taken.start >= start]
            stop = min(calls, default=len(self._text))
            self._pieces.thoughts.append(Thought(start, inside, stop, stop))
        if trimmed:
            self._trim()
        return self._pieces

    def _next(self, at: int) -> tuple[int, spelling.Opener | None] | None:
        """Return the next mark, or the place before it where a call without one may begin."""
        found = self._marks.after(at)
        limit = found[0] if found else len(self._text)
        self._line = max(self._line, at) if self._weak else limit
        while (place := self._source.blanks(self._line)) < limit:
            self._line = place
            if may_begin(self._source, place):
                return place, None
            self._line = self._source.line_end(place)
        return found

    def _handle(self, place: int, opener: spelling.Opener | None) -> int:
        """Read what is here, and return where to go on."""
        if opener is None:
            return self._unmarked(place)
        after = place + len(opener.stem)
        match opener.kind:
            case "code":
                self._code_end = code_end(self._source, place)
                self._line = self._source.line_end(self._code_end)
                return self._code_end
            case "think":
                return self._think(place, after, opener)
            case "thought" | "final":
                return self._end_thought(place, after, opener)
            case "frame":
                return self._frame(place, after)
            case _:
                return self._call(place, after, opener)

    def _call(self, place: int, after: int, opener: spelling.Opener) -> int:
        if self._is_draft(place):
            return after
        if opener.kind == "dsml":
            place = self._text.rfind("<", max(self._pieces.end, place - _MAX_BARS), place)
            if place < 0:
                return after
        if place and self._text[place - 1] == "\\":
            self._pass_over(place, "it is escaped")
            if self._text[place] == "<":
                self._pieces.cut(place - 1, place + 1, "&lt;")
            return after
        if is_quoted(self._text, place):
            self._pass_over(place, "it is quoted")
            return after
        if opener.closer:
            # Without it, the rest of the line is no call without a mark either.
            self._line = self._source.line_end(place)
        return self._try(place, after, lambda: self._read(place, opener))

    def _is_draft(self, place: int) -> bool:
        """Whether reasoning goes on here and is going to end."""
        opener = self._thinking
        return opener is not None and self._source.find(spelling.THINKING[opener.stem], place) >= 0

    def _try(self, place: int, after: int, read: Callable[[], Section]) -> int:
        """Take what is read; whatever is no call stays text, and is looked into."""
        try:
            return self._take(read())
        except NotACall as refusal:
            if place >= self._followed:
                self._pass_over(place, refusal.reason)
            self._followed = max(self._followed, refusal.at)
            self._source.pay(_REFUSAL_COST)
            return after

    def _read(self, place: int, opener: spelling.Opener) -> Section:
        source, floor = self._source, self._pieces.end
        if opener.kind == "stripped":
            return self._read_message(place)
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
        if opener.closer:
            return closed(source, found, opener.closer)
        return only_known(source, found) if opener.weak else found

    def _read_message(self, place: int) -> Section:
        """Read `to=f … {...}`, with the special tokens of a harmony message or without them."""
        call, header = read_named(self._source, self._source.find(_TO, place) + len(_TO), "B5")
        call = msgspec.structs.replace(call, start=place)
        return Section([call], "B5", place, header.end, call.end)

    def _take(self, found: Section) -> int:
        """Accept a section unless it is part of a sentence."""
        end = after_closers(self._source, found.end)
        plain = "|" not in self._text[found.body - 2 : found.body]
        if plain and self._is_mentioned(found, end):
            self._pass_over(found.start, "it is part of a sentence")
            self._source.pay(end - found.start)
            return end
        echo = self._text[found.body : found.end]
        after = self._source.blanks(end)
        if found.row == "D3" and end > found.end and self._source.at(echo, after):
            end = after + len(echo)
        self._keep(found, end)
        return end

    def _keep(self, found: Section, end: int) -> None:
        calls = (msgspec.structs.replace(call, dialect=found.row) for call in found.calls)
        self._pieces.taken.append(Taken(found.start, end, tuple(calls)))
        self._line = end

    def _is_mentioned(self, found: Section, end: int) -> bool:
        """Whether words go on around it on the same line."""
        text, stop = self._text, found.end
        if end == stop and text[stop : stop + 2].lstrip(" ")[:1].isalnum():
            return not (self._weak and may_begin(self._source, self._source.blanks(end)))
        follows = text[end : end + 2].lstrip(" ")[:1].isalpha()
        return follows and not starts_line(text, found.start) and found.start > self._pieces.end

    def _unmarked(self, place: int) -> int:
        """Take what begins here without a mark; its own lines are not looked at again."""
        source = self._source
        try:
            found = read_unmarked(source, place)
            self._check_line(found.end)
            return self._take(found)
        except NotACall as refusal:
            if self._text[place] in "{[":
                self._pass_over(place, refusal.reason)
            self._line = source.line_end(max(refusal.at, place))
            source.pay(_REFUSAL_COST)
            return place

    def _check_line(self, at: int) -> None:
        """Refuse what is followed by more on its line, unless that may be the next call."""
        source, end = self._source, after_closers(self._source, at)
        rest = self._text[end : source.line_end(end)].strip()
        if rest and end == at and not may_begin(source, source.blanks(end)):
            raise NotACall("more follows on its line", at)

    def _fenced_whole(self) -> bool:
        """Take a code block that is the whole reply, if it is a call without a mark."""
        source, begin = self._source, self._source.blanks(0)
        fence = source.mark(spelling.FENCES, begin)
        place = source.blanks(source.line_end(begin))
        labelled = source.at("```tool_code", begin)
        if not fence or labelled or not may_begin(source, place):
            return False
        try:
            found = read_unmarked(source, place)
        except NotACall:
            return False
        whole = self._text[found.end :].strip().strip(fence) == ""
        if whole:
            self._keep(Section(found.calls, found.row, 0, place, found.end), len(self._text))
        return whole

    def _think(self, place: int, after: int, opener: spelling.Opener) -> int:
        if self._thinking is None:
            first = self._source.blanks(self._pieces.end) == place
            closed = self._source.find(spelling.THINKING[opener.stem], after) >= 0
            if first or (closed and starts_line(self._text, place)):
                self._thinking, self._thought = opener, (place, after)
        return after

    def _end_thought(self, place: int, after: int, opener: spelling.Opener) -> int:
        """End the reasoning; its beginning may have been part of the prompt."""
        text, (start, inside) = self._text, self._thought if self._thinking else (0, 0)
        ends = self._thinking or starts_line(text, place) or text[after : after + 1] in ("", "\n")
        if opener.kind == "final":
            start = self._source.blanks(0)
            inside = start + len(_STRIPPED_START)
            ends = text.startswith(_STRIPPED_START, start)
        if ends:
            self._thinking = None
            self._pieces.think(Thought(start, inside, place, after))
            self._line = after
        return after

    def _frame(self, place: int, after: int) -> int:
        """Read the header of a harmony message: for whom it is, and on which channel."""
        source, text = self._source, self._text
        stop = text.find(spelling.MESSAGE, place, place + _MAX_HEADER)
        if stop < 0:
            return after
        to = text.find(_TO, place, stop)
        recipient = source.name(to + len(_TO)) if to >= 0 else ""
        body = stop + len(spelling.MESSAGE)
        if recipient and (
            source.tools.find(recipient) or recipient.partition(".")[0] not in spelling.BUILT_IN
        ):
            at = source.blanks(body)
            if source.at("<atem", at):
                self._pieces.cut(place, at)
                return at
            return self._try(place, after, lambda: self._read_message(place))
        end = source.first(spelling.MESSAGE_ENDS, body)
        end = end if end >= 0 else len(text)
        closed = after_closers(source, end)
        if "analysis" in text[place:stop] or recipient == "self":
            self._pieces.think(Thought(place, body, end, closed))
            return closed
        self._pieces.cut(place, body)
        self._pieces.cut(end, closed)
        return body

    def _trim(self) -> None:
        """Take away the closing marks and frames that the text begins and ends with."""
        begin = self._source.blanks(0)
        frame = self._source.mark(spelling.FRAMES, begin)
        if frame:
            self._pieces.cut(begin, begin + len(frame))
        end, last = trailing_orphans(self._text), len(self._text.rstrip())
        only_refused = self._pieces.passed and not self._pieces.taken
        if self._code_end <= end < last and not only_refused:
            self._pieces.cut(end, last)

    def _pass_over(self, place: int, reason: str) -> None:
        self._pieces.pass_over(PassedOver(place, self._text[place : place + _SNIPPET], reason))
