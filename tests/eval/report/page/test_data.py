"""What a report says: the figures of the summary, every run in columns, and what is not known."""

import msgspec
import pytest

from surecall.eval.analysis.figures import Figure
from surecall.eval.analysis.summary import summarise
from surecall.eval.report.common import Column, Sheet
from surecall.eval.report.page.data import Context, FailureRow, Report, report_of
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from tests.support.eval_results import CELLS, NAMES, many, sheet, trial
from tests.support.trials import rich_trials, series


def test_the_figures_are_those_of_the_summary() -> None:
    trials = rich_trials()
    summary, report = summarise(trials), report_of(trials, Context())

    assert [(view.cell, view.tool, view.control) for view in report.cells] == [
        (each.cell, each.totals.tool, each.totals.control) for each in summary.cells
    ]
    assert report.strategy == "production"
    assert report.tool == summary.strategies["production"].tool
    assert report.comparisons == summary.comparisons
    assert report.reliability.repairs == summary.totals.repairs
    assert report.trials == len(trials)


def test_cells_stand_in_the_order_of_the_plan_and_appear_before_their_first_run() -> None:
    planned = (*CELLS, Cell("never/run"))
    report = report_of(many(), Context(sheet=sheet(*planned)))

    assert [view.cell for view in report.cells] == list(planned)
    assert report.cells[-1].trials == 0
    assert report.cells[-1].tokens_per_run is None


def test_failures_are_counted_by_code_scenario_model_and_provider() -> None:
    served = {"requests": [{"turn": 0, "latency_ms": 5, "attempt": 1, "provider": "Fast"}]}
    base = trial(CELLS[0], status="failed")
    trials = [
        msgspec.convert(msgspec.to_builtins(base) | served, Trial),
        trial(CELLS[0], number=2, status="infra"),
        trial(CELLS[2], "chat_only", 1, "failed"),
        trial(CELLS[2], number=1),
        trial(CELLS[2], number=9, status="skipped"),
    ]
    report = report_of(trials, Context())

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
    report = report_of([*series("..x"), *series("xxx", CONTROL)], Context())

    assert (report.tool.k, report.tool.n) == (2, 3)
    assert (report.control.k, report.control.n) == (0, 3)
    assert [each.scenario for each in report.scenarios] == ["happy_path"]
    assert [each.scenario for each in report.cells[0].scenarios] == ["happy_path"]


def test_the_hardest_scenario_is_the_one_that_passed_least() -> None:
    report = report_of([*series("..x", "one"), *series(".xx", "two"), *series("..")], Context())

    assert report.hardest is not None
    assert report.hardest.scenario == "two"
    assert report_of(series(".."), Context()).hardest is None


def test_cells_whose_interval_holds_the_bar_are_counted_as_undecided() -> None:
    trials = [*series("." * 40, cell=Cell("sure")), *series("." * 5, cell=Cell("unsure"))]

    assert report_of(trials, Context()).undecided == 1


@pytest.mark.parametrize(("settings", "bar"), [({}, 0.9), ({"bar": 75}, 0.75), ({"bar": "?"}, 0.9)])
def test_the_bar_is_that_of_the_run(settings: dict[str, object], bar: float) -> None:
    assert report_of([], Context(sheet=Sheet(settings=settings))).bar == bar


def test_one_simulated_model_makes_the_report_a_simulated_one() -> None:
    columns = (Column(CELLS[0]), Column(CELLS[1], simulated=True))

    assert report_of([], Context(sheet=Sheet(columns))).simulated
    assert not report_of([], Context(sheet=Sheet(columns[:1]))).simulated


def test_nothing_is_to_be_configured_for_a_simulated_model() -> None:
    column = Column(
        Cell("maker/model"), simulated=True, imitates="qwen/qwen3-next-80b-a3b-instruct"
    )
    simulated = report_of(series("..."), Context(sheet=Sheet((column,))))
    real = report_of(series("..."), Context())

    assert "presets.resolve" in real.advice[0].snippet
    assert (simulated.advice[0].snippet, simulated.advice[0].simulated) == ("", True)


def test_a_report_of_nothing_has_nothing_to_say() -> None:
    report = report_of([], Context())

    assert report == msgspec.structs.replace(Report(), runs=report.runs)
    assert (report.runs.count, report.undecided, report.hardest) == (0, 0, None)


def test_a_report_is_plain_data() -> None:
    report = report_of(rich_trials(), Context(sheet=sheet(*CELLS)))

    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_curves_meet_the_percentiles_of_the_summary() -> None:
    trials = rich_trials()
    latency = summarise(trials).totals.latency
    found = {curve.name: curve for curve in report_of(trials, Context()).reliability.curves}

    tool = found["whole runs with tools"]
    assert (tool.n, tool.points[50], tool.points[95]) == (
        latency.tool.n,
        latency.tool.p50,
        latency.tool.p95,
    )
    assert found["single requests"].points[95] == latency.requests.p95
    assert list(tool.points) == sorted(tool.points)


def test_scenarios_are_listed_in_the_order_of_the_plan() -> None:
    report = report_of(many(), Context(sheet=sheet(*CELLS, scenarios=NAMES[::-1])))

    assert [each.scenario for each in report.scenarios] == ["long_arguments_guard", "happy_path"]
    assert isinstance(report.cells[0].tool, Figure)
