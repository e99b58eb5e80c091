"""The engine: one scan over a text takes the calls out of it and leaves the rest alone.

    next mark ─► code opens                 passed over, up to its end
              ─► escaped, or only shown     stays text (see `segments`)
              ─► an envelope or a tag       the body chooses a grammar
              ─► reasoning begins or ends   calls inside are drafts
              ─► no call after all          stays text; `passed_over` says why

No model name is needed and no regular expression is used. Work is paid for with fuel, so it grows
with the text and never with its square.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from surecall.parsing.budget import MAX_CALLS, MAX_TEXT
from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.body import (
    LABELLED,
    closed,
    may_begin,
    only_known,
    read_behind,
    read_fence,
    read_section,
    read_tool_tag,
    read_unmarked,
    tool_named,
)
from surecall.wire.dialects.found import Found, NotACall, OutOfFuel, Recovered, Section, unread
from surecall.wire.dialects.harmony import (
    begun,
    begun_frame,
    calls_tool,
    frame_at,
    read_message,
)
from surecall.wire.dialects.marks import (
    Marks,
    after_closers,
    code_end,
    ends_closed,
    has_spare_closer,
    is_marked,
    marks_of,
    trailing_orphans,
)
from surecall.wire.dialects.pieces import Pieces, Taken, Thought
from surecall.wire.dialects.segments import DOUBTFUL, SHOWN, Segments, starts_line
from surecall.wire.dialects.source import Source
from surecall.wire.dialects.thoughts import Thoughts

_MAX_BARS = 8
# So many broken calls in a text are looked at; after that many more, the rest of it stays text.
_REFUSAL_COST = 40_000
_MARK_COST = 1_000
_ANYWHERE = "function_call:"
_GEMINI = LABELLED[0]


def recover(
    text: str, tools: Sequence[ToolSpec], *, weak: bool = False, keep_reasoning: bool = False
) -> Recovered:
    """Take the calls out of a text that a model wrote.

    Only marks that mean nothing else are believed, unless `weak`. Reasoning leaves the text as
    well, unless `keep_reasoning`.
    """
    if not is_marked(text, tools if weak else ()):
        return Recovered(text, text)
    if len(text) > MAX_TEXT:
        return unread(text, [tool.name for tool in tools])
    source = Source(text, tools)
    marks = marks_of(source.tools.specs, weak=weak)
    pieces = _Scan(source, marks, weak=weak).run()
    if pieces.thoughts and not pieces.taken and pieces.is_all_thought():
        last = pieces.thoughts[-1]
        source = Source(text[: last.stop], tools)
        pieces.adopt(_Scan(source, marks, weak=weak).run(last.inside).taken)
    return pieces.recovered(keep_reasoning=keep_reasoning)


def without_thoughts(text: str) -> Recovered:
    """Take the reasoning out of a text, and nothing else."""
    if not is_marked(text):
        return Recovered(text, text)
    if len(text) > MAX_TEXT:
        return unread(text, ())
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
        self._segments = Segments(source)
        self._line = 0
        self._followed = 0
        self._count = 0
        # Up to here the text stays as it is, to its last mark.
        self._kept = 0
        self._thoughts = Thoughts(source, self._pieces, self._segments)

    def run(self, at: int = 0, *, trimmed: bool = True) -> Pieces:
        """Go through the text until it ends, or the fuel does."""
        self._line = at
        try:
            done = read_fence(self._source) if self._weak else None
            if done:
                self._keep(done, len(self._text))
            at = self._begun(at)
            while not done and (found := self._next(at)):
                at = self._handle(*found)
        except OutOfFuel:
            rest = self._text[self._pieces.end :]
            named = next((name for name in self._source.tools.specs if name in rest), "")
            reason = "too much of the text is broken; the rest stays text"
            self._pieces.pass_over(self._pieces.end, reason, named, "whole")
        self._drop_mentions()
        self._thoughts.finish()
        if trimmed:
            self._trim()
        return self._pieces

    def _begun(self, at: int) -> int:
        """Read the rest of a harmony header that began in the prompt, if there is one."""
        begin, recipient = begun(self._source, at)
        if self._source.tools.find(recipient):
            return self._try(begin, at, lambda: read_message(self._source, begin))
        if begun_frame(self._source, begin):
            return self._frame(begin, at)
        if recipient in ("user", "self"):
            self._kept = len(self._text)
            return len(self._text)
        return at

    def _next(self, at: int) -> tuple[int, spelling.Opener | None] | None:
        """Return the next mark, or the place before it where a call without one may begin."""
        found = self._marks.after(at)
        if not self._weak:
            return found
        limit = found[0] if found else len(self._text)
        self._line = max(self._line, at)
        while (place := self._source.blanks(self._line)) < limit:
            self._line = place
            if may_begin(self._source, place):
                return place, None
            self._line = self._source.line_end(place)
        return found

    def _handle(self, place: int, opener: spelling.Opener | None) -> int:
        """Read what is here, and return where to go on."""
        self._source.pay(_MARK_COST)
        if opener is None:
            return self._unmarked(place)
        fenced = opener.kind == "wrap" and opener.stem in LABELLED
        after = code_end(self._source, place) if fenced else place + len(opener.stem)
        match opener.kind:
            case "code":
                return self._code(place)
            case "think":
                self._thoughts.begin(place, after, opener)
                return after
            case "thought" | "final":
                return self._end_thought(place, after, opener)
            case "answer":
                return self._answer(place, after, opener)
            case "frame":
                return self._frame(place, after)
            case _:
                return self._call(place, after, opener)

    def _code(self, place: int) -> int:
        self._kept = self._thoughts.limit(place, code_end(self._source, place))
        self._line = self._source.line_end(self._kept)
        self._segments.skip(place, self._kept)
        return self._kept

    def _call(self, place: int, after: int, opener: spelling.Opener) -> int:
        if self._thoughts.go_on(place):
            return after
        if opener.kind == "dsml":
            place = self._text.rfind("<", max(self._pieces.end, place - _MAX_BARS), place)
            if place < 0:
                return after
        if place and self._text[place - 1] == "\\":
            self._pieces.pass_over(place, "it is escaped")
            if self._text[place] == "<":
                self._pieces.cut(place - 1, place + 1, "&lt;")
            return after
        if reason := self._shown(place, opener):
            return self._leave(place, after, opener, reason)
        if opener.closer:
            # Without it, the rest of the line is no call without a mark either.
            self._line = self._source.line_end(place)
        return self._try(place, after, lambda: self._read(place, opener))

    def _shown(self, place: int, opener: spelling.Opener) -> str:
        """Say why what is here is not the model's own call, if so."""
        floor = self._pieces.end
        labelled = opener.stem in LABELLED and opener.stem != _GEMINI
        if labelled and self._segments.follows_words(place, floor):
            return DOUBTFUL
        return self._segments.shown(place, floor)

    def _leave(self, place: int, after: int, opener: spelling.Opener, reason: str) -> int:
        """Pass over the whole of a call that is not the model's own, or may not be."""
        try:
            found = self._read(place, opener)
            tool, after = self._known(found.calls), after_closers(self._source, found.end)
        except NotACall as refusal:
            self._followed = max(self._followed, refusal.at)
            tool = tool_named(self._source, place)
        self._source.pay(_REFUSAL_COST)
        self._pieces.pass_over(place, reason, tool if reason == DOUBTFUL else "", "own_words")
        return after

    def _try(self, place: int, after: int, read: Callable[[], Section]) -> int:
        """Take what is read; whatever is no call stays text, and is looked into."""
        try:
            return self._take(read())
        except NotACall as refusal:
            if place >= self._followed:
                tool = "" if refusal.meant else tool_named(self._source, place)
                self._pieces.pass_over(place, refusal.reason, tool, "whole")
            self._followed = max(self._followed, refusal.at)
            self._source.pay(_REFUSAL_COST)
            return after

    def _read(self, place: int, opener: spelling.Opener) -> Section:
        source, floor = self._source, self._pieces.end
        if opener.kind == "stripped":
            return read_message(source, place)
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

    def _take(self, found: Section) -> int:
        """Accept a section; one with words after it counts only if another call follows them."""
        source, text = self._source, self._text
        end = after_closers(source, found.end)
        follows = text[end : end + 2].lstrip(" ")[:1]
        # Marks that are special tokens are not part of sentences.
        plain = "|" not in text[found.body - 2 : found.body]
        other = self._weak and may_begin(source, source.blanks(end))
        if plain and end == found.end and follows.isalnum() and not other:
            self._pieces.pass_over(
                found.start, "words follow it", self._known(found.calls), "whole"
            )
            source.pay(end - found.start)
            return end
        echo = text[found.body : found.end]
        after = source.blanks(end)
        if found.row == "D3" and end > found.end and source.at(echo, after):
            end = after + len(echo)
        apart = starts_line(text, found.start) or found.start <= self._pieces.end
        self._keep(found, end, mentioned=plain and follows.isalpha() and not apart)
        return end

    def _keep(self, found: Section, end: int, *, mentioned: bool = False) -> None:
        calls = tuple(msgspec.structs.replace(call, dialect=found.row) for call in found.calls)
        self._segments.skip(found.start, end)
        closed = end > found.end or ends_closed(self._source, found)
        known = all(self._source.tools.find(call.name) for call in calls)
        # Beside a call of a tool that exists, one of none may be part of a value.
        mixed = not known and bool(self._known(calls))
        spare = mixed or has_spare_closer(self._source, found)
        self._count += len(calls)
        self._pieces.taken.append(Taken(found.start, end, calls, mentioned, closed, spare, known))
        self._line = end
        if self._count > MAX_CALLS:
            raise OutOfFuel  # no reply means so many

    def _drop_mentions(self) -> None:
        """Leave in the text what is part of its last sentence."""
        while self._pieces.taken and self._pieces.taken[-1].mentioned:
            taken = self._pieces.taken.pop()
            self._pieces.pass_over(
                taken.start, "it is part of a sentence", self._known(taken.calls), "last_words"
            )

    def _known(self, calls: Iterable[Found]) -> str:
        """Return the first tool that is called and exists; prose names many that do not."""
        known = (call.name for call in calls if self._source.tools.find(call.name))
        return next(known, "")

    def _unmarked(self, place: int) -> int:
        """Take what begins here without a mark; its own lines are not looked at again."""
        source = self._source
        try:
            found = self._read_line(place)
        except NotACall as refusal:
            if self._text[place] in "{[":
                shown = refusal.meant or refusal.reason == SHOWN
                tool = "" if shown else tool_named(source, place)
                self._pieces.pass_over(place, refusal.reason, tool, "whole")
            self._line = source.line_end(max(refusal.at, place))
            source.pay(_REFUSAL_COST // 8)
            return place
        end = self._take(found)
        following = source.past(";", end)
        if following > source.blanks(end) and may_begin(source, following):
            # Llama puts semicolons between its calls.
            self._pieces.cut(end, following)
            self._line = following
        return end

    def _read_line(self, place: int) -> Section:
        """Read what begins here, unless more follows on its line that is not the next call."""
        source = self._source
        found = read_unmarked(source, place)
        end = after_closers(source, found.end)
        more = source.blanks(end) < source.line_end(end)
        if more and end == found.end and not may_begin(source, source.past(";", end)):
            raise NotACall("more follows on its line", found.end)
        if reason := self._segments.shown(place, self._pieces.end):
            raise NotACall(reason, found.end)
        return found

    def _end_thought(self, place: int, after: int, opener: spelling.Opener) -> int:
        if self._thoughts.end(place, after, opener):
            self._line = after
            if opener.kind == "final":
                # What calls itself the final answer holds no calls, whatever it quotes.
                self._kept = after = len(self._text)
        return after

    def _answer(self, place: int, after: int, opener: spelling.Opener) -> int:
        """Pass over what is marked as the answer: it holds no calls, whatever it quotes."""
        if self._source.blanks(self._pieces.end) != place:
            return after
        stop = self._source.find(opener.closer, after)
        self._kept = stop if stop >= 0 else len(self._text)
        return self._kept

    def _frame(self, place: int, after: int) -> int:
        """Read a harmony message: a call, a thought, or words."""
        source = self._source
        frame = frame_at(source, place)
        if frame is None:
            return after
        source.pay(_REFUSAL_COST // 8)
        end = source.first(spelling.MESSAGE_ENDS, frame.body)
        end = end if end >= 0 else len(self._text)
        if reason := self._segments.shown(place, self._pieces.end):
            self._pieces.pass_over(place, reason)
            return end
        if calls_tool(source, frame):
            at = source.blanks(frame.body)
            if source.at("<atem", at):
                self._pieces.cut(place, at)
                return at
            return self._try(place, after, lambda: read_message(source, place))
        closed = after_closers(source, end)
        if frame.is_thought:
            own = frame.recipient != "self"
            self._pieces.think(Thought(place, frame.body, end, closed, own=own))
            return closed
        self._pieces.cut(place, frame.body)
        self._pieces.cut(end, closed)
        if frame.is_answer:
            # What is said to the user holds no calls, whatever it quotes.
            self._kept = end
            return closed
        return frame.body

    def _trim(self) -> None:
        """Take away the closing marks and frames that the text begins and ends with."""
        begin = self._source.blanks(0)
        frame = self._source.mark(spelling.FRAMES, begin)
        if frame:
            self._pieces.cut(begin, begin + len(frame))
        end, last = trailing_orphans(self._text), len(self._text.rstrip())
        only_refused = self._pieces.passed and not self._pieces.taken
        if self._kept <= end < last and not only_refused:
            self._pieces.cut(end, last)
