"""Tests of `surecall.eval.report.page.data`."""

import msgspec
import pytest

from surecall.eval.analysis.summary import Figure, summarize
from surecall.eval.report.page.data import (
    STATUSES,
    FailureRow,
    Report,
    ReportContext,
    build_report,
    call_sources_by_strategy,
)
from surecall.eval.report.run_results import Sheet, SheetColumn
from surecall.eval.storage.trial import CONTROL, Cell, Miss, Score, Trial
from surecall.values.types import Usage
from tests.support.trials import CELLS, NAMES, many, report_trial, rich_trials, series, sheet

# What a report says: the figures of the summary, every run in columns, and what is not known


def test_the_figures_are_those_of_the_summary() -> None:
    trials = rich_trials()
    summary, report = summarize(trials), build_report(trials, ReportContext())

    assert [(view.cell, view.totals.tool, view.totals.control) for view in report.cells] == [
        (each.cell, each.totals.tool, each.totals.control) for each in summary.cells
    ]
    assert report.strategy == "production"
    assert report.headline.tool == summary.strategies["production"].tool
    assert report.comparisons == summary.comparisons
    assert report.totals.repairs == summary.totals.repairs
    assert report.totals.trials == len(trials)


def test_cells_stand_in_the_order_of_the_plan_and_appear_before_their_first_run() -> None:
    planned = (*CELLS, Cell("never/run"))
    report = build_report(many(), ReportContext(sheet=sheet(*planned)))

    assert [view.cell for view in report.cells] == list(planned)
    assert report.cells[-1].totals.trials == 0
    assert report.cells[-1].tokens_per_run is None


def test_failures_are_counted_by_code_scenario_model_and_provider() -> None:
    served = {"requests": [{"turn": 0, "latency_ms": 5, "attempt": 1, "provider": "Fast"}]}
    base = report_trial(CELLS[0], status="failed")
    trials = [
        msgspec.convert(msgspec.to_builtins(base) | served, Trial),
        report_trial(CELLS[0], number=2, status="infra"),
        report_trial(CELLS[2], "chat_only", 1, "failed"),
        report_trial(CELLS[2], number=1),
        report_trial(CELLS[2], number=9, status="skipped"),
    ]
    report = build_report(trials, ReportContext())

    assert set(report.failures) == {
        FailureRow("ASSERTION_FAILED", "happy_path", "z/last", "Fast", infra=False, count=1),
        FailureRow("TIMEOUT", "happy_path", "z/last", "", infra=True, count=1),
        FailureRow("ASSERTION_FAILED", "chat_only", "a/first", "", infra=False, count=1),
    }
    assert [(row.provider, row.passed, row.failed, row.infra) for row in report.providers] == [
        ("", 1, 1, 1),
        ("Fast", 0, 1, 0),
    ]


def test_the_control_is_apart_from_the_score() -> None:
    report = build_report([*series("..x"), *series("xxx", CONTROL)], ReportContext())

    assert (report.headline.tool.k, report.headline.tool.n) == (2, 3)
    assert (report.headline.control.k, report.headline.control.n) == (0, 3)
    assert [each.scenario for each in report.headline.tool_scenarios] == ["happy_path"]
    assert [each.scenario for each in report.cells[0].totals.tool_scenarios] == ["happy_path"]


def test_the_hardest_scenario_is_the_one_that_passed_least() -> None:
    report = build_report(
        [*series("..x", "one"), *series(".xx", "two"), *series("..")], ReportContext()
    )

    assert report.hardest_scenario is not None
    assert report.hardest_scenario.scenario == "two"
    assert build_report(series(".."), ReportContext()).hardest_scenario is None


def test_cells_whose_interval_holds_the_bar_are_counted_as_undecided() -> None:
    trials = [*series("." * 40, cell=Cell("sure")), *series("." * 5, cell=Cell("unsure"))]

    assert build_report(trials, ReportContext()).undecided_count == 1


@pytest.mark.parametrize(("settings", "bar"), [({}, 0.9), ({"bar": 75}, 0.75), ({"bar": "?"}, 0.9)])
def test_the_bar_is_that_of_the_run(settings: dict[str, object], bar: float) -> None:
    assert build_report([], ReportContext(sheet=Sheet(settings=settings))).threshold == bar


def test_one_simulated_model_makes_the_report_a_simulated_one() -> None:
    columns = (SheetColumn(CELLS[0]), SheetColumn(CELLS[1], simulated=True))

    assert build_report([], ReportContext(sheet=Sheet(columns))).simulated
    assert not build_report([], ReportContext(sheet=Sheet(columns[:1]))).simulated


