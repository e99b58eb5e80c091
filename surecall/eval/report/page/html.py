"""Renders the report of a run as one self-contained HTML page.

    Report ─► jinja2, everything escaped ─► sections        figures and recommendations
           ─► JSON in a data block       ─► page_*.js       runs, filters
    traces ─► compressed data blocks     ─► page_*.js       one run in detail, decoded on demand

The first section is the board: all models grouped by decision, best first, on one axis. Columns
without any figures are omitted.

The content security policy allows only the style sheet and the script whose hashes it lists. Model
text, names, and errors are untrusted: templates escape them, and scripts insert them as text.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final

import jinja2
import msgspec
from jinja2.filters import do_mark_safe

from surecall.eval.analysis.classification import MEANINGS
from surecall.eval.analysis.comparisons import Comparison
from surecall.eval.analysis.recommendations import (
    IntervalDecision,
    Recommendation,
    is_control_unreliable,
    verdict_labels,
)
from surecall.eval.analysis.summary import Figure, ScenarioSummary
from surecall.eval.analysis.verdict_text import (
    ModelGain,
    compared_strategies,
    gain_over_first,
    group_by_decision,
    model_gains,
    steps_sentence,
    verdict_parts,
)
from surecall.eval.report.page import formatting
from surecall.eval.report.page.data import (
    CellView,
    FailureRow,
    Report,
    call_sources_by_strategy,
    weakest_scenarios,
)
from surecall.eval.report.page.formatting import RateAxis, axis_for, plot_curves
from surecall.eval.report.page.traces import NO_TRACES, TraceSource
from surecall.eval.storage.trial import CONTROL, Cell


class CountTable(msgspec.Struct, frozen=True):
    """Counts by two fields, largest rows and columns first. `infra` rows are not scored."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: dict[tuple[str, str], int]
    totals: dict[str, int]
    infra: frozenset[str]

    @property
    def most(self) -> int:
        """The largest row total."""
        return max(self.totals.values(), default=0)


def count_table(failures: Iterable[FailureRow], down: str, across: str) -> CountTable:
    """Count failures by two of their fields."""
    counts: Counter[tuple[str, str]] = Counter()
    rows: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    infra: Counter[str] = Counter()
    for each in failures:
        row, column = getattr(each, down), getattr(each, across)
        counts[row, column] += each.count
        rows[row] += each.count
        columns[column] += each.count
        infra[row] += each.count if each.infra else 0
    return CountTable(
        _sort_by_count(rows),
        _sort_by_count(columns),
        dict(counts),
        dict(rows),
        frozenset(row for row in rows if infra[row] == rows[row]),
    )


def _sort_by_count(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))


# Number of failing scenarios that a row names; the others are counted.
MAX_WEAK_SCENARIOS: Final = 1


class BoardRow(msgspec.Struct, frozen=True, kw_only=True):
    """The board row of one model.

    `gain` compares its strategy with the first one, whose rate is `start`. `weak` are its worst
    scenarios. `caution` means that the control, which is not part of the verdict, failed often.
    """

    advice: Recommendation
    view: CellView
    gain: Comparison | None = None
    start: float | None = None
    weak: tuple[ScenarioSummary, ...] = ()
    more_weak: int = 0
    caution: bool = False


class BoardGroup(msgspec.Struct, frozen=True):
    """The models with one decision."""

    decision: IntervalDecision
    rows: tuple[BoardRow, ...]


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """All groups, their axis, and flags for the columns that have figures."""

    groups: tuple[BoardGroup, ...] = ()
    axis: RateAxis = RateAxis()
    profiles: bool = False
    gains: bool = False
    times: bool = False
    costs: bool = False
    cautions: bool = False
    scenarios: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[BoardRow, ...]:
        """All rows, in group order."""
        return tuple(row for group in self.groups for row in group.rows)


def build_board(report: Report) -> Board:
    """Return the board of a report."""
    views = {view.cell: view for view in report.cells}
    groups = tuple(
        BoardGroup(
            decision,
            tuple(sorted((_board_row(each, views, report) for each in rows), key=_row_order)),
        )
        for decision, rows in group_by_decision(report.advice).items()
        if rows
    )
    rows = [row for group in groups for row in group.rows]
    return Board(
        groups=groups,
        axis=axis_for(view.totals.tool for view in report.cells),
        profiles=len({view.cell.profile for view in report.cells}) > 1,
        gains=any(row.gain for row in rows),
        times=any(row.view.totals.latency.tool.p95 for row in rows),
        costs=any(row.view.totals.cost_per_run is not None for row in rows),
        cautions=any(row.caution for row in rows),
        scenarios=tuple(
            dict.fromkeys(
                one.scenario for row in rows for one in row.view.totals.tool_scenarios if one.rate.n
            )
        ),
    )


