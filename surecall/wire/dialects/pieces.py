"""What has been taken out of a text so far: calls, marks and reasoning, put together at the end."""

import msgspec

from surecall.wire.dialects.found import Found, PassedOver, Recovered

_MAX_PASSED_OVER = 64


class Taken(msgspec.Struct, frozen=True):
    """The calls of one section, and the stretch of text that they came from."""

    start: int
    end: int
    calls: tuple[Found, ...]


class Thought(msgspec.Struct, frozen=True):
    """A block of reasoning with its marks, and where the reasoning itself begins and stops."""

    start: int
    inside: int
    stop: int
    end: int


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

    def pass_over(self, passed: PassedOver) -> None:
        """Remember what was not taken for a call."""
        if len(self.passed) < _MAX_PASSED_OVER:
            self.passed.append(passed)

    def think(self, thought: Thought) -> None:
        """Take out a block of reasoning; whatever was found inside it were drafts."""
        while self.thoughts and self.thoughts[-1].start >= thought.start:
            self.thoughts.pop()
        while self.taken and self.taken[-1].start >= thought.start:
            self.taken.pop()
        while self._cuts and self._cuts[-1][0] >= thought.start:
            self._cuts.pop()
        self.thoughts.append(thought)

    def adopt(self, drafts: list[Taken]) -> None:
        """Take the calls that reasoning ends with: an answer of nothing else means them."""
        last = self.thoughts[-1]
        stop = last.stop
        for draft in reversed(drafts):
            if self._text[draft.end : stop].strip():
                break
            calls = (msgspec.structs.replace(call, in_reasoning=True) for call in draft.calls)
            self.taken.insert(0, Taken(draft.start, draft.end, tuple(calls)))
            stop = draft.start
        self.thoughts[-1] = Thought(last.start, last.inside, stop, last.end)

    def rest(self, *, keep_reasoning: bool = False) -> str:
        """Return what is left of the text."""
        cuts = [*self._cuts, *((taken.start, taken.end, "") for taken in self.taken)]
        if not keep_reasoning:
            cuts += ((thought.start, thought.end, "") for thought in self.thoughts)
        kept, at = [], 0
        for begin, end, instead in sorted(cuts):
            if begin >= at:
                kept += [self._text[at:begin], instead]
            at = max(at, end)
        rest = "".join((*kept, self._text[at:]))
        return rest if all(instead for _, _, instead in cuts) else rest.strip()

    def recovered(self, *, keep_reasoning: bool) -> Recovered:
        """Put together what is left."""
        reasoning = "\n".join(self._text[one.inside : one.stop] for one in self.thoughts)
        return Recovered(
            text=self.rest(keep_reasoning=keep_reasoning),
            calls=tuple(call for taken in self.taken for call in taken.calls),
            passed_over=tuple(self.passed),
            reasoning=reasoning.strip(),
        )
