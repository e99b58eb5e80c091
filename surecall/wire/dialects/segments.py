"""Detects quotations and reasoning in a reply, and collects what is extracted from it.

Calls in quotations are left in the text:

    block quote, quotation marks, table    on the line of the call
    indented code                          an indented line after prose
    comment, `<example>`, and similar      opened before the call and closed after it
    invented transcript                    after lines with `User:` and `Assistant:`

The scan itself skips fences and inline code. If quoting is likely but not certain, the call is
ambiguous, and the model is asked about it.
"""

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import msgspec

from surecall.wire.dialects import spelling
from surecall.wire.dialects.spelling import CLOSERS
from surecall.wire.dialects.text_source import (
    BLANKS,
    RecoveredCall,
    RecoveredText,
    SkippedCandidate,
    TextSource,
    skipped_candidate,
)

QUOTED = "it is a quotation"
POSSIBLY_QUOTED = "it may be a quotation"
_LOOK_BACK = 200
_CODE_INDENT = 4
_BULLETS = "-*+•"
_QUOTE_PAIRS = (("“", "”„"), ("«", "»"), ("„", "“”"), ("「", "」"), ("『", "』"))
_INDENT = frozenset(BLANKS + ">")
_USER, _MODEL = "user", "model"
_ELEMENTS = "|".join(
    (*spelling.QUOTING_ELEMENTS, *(f"{name}s" for name in spelling.QUOTING_ELEMENTS))
)
_SPEAKER_LABEL = r"^[ \t>*_#\[<|]{0,8}"
_SIGNS = (
    rf"<(?P<opens>!--|(?:{_ELEMENTS})(?=[ >]))|(?P<closes>--|</(?:{_ELEMENTS})) ?>"
    rf"|(?P<user>{_SPEAKER_LABEL}(?:{'|'.join(spelling.USER_LABELS)})[*_]{{0,2}}[:\]>|]"
    rf"|^#{{1,4}} (?:user|human)$|{'|'.join(map(re.escape, spelling.USER_TOKENS))})"
    rf"|{_SPEAKER_LABEL}(?:{'|'.join(spelling.MODEL_LABELS)})[*_]{{0,2}}[:\]>|]"
    rf"|^#{{1,4}} (?:assistant|ai)$|{'|'.join(map(re.escape, spelling.MODEL_TOKENS))}"
)


@cache
def _sign_pattern() -> re.Pattern[str]:
    """Return the pattern of quotation marks, compiled on first use (it takes milliseconds)."""
    return re.compile(_SIGNS, re.IGNORECASE | re.MULTILINE)