def test_nothing_is_to_be_configured_for_a_simulated_model() -> None:
    column = SheetColumn(
        Cell("maker/model"), simulated=True, imitates="qwen/qwen3-next-80b-a3b-instruct"
    )
    simulated = build_report(series("..."), ReportContext(sheet=Sheet((column,))))
    real = build_report(series("..."), ReportContext())

    assert "presets.resolve" in real.advice[0].snippet
    assert (simulated.advice[0].snippet, simulated.advice[0].simulated) == ("", True)


def test_a_report_of_nothing_has_nothing_to_say() -> None:
    report = build_report([], ReportContext())

    assert report == msgspec.structs.replace(Report(), runs=report.runs)
    assert (report.runs.count, report.undecided_count, report.hardest_scenario) == (0, 0, None)


def test_a_report_is_plain_data() -> None:
    report = build_report(rich_trials(), ReportContext(sheet=sheet(*CELLS)))

    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_curves_meet_the_percentiles_of_the_summary() -> None:
    trials = rich_trials()
    latency = summarize(trials).totals.latency
    found = build_report(trials, ReportContext()).curves

    tool = found["tool runs"]
    assert (tool.n, tool.points[50], tool.points[95]) == (
        latency.tool.n,
        latency.tool.p50,
        latency.tool.p95,
    )
    assert found["single requests"].points[95] == latency.requests.p95
    assert list(tool.points) == sorted(tool.points)


def test_scenarios_are_listed_in_the_order_of_the_plan() -> None:
    report = build_report(many(), ReportContext(sheet=sheet(*CELLS, scenarios=NAMES[::-1])))

    assert [each.scenario for each in report.headline.tool_scenarios] == [
        "long_arguments_guard",
        "happy_path",
    ]
    assert isinstance(report.cells[0].totals.tool, Figure)


# Runs as columns: every run can be read back


def reported(*trials: Trial, **context: object) -> Report:
    return build_report(trials, msgspec.convert(context, ReportContext))


def test_every_run_can_be_read_from_the_columns() -> None:
    trials = many()
    runs = build_report(trials, ReportContext()).runs

    found = [
        (runs.key_at(at), STATUSES[runs.status[at]], runs.codes[runs.code[at]], runs.ms[at])
        for at in range(runs.count)
    ]
    assert found == [(each.key, each.status, each.category, each.elapsed_ms) for each in trials]


def test_a_cost_that_nobody_told_is_not_zero() -> None:
    told = report_trial(CELLS[0], number=1, usage=Usage(total_tokens=9, cost=0.0012))
    free = report_trial(CELLS[0], number=2, usage=Usage(cost=0.0))
    report = reported(told, free, report_trial(CELLS[0], number=3))

    assert report.runs.micros == (1200, 0, -1)
    assert report.runs.tokens == (9, 0, 0)


def test_a_long_error_is_cut_and_one_that_repeats_stands_once() -> None:
    failed = [
        report_trial(CELLS[0], number=number, status="failed", error=error)
        for number, error in enumerate(("x" * 999, "same", "same"), 1)
    ]
    runs = reported(*failed).runs

    assert runs.error == (1, 2, 2)
    assert len(runs.errors[1]) == 200


def test_runs_with_the_same_causes_share_them() -> None:
    one, two = Miss("a file was lost"), Miss("the answer is short", "a word", turn=1)
    failed = [
        report_trial(
            CELLS[0], number=number, status="failed", category="ASSERTION_FAILED", score=score
        )
        for number, score in enumerate((Score(misses=(one, two)), Score(misses=(two, one, two))), 1)
    ]
    runs = reported(*failed, failed[0], report_trial(CELLS[0], number=4)).runs

    assert runs.causes == ("a file was lost", "the answer is short")
    assert runs.unmet == (1,)
    assert runs.sets == ((0, 1), (1, 0), ())
    assert runs.missed == (0, 1, 0, 2)


# Where calls were looked for, by strategy


def reading(**readers: tuple[str, ...]) -> Report:
    """Return a report whose models have these readers."""
    trials = [each for model in readers for each in series(".", cell=Cell(model))]
    report = build_report(trials, ReportContext())
    cells = [
        msgspec.structs.replace(view, call_sources=readers[view.cell.model])
        for view in report.cells
    ]
    return msgspec.structs.replace(report, cells=tuple(cells))


def test_readers_that_every_model_has_come_first() -> None:
    same = call_sources_by_strategy(
        reading(a=("native", "tags in text"), b=("native", "tags in text"))
    )
    mixed = call_sources_by_strategy(reading(a=("native",), b=("native", "tags in text")))

    assert [(each.strategy, each.text) for each in same] == [("production", "native, tags in text")]
    assert [each.text for each in mixed] == ["native; for some models also tags in text"]


def test_what_is_not_on_record_is_not_told() -> None:
    assert call_sources_by_strategy(reading(a=())) == ()
