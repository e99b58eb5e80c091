"""Where code stands in a text: fenced, or between backticks on one line. Code is never a call."""

from surecall.dialects.source import BLANKS
from surecall.dialects.spelling import QUOTATION_MARKS

FENCE = "```"
_INDENT = frozenset(BLANKS + ">")
_LOOK_BACK = 200


class Code:
    """Goes through a text once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line_end = -1

    def jump(self, at: int) -> None:
        """Go on from here: what lies before has been read as something else."""
        self._at = max(self._at, at)

    def end_around(self, place: int) -> int | None:
        """Return the end of the code that `place` stands in, None if it stands in none."""
        while self._at <= place:
            tick = self._text.find("`", self._at, place)
            if tick < 0:
                self._at = place
                return None
            self._at = self._end(tick)
        return self._at

    def _end(self, tick: int) -> int:
        width = run(self._text, tick)
        if width >= len(FENCE) and starts_line(self._text, tick):
            return fence_end(self._text, tick, width)
        return self._inline_end(tick + width, min(width, len(FENCE)))

    def _inline_end(self, at: int, width: int) -> int:
        """Find as many ticks again on this line; without them there is no code."""
        text = self._text
        if self._line_end < at:
            found = text.find("\n", at)
            self._line_end = found if found >= 0 else len(text)
        close = text.find("`" * width, at, self._line_end)
        while close >= 0:
            found = run(text, close)
            if min(found, len(FENCE)) == width:
                return close + found
            close = text.find("`" * width, close + found, self._line_end)
        # No run of this width is left on the line, so this search is not made again.
        return at


def run(text: str, at: int) -> int:
    """Count the backticks that stand here."""
    end = at
    while text[end : end + 1] == "`":
        end += 1
    return end - at


def starts_line(text: str, at: int) -> bool:
    """Whether nothing but blanks and quotation marks stands before this on its line."""
    return _INDENT.issuperset(_line_before(text, at))


def _line_before(text: str, at: int) -> str:
    """Return the line up to here, or the last part of a long one, which is never blank."""
    floor = max(0, at - _LOOK_BACK)
    start = text.rfind("\n", floor, at) + 1
    return text[start:at] if start or not floor else f"…{text[floor:at]}"


def is_quoted(text: str, at: int) -> bool:
    """Whether this stands behind a quotation mark, or in a quoted line."""
    if text[max(0, at - 1) : at] in QUOTATION_MARKS:
        return True
    line = _line_before(text, at).lstrip()
    return line.startswith(">") and not line.startswith(">>>")


def fence_end(text: str, tick: int, width: int) -> int:
    """Find the end of a fenced block; one that is never closed goes on to the end."""
    close = text.find("`" * width, tick + width)
    while close >= 0:
        end = close + run(text, close)
        if starts_line(text, close):
            line = text.find("\n", end)
            rest = text[end : line if line >= 0 else None]
            if not rest.strip():
                return end
        close = text.find("`" * width, end)
    return len(text)