def _board_row(advice: Recommendation, views: dict[Cell, CellView], report: Report) -> BoardRow:
    cell = Cell(advice.model, advice.decided_profile, advice.decided_strategy)
    view = views[cell]
    gain = gain_over_first(report.comparisons, cell.model, cell.profile, cell.strategy)
    first = Cell(cell.model, cell.profile, gain.first) if gain else cell
    weak = weakest_scenarios(view.totals)
    return BoardRow(
        advice=advice,
        view=view,
        gain=gain,
        start=views[first].totals.tool.rate if gain else None,
        weak=weak[:MAX_WEAK_SCENARIOS],
        more_weak=len(weak[MAX_WEAK_SCENARIOS:]),
        caution=is_control_unreliable(view.totals.control.as_rate),
    )


def _row_order(row: BoardRow) -> tuple[float, int, float]:
    """Sort key: rate, p95, and cost, best first."""
    rate, totals = row.advice.decided_tool.rate, row.view.totals
    order = 1.0 if rate is None else -rate
    return order, totals.latency.tool.p95, totals.cost_per_run or 0.0


# Marks closer than this share of the width would overlap.
_MIN_GAP: Final = 0.04


class RatePoint(msgspec.Struct, frozen=True):
    """A model's rate under one strategy. `mark` is the index of the strategy.

    `down` is the vertical offset in pixels that keeps marks from overlapping.
    """

    mark: int
    strategy: str
    tool: Figure
    down: int = 0


class RateMove(msgspec.Struct, frozen=True):
    """The gain of one model and the rates to draw."""

    gain: ModelGain
    points: tuple[RatePoint, ...]


class RateMoves(msgspec.Struct, frozen=True):
    """The models with fixed or broken conversations, largest gain first, and the others."""

    strategies: tuple[str, ...] = ()
    changed: tuple[RateMove, ...] = ()
    unchanged: tuple[ModelGain, ...] = ()


def rate_moves(report: Report) -> RateMoves:
    """Return the rate changes between the strategies of a report."""
    strategies = compared_strategies(report.comparisons)
    rates = {view.cell: view.totals.tool for view in report.cells}
    axis = axis_for(rates.values())
    found = model_gains(report.comparisons)
    return RateMoves(
        strategies,
        tuple(
            RateMove(gain, _separate_points(_rate_points(gain, strategies, rates), axis))
            for gain in found
            if gain.has_changes
        ),
        tuple(gain for gain in found if not gain.has_changes),
    )


def _rate_points(
    gain: ModelGain, strategies: tuple[str, ...], rates: dict[Cell, Figure]
) -> tuple[RatePoint, ...]:
    points = (
        RatePoint(mark, name, rates[cell])
        for mark, name in enumerate(strategies)
        if (cell := Cell(gain.model, gain.profile, name)) in rates
    )
    return tuple(point for point in points if point.tool.n)


