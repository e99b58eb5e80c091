"""Extracts calls from a text in one scan and leaves the other text unchanged.

    next mark ─► code opens                 skipped up to its end
              ─► escaped or quoted          stays text (see `segments`)
              ─► an envelope or a tag       the body determines the grammar
              ─► reasoning begins or ends   calls inside are drafts
              ─► not a call                 stays text; `passed_over` has the reason

No model name is needed and no regular expression is used. Fuel limits the work to linear time.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from surecall.parsing.budget import MAX_CALLS, MAX_TEXT
from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.call_bodies import (
    LABELED_FENCES,
    guess_tool_name,
    may_begin_call,
    parse_call_behind_name,
    parse_fenced_reply,
    parse_section,
    parse_tool_tag,
    parse_unmarked,
    require_closer,
    require_known_tools,
)
from surecall.wire.dialects.call_values import has_swallowed_key
from surecall.wire.dialects.marks import (
    MarkScanner,
    code_end,
    ends_with_closer,
    has_spare_closer,
    marks_to_find,
    may_hold_calls,
    skip_closers,
    trailing_orphans_start,
)
from surecall.wire.dialects.named_calls import (
    harmony_header_at,
    is_addressed_to_tool,
    parse_harmony_call,
    partial_header_at,
    starts_mid_header,
)
from surecall.wire.dialects.segments import (
    POSSIBLY_QUOTED,
    QUOTED,
    Extraction,
    QuotationTracker,
    ReasoningBlock,
    ReasoningTracker,
    TakenSection,
    starts_line,
)
from surecall.wire.dialects.text_source import (
    CallSection,
    NotACall,
    OutOfFuel,
    RecoveredCall,
    RecoveredText,
    TextSource,
    tool_shape,
    unsearched_text,
)

_MAX_BARS = 8
_CALL_ENDS = ("}", "]", ")", ">")
_REASONING_END = "</think>"
_PLAIN_OPENERS = ("<tool_call>", "<function_call>", "<tool_calls>", "<|tool_call>")
_NOT_VISIBLE = frozenset("\u200b\u200c\u200d\u2060\ufeff")
_MAX_CLOSER = 64
# Fuel for each rejected call: a text with too many of them is not scanned to its end.
_REFUSAL_COST = 40_000
_MARK_COST = 1_000
_INLINE_OPENER = "function_call:"
_GEMINI_FENCE = LABELED_FENCES[0]


def recover(
    text: str, tools: Sequence[ToolSpec], *, weak: bool = False, keep_reasoning: bool = False
) -> RecoveredText:
    """Extract the calls from a text that a model wrote.

    Marks that also occur in prose count only if `weak`. Reasoning is removed from the text unless
    `keep_reasoning`.
    """
    if not may_hold_calls(text, tools if weak else ()):
        return RecoveredText(text, text)
    if len(text) > MAX_TEXT:
        return unsearched_text(text, [tool.name for tool in tools])
    text = _with_call_behind_reasoning(text)
    found = _recover(text, tools, weak=weak, keep_reasoning=keep_reasoning)
    is_whole = bool(found.calls) and not any(call.truncated for call in found.calls)
    if is_whole or (clean := _with_clean_closers(text)) == text:
        return found
    repaired = _recover(clean, tools, weak=weak, keep_reasoning=keep_reasoning)
    return repaired if repaired.calls else found


def _with_call_behind_reasoning(text: str) -> str:
    """Move a mark that opens a call behind the end of reasoning, if nothing is between them."""
    at = text.find(_REASONING_END)
    before = text[: max(at, 0)].rstrip()
    opener = next((mark for mark in _PLAIN_OPENERS if before.endswith(mark)), "")
    if not opener:
        return text
    after = text[at + len(_REASONING_END) :]
    return f"{before.removesuffix(opener)}{_REASONING_END}{opener}{after}"


def _with_clean_closers(text: str) -> str:
    """Remove invisible characters from closing tags."""
    if _NOT_VISIBLE.isdisjoint(text):
        return text
    for mark in _NOT_VISIBLE:
        text = text.replace(f"<{mark}/", "</").replace(f"</{mark}", "</")
    pieces = text.split("</")
    for number, piece in enumerate(pieces[1:], 1):
        name, ended, rest = piece.partition(">")
        if ended and len(name) <= _MAX_CLOSER and not _NOT_VISIBLE.isdisjoint(name):
            pieces[number] = "".join(mark for mark in name if mark not in _NOT_VISIBLE) + ">" + rest
    return "</".join(pieces)


def _recover(
    text: str, tools: Sequence[ToolSpec], *, weak: bool, keep_reasoning: bool
) -> RecoveredText:
    source = TextSource(text, tools)
    marks = marks_to_find(source.tools.specs, weak=weak)
    pieces = _RecoveryScan(source, marks, weak=weak).run()
    if pieces.reasoning_blocks and not pieces.sections and pieces.is_all_reasoning():
        last = pieces.reasoning_blocks[-1]
        source = TextSource(text[: last.stop], tools)
        pieces.adopt_drafts(_RecoveryScan(source, marks, weak=weak).run(last.inside).sections)
    else:
        _claim_last_draft(pieces, source, marks)
    return pieces.build_result(keep_reasoning=keep_reasoning)


def _claim_last_draft(
    pieces: Extraction, source: TextSource, marks: Sequence[spelling.Opener]
) -> None:
    """Record a call that ends the reasoning of a reply whose text has none."""
    last = pieces.reasoning_blocks[-1] if pieces.reasoning_blocks else None
    if last is None or pieces.sections or pieces.has_recipient or not last.may_hold_call:
        return
    thought = source.text[last.inside : last.stop].rstrip()
    if thought.endswith(_CALL_ENDS) and may_hold_calls(thought):
        inner = TextSource(source.text[: last.stop], [*source.tools.specs.values()])
        pieces.claim_drafts(_RecoveryScan(inner, marks, weak=False).run(last.inside).sections)


def extract_reasoning(text: str) -> RecoveredText:
    """Extract only the reasoning from a text."""
    if not may_hold_calls(text):
        return RecoveredText(text, text)
    if len(text) > MAX_TEXT:
        return unsearched_text(text, ())
    pieces = _RecoveryScan(TextSource(text, ()), spelling.REASONING_MARKS, weak=False).run(
        trim=False
    )
    return pieces.build_result(keep_reasoning=False)


class _RecoveryScan:
    """One pass over a text from left to right."""

    def __init__(self, source: TextSource, marks: Iterable[spelling.Opener], *, weak: bool) -> None:
        self._source = source
        self._text = source.text
        self._weak = weak
        self._marks = MarkScanner(source.text, marks)
        self._pieces = Extraction(source.text)
        self._segments = QuotationTracker(source)
        self._next_line = 0
        self._parsed_until = 0
        self._call_count = 0
        # Up to here the text is unchanged, including its trailing marks.
        self._protected_end = 0
        self._reasoning = ReasoningTracker(source, self._pieces, self._segments)

    def run(self, at: int = 0, *, trim: bool = True) -> Extraction:
        """Scan until the text or the fuel ends."""
        self._next_line = at
        try:
            done = parse_fenced_reply(self._source) if self._weak else None
            if done:
                self._record_section(done, len(self._text))
            at = self._handle_partial_header(at)
            while not done and (found := self._next_mark(at)):
                at = self._handle_mark(*found)
        except OutOfFuel:
            rest = self._text[self._pieces.end :]
            named = next((name for name in self._source.tools.specs if name in rest), "")
            reason = "the text has too many malformed calls; the rest is not scanned"
            self._pieces.record_skipped(self._pieces.end, reason, named, "whole")
        self._drop_mentions()
        self._reasoning.finish()
        if trim:
            self._trim_edges()
        return self._pieces

    def _handle_partial_header(self, at: int) -> int:
        """Parse the rest of a harmony header that began in the prompt, if there is one."""
        begin, recipient = partial_header_at(self._source, at)
        if self._source.tools.find(recipient):
            return self._try_call(begin, at, lambda: parse_harmony_call(self._source, begin))
        if starts_mid_header(self._source, begin):
            return self._handle_harmony_message(begin, at)
        if recipient in ("user", "self"):
            self._pieces.has_recipient = True
            self._protected_end = len(self._text)
            return len(self._text)
        return at

    def _next_mark(self, at: int) -> tuple[int, spelling.Opener | None] | None:
        """Return the next mark, or an earlier place where an unmarked call may begin."""
        found = self._marks.next_mark(at)
        if not self._weak:
            return found
        limit = found[0] if found else len(self._text)
        self._next_line = max(self._next_line, at)
        while (place := self._source.skip_blanks(self._next_line)) < limit:
            self._next_line = place
            if may_begin_call(self._source, place):
                return place, None
            self._next_line = self._source.line_end(place)
        return found

    def _handle_mark(self, place: int, opener: spelling.Opener | None) -> int:
        """Handle the mark at `place` and return where to continue."""
        self._source.spend_fuel(_MARK_COST)
        if opener is None:
            return self._handle_unmarked(place)
        fenced = opener.kind == "wrap" and opener.stem in LABELED_FENCES
        after = code_end(self._source, place) if fenced else place + len(opener.stem)
        match opener.kind:
            case "code":
                return self._skip_code(place)
            case "think":
                self._reasoning.begin(place, after, opener)
                return after
            case "thought" | "final":
                return self._end_reasoning(place, after, opener)
            case "answer":
                return self._skip_answer(place, after, opener)
            case "frame":
                return self._handle_harmony_message(place, after)
            case _:
                return self._handle_call(place, after, opener)

    def _skip_code(self, place: int) -> int:
        """Skip the code that begins at `place`; return its end."""
        self._protected_end = self._reasoning.code_limit(place, code_end(self._source, place))
        self._next_line = self._source.line_end(self._protected_end)
        self._segments.skip(place, self._protected_end)
        return self._protected_end

    def _handle_call(self, place: int, after: int, opener: spelling.Opener) -> int:
        """Handle a mark that may begin a call; return where to continue."""
        if self._reasoning.is_open_at(place):
            return after
        if opener.kind == "dsml":
            place = self._text.rfind("<", max(self._pieces.end, place - _MAX_BARS), place)
            if place < 0:
                return after
        if place and self._text[place - 1] == "\\":
            self._pieces.record_skipped(place, "it is escaped")
            if self._text[place] == "<":
                self._pieces.remove(place - 1, place + 1, "&lt;")
            return after
        if reason := self._quotation_reason(place, opener):
            return self._skip_call(place, after, opener, reason)
        if opener.required_closer:
            # If it fails, the rest of the line is not an unmarked call either.
            self._next_line = self._source.line_end(place)
        return self._try_call(place, after, lambda: self._parse_call(place, opener))

    def _quotation_reason(self, place: int, opener: spelling.Opener) -> str:
        """Return why a call is or may be a quotation; empty if it is not."""
        floor = self._pieces.end
        labelled = opener.stem in LABELED_FENCES and opener.stem != _GEMINI_FENCE
        if labelled and self._segments.follows_text(place, floor):
            return POSSIBLY_QUOTED
        return self._segments.quotation_reason(place, floor)

    def _skip_call(self, place: int, after: int, opener: spelling.Opener, reason: str) -> int:
        """Skip a call that is or may be a quotation."""
        try:
            found = self._parse_call(place, opener)
            tool, after = self._first_known_tool(found.calls), skip_closers(self._source, found.end)
        except NotACall as refusal:
            self._parsed_until = max(self._parsed_until, refusal.at)
            tool = guess_tool_name(self._source, place)
        self._source.spend_fuel(_REFUSAL_COST)
        self._pieces.record_skipped(
            place, reason, tool if reason == POSSIBLY_QUOTED else "", "own_words"
        )
        return after

    def _try_call(self, place: int, after: int, read: Callable[[], CallSection]) -> int:
        """Parse and accept a call; if there is none, continue inside the text."""
        try:
            return self._accept_section(read())
        except NotACall as refusal:
            if place >= self._parsed_until:
                known = refusal.tool or guess_tool_name(self._source, place)
                tool = "" if refusal.has_other_meaning else known
                self._pieces.record_skipped(place, refusal.reason, tool, "whole")
            self._parsed_until = max(self._parsed_until, refusal.at)
            self._source.spend_fuel(_REFUSAL_COST)
            return after

    def _parse_call(self, place: int, opener: spelling.Opener) -> CallSection:
        """Parse the call of a mark; raise `NotACall` if there is none."""
        source, floor = self._source, self._pieces.end
        if opener.kind == "stripped":
            return parse_harmony_call(source, place)
        if opener.kind == "back":
            return parse_call_behind_name(source, place, opener, floor)
        if opener.weak and opener.stem != _INLINE_OPENER and not starts_line(self._text, place):
            raise NotACall("it is not at the start of a line", place)
        if opener.kind == "tool":
            return parse_tool_tag(source, place, opener.stem[1:-1])
        try:
            found = parse_section(source, place)
        except NotACall:
            if opener.row != "A7":
                raise
            return parse_call_behind_name(source, place, opener, floor)
        if opener.required_closer:
            return require_closer(source, found, opener.required_closer)
        return require_known_tools(source, found) if opener.weak else found

    def _accept_section(self, found: CallSection) -> int:
        """Accept a section, unless words follow it directly or it swallowed a parameter."""
        source, text = self._source, self._text
        if swallowing := next(filter(self._has_swallowed_key, found.calls), None):
            reason = "a value may contain another parameter"
            self._pieces.record_skipped(found.start, reason, swallowing.name, "whole")
            return found.end
        end = skip_closers(source, found.end)
        follows = text[end : end + 2].lstrip(" ")[:1]
        # Special tokens do not occur in sentences.
        plain = "|" not in text[found.body_start - 2 : found.body_start]
        other = self._weak and may_begin_call(source, source.skip_blanks(end))
        if plain and end == found.end and follows.isalnum() and not other:
            self._pieces.record_skipped(
                found.start, "words follow it", self._first_known_tool(found.calls), "whole"
            )
            source.spend_fuel(end - found.start)
            return end
        echo = text[found.body_start : found.end]
        after = source.skip_blanks(end)
        if found.row == "D3" and end > found.end and source.starts_with(echo, after):
            end = after + len(echo)
        apart = starts_line(text, found.start) or found.start <= self._pieces.end
        self._record_section(found, end, mentioned=plain and follows.isalpha() and not apart)
        return end

    def _has_swallowed_key(self, call: RecoveredCall) -> bool:
        """Whether a value may contain a parameter that the call lacks."""
        if not call.value_ends or not isinstance(call.arguments, dict):
            return False
        shape = tool_shape(self._source.tools.find(call.name))
        missing = shape.properties.keys() - call.arguments.keys()
        self._source.spend_fuel((call.end - call.start) * len(missing))
        return has_swallowed_key(call.arguments, missing, call.value_ends)

    def _record_section(self, found: CallSection, end: int, *, mentioned: bool = False) -> None:
        """Record the calls of a section; `end` is after the closing marks that follow it."""
        calls = tuple(msgspec.structs.replace(call, dialect=found.row) for call in found.calls)
        self._segments.skip(found.start, end)
        closed = end > found.end or ends_with_closer(self._source, found)
        known = all(self._source.tools.find(call.name) for call in calls)
        # A call of an unknown tool beside one of a known tool may be part of a value.
        mixed = not known and bool(self._first_known_tool(calls))
        spare = mixed or has_spare_closer(self._source, found)
        self._call_count += len(calls)
        if closed and self._pieces.repeats_unclosed(found.start, calls):
            # The model began the same call again, so it is meant once.
            self._pieces.sections.pop()
        self._pieces.sections.append(
            TakenSection(found.start, end, calls, mentioned, closed, spare, known)
        )
        self._next_line = end
        if self._call_count > MAX_CALLS:
            raise OutOfFuel  # too many to be intended

    def _drop_mentions(self) -> None:
        """Leave calls in the text that are part of its last sentence."""
        while self._pieces.sections and self._pieces.sections[-1].is_mentioned:
            taken = self._pieces.sections.pop()
            self._pieces.record_skipped(
                taken.start,
                "it is part of a sentence",
                self._first_known_tool(taken.calls),
                "last_words",
            )

    def _first_known_tool(self, calls: Iterable[RecoveredCall]) -> str:
        """Return the first known tool that is called, or an empty string."""
        known = (call.name for call in calls if self._source.tools.find(call.name))
        return next(known, "")

    def _handle_unmarked(self, place: int) -> int:
        """Handle a call that may begin here without a mark."""
        source = self._source
        try:
            found = self._parse_unmarked_line(place)
        except NotACall as refusal:
            if self._text[place] in "{[":
                is_quoted = refusal.has_other_meaning or refusal.reason == QUOTED
                tool = "" if is_quoted else guess_tool_name(source, place)
                self._pieces.record_skipped(place, refusal.reason, tool, "whole")
            self._next_line = source.line_end(max(refusal.at, place))
            source.spend_fuel(_REFUSAL_COST // 8)
            return place
        end = self._accept_section(found)
        following = source.skip_chars(";", end)
        if following > source.skip_blanks(end) and may_begin_call(source, following):
            # Llama separates calls with semicolons.
            self._pieces.remove(end, following)
            self._next_line = following
        return end

    def _parse_unmarked_line(self, place: int) -> CallSection:
        """Parse an unmarked call that only other calls follow on its line."""
        source = self._source
        found = parse_unmarked(source, place)
        end = skip_closers(source, found.end)
        more = source.skip_blanks(end) < source.line_end(end)
        if more and end == found.end and not may_begin_call(source, source.skip_chars(";", end)):
            raise NotACall("other text follows on its line", found.end)
        if reason := self._segments.quotation_reason(place, self._pieces.end):
            raise NotACall(reason, found.end)
        return found

    def _end_reasoning(self, place: int, after: int, opener: spelling.Opener) -> int:
        """Handle a mark that may end reasoning; return where to continue."""
        if self._reasoning.end(place, after, opener):
            self._next_line = after
            if opener.kind == "final":
                # The final answer contains no calls, only quotations.
                self._pieces.has_recipient = True
                self._protected_end = after = len(self._text)
        return after

    def _skip_answer(self, place: int, after: int, opener: spelling.Opener) -> int:
        """Skip what is marked as the answer: it contains no calls, only quotations."""
        if self._source.skip_blanks(self._pieces.end) != place:
            return after
        self._pieces.has_recipient = True
        stop = self._source.find(opener.required_closer, after)
        self._protected_end = stop if stop >= 0 else len(self._text)
        return self._protected_end

    def _handle_harmony_message(self, place: int, after: int) -> int:
        """Handle a harmony message: a call, reasoning, or text."""
        source = self._source
        frame = harmony_header_at(source, place)
        if frame is None:
            return after
        source.spend_fuel(_REFUSAL_COST // 8)
        end = source.find_first(spelling.MESSAGE_ENDS, frame.body_start)
        end = end if end >= 0 else len(self._text)
        if reason := self._segments.quotation_reason(place, self._pieces.end):
            self._pieces.record_skipped(place, reason)
            return end
        if is_addressed_to_tool(source, frame):
            at = source.skip_blanks(frame.body_start)
            if source.starts_with("<atem", at):
                self._pieces.remove(place, at)
                return at
            return self._try_call(place, after, lambda: parse_harmony_call(source, place))
        header, body = source.text[place : frame.body_start], source.text[frame.body_start : end]
        named = next((name for name in source.tools.specs if name in header), "")
        if named and body.lstrip().startswith("{"):
            self._pieces.record_skipped(place, "it has no recipient", named, "whole")
        closed = skip_closers(source, end)
        if frame.is_reasoning:
            own = frame.recipient != "self"
            self._pieces.has_recipient = self._pieces.has_recipient or not own
            self._pieces.add_reasoning(
                ReasoningBlock(place, frame.body_start, end, closed, may_hold_call=own)
            )
            return closed
        self._pieces.remove(place, frame.body_start)
        self._pieces.remove(end, closed)
        if frame.is_answer:
            # A message to the user contains no calls, only quotations.
            self._pieces.has_recipient = True
            self._protected_end = end
            return closed
        return frame.body_start

    def _trim_edges(self) -> None:
        """Remove frames and closing marks at the edges of the text."""
        begin = self._source.skip_blanks(0)
        frame = self._source.mark_at(spelling.ANSWER_FRAMES, begin)
        if frame:
            self._pieces.remove(begin, begin + len(frame))
        end, last = trailing_orphans_start(self._text), len(self._text.rstrip())
        only_refused = self._pieces.skipped and not self._pieces.sections
        if self._protected_end <= end < last and not only_refused:
            self._pieces.remove(end, last)