class QuotationTracker:
    """Tracks quotations in one text, from left to right in one pass."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._text = source.text
        self._signs: Iterator[re.Match[str]] | None = None
        self._next: re.Match[str] | None = None
        # Open elements, and where each was opened.
        self._open_elements: dict[str, int] = {}
        self._speaker, self._label = "", 0
        self._skipped: deque[tuple[int, int]] = deque()
        # A place up to which the text was scanned, and the place of the first word after it.
        self._first_word = (-1, -1)

    def skip(self, start: int, end: int) -> None:
        """Ignore call marks in this stretch, which is code, reasoning, or a call."""
        self._skipped.append((start, end))

    def quotation_reason(self, at: int, floor: int) -> str:
        """Return why a mark at `at` is or may be quoted; the text before `floor` is ignored."""
        self._advance_to(at)
        line = line_before(self._text, at)
        line = line[max(0, len(line) - at + floor) :]
        bare = line.lstrip()
        quoted = bare.startswith(">") and not bare.startswith(">>>")
        quoted = quoted or self._text[max(0, at - 1) : at] in spelling.QUOTATION_MARKS
        if quoted or bare.startswith("|") or self._is_enclosed(at):
            return QUOTED
        wide = "\t" in line or len(line) >= _CODE_INDENT
        if wide and not line.strip() and self.follows_text(at - len(line), floor):
            return QUOTED
        if self._speaker == _MODEL:
            return QUOTED if self._text.count("\n", self._label, at) <= 1 else POSSIBLY_QUOTED
        return (
            POSSIBLY_QUOTED
            if self._is_in_block_element() or _is_list_item(bare) or _is_in_quotes(line)
            else ""
        )

    def _is_enclosed(self, at: int) -> bool:
        """Whether `at` is inside an element that is closed later."""
        closers = ("-->" if name == "--" else f"</{name}" for name in self._open_elements)
        return any(self._source.find(closer, at) >= 0 for closer in closers)

    def _is_in_block_element(self) -> bool:
        """Whether an open element began its line; other elements are placeholders in prose."""
        return any(starts_line(self._text, at) for at in self._open_elements.values())

    def follows_text(self, at: int, floor: int) -> bool:
        """Whether the text between `floor` and `at` is not blank."""
        if self._first_word[0] != floor:
            self._first_word = floor, self._source.skip_blanks(floor)
        return self._first_word[1] < at

    def _advance_to(self, at: int) -> None:
        """Apply all signs of quotations and speakers before `at`."""
        if self._signs is None:
            self._source.spend_fuel(len(self._text))
            self._signs = _sign_pattern().finditer(self._text)
            self._next = next(self._signs, None)
        while self._next is not None and self._next.end() <= at:
            while self._skipped and self._skipped[0][1] <= self._next.start():
                self._skipped.popleft()
            if not (self._skipped and self._skipped[0][0] <= self._next.start()):
                self._apply_sign(self._next)
            self._next = next(self._signs, None)

    def _apply_sign(self, sign: re.Match[str]) -> None:
        if sign["opens"]:
            self._open_elements[sign["opens"].lower().removeprefix("!")] = sign.start()
        elif sign["closes"]:
            self._open_elements.pop(sign["closes"].lower().removeprefix("</"), None)
        elif sign["user"]:
            self._speaker = _USER
        elif self._speaker:
            self._speaker, self._label = _MODEL, sign.start() + 1


def _is_list_item(line: str) -> bool:
    """Whether a line begins like a list item."""
    number = line.lstrip("0123456789")
    bullet = line[:1] in _BULLETS and line[1:2] in (" ", "\t")
    return bullet or (number != line and number[:1] in (".", ")") and number[1:2] in (" ", ""))


def _is_in_quotes(line: str) -> bool:
    """Whether a quotation on this line is still open."""
    opened = sum(line.startswith('"') + line.count(f'{before}"') for before in " (")
    return opened > line.count('"') - opened or any(
        line.count(opening) > sum(map(line.count, closing)) for opening, closing in _QUOTE_PAIRS
    )


def starts_line(text: str, at: int) -> bool:
    """Whether only blanks and `>` precede `at` on its line."""
    return _INDENT.issuperset(line_before(text, at))


def line_before(text: str, at: int) -> str:
    """Return the line up to `at`, or the end of a long one after an ellipsis."""
    floor = max(0, at - _LOOK_BACK)
    start = text.rfind("\n", floor, at) + 1
    return text[start:at] if start or not floor else f"…{text[floor:at]}"


# The calls, marks, and reasoning extracted from a text.

_MAX_PASSED_OVER = 64


class TakenSection(msgspec.Struct, frozen=True):
    """The calls of one section and their place in the text.

    If `is_mentioned`, words follow the calls on their line; if `is_closed`, a closing mark does. If
    `may_end_early`, there is an extra closing mark or a call of an unknown tool.
    """

    start: int
    end: int
    calls: tuple[RecoveredCall, ...]
    is_mentioned: bool = False
    is_closed: bool = False
    may_end_early: bool = False
    all_tools_known: bool = True


class ReasoningBlock(msgspec.Struct, frozen=True):
    """A block of reasoning: its place with marks, and its place without them."""

    start: int
    inside: int
    stop: int
    end: int
    # Whether a call at its end may be intended; not in a message from the model to itself.
    may_hold_call: bool = True


class Extraction:
    """Collects the calls, reasoning, and marks to remove from a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._removals: list[tuple[int, int, str]] = []
        self.sections: list[TakenSection] = []
        self.reasoning_blocks: list[ReasoningBlock] = []
        self.skipped: list[SkippedCandidate] = []
        self.has_recipient = False

    @property
    def end(self) -> int:
        """The end of the last extracted call or reasoning."""
        return max(
            (stretch[-1].end for stretch in (self.sections, self.reasoning_blocks) if stretch),
            default=0,
        )

    def remove(self, start: int, end: int, replacement: str = "") -> None:
        """Remove a mark from the text, or replace it."""
        self._removals.append((start, end, replacement))

    def record_skipped(self, place: int, reason: str, tool: str = "", rule: str = "") -> None:
        """Record a skipped candidate."""
        if len(self.skipped) < _MAX_PASSED_OVER:
            self.skipped.append(skipped_candidate(self._text, place, reason, tool, rule))

    def add_reasoning(self, thought: ReasoningBlock) -> None:
        """Add a block of reasoning; calls inside it were drafts and are dropped."""
        while self.reasoning_blocks and self.reasoning_blocks[-1].start >= thought.start:
            self.reasoning_blocks.pop()
        while self.sections and self.sections[-1].start >= thought.start:
            self.sections.pop()
        while self._removals and self._removals[-1][0] >= thought.start:
            self._removals.pop()
        # A malformed draft is not an ambiguous call.
        self.skipped = [
            msgspec.structs.replace(one, tool="") if one.start >= thought.start else one
            for one in self.skipped
        ]
        self.reasoning_blocks.append(thought)

    def adopt_drafts(self, drafts: list[TakenSection]) -> None:
        """Accept the calls at the end of the reasoning of a reply that has nothing else."""
        last = self.reasoning_blocks[-1]
        stop = last.stop
        for draft in reversed(drafts):
            if self._text[draft.end : stop].strip():
                break
            calls = (msgspec.structs.replace(call, in_reasoning=True) for call in draft.calls)
            self.sections.insert(0, msgspec.structs.replace(draft, calls=tuple(calls)))
            stop = draft.start
        self.reasoning_blocks[-1] = ReasoningBlock(last.start, last.inside, stop, last.end)

    def claim_drafts(self, drafts: list[TakenSection]) -> None:
        """Record the call that ends the reasoning of a reply whose text has none."""
        last = self.reasoning_blocks[-1]
        if drafts and not self._text[drafts[-1].end : last.stop].strip():
            reason = "it ends the reasoning, and text follows"
            self.record_skipped(drafts[-1].start, reason, drafts[-1].calls[-1].name, "last_words")

    def repeats_unclosed(self, start: int, calls: tuple[RecoveredCall, ...]) -> bool:
        """Whether the last section lacks its closing mark and has the same calls."""
        if not self.sections or self.sections[-1].is_closed:
            return False
        last = self.sections[-1]
        began = self._text[last.start : last.end].strip()
        same = [call.arguments for call in calls] == [call.arguments for call in last.calls]
        follows = self._text.startswith(began, start)
        return same and follows and not self._text[last.end : start].strip()

    def is_all_reasoning(self) -> bool:
        """Whether the text is only reasoning that may end with a call."""
        return self.reasoning_blocks[-1].may_hold_call and not self.remaining_text().strip()

    def remaining_text(self, *, keep_reasoning: bool = False, without_calls: bool = True) -> str:
        """Return the remaining text."""
        cuts = self._all_removals(keep_reasoning=keep_reasoning)
        if without_calls:
            cuts += [(taken.start, taken.end, "") for taken in self.sections]
        else:
            cuts = [cut for cut in cuts if not self._is_in_call(cut[0])]
        rest = self._text_without(cuts, 0)
        return rest if all(instead for _, _, instead in cuts) else rest.strip()

    def _is_in_call(self, at: int) -> bool:
        """Whether `at` is inside an extracted call."""
        last = bisect_right(self.sections, at, key=lambda taken: taken.start) - 1
        return last >= 0 and at < self.sections[last].end

    def _all_removals(self, *, keep_reasoning: bool = False) -> list[tuple[int, int, str]]:
        """Return what to remove besides calls, as start, end, and replacement."""
        thoughts = [] if keep_reasoning else self.reasoning_blocks
        return [*self._removals, *((thought.start, thought.end, "") for thought in thoughts)]

    def _text_without(
        self, cuts: list[tuple[int, int, str]], at: int, stop: int | None = None
    ) -> str:
        """Return the text from `at` to `stop` with cuts: start, end, and replacement."""
        kept = []
        for begin, end, instead in sorted(cuts):
            if begin >= at:
                kept += [self._text[at:begin], instead]
            at = max(at, end)
        return "".join((*kept, self._text[at:stop]))

    def _has_trailing_text(self) -> bool:
        """Whether text other than marks follows the last call."""
        ends = [taken.end for taken in self.sections]
        marks = ((thought.stop, thought.end, "") for thought in self.reasoning_blocks)
        cuts = [*self._removals, *marks]
        return bool(ends) and bool(self._text_without(cuts, max(ends)).strip())

    def _may_end_early(self) -> bool:
        """Whether a call may have ended inside one of its values."""
        cuts = sorted(self._all_removals())
        if len({taken.all_tools_known for taken in self.sections}) > 1:
            return True
        return any(taken.may_end_early for taken in self.sections) or any(
            self._lacks_closer(one, two, cuts) for one, two in pairwise(self.sections)
        )

    def _lacks_closer(
        self, one: TakenSection, two: TakenSection, cuts: list[tuple[int, int, str]]
    ) -> bool:
        """Whether the closing mark between two calls is missing or unexpected."""
        between = cuts[bisect_left(cuts, (one.end,)) : bisect_left(cuts, (two.start,))]
        gap = self._text_without(between, one.end, two.start).strip(" ,;\t\r\n")
        same = one.calls[0].dialect == two.calls[0].dialect
        if not one.is_closed and (gap or two.is_closed or not same):
            return True
        if any(call.was_repaired for call in one.calls):
            return True
        return bool(gap) and any(closer in gap for closer in CLOSERS)

    def _call_texts(self, taken: TakenSection) -> Iterator[str]:
        """Yield the text of each call; for a name without arguments, the whole section."""
        for call in taken.calls:
            text = self._text[call.start : call.end]
            has_arguments = any(mark in text for mark in "{[(<=")
            yield text if has_arguments else self._text[taken.start : taken.end]

    def build_result(self, *, keep_reasoning: bool) -> RecoveredText:
        """Return the calls and the remaining text."""
        reasoning = "\n".join(self._text[one.inside : one.stop] for one in self.reasoning_blocks)
        return RecoveredText(
            text=self.remaining_text(keep_reasoning=keep_reasoning),
            unextracted=self.remaining_text(keep_reasoning=keep_reasoning, without_calls=False),
            calls=tuple(call for taken in self.sections for call in taken.calls),
            passed_over=tuple(self.skipped),
            reasoning=reasoning.strip(),
            call_texts=tuple(words for taken in self.sections for words in self._call_texts(taken)),
            has_trailing_text=self._has_trailing_text(),
            may_end_early=self._may_end_early(),
            has_recipient=self.has_recipient,
        )


