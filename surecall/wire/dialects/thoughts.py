"""Where reasoning begins and ends in a text, also if it began in the prompt."""

from surecall.wire.dialects import spelling
from surecall.wire.dialects.pieces import Pieces, Thought
from surecall.wire.dialects.segments import Segments, starts_line
from surecall.wire.dialects.source import Source

_SNIPPET = 60
_STRIPPED_STARTS = ("assistantanalysis", "assistantcommentary", "analysis", "commentary")
# After these a sentence, or a block of anything, is over.
_ENDS = tuple(".!?:…)]}>`*\"'”。！？")  # noqa: RUF001
# With these a sentence goes on, or ends, in which the mark is a word.
_GO_ON = tuple(".,;:!?)*_'\"")


class Thoughts:
    """The reasoning of one text, followed from left to right."""

    def __init__(self, source: Source, pieces: Pieces, segments: Segments) -> None:
        self._source = source
        self._text = source.text
        self._pieces = pieces
        self._segments = segments
        self._closer = ""
        self._begun = (0, 0)
        self._nested = 0

    def begin(self, place: int, after: int, opener: spelling.Opener) -> None:
        """Take notice of a mark that may begin reasoning."""
        closer = spelling.THINKING[opener.stem]
        if self._closer:
            self._nested += self._closer == closer
            return
        first = self._source.blanks(self._pieces.end) == place
        closed = self._source.find(closer, after) >= 0
        apart = starts_line(self._text, place) or bool(self._pieces.thoughts)
        if first or (closed and apart):
            self._closer, self._begun, self._nested = closer, (place, after), 0

    def go_on(self, place: int) -> bool:
        """Whether reasoning goes on here and is going to end: calls in it are drafts."""
        return bool(self._closer) and self._source.find(self._closer, place) >= 0

    def limit(self, place: int, end: int) -> int:
        """Return where code ends: the end of a thought ends code in it that does not end itself."""
        stop = self._source.find(self._closer, place) if self._closer else -1
        block = self._source.at(spelling.FENCES, place) and end < len(self._text)
        told = self._text[place:end].strip("`~") == self._closer
        return stop if 0 <= stop < end and not told and not block else end

    def end(self, place: int, after: int, opener: spelling.Opener) -> bool:
        """End the reasoning, if this mark does; its beginning may have been part of the prompt."""
        if self._closer and self._source.find(self._closer, after) >= 0:
            own = opener.stem == self._closer
            if not own or self._nested:
                self._nested -= own
                return False
        start, inside = self._begun if self._closer else (0, 0)
        ends = bool(self._closer) or self._ends_unopened(place, after)
        if opener.kind == "final":
            start = self._source.blanks(0)
            inside = start + len(self._source.mark(_STRIPPED_STARTS, start))
            ends = start == place or inside > start
        if ends:
            self._closer = ""
            self._pieces.think(Thought(start, min(inside, place), place, after))
            self._segments.skip(start, after)
        return ends

    def _ends_unopened(self, place: int, after: int) -> bool:
        """Whether reasoning ends here that began in the prompt: no sentence speaks of the mark."""
        if self._pieces.thoughts:
            return False
        text, follows = self._text, self._source.blanks(after)
        before = text[max(0, place - _SNIPPET) : place].rstrip()
        in_line = text[place - 1 : place] == " " or text[follows : follows + 1].islower()
        speaks = not before.endswith(_ENDS) and in_line and text[after : after + 2] != "\n\n"
        speaks = speaks or text[after : after + 1] in _GO_ON
        mentioned = any(self._source.find(mark, 0) in range(place) for mark in spelling.THINKING)
        return not (speaks or mentioned or self._segments.shown(place, self._pieces.end))

    def finish(self) -> None:
        """End reasoning that never ends: with the text, or with the first call in it."""
        if self._closer:
            start, inside = self._begun
            calls = [taken.start for taken in self._pieces.taken if taken.start >= start]
            stop = min(calls, default=len(self._text))
            self._pieces.thoughts.append(Thought(start, inside, stop, stop))
