"""The table of an evaluation that goes on: how each cell is doing, as text. Pure.

model                 profile   tool pass     40%             bar 90% 100%  control  p95
qwen3-235b-a22b-2507  default     40/40 100%  ····················┼──●      10/10    9.1 s

The p95 is that of the runs that make the rate.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from surecall.cli.axis import Axis
from surecall.cli.columns import Columns, remarked, rows_of, shortened, shorter, without
from surecall.cli.listing import count, rate_text
from surecall.eval.analysis.figures import Times
from surecall.eval.analysis.stats import (
    CHOSEN,
    NOTHING,
    Interval,
    Rate,
    Stopping,
    interval,
)
from surecall.eval.storage.trial import Cell, Trial

_MOST: Final = 95
_LONGEST: Final = 60
_GAP: Final = "  "
_DEFAULT: Final = "default"
# What a narrow table lacks, the first one first.
_OPTIONAL: Final = ("p95", "control", "line")


class CellCounts:
    """The trials of one cell so far."""

    def __init__(self) -> None:
        self.rates: dict[str, Rate] = {}
        self.control = NOTHING
        self.no_tools = NOTHING
        self.statuses: Counter[str] = Counter()
        self.spoiled_beside = 0
        self.categories: Counter[str] = Counter()
        self.times = Times()
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
                self.times.add(trial.elapsed_ms)
                scenario = trial.key.scenario
                self.rates[scenario] = self.rates.get(scenario, NOTHING) + rate

    @property
    def tool(self) -> Rate:
        """The rate over all tool scenarios."""
        return sum(self.rates.values(), NOTHING)

    def bounds(self, stopping: Stopping) -> Interval:
        """Return the interval of that rate, given how many looks there are at it."""
        return interval(list(self.rates.values()), sequential=stopping.sequential)


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
        self, width: int, *, left: Counter[Cell] | None = None, simulated: bool = False
    ) -> list[str]:
        """Write the table: the head, then one line for each cell.

        A narrow one lacks columns, and the remarks that do not fit.
        """
        columns = without(self._columns(simulated=simulated), width, _OPTIONAL)
        lines = rows_of(shortened(columns, width, ("profile", "model")))
        room = width - max(map(len, lines)) - len(_GAP)
        remarks = [
            _fitting(_remarks(counts, (left or Counter())[cell]), room)
            for cell, counts in self.counts.items()
        ]
        return remarked(lines, ["", *remarks], width)

    def _columns(self, *, simulated: bool) -> Columns:
        counts = self.counts.values()
        axis = Axis(self._bar)
        columns = {
            "model": ["simulated model" if simulated else "model"],
            "profile": ["profile"],
            "strategy": ["strategy"],
            "passed": ["tool pass", *(rate_text(one.tool.k, one.tool.n) for one in counts)],
            "line": [axis.head, *(self._drawn(axis, one) for one in counts)],
            "control": ["control", *(_count(one.control) for one in counts)],
            "p95": ["p95", *map(_p95, counts)],
        }
        for cell in self.counts:
            columns["model"].append(shorter(cell.model, _LONGEST))
            columns["profile"].append(shorter(cell.profile, _LONGEST))
            columns["strategy"].append(cell.strategy)
        if len({cell.strategy for cell in self.counts}) <= 1:
            del columns["strategy"]
        if {cell.profile for cell in self.counts} <= {_DEFAULT}:
            del columns["profile"]
        return columns

    def _drawn(self, axis: Axis, counts: CellCounts) -> str:
        return axis.drawn(counts.tool.rate, counts.bounds(self._stopping))


def _p95(counts: CellCounts) -> str:
    (most,) = counts.times.percentiles((_MOST,))
    return f"{most / 1000:.1f} s" if counts.times else ""


def _count(rate: Rate) -> str:
    return f"{rate.k}/{rate.n}" if rate.n else ""


def _fitting(remarks: Iterable[str], room: int) -> str:
    """Join the remarks that fit, the first ones first."""
    found = ""
    for each in remarks:
        longer = f"{found}; {each}" if found else each
        if len(longer) > room:
            break
        found = longer
    return found


def _remarks(counts: CellCounts, left: int) -> list[str]:
    remarks = [f"{left} left"] if left else []
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
    return remarks


def _infra(counts: CellCounts) -> str:
    """Count what was spoiled: runs with tools, as advice counts them, and the others apart."""
    others = counts.spoiled_beside
    tools = counts.statuses["infra"] - others
    beside = f" and {others} without tools" if others else ""
    spoiled = f"{tools} infra{beside}" if tools else f"{others} infra without tools"
    return f"{spoiled} ({', '.join(counts.categories)}), not scored"