# Where reasoning begins and ends; it may have begun in the prompt.

_LOOK_BEHIND = 60
_STRIPPED_REASONING_LEADS = ("assistantanalysis", "assistantcommentary", "analysis", "commentary")
# Characters that end a sentence or a block.
_SENTENCE_ENDS = tuple(".!?:…)]}>`*\"'”。！？")  # noqa: RUF001
# Characters after a mark that is used as a word in a sentence.
_SENTENCE_CONTINUES = tuple(".,;:!?)*_'\"")


class ReasoningTracker:
    """Tracks the reasoning of one text, from left to right."""

    def __init__(self, source: TextSource, pieces: Extraction, segments: QuotationTracker) -> None:
        self._source = source
        self._text = source.text
        self._pieces = pieces
        self._segments = segments
        self._closer = ""
        self._opened_at = (0, 0)
        self._nested = 0

    def begin(self, place: int, after: int, opener: spelling.Opener) -> None:
        """Handle a mark that may begin reasoning."""
        closer = spelling.REASONING_TAGS[opener.stem]
        if self._closer:
            self._nested += self._closer == closer
            return
        first = self._source.skip_blanks(self._pieces.end) == place
        closed = self._source.find(closer, after) >= 0
        apart = starts_line(self._text, place) or bool(self._pieces.reasoning_blocks)
        if first or (closed and apart):
            self._closer, self._opened_at, self._nested = closer, (place, after), 0

    def is_open_at(self, place: int) -> bool:
        """Whether reasoning is open and ends later, so that calls in it are drafts."""
        return bool(self._closer) and self._source.find(self._closer, place) >= 0

    def code_limit(self, place: int, end: int) -> int:
        """Return where code ends; the end of reasoning also ends unclosed code in it."""
        stop = self._source.find(self._closer, place) if self._closer else -1
        block = self._source.starts_with(spelling.FENCES, place) and end < len(self._text)
        is_mark = self._text[place:end].strip("`~") == self._closer
        return stop if 0 <= stop < end and not is_mark and not block else end

    def end(self, place: int, after: int, opener: spelling.Opener) -> bool:
        """End the reasoning if this mark does; it may have begun in the prompt."""
        if self._closer and self._source.find(self._closer, after) >= 0:
            own = opener.stem == self._closer
            if not own or self._nested:
                self._nested -= own
                return False
        start, inside = self._opened_at if self._closer else (0, 0)
        ends = bool(self._closer) or self._is_unopened_end(place, after)
        if opener.kind == "final":
            start = self._source.skip_blanks(0)
            inside = start + len(self._source.mark_at(_STRIPPED_REASONING_LEADS, start))
            ends = start == place or inside > start
        if ends:
            self._closer = ""
            self._pieces.add_reasoning(ReasoningBlock(start, min(inside, place), place, after))
            self._segments.skip(start, after)
        return ends

    def _is_unopened_end(self, place: int, after: int) -> bool:
        """Whether reasoning from the prompt ends here, not a sentence that mentions the mark."""
        if self._pieces.reasoning_blocks:
            return False
        text, follows = self._text, self._source.skip_blanks(after)
        before = text[max(0, place - _LOOK_BEHIND) : place].rstrip()
        in_line = text[place - 1 : place] == " " or text[follows : follows + 1].islower()
        is_word = (
            not before.endswith(_SENTENCE_ENDS) and in_line and text[after : after + 2] != "\n\n"
        )
        is_word = is_word or text[after : after + 1] in _SENTENCE_CONTINUES
        mentioned = any(
            self._source.find(mark, 0) in range(place) for mark in spelling.REASONING_TAGS
        )
        return not (
            is_word or mentioned or self._segments.quotation_reason(place, self._pieces.end)
        )

    def finish(self) -> None:
        """End unclosed reasoning at its first call or at the end of the text."""
        if self._closer:
            start, inside = self._opened_at
            calls = [taken.start for taken in self._pieces.sections if taken.start >= start]
            stop = min(calls, default=len(self._text))
            self._pieces.reasoning_blocks.append(ReasoningBlock(start, inside, stop, stop))
