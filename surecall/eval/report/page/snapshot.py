"""The report of the figures on record, for the documentation: counts, but no single runs."""

from collections import Counter
from collections.abc import Sequence

from surecall.eval.analysis.candidate import BAR, Candidate, decide
from surecall.eval.analysis.figures import figure
from surecall.eval.analysis.recommend import recommend
from surecall.eval.analysis.snapshot import Snapshot, snapshot
from surecall.eval.report.page.data import CellView, FailureRow, Origin, Report, ScenarioRate
from surecall.eval.storage.trial import CONTROL, Cell

_NOTICE = (
    "These are the figures on record of one live evaluation. Its single runs have not survived, "
    "and of each cell's failures only the most frequent are known."
)
_ABOUT = "comparability.md"
_UNKNOWN = "not recorded"


def report_of_snapshot() -> Report:
    """Return the report of the evaluation that ships with the package."""
    found = snapshot()
    names = [each.id for each in found.scenarios if each.id != CONTROL]
    total = figure([found.tool])
    return Report(
        origin=Origin(name="figures on record"),
        strategy=found.cells[0].strategy,
        notices=(_NOTICE, *(remark.text for remark in found.remarks)),
        about=_ABOUT,
        infra=None,
        tool=total,
        control=figure([found.control]),
        end_to_end=total,
        trials=found.tool.n + found.control.n,
        scenarios=tuple(
            ScenarioRate(each.id, each.k, each.n) for each in found.scenarios if each.id != CONTROL
        ),
        advice=recommend(found.cells),
        cells=tuple(_view(each, names) for each in found.cells),
        failures=_failures(found),
    )


def _view(each: Candidate, names: Sequence[str]) -> CellView:
    return CellView(
        cell=Cell(each.model, each.profile, each.strategy),
        tool=figure([each.tool]),
        control=figure([each.control]),
        decision=decide(each, BAR),
        scenarios=_scenarios(each, names),
        misses=each.misses,
        p95_ms=each.p95_ms,
        trials=each.tool.n + each.control.n,
    )


def _scenarios(each: Candidate, names: Sequence[str]) -> tuple[ScenarioRate, ...]:
    """Tell scenarios apart where the recorded misses are all there were; all ran equally often."""
    if sum(each.misses.values()) != each.tool.n - each.tool.k:
        return ()
    share = each.tool.n // len(names)
    return tuple(ScenarioRate(name, share - each.misses.get(name, 0), share) for name in names)


def _failures(found: Snapshot) -> tuple[FailureRow, ...]:
    """Count what is known: every failure by model, and the most frequent ones by scenario."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in found.cells:
        for scenario, count in each.misses.items():
            counts[scenario, each.model] += count
        rest = each.tool.n - each.tool.k - sum(each.misses.values())
        if rest:
            counts[_UNKNOWN, each.model] += rest
    return tuple(
        FailureRow(_UNKNOWN, scenario, model, "", infra=False, count=count)
        for (scenario, model), count in counts.most_common()
    )