def _separate_points(points: tuple[RatePoint, ...], axis: RateAxis) -> tuple[RatePoint, ...]:
    """Stack nearby marks vertically, in the order of strategies."""
    ranked = sorted(points, key=lambda point: (point.tool.rate or 0.0, point.mark))
    groups: list[list[RatePoint]] = []
    for point in ranked:
        if groups and _distance_on_axis(groups[-1][-1], point, axis) < _MIN_GAP:
            groups[-1].append(point)
        else:
            groups.append([point])
    stacked = (
        msgspec.structs.replace(point, down=(2 * level - len(group) + 1) * 14 // 2)
        for group in groups
        for level, point in enumerate(sorted(group, key=lambda each: each.mark))
    )
    return tuple(sorted(stacked, key=lambda point: point.mark))


def _distance_on_axis(first: RatePoint, second: RatePoint, axis: RateAxis) -> float:
    return axis.share(second.tool.rate or 0.0) - axis.share(first.tool.rate or 0.0)


SCRIPTS: Final = (
    "page_base.js",
    "page_data.js",
    "page_address.js",
    "page_list.js",
    "page_filters.js",
    "page_diff.js",
    "page_copies.js",
    "page_sent.js",
    "page_wire.js",
    "page_talk.js",
    "page_trace.js",
    "page_main.js",
)
DEFAULT_PROFILE: Final = Cell("").profile
STYLES: Final = (
    "style_base.css",
    "style_parts.css",
    "style_board.css",
    "style_run.css",
    "style_media.css",
)
# Characters that could end the data block.
_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(report: Report, traces: TraceSource = NO_TRACES, *, live: bool = False) -> str:
    """Return the page. Its policy allows connections to the server only if it is `live`."""
    return "".join(page_pieces(report, traces, live=live))


def page_pieces(
    report: Report, traces: TraceSource = NO_TRACES, *, live: bool = False
) -> Iterator[str]:
    """Yield the page in pieces, because its traces may be large."""
    script = _page_script(live=live)
    style = style_sheet()
    # Trace files are scripts, because a page opened from a file can load nothing else.
    bundled = " 'strict-dynamic'" if traces.is_bundled else ""
    allowed = f"script-src '{source_hash(script)}'{bundled}"
    return (
        template_environment()
        .get_template("page.html")
        .generate(
            **_template_context(report),
            live=live,
            policy=content_policy(style, allowed) + ("; connect-src 'self'" if live else ""),
            style=do_mark_safe(style),  # noqa: S704 - a file of this package
            script=do_mark_safe(script),  # noqa: S704 - files of this package
            data=do_mark_safe(runs_json(report, traces, live=live)),  # noqa: S704 - escaped there
            blocks=map(do_mark_safe, traces.inline),  # base64
        )
    )


def render_sections(report: Report) -> str:
    """Return the sections of the page that a live report replaces when it changes."""
    return template_environment().get_template("sections.html").render(**_template_context(report))


def runs_json(report: Report, traces: TraceSource = NO_TRACES, *, live: bool = False) -> str:
    """Return the data for the page scripts as JSON that is safe inside a data block.

    It is pure ASCII, so it does not depend on the encoding, and lone surrogates are preserved.
    """
    found = {
        "runs": msgspec.to_builtins(report.runs),
        "origin": msgspec.to_builtins(report.origin),
        "simulated": report.simulated,
        "meanings": {code: MEANINGS.get(code, "") for code in report.runs.codes},
        "control": CONTROL,
        "traces": {
            "kind": "live" if live else traces.kind,
            "starts": list(traces.starts),
            "note": traces.note,
            "folder": traces.folder,
        },
    }
    return json.dumps(found, separators=(",", ":")).translate(_ESCAPES)


@cache
def read_asset(name: str) -> str:
    """Return the text of a page asset."""
    return files("surecall.eval.report.page").joinpath("assets", name).read_text("utf-8")


def style_sheet(*more: str) -> str:
    """Return the style sheet of a page, with additional files appended."""
    return "".join(map(read_asset, (*STYLES, *more)))


def _page_script(*, live: bool) -> str:
    names = (*SCRIPTS, "live.js") if live else SCRIPTS
    # One function scope for all files, so that they define no globals.
    return "\n".join(["(() => {", '"use strict";', *map(read_asset, names), "})();"])


def content_policy(style: str, *more: str) -> str:
    """Return a content security policy that allows the style sheet and the `more` directives."""
    allowed = [
        "default-src 'none'",
        f"style-src '{source_hash(style)}'",
        *more,
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(allowed)


def source_hash(text: str) -> str:
    """Return the CSP hash source of an inline style sheet or script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@cache
def template_environment() -> jinja2.Environment:
    """Return the jinja2 environment of the page: autoescaping, undefined names raise."""
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(read_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (
        formatting.percent,
        formatting.bounds,
        formatting.points,
        formatting.seconds,
        formatting.count,
        formatting.count_noun,
        formatting.money,
        formatting.runs_link,
        formatting.run_link,
        formatting.wrappable,
        formatting.visible,
    )
    found.filters.update({function.__name__: function for function in filters})
    return found


def _template_context(report: Report) -> dict[str, object]:
    return {
        "report": report,
        "verdicts": verdict_labels(simulated=report.simulated),
        "parts": verdict_parts(report.advice),
        "steps_sentence": steps_sentence(report.comparisons),
        "rules": formatting.DECISION_RULES,
        "meanings": MEANINGS,
        "board": build_board(report),
        "moves": rate_moves(report),
        "models": _cells_by_model(report),
        "call_sources": call_sources_by_strategy(report),
        "by_scenario": count_table(report.failures, "code", "scenario"),
        "by_model": count_table(report.failures, "model", "code"),
        "curves": plot_curves(report.curves),
        "several": len({view.cell.strategy for view in report.cells}) > 1,
    }


def _cells_by_model(report: Report) -> dict[str, list[CellView]]:
    """Return the cells of each model, default profile first so that it is in one column."""
    found: dict[str, list[CellView]] = {view.cell.model: [] for view in report.cells}
    for view in sorted(report.cells, key=lambda view: view.cell.profile != DEFAULT_PROFILE):
        found[view.cell.model].append(view)
    return found
