"""Columns of text that fit a width: what goes below, what is broken, what is left out. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from surecall.cli.screen import INDENT, wrapped
from surecall.values.trace import safe_text

# Names of columns, each with its texts from top to bottom; the first text is the head.
Columns: TypeAlias = Mapping[str, Sequence[str]]

_GAP: Final = "  "
# A column of sentences is read in place if it is at least so wide.
_READABLE: Final = 30
# So much of a name is always shown.
_LEAST: Final = 12
# The column that is kept whatever does not fit; where there is nothing, nothing is said.
_SENTENCES: Final = "summary"
_NOTHING: Final = ("", "-")


def column_lines(
    heads: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None
) -> list[str]:
    """Align rows below their heads; each column but the last is as wide as its longest text.

    Where they do not fit, the last column is broken into lines. If that leaves too little room
    for it, only the columns that fit are kept, or the first one and the sentences; what is in the
    others is below each row, with their names.
    """
    lines = [list(map(safe_text, row)) for row in (heads, *rows)]
    whole = aligned(lines)
    if width is None or max(map(len, whole)) <= width:
        return whole
    kept = _kept(lines, width)
    room = _room([[line[place] for place in kept] for line in lines], width)
    blocks = [_broken([line[place] for place in kept], room) for line in lines]
    shown = iter(aligned([each for block in blocks for each in block]))
    found: list[str] = []
    for block, line in zip(blocks, lines, strict=True):
        found += islice(shown, len(block))
        if line is not lines[0]:
            others = (place for place in range(len(line)) if place not in kept)
            found += _below([(lines[0][place], line[place]) for place in others], width)
    return found


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Put texts into columns, the last of which is not padded."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (map(str.ljust, line, widths) for line in lines)
    return [_GAP.join(line).rstrip() for line in padded]


def _kept(lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Say which columns stay columns."""
    heads = list(lines[0])
    if _is_readable(lines, width):
        return list(range(len(heads)))
    if _SENTENCES in heads:
        at = heads.index(_SENTENCES)
        if _is_readable([(line[0], line[at]) for line in lines], width):
            return [0, at]
    fitting = len(heads)
    while fitting > 1 and max(map(len, aligned([line[:fitting] for line in lines]))) > width:
        fitting -= 1
    return list(range(fitting))


def _is_readable(lines: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the last column can be broken into lines that are wide enough to be read."""
    words = (word for line in lines for word in line[-1].split())
    return _room(lines, width) >= max(_READABLE, *map(len, words))


def _room(lines: Sequence[Sequence[str]], width: int) -> int:
    """Say how wide the last column can be."""
    before = [line[:-1] for line in lines]
    return width - max(map(len, aligned(before))) - len(_GAP) if before[0] else width


def _broken(row: Sequence[str], room: int) -> list[list[str]]:
    """Break the last text of a row to the room that there is."""
    *before, last = row
    if not before:
        return [[shorter(last, room)]]
    first, *more = wrapped(last, room, "")
    return [[*before, first], *([*([""] * len(before)), each] for each in more)]


def _below(told: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Name what is in some columns, in lines of its own."""
    named = (f"{name}: {' '.join(text.split())}" for name, text in told if text not in _NOTHING)
    text = "; ".join(named)
    return wrapped(INDENT + text, width, "") if text else []


def shorter(text: str, limit: int) -> str:
    """Cut a text for a column, and make it safe for a terminal."""
    text = safe_text(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def rows_of(columns: Columns) -> list[str]:
    """Write columns side by side."""
    return aligned(list(zip(*columns.values(), strict=True)))


def without(columns: Columns, width: int, optional: Iterable[str]) -> Columns:
    """Leave out optional columns, the first one first, until the others fit."""
    for name in optional:
        if width_of(columns) <= width:
            break
        columns = {each: texts for each, texts in columns.items() if each != name}
    return columns


def shortened(columns: Columns, width: int, names: Iterable[str]) -> Columns:
    """Cut the texts of some columns, one after the other, until all fit; a part is always kept."""
    for name in names:
        over = width_of(columns) - width
        if over > 0 and name in columns:
            most = max(_LEAST, max(map(len, columns[name])) - over)
            columns = {**columns, name: [shorter(text, most) for text in columns[name]]}
    return columns


def width_of(columns: Columns) -> int:
    """Say how wide columns are, side by side."""
    return max(map(len, rows_of(columns)))


def remarked(lines: Sequence[str], remarks: Sequence[str], width: int | None) -> list[str]:
    """Put a remark beside each line or, unless all of them fit, below it."""
    room = max(map(len, lines))
    beside = [
        f"{line.ljust(room)}{_GAP}{each}".rstrip()
        for line, each in zip(lines, remarks, strict=True)
    ]
    if width is None or max(map(len, beside)) <= width:
        return beside
    found: list[str] = []
    for line, each in zip(lines, remarks, strict=True):
        found += [line, *(wrapped(INDENT + each, width, "") if each else ())]
    return found
