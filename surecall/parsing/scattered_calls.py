"""Finds calls whose parts are scattered over untrusted text.

    in order    all characters of the call in their order, in pieces, and between two pieces at most
                a gap that a piece of this length does not bridge by chance
    in pieces   long pieces of the call, in any order and at any distance

Both compare skeletons, which have the marks of a call, unlike folded letters: prose has the words
of a call, but not `,arguments:{path:`. Takes linear time; where the search would take longer, the
text counts as one that has the call.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from surecall.parsing.budget import WorkBudget

Pair = tuple[str, str]

_NO_SKELETON: Final[dict[int, str | None]] = {
    **dict.fromkeys(map(ord, " \t\r\n\f\v\xa0\u3000\"'`\\\u201c\u201d\u2018\u2019")),
    # The boundary of two sources counts as a gap.
    0x1D: "\x1d\x1d",
}
# A shorter call has too few marks.
_SHORTEST: Final = 20
_LONGEST: Final = 4_000
# The lengths of pieces to search for, and how far the next piece may be, by its length.
_GAPS: Final = (
    (1, 0),
    (2, 32),
    (3, 64),
    (4, 100),
    (5, 150),
    (6, 200),
    (8, 300),
    (12, 300),
    (24, 300),
)
# The last marks of a call may be further apart.
_LAST_GAP: Final = 48
# A gap of one character may be part of a longer value.
_SHORTEST_GAP: Final = 2
_FEWEST_MARKS: Final = 2
_SHORTEST_ONLY_GAP: Final = 6
# A copy may lack the first characters of a call, or all of them before the name.
_START: Final = 4
_MOST_SKIPPED: Final = 9
_MOST_BACK: Final = 3
_JOINT: Final = 4
_MARKS: Final = "<>{}()[]=:,;|"
# Pieces in any order: their minimum length in a short and in a long text, and their number.
_SHORT_TEXT: Final = 50_000
_PIECE: Final = 5
_PIECE_IN_LONG_TEXT: Final = 7
_MOST_PIECES: Final = 16
# A few pieces must be longer.
_FEW: Final = 4
_LONG_PIECE: Final = 8


def skeleton(text: str) -> str:
    """Return a text without blanks, quotation marks, and backslashes, in lower case."""
    return text.translate(_NO_SKELETON).casefold()


def is_scattered(
    call: str, name: str, arguments: Sequence[Pair], views: Iterable[str], budget: WorkBudget
) -> bool:
    """Whether a view has the parts of a call, all as skeletons; true if the budget ends.

    The `arguments` are keys and values.
    """
    end = max(call.rfind(mark) for mark in "}])>") + 1
    tag = call.rfind("</", 0, end)
    call = call[: tag if tag > 0 and "}" not in call[tag:] else end]
    if not _SHORTEST <= len(call) <= _LONGEST:
        return False
    in_values = bytearray(len(call))
    for value in filter(None, (value for _, value in arguments)):
        at = call.find(value)
        while at >= 0:
            in_values[at : at + len(value)] = b"\1" * len(value)
            at = call.find(value, at + len(value))
    named = call.find(name) + len(name)
    data = call[named : in_values.rfind(1) + 1].lstrip(_MARKS)
    # Where nothing else marks the arguments, a name and separate data are no call.
    is_bare = bool(data) and data.startswith(
        tuple(one for pair in arguments for one in pair if one)
    )
    joint = call[max(0, named - _JOINT) : named + 2]
    return any(
        is_in_order(call, name, view, budget) or is_in_pieces(call, in_values, view)
        for view in views
        if not is_bare or joint in view or data not in view
    )


def is_in_order(call: str, name: str, view: str, budget: WorkBudget) -> bool:
    """Whether a view has the characters of a call in order, in pieces."""
    # Each character after the start is part of a piece of two or more.
    start = max(0, call.find(name, 0, len(call) // 2)) + _MOST_SKIPPED + _START
    pairs = [call[at : at + 2] in view for at in range(start, len(call) - 1)]
    if not all(before or after for before, after in pairwise((True, *pairs, True))):
        return False
    search = _PieceSearch(call, view, budget)
    return any(map(search.leads_to_end, _starts(call, name, view))) or budget.is_exhausted


def _starts(call: str, name: str, view: str) -> Iterator[tuple[int, int, int]]:
    """Yield where a copy of the beginning of a call, or of its name, may begin."""
    named = call.find(name, 0, len(call) // 2) if name else -1
    offsets = {*range(_MOST_SKIPPED), *range(max(0, named), max(0, named) + _MOST_SKIPPED)}
    for skipped in sorted(offsets):
        head = call[skipped : skipped + _START]
        place = view.find(head) if len(head) == _START else -1
        while place >= 0:
            is_later = skipped and view[place - 1 : place] == call[skipped - 1]
            if not is_later:
                yield skipped + len(head), place + len(head), 0
            place = view.find(head, place + 1)


class _PieceSearch:
    """Searches for the rest of a call, from states of call position, view position, and gaps.

    Gaps are counted up to two; a long one counts as two. No state is visited twice.
    """

    def __init__(self, call: str, view: str, budget: WorkBudget) -> None:
        self._call = call
        self._view = view
        self._seen: set[tuple[int, int, int]] = set()
        self._budget = budget

    def leads_to_end(self, state: tuple[int, int, int]) -> bool:
        """Whether the rest of the call follows, with two gaps or a long one."""
        waiting = [state]
        while waiting:
            at, place, gaps = waiting.pop()
            run = self._run(at, place)
            if at + run == len(self._call) and gaps > 1:
                return True
            # What precedes a gap may go on like the call by chance.
            for back in range(min(run, _MOST_BACK) + 1):
                end = at + run - back, place + run - back, gaps
                if end not in self._seen:
                    if not self._budget.spend(1):
                        return False
                    self._seen.add(end)
                    waiting += self._after_gap(*end)
        return False

    def _run(self, at: int, place: int) -> int:
        """Return how many characters follow without a gap."""
        rest, run = self._call[at:], 0
        while run < len(rest) and self._view.startswith(rest[run], place + run):
            run += 1
        return run

    def _after_gap(self, at: int, place: int, gaps: int) -> Iterator[tuple[int, int, int]]:
        """Yield where the next piece may begin, the longest piece last."""
        known = -1
        for length, gap in _GAPS:
            piece = self._call[at : at + length]
            if len(piece) < length:
                return
            reach = (gap if at + length < len(self._call) else max(gap, _LAST_GAP)) + length
            found = self._view.find(piece, place + _SHORTEST_GAP, place + reach)
            if found >= 0 and found != known:
                known = found
                weight = 2 if found - place >= _SHORTEST_ONLY_GAP else 1
                yield at + length, found + length, min(gaps + weight, 2)


def is_in_pieces(call: str, in_values: bytearray, view: str) -> bool:
    """Whether long pieces of a view, in any order, are the call.

    Each piece must have marks of the call besides parts of its values, which a model may fill into
    an example.
    """
    least = _PIECE if len(view) <= _SHORT_TEXT else _PIECE_IN_LONG_TEXT
    most = min(len(call) // (least + 1), _MOST_PIECES)
    shortest, at, count = len(call), 0, 0
    while at < len(call) and count < most:
        length = _longest(call, at, view)
        if length < least or in_values.count(0, at, at + length) < _FEWEST_MARKS:
            return False
        shortest, at, count = min(shortest, length), at + length, count + 1
    # Two calls may differ only in the middle of a value.
    return at == len(call) and (count >= _FEW or shortest >= _LONG_PIECE)


def _longest(call: str, at: int, view: str) -> int:
    """Return the length of the longest piece of a call at a position that a view has."""
    low, high = 0, len(call) - at
    while low < high:
        middle = (low + high + 1) // 2
        if call[at : at + middle] in view:
            low = middle
        else:
            high = middle - 1
    return low


def columns_of(text: str, cell_edge: Any) -> str:
    """Return the cells of a text column by column; empty if it has no columns."""
    columns: dict[int, list[str]] = {}
    for line in text.split("\n"):
        for at, cell in enumerate(cell_edge.split(line)):
            columns.setdefault(at, []).append(cell)
    return "\n".join("\n".join(cells) for cells in columns.values()) if len(columns) > 1 else ""
