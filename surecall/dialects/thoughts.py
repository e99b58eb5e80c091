"""What has been taken out of a text so far: calls, marks and reasoning, put together at the end."""

from collections.abc import Iterable, Iterator

import msgspec

from surecall.dialects.found import Found, PassedOver, Recovered

MAX_PASSED_OVER = 64


class _Taken(msgspec.Struct, frozen=True):
    """The calls of one section, and the stretch of text that they came from."""

    start: int
    end: int
    calls: tuple[Found, ...]


class Pieces:
    """The stretches that leave the text, and where reasoning stands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._taken: list[_Taken] = []
        self._drafts: list[_Taken] = []
        self._cuts: list[tuple[int, int, str]] = []
        self._thoughts: list[tuple[int, int, int, int]] = []
        self._passed: list[PassedOver] = []
        self._open: tuple[int, int] | None = None

    @property
    def thinking(self) -> bool:
        """Whether a block of reasoning is open."""
        return self._open is not None

    @property
    def only_refused(self) -> bool:
        """Whether marks of calls are left in the text, and none led to a call."""
        return bool(self._passed) and not self._taken

    @property
    def end(self) -> int:
        """Up to where the text has been taken."""
        return max((self._taken[-1].end if self._taken else 0, self._thought_end))

    @property
    def _thought_end(self) -> int:
        return self._thoughts[-1][3] if self._thoughts else 0

    def take(self, start: int, end: int, calls: tuple[Found, ...]) -> None:
        """Take calls out of the text."""
        self._taken.append(_Taken(start, end, calls))

    def cut(self, start: int, end: int, instead: str = "") -> None:
        """Take a mark out of the text."""
        self._cuts.append((start, end, instead))

    def pass_over(self, passed: PassedOver) -> None:
        """Remember what was not taken for a call."""
        if len(self._passed) < MAX_PASSED_OVER:
            self._passed.append(passed)

    def open_thought(self, start: int, inside: int) -> None:
        """Begin a block of reasoning."""
        self._open = (start, inside)

    def close_thought(self, stop: int, end: int, *, since: tuple[int, int] | None = None) -> None:
        """End the block of reasoning; without one that was opened, all so far was reasoning."""
        start, inside = since or self._open or (0, 0)
        self._open = None
        while self._thoughts and self._thoughts[-1][0] >= start:
            self._thoughts.pop()
        self._thoughts.append((start, inside, stop, end))
        drafts = []
        while self._taken and self._taken[-1].start >= start:
            drafts.append(self._taken.pop())
        self._drafts += reversed(drafts)
        while self._cuts and self._cuts[-1][0] >= start:
            self._cuts.pop()

    def recovered(self, *, keep_reasoning: bool) -> Recovered:
        """Put together what is left."""
        if self._open:
            first = next((taken for taken in self._taken if taken.start >= self._open[0]), None)
            stop = first.start if first else len(self._text)
            self._thoughts.append((*self._open, stop, stop))
        text = self._rest(keep_reasoning=False)
        if not self._taken and not text.strip():
            self._taken = self._last_drafts()
        reasoning = "\n".join(self._reasoning())
        return Recovered(
            text=self._rest(keep_reasoning=True) if keep_reasoning else text,
            calls=tuple(call for taken in self._taken for call in taken.calls),
            passed_over=tuple(self._passed),
            reasoning=reasoning.strip(),
        )

    def _last_drafts(self) -> list[_Taken]:
        """Return the calls that reasoning ends with: an answer of nothing else means them."""
        found: list[_Taken] = []
        stop = self._thoughts[-1][2] if self._thoughts else 0
        for taken in reversed(self._drafts):
            if taken.end > stop or self._text[taken.end : stop].strip():
                break
            found.insert(0, _in_reasoning(taken))
            stop = taken.start
        return found

    def _reasoning(self) -> Iterator[str]:
        """List the stretches of reasoning; calls can have been taken from the last one only."""
        for _, inside, stop, _ in self._thoughts[:-1]:
            yield self._text[inside:stop]
        for _, inside, stop, _ in self._thoughts[-1:]:
            taken = [(one.start, one.end, "") for one in self._taken if inside <= one.start < stop]
            yield _without(self._text, taken, inside, stop)

    def _rest(self, *, keep_reasoning: bool) -> str:
        cuts = [*self._cuts, *((taken.start, taken.end, "") for taken in self._taken)]
        if not keep_reasoning:
            cuts += ((start, end, "") for start, _, _, end in self._thoughts)
        if not cuts:
            return self._text
        rest = _without(self._text, sorted(cuts), 0, len(self._text))
        return rest if all(instead for _, _, instead in cuts) else rest.strip()


def _in_reasoning(taken: _Taken) -> _Taken:
    calls = tuple(msgspec.structs.replace(call, in_reasoning=True) for call in taken.calls)
    return _Taken(taken.start, taken.end, calls)


def _without(text: str, cuts: Iterable[tuple[int, int, str]], start: int, stop: int) -> str:
    kept = []
    for begin, end, instead in cuts:
        if begin >= start:
            kept += [text[start:begin], instead]
        start = max(start, end)
    kept.append(text[start:stop])
    return "".join(kept)
