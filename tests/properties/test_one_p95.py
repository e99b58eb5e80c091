"""There is one p95: the runs that make the tool rate. Every place that shows one shows this."""

from surecall.cli.eval_summary import verdict_lines
from surecall.cli.tables import CellTable
from surecall.eval.analysis.recommendations import profile_candidates, recommend
from surecall.eval.analysis.stats import percentile
from surecall.eval.analysis.summary import summarize
from surecall.eval.report.markdown import matrix_table
from surecall.eval.report.page.data import ReportContext, build_report
from surecall.eval.report.run_results import Sheet, SheetColumn, collect_results
from surecall.eval.report.summary_json import cell_json
from surecall.eval.storage.trial import CONTROL, Trial
from tests.support.trials import CELL, trial


def mixed_trials() -> list[Trial]:
    """Make runs of every kind; those of the rate are neither the fastest nor the slowest."""
    return [
        *(trial("passed", number, elapsed_ms=1_000 * number) for number in range(1, 31)),
        *(trial("failed", number, "other", elapsed_ms=999 * number) for number in range(1, 9)),
        *(trial("infra", number, "third", elapsed_ms=125_000) for number in range(1, 9)),
        *(trial("passed", number, CONTROL, elapsed_ms=90_000) for number in range(1, 31)),
        *(trial("passed", number, "mine", elapsed_ms=9, tools=False) for number in range(1, 31)),
    ]


def test_every_report_shows_the_same_p95() -> None:
    trials = mixed_trials()
    judged = [each for each in trials if each.kind == "tool" and each.status != "infra"]
    p95 = percentile((each.elapsed_ms for each in judged), 95)
    sheet = Sheet((SheetColumn(CELL),))
    results = collect_results(sheet, trials)
    summary = summarize(trials)
    (advice,) = recommend(profile_candidates(summary.cells))
    page = build_report(trials, ReportContext(sheet=sheet))

    assert p95 == 29_000
    assert summary.totals.latency.tool.p95 == p95
    assert cell_json(results, CELL)["tool_ms_p95"] == p95
    assert f"| {p95} |" in matrix_table(results)
    assert advice.p95_ms == p95
    assert page.cells[0].totals.latency.tool.p95 == p95
    assert page.curves["tool runs"].points[95] == p95
    assert f"{p95 / 1000:.1f} s" in CellTable([], 0.9, trials).lines(200)[1]
    assert f"{p95 / 1000:.1f} s" in verdict_lines([advice], summary.cells, 0.9)[1]
