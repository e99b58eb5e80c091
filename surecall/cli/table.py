"""The table of an evaluation: how each cell is doing, as text. Pure; nothing here prints.

model                 profile   tool pass     40%             bar 90  100%  control     p95
qwen3-235b-a22b-2507  default   40/40 100%    ····················┼──●      10/10     9.1 s

The line between 40 and 100 % shows the interval and, in it, the observed rate. The p95 is that of
the runs that make this rate.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from surecall.cli.listing import count
from surecall.eval.analysis.stats import CHOSEN, NOTHING, Rate, Stopping, interval, percentile
from surecall.eval.storage.trial import Cell, Trial
from surecall.values.trace import safe_text

_FLOOR: Final = 0.4
_SCALE: Final = 25
_P95: Final = 95
# What a narrow table lacks, the last one first.
_OPTIONAL: Final = ("line", "control", "p95")
_LEAST: Final = 12
_INDENT: Final = "    "
_SPARE: Final = {"·": ".", "─": "-", "●": "o", "┼": "|", "…": "...", "✓": "+", "✗": "x", "━": "="}


class CellCounts:
    """The trials of one cell so far."""

    def __init__(self) -> None:
        self.rates: dict[str, Rate] = {}
        self.control = NOTHING
        self.no_tools = NOTHING
        self.statuses: Counter[str] = Counter()
        self.spoiled_beside = 0
        self.categories: Counter[str] = Counter()
        self.times: list[int] = []
        self.false_finals = 0

    def add(self, trial: Trial) -> None:
        """Count one more."""
        self.statuses[trial.status] += 1
        if trial.status not in {"passed", "failed"}:
            self.categories[trial.category] += 1
            self.spoiled_beside += trial.kind != "tool" and trial.status == "infra"
            return
        self.false_finals += trial.false_finals
        rate = Rate(int(trial.ok), 1)
        match trial.kind:
            case "control":
                self.control += rate
            case "no_tools":
                self.no_tools += rate
            case "tool":
                self.times.append(trial.elapsed_ms)
                scenario = trial.key.scenario
                self.rates[scenario] = self.rates.get(scenario, NOTHING) + rate

    @property
    def tool(self) -> Rate:
        """The rate over all tool scenarios."""
        return sum(self.rates.values(), NOTHING)


class Row(msgspec.Struct, frozen=True):
    """One line of the table, in words."""

    model: str
    profile: str
    strategy: str
    passed: str
    line: str
    control: str
    p95: str
    remark: str


class CellTable:
    """All cells, in the order of the plan; those that turn up unplanned come last.

    `stopping` says how many looks there are at a rate, and so how wide its line must be.
    """

    def __init__(
        self,
        cells: Iterable[Cell],
        bar: float,
        trials: Iterable[Trial] = (),
        stopping: Stopping = CHOSEN,
    ) -> None:
        self._bar = bar
        self._stopping = stopping
        self.counts: dict[Cell, CellCounts] = {cell: CellCounts() for cell in cells}
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """Count one more trial."""
        self.counts.setdefault(trial.key.cell, CellCounts()).add(trial)

    def lines(
        self, width: int | None = None, *, left: Counter[Cell] | None = None, wrap: bool = True
    ) -> list[str]:
        """Write the table: the head, then a line for each cell.

        A narrow one lacks columns, and puts a remark that does not fit into lines of its own;
        unless they are to `wrap`, remarks stay where they are, to be cut off.
        """
        rows = [self._row(cell, left) for cell in self.counts]
        several = len({row.strategy for row in rows}) > 1
        names = ["model", "profile", *(["strategy"] if several else []), "passed", *_OPTIONAL]
        heads = self._heads()
        if width is None:
            return table([*names, "remark"], rows, heads)
        for name in reversed(_OPTIONAL):
            if max(map(len, table(names, rows, heads))) > width:
                names.remove(name)
        head, *lines = table(names, _narrowed(names, rows, heads, width), heads)
        room = max(len(head), *map(len, lines)) if lines else 0
        found = [head]
        for line, row in zip(lines, rows, strict=True):
            found += _remarked(line, row.remark, room, width if wrap else None)
        return found

    def _heads(self) -> dict[str, str]:
        place = _place(self._bar)
        scale = f"{_FLOOR:.0%}".ljust(_SCALE - 4) + "100%"
        mark = f"bar {self._bar:.0%}"
        start = max(4, min(place - len(mark) + 1, _SCALE - 5 - len(mark)))
        line = scale[:start] + mark + scale[start + len(mark) :]
        return {"passed": "tool pass", "line": line, "remark": ""}

    def _row(self, cell: Cell, left: Counter[Cell] | None) -> Row:
        counts = self.counts[cell]
        tool = counts.tool
        return Row(
            model=shorter(cell.model, 38),
            profile=shorter(cell.profile, 26),
            strategy=cell.strategy,
            passed=f"{tool.k}/{tool.n}".rjust(7)
            + ("" if tool.rate is None else f" {tool.rate:4.0%}"),
            line=scale_of(counts.rates.values(), self._bar, self._stopping),
            control=_count(counts.control),
            p95=f"{percentile(counts.times, _P95) / 1000:.1f} s" if counts.times else "",
            remark=_remark(counts, (left or Counter())[cell]),
        )


def scale_of(rates: Iterable[Rate], bar: float, stopping: Stopping = CHOSEN) -> str:
    """Draw a rate and its interval between 40 and 100 %."""
    parts = [rate for rate in rates if rate.n]
    total = sum(parts, NOTHING)
    marks = ["·"] * _SCALE
    if total.rate is not None:
        low, high = interval(parts, sequential=stopping.sequential)
        for place in range(_place(low), _place(high) + 1):
            marks[place] = "─"
    marks[_place(bar)] = "┼"
    if total.rate is not None:
        marks[_place(total.rate)] = "●"
    return "".join(marks)


def _place(share: float) -> int:
    inside = max(0.0, min(1.0, (share - _FLOOR) / (1 - _FLOOR)))
    return round(inside * (_SCALE - 1))


def _count(rate: Rate) -> str:
    return f"{rate.k}/{rate.n}" if rate.n else ""


def _remark(counts: CellCounts, left: int) -> str:
    remarks = []
    hardest = max(counts.rates.items(), key=lambda item: item[1].n - item[1].k, default=None)
    if hardest is not None and hardest[1].k < hardest[1].n:
        remarks.append(f"✗ {hardest[0]} {_count(hardest[1])}")
    if counts.no_tools.n:
        remarks.append(f"without tools {_count(counts.no_tools)}")
    if counts.false_finals:
        remarks.append(count(counts.false_finals, "early answer"))
    if counts.statuses["infra"]:
        remarks.append(_infra(counts))
    if counts.statuses["skipped"]:
        remarks.append("tools are off: skipped")
    if left:
        remarks.append(f"… {left} left")
    return "; ".join(remarks)


def _infra(counts: CellCounts) -> str:
    """Count what was spoiled: runs with tools, as advice counts them, and the others apart."""
    others = counts.spoiled_beside
    tools = counts.statuses["infra"] - others
    beside = f" and {others} without tools" if others else ""
    spoiled = f"{tools} infra{beside}" if tools else f"{others} infra without tools"
    return f"{spoiled} ({', '.join(counts.categories)}), not scored"


def _narrowed(
    names: Sequence[str], rows: Sequence[Row], heads: dict[str, str], width: int
) -> list[Row]:
    """Shorten the names of profiles and models, if that is what makes a table too wide."""
    found = list(rows)
    for name in ("profile", "model"):
        over = max(map(len, table(names, found, heads))) - width
        longest = max((len(getattr(row, name)) for row in found), default=0)
        if over > 0:
            most = max(_LEAST, longest - over)
            cut = ({name: shorter(getattr(row, name), most)} for row in found)
            found = [
                msgspec.structs.replace(row, **one) for row, one in zip(found, cut, strict=True)
            ]
    return found


def _remarked(line: str, remark: str, room: int, width: int | None) -> list[str]:
    """Put a remark beside a line, or below it where it does not fit."""
    beside = f"{line.ljust(room)}  {remark}".rstrip()
    if width is None or len(beside) <= width:
        return [beside]
    return [line, *textwrap.wrap(remark, width, initial_indent=_INDENT, subsequent_indent=_INDENT)]


def shorter(text: str, limit: int) -> str:
    """Cut a text for a column, and make it safe for a terminal."""
    text = safe_text(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def table(names: Sequence[str], rows: Sequence[Row], heads: dict[str, str]) -> list[str]:
    """Align columns; the last one is not padded."""
    cells = [[heads.get(name, name) for name in names]]
    cells += ([getattr(row, name) for name in names] for row in rows)
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    widths[-1] = 0
    padded = (
        (text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in cells
    )
    return ["  ".join(line).rstrip() for line in padded]


def plain(text: str) -> str:
    """Write a table without the characters that an old terminal lacks."""
    for sign, spare in _SPARE.items():
        text = text.replace(sign, spare)
    return text
