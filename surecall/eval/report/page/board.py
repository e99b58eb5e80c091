"""The first screen: every model in its group, best first, with what its row shows.

    Report ─► Board ─► groups ─► rows        one axis for all of them

A column that has no figure in any row is left out.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from surecall.eval.analysis.paired import Comparison
from surecall.eval.analysis.reasons import is_brittle
from surecall.eval.analysis.recommend import Recommendation
from surecall.eval.analysis.steps import gain_over_first
from surecall.eval.analysis.verdict_sentence import grouped
from surecall.eval.analysis.verdicts import Decision
from surecall.eval.report.page.data import CellView, Report, ScenarioRate
from surecall.eval.report.page.drawing import Axis, axis_for
from surecall.eval.storage.trial import Cell

# A row names this many of the scenarios with misses; the others are counted.
MOST_WEAK: Final = 1


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `gain` is what its strategy gained over the first; `weak` its worst scenarios.

    `caution` says that the control failed too often, which is no part of the verdict.
    """

    advice: Recommendation
    view: CellView
    gain: Comparison | None = None
    start: float | None = None
    weak: tuple[ScenarioRate, ...] = ()
    more_weak: int = 0
    caution: bool = False


class Group(msgspec.Struct, frozen=True):
    """The models with one verdict."""

    decision: Decision
    rows: tuple[Row, ...]


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """All groups, their axis, and which columns have something to show."""

    groups: tuple[Group, ...] = ()
    axis: Axis = Axis()
    profiles: bool = False
    gains: bool = False
    times: bool = False
    costs: bool = False
    cautions: bool = False
    scenarios: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every row, in the order of the groups."""
        return tuple(row for group in self.groups for row in group.rows)


def board_of(report: Report) -> Board:
    """Sort a report's advice into groups."""
    views = {view.cell: view for view in report.cells}
    groups = tuple(
        Group(decision, _ranked(_row(each, views, report) for each in rows))
        for decision, rows in grouped(report.advice).items()
        if rows
    )
    rows = [row for group in groups for row in group.rows]
    return Board(
        groups=groups,
        axis=axis_for(view.tool for view in report.cells),
        profiles=len({view.cell.profile for view in report.cells}) > 1,
        gains=any(row.gain for row in rows),
        times=any(row.view.p95_ms for row in rows),
        costs=any(row.view.cost_per_run is not None for row in rows),
        cautions=any(row.caution for row in rows),
        scenarios=tuple(
            dict.fromkeys(one.scenario for row in rows for one in row.view.scenarios if one.n)
        ),
    )


def _row(each: Recommendation, views: dict[Cell, CellView], report: Report) -> Row:
    cell = Cell(each.model, each.decided_profile, each.decided_strategy)
    view = views[cell]
    gain = gain_over_first(report.comparisons, cell.model, cell.profile, cell.strategy)
    first = Cell(cell.model, cell.profile, gain.first) if gain else cell
    weak = _weak(view.scenarios)
    return Row(
        advice=each,
        view=view,
        gain=gain,
        start=views[first].tool.rate if gain else None,
        weak=weak[:MOST_WEAK],
        more_weak=len(weak[MOST_WEAK:]),
        caution=is_brittle(view.control.counts),
    )


def _weak(scenarios: Iterable[ScenarioRate]) -> tuple[ScenarioRate, ...]:
    missed = (one for one in scenarios if one.k < one.n)
    return tuple(sorted(missed, key=lambda one: one.k / one.n))


def _ranked(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Put the best first: by rate, time and cost. Equals stay as they come."""
    return tuple(sorted(rows, key=_rank))


def _rank(row: Row) -> tuple[float, int, float]:
    rate, cost = row.advice.decided_tool.rate, row.view.cost_per_run
    return (1.0 if rate is None else -rate), row.view.p95_ms, cost or 0.0
