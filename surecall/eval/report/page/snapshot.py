"""The evaluation recorded in the specification, as data and as a report.

The package ships its counts (the trials are lost), so that the rules can be checked against
verdicts written by hand. The observed rule reproduces all 17 verdicts and 15 profiles. The figures
do not support the other two profiles, of `x-ai/grok-4.1-fast` and `z-ai/glm-4.7-flash:nitro`; their
remarks explain why.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec

from surecall.eval.analysis.recommendations import (
    DEFAULT_THRESHOLD,
    ProfileCandidate,
    interval_decision,
    recommend,
)
from surecall.eval.analysis.stats import EMPTY_RATE, Rate
from surecall.eval.analysis.summary import Latency, ScenarioSummary, Timing, Totals, pooled_figure
from surecall.eval.report.page.data import CellView, FailureRow, Origin, Report
from surecall.eval.storage.trial import CONTROL, Cell
from surecall.settings.catalog import parse_entries, parse_tables, read_packaged

SNAPSHOT_FILE: Final = "snapshot.toml"


class ScenarioRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counts of one scenario over all cells."""

    id: str
    k: int
    n: int


class HandVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict written by hand. `remark` notes where the figures disagree."""

    model: str
    profile: str
    label: str
    remark: str = ""

    @property
    def verdict(self) -> str:
        """The label without its qualification in parentheses."""
        return self.label.partition(" (")[0]


class Remark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A note on how to interpret the figures."""

    text: str


class Snapshot(msgspec.Struct, frozen=True):
    """A recorded evaluation, in which infrastructure errors count as failures."""

    cells: tuple[ProfileCandidate, ...]
    scenarios: tuple[ScenarioRecord, ...]
    verdicts: tuple[HandVerdict, ...]
    remarks: tuple[Remark, ...]

    @property
    def tool(self) -> Rate:
        """The rate over all tool scenarios."""
        return sum((cell.tool for cell in self.cells), EMPTY_RATE)

    @property
    def control(self) -> Rate:
        """The rate of the control."""
        return sum((cell.control for cell in self.cells), EMPTY_RATE)


@cache
def load_snapshot() -> Snapshot:
    """Return the evaluation that ships with the package."""
    document = parse_tables(read_packaged(SNAPSHOT_FILE), ("cell", "scenario", "verdict", "remark"))
    return Snapshot(
        parse_entries(document, "cell", ProfileCandidate),
        parse_entries(document, "scenario", ScenarioRecord),
        parse_entries(document, "verdict", HandVerdict),
        parse_entries(document, "remark", Remark),
    )


_NOTICE = (
    "These are the recorded figures of one live evaluation. Its individual runs are not available, "
    "and only the most frequent failures of each cell are known."
)
_UNKNOWN = "not recorded"


def snapshot_report() -> Report:
    """Return the report of the evaluation that ships with the package, for the documentation."""
    found = load_snapshot()
    names = [each.id for each in found.scenarios if each.id != CONTROL]
    total = Totals(
        trials=found.tool.n + found.control.n,
        tool=pooled_figure([found.tool]),
        control=pooled_figure([found.control]),
        scenarios=tuple(
            _scenario_summary(each.id, each.k, each.n)
            for each in found.scenarios
            if each.id != CONTROL
        ),
    )
    return Report(
        origin=Origin(name="recorded figures"),
        strategy=found.cells[0].strategy,
        notices=(_NOTICE, *(remark.text for remark in found.remarks)),
        about="comparison.md#what-you-can-compare",
        infra_failed=True,
        headline=total,
        totals=total,
        advice=recommend(found.cells),
        cells=tuple(_cell_view(each, names) for each in found.cells),
        failures=_failure_rows(found),
    )


def _cell_view(candidate: ProfileCandidate, names: Sequence[str]) -> CellView:
    totals = Totals(
        trials=candidate.tool.n + candidate.control.n,
        tool=pooled_figure([candidate.tool]),
        control=pooled_figure([candidate.control]),
        scenarios=_scenario_summaries(candidate, names),
        latency=Latency(tool=Timing(p95=candidate.p95_ms)),
    )
    cell = Cell(candidate.model, candidate.profile, candidate.strategy)
    return CellView(
        cell=cell, totals=totals, decision=interval_decision(candidate, DEFAULT_THRESHOLD)
    )


def _scenario_summary(name: str, passed: int, runs: int) -> ScenarioSummary:
    return ScenarioSummary(name, rate=pooled_figure([Rate(passed, runs)]))


def _scenario_summaries(
    candidate: ProfileCandidate, names: Sequence[str]
) -> tuple[ScenarioSummary, ...]:
    """Return rates by scenario if all misses are recorded. Every scenario ran equally often."""
    if sum(candidate.misses.values()) != candidate.tool.n - candidate.tool.k:
        return ()
    share = candidate.tool.n // len(names)
    return tuple(
        _scenario_summary(name, share - candidate.misses.get(name, 0), share) for name in names
    )


def _failure_rows(snapshot: Snapshot) -> tuple[FailureRow, ...]:
    """Return all failures by model, and the most frequent ones by scenario."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in snapshot.cells:
        for scenario, count in each.misses.items():
            counts[scenario, each.model] += count
        rest = each.tool.n - each.tool.k - sum(each.misses.values())
        if rest:
            counts[_UNKNOWN, each.model] += rest
    return tuple(
        FailureRow(_UNKNOWN, scenario, model, "", infra=False, count=count)
        for (scenario, model), count in counts.most_common()
    )
