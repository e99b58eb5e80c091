"""What has been taken out of a text so far: calls, marks and reasoning, put together at the end."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from surecall.wire.dialects.found import Found, PassedOver, Recovered, left
from surecall.wire.dialects.spelling import CLOSERS

_MAX_PASSED_OVER = 64


class Taken(msgspec.Struct, frozen=True):
    """The calls of one section, and the stretch of text that they came from.

    `mentioned` calls have words after them on their line, `closed` ones a closing mark, `spare`
    ones a closing mark too many. All tools of `known` ones exist.
    """

    start: int
    end: int
    calls: tuple[Found, ...]
    mentioned: bool = False
    closed: bool = False
    spare: bool = False
    known: bool = True


class Thought(msgspec.Struct, frozen=True):
    """A block of reasoning with its marks, and where the reasoning itself begins and stops."""

    start: int
    inside: int
    stop: int
    end: int
    # Whether a call at its end may be meant; not if it is a note to the model itself.
    own: bool = True


class Pieces:
    """The stretches that leave the text, and where reasoning is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._cuts: list[tuple[int, int, str]] = []
        self.taken: list[Taken] = []
        self.thoughts: list[Thought] = []
        self.passed: list[PassedOver] = []

    @property
    def end(self) -> int:
        """Up to where the text has been taken."""
        return max(
            (stretch[-1].end for stretch in (self.taken, self.thoughts) if stretch), default=0
        )

    def cut(self, start: int, end: int, instead: str = "") -> None:
        """Take a mark out of the text."""
        self._cuts.append((start, end, instead))

    def pass_over(self, place: int, reason: str, tool: str = "", rule: str = "") -> None:
        """Remember what was not taken for a call."""
        if len(self.passed) < _MAX_PASSED_OVER:
            self.passed.append(left(self._text, place, reason, tool, rule))

    def think(self, thought: Thought) -> None:
        """Take out a block of reasoning; whatever was found inside it were drafts."""
        while self.thoughts and self.thoughts[-1].start >= thought.start:
            self.thoughts.pop()
        while self.taken and self.taken[-1].start >= thought.start:
            self.taken.pop()
        while self._cuts and self._cuts[-1][0] >= thought.start:
            self._cuts.pop()
        # A broken draft is nothing to ask about.
        self.passed = [
            msgspec.structs.replace(one, tool="") if one.start >= thought.start else one
            for one in self.passed
        ]
        self.thoughts.append(thought)

    def adopt(self, drafts: list[Taken]) -> None:
        """Take the calls that reasoning ends with: an answer of nothing else means them."""
        last = self.thoughts[-1]
        stop = last.stop
        for draft in reversed(drafts):
            if self._text[draft.end : stop].strip():
                break
            calls = (msgspec.structs.replace(call, in_reasoning=True) for call in draft.calls)
            self.taken.insert(0, msgspec.structs.replace(draft, calls=tuple(calls)))
            stop = draft.start
        self.thoughts[-1] = Thought(last.start, last.inside, stop, last.end)

    def is_all_thought(self) -> bool:
        """Whether the text is nothing but reasoning, and the last of it may end in a call."""
        return self.thoughts[-1].own and not self.rest().strip()

    def rest(self, *, keep_reasoning: bool = False, lifted: bool = True) -> str:
        """Return what is left of the text."""
        cuts = self._cuts_in(keep_reasoning=keep_reasoning)
        if lifted:
            cuts += [(taken.start, taken.end, "") for taken in self.taken]
        else:
            cuts = [cut for cut in cuts if not self._is_taken(cut[0])]
        rest = self._without(cuts, 0)
        return rest if all(instead for _, _, instead in cuts) else rest.strip()

    def _is_taken(self, at: int) -> bool:
        """Whether a call was found here."""
        last = bisect_right(self.taken, at, key=lambda taken: taken.start) - 1
        return last >= 0 and at < self.taken[last].end

    def _cuts_in(self, *, keep_reasoning: bool = False) -> list[tuple[int, int, str]]:
        thoughts = [] if keep_reasoning else self.thoughts
        return [*self._cuts, *((thought.start, thought.end, "") for thought in thoughts)]

    def _without(self, cuts: list[tuple[int, int, str]], at: int, stop: int | None = None) -> str:
        kept = []
        for begin, end, instead in sorted(cuts):
            if begin >= at:
                kept += [self._text[at:begin], instead]
            at = max(at, end)
        return "".join((*kept, self._text[at:stop]))

    def _is_followed(self) -> bool:
        """Whether anything but marks comes after the last call."""
        ends = [taken.end for taken in self.taken]
        marks = ((thought.stop, thought.end, "") for thought in self.thoughts)
        cuts = [*self._cuts, *marks]
        return bool(ends) and bool(self._without(cuts, max(ends)).strip())

    def _has_spare(self) -> bool:
        """Whether a call may have ended too early, inside one of its values."""
        cuts = sorted(self._cuts_in())
        if len({taken.known for taken in self.taken}) > 1:
            return True
        return any(taken.spare for taken in self.taken) or any(
            self._is_broken_off(one, two, cuts) for one, two in pairwise(self.taken)
        )

    def _is_broken_off(self, one: Taken, two: Taken, cuts: list[tuple[int, int, str]]) -> bool:
        """Whether a call lacks its closing mark before the next one, or another mark is there."""
        between = cuts[bisect_left(cuts, (one.end,)) : bisect_left(cuts, (two.start,))]
        gap = self._without(between, one.end, two.start).strip(" ,;\t\r\n")
        same = one.calls[0].dialect == two.calls[0].dialect
        if not one.closed and (gap or two.closed or not same):
            return True
        if any(call.mended for call in one.calls):
            return True
        return bool(gap) and any(closer in gap for closer in CLOSERS)

    def _words(self, taken: Taken) -> Iterator[str]:
        """Return the words of each call; a mere name is known by its marks alone."""
        for call in taken.calls:
            words = self._text[call.start : call.end]
            told = any(mark in words for mark in "{[(<=")
            yield words if told else self._text[taken.start : taken.end]

    def recovered(self, *, keep_reasoning: bool) -> Recovered:
        """Put together what is left."""
        reasoning = "\n".join(self._text[one.inside : one.stop] for one in self.thoughts)
        return Recovered(
            text=self.rest(keep_reasoning=keep_reasoning),
            unlifted=self.rest(keep_reasoning=keep_reasoning, lifted=False),
            calls=tuple(call for taken in self.taken for call in taken.calls),
            passed_over=tuple(self.passed),
            reasoning=reasoning.strip(),
            words=tuple(words for taken in self.taken for words in self._words(taken)),
            followed=self._is_followed(),
            spare=self._has_spare(),
        )
