"""The tables of an evaluation, with intervals drawn on a common axis.

    40%             bar 90% 100%
    ···············───────┼─●

The line is the interval, the dot the observed rate, and the cross the threshold (`--bar`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from surecall.cli.console import (
    Columns,
    add_remarks,
    drop_columns,
    fit_text,
    join_columns,
    rate_text,
    shorten_columns,
)
from surecall.eval.analysis.recommendations import ProfileCandidate
from surecall.eval.analysis.stats import EMPTY_RATE, FIXED_TRIALS, Interval, Rate, StoppingRule
from surecall.eval.analysis.summary import DurationCounts
from surecall.eval.storage.trial import Cell, Trial
from surecall.values.text import quantity

WIDE: Final = 25
NARROW: Final = 17
FLOOR: Final = 0.4


class TextAxis(msgspec.Struct, frozen=True):
    """An axis from `floor` to 100% that all rows of a table share, with the threshold marked."""

    threshold: float
    floor: float = FLOOR
    size: int = WIDE

    @property
    def head(self) -> str:
        """The ends of the axis, and the threshold, as near to its mark as possible."""
        first, mark, last = f"{self.floor:.0%}", f"bar {self.threshold:.0%}", "100%"
        latest = self.size - len(last) - 1 - len(mark)
        start = max(len(first) + 1, min(self._column(self.threshold) - len(mark) + 1, latest))
        return (first.ljust(start) + mark).ljust(self.size - len(last)) + last

    def draw(self, rate: float | None, bounds: Interval) -> str:
        """Draw a rate and its interval; without a rate, only the threshold."""
        marks = ["·"] * self.size
        if rate is not None:
            low, high = map(self._column, bounds)
            marks[low : high + 1] = "─" * (high + 1 - low)
        marks[self._column(self.threshold)] = "┼"
        if rate is not None:
            marks[self._column(rate)] = "●"
        return "".join(marks)

    def _column(self, share: float) -> int:
        """Return the column where a share is drawn."""
        inside = max(0.0, min(1.0, (share - self.floor) / (1 - self.floor)))
        return round(inside * (self.size - 1))


def axis_for(threshold: float, lowest: float, size: int = WIDE) -> TextAxis:
    """Return an axis that fits all intervals: it starts at 0% if one begins below 40%."""
    return TextAxis(threshold, FLOOR if lowest >= FLOOR and threshold >= FLOOR else 0.0, size)


# The table of an evaluation in progress:
#
# model                 profile   tool pass     40%             bar 90% 100%  control  p95
# qwen3-235b-a22b-2507  default     40/40 100%  ····················┼──●      10/10    9.1 s
#
# The p95 latency is of the runs in the rate.

_MAX_NAME: Final = 60
_GAP: Final = "  "
# Columns that a narrow table drops, in this order.
_OPTIONAL: Final = ("p95", "control", "line")


class CellCounts:
    """The trials of one cell so far."""

    def __init__(self) -> None:
        self.rates: dict[str, Rate] = {}
        self.control = EMPTY_RATE
        self.no_tools = EMPTY_RATE
        self.statuses: Counter[str] = Counter()
        self.invalid_without_tools = 0
        self.categories: Counter[str] = Counter()
        self.times = DurationCounts()
        self.false_finals = 0
        self.unsupported_claims = 0

    def add(self, trial: Trial) -> None:
        """Count a trial."""
        self.statuses[trial.status] += 1
        if trial.status not in {"passed", "failed"}:
            self.categories[trial.category] += 1
            self.invalid_without_tools += trial.kind != "tool" and trial.status == "infra"
            return
        self.false_finals += trial.false_finals
        self.unsupported_claims += trial.unsupported_claims
        rate = Rate(int(trial.ok), 1)
        match trial.kind:
            case "control":
                self.control += rate
            case "no_tools":
                self.no_tools += rate
            case "tool":
                self.times.add(trial.elapsed_ms)
                scenario = trial.key.scenario
                self.rates[scenario] = self.rates.get(scenario, EMPTY_RATE) + rate

    @property
    def tool(self) -> Rate:
        """The rate over all tool scenarios."""
        return sum(self.rates.values(), EMPTY_RATE)

    def candidate(self, cell: Cell, stopping: StoppingRule) -> ProfileCandidate:
        """Return the figures as a candidate for recommendations."""
        return ProfileCandidate(
            **msgspec.structs.asdict(cell),
            tool=self.tool,
            control=self.control,
            p95_ms=self.times.percentiles((95,))[0],
            parts=tuple(self.rates.values()),
            stopping=stopping,
        )


class CellTable:
    """All cells, in the order of the plan; unplanned cells come last.

    `stopping` sets how often a rate is checked, and so how wide its interval is.
    """

    def __init__(
        self,
        cells: Iterable[Cell],
        threshold: float,
        trials: Iterable[Trial] = (),
        stopping: StoppingRule = FIXED_TRIALS,
    ) -> None:
        self._threshold = threshold
        self._stopping = stopping
        self.counts: dict[Cell, CellCounts] = {cell: CellCounts() for cell in cells}
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """Count a trial in its cell."""
        self.counts.setdefault(trial.key.cell, CellCounts()).add(trial)

    def lines(
        self, width: int, *, left: Counter[Cell] | None = None, simulated: bool = False
    ) -> list[str]:
        """Return the table: a heading, then one line for each cell.

        Columns and remarks that do not fit are dropped.
        """
        columns = drop_columns(self._columns(simulated=simulated), width, _OPTIONAL)
        lines = join_columns(shorten_columns(columns, width, ("profile", "model")))
        room = width - max(map(len, lines)) - len(_GAP)
        remarks = [
            _join_fitting(_remarks(counts, (left or Counter())[cell]), room)
            for cell, counts in self.counts.items()
        ]
        return add_remarks(lines, ["", *remarks], width)

    def _columns(self, *, simulated: bool) -> Columns:
        found = [counts.candidate(cell, self._stopping) for cell, counts in self.counts.items()]
        columns = candidate_columns(found, TextAxis(self._threshold), simulated=simulated)
        return {name: texts for name, texts in columns.items() if name != "interval"}


def candidate_columns(
    candidates: Sequence[ProfileCandidate], axis: TextAxis, *, simulated: bool
) -> Columns:
    """Return the columns for tables of cells, with profiles and strategies only if they differ."""
    model = model_heading(simulated=simulated)
    columns = {
        "model": [model, *(fit_text(each.model, _MAX_NAME) for each in candidates)],
        "profile": ["profile", *(fit_text(each.profile, _MAX_NAME) for each in candidates)],
        "strategy": ["strategy", *(each.strategy for each in candidates)],
        "passed": ["tool pass", *(rate_text(each.tool.k, each.tool.n) for each in candidates)],
        "interval": ["interval", *map(_interval_text, candidates)],
        "line": [
            axis.head,
            *(axis.draw(each.tool.rate, each.tool_interval) for each in candidates),
        ],
        "control": ["control", *(_count_text(each.control) for each in candidates)],
        "p95": [
            "p95",
            *(f"{each.p95_ms / 1000:.1f} s" if each.p95_ms else "" for each in candidates),
        ],
    }
    if {each.profile for each in candidates} <= {"default"}:
        del columns["profile"]
    if len({each.strategy for each in candidates}) <= 1:
        del columns["strategy"]
    return columns


def model_heading(*, simulated: bool) -> str:
    """Return the heading for a column of models."""
    return "simulated model" if simulated else "model"


def _interval_text(candidate: ProfileCandidate) -> str:
    low, high = candidate.tool_interval
    return f"[{100 * low:.1f}, {100 * high:.1f}]" if candidate.tool.n else ""


def _count_text(rate: Rate) -> str:
    return f"{rate.k}/{rate.n}" if rate.n else ""


def _join_fitting(remarks: Iterable[str], width: int) -> str:
    """Join the first remarks that fit."""
    found = ""
    for each in remarks:
        longer = f"{found}; {each}" if found else each
        if len(longer) > width:
            break
        found = longer
    return found


def _remarks(counts: CellCounts, trials_left: int) -> list[str]:
    """Return what the columns do not show: trials left, the hardest scenario, invalid trials."""
    remarks = [f"{trials_left} left"] if trials_left else []
    hardest = max(counts.rates.items(), key=lambda item: item[1].n - item[1].k, default=None)
    if hardest is not None and hardest[1].k < hardest[1].n:
        remarks.append(f"✗ {hardest[0]} {_count_text(hardest[1])}")
    if counts.no_tools.n:
        remarks.append(f"without tools {_count_text(counts.no_tools)}")
    if counts.false_finals:
        remarks.append(quantity(counts.false_finals, "premature answer"))
    if counts.unsupported_claims:
        remarks.append(quantity(counts.unsupported_claims, "unsupported claim"))
    if counts.statuses["infra"]:
        remarks.append(_infra_text(counts))
    if counts.statuses["skipped"]:
        remarks.append("skipped: tools are off")
    return remarks


def _infra_text(counts: CellCounts) -> str:
    """Return the number of invalid trials, with those without tools counted separately."""
    others = counts.invalid_without_tools
    tools = counts.statuses["infra"] - others
    beside = f" and {others} without tools" if others else ""
    invalid = f"{tools} infra{beside}" if tools else f"{others} infra without tools"
    return f"{invalid} ({', '.join(counts.categories)}), not scored"
