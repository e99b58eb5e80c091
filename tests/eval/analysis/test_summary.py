"""From trials to figures: what counts where, and whatever the order."""

import random
from typing import Any

import msgspec
import pytest

from surecall.eval.analysis.figures import Figure, Timing, figure
from surecall.eval.analysis.recommend import candidates
from surecall.eval.analysis.stats import Rate, Stopping, interval
from surecall.eval.analysis.summary import Failure, Repair, Summary, count_by, summarise
from surecall.eval.report.page.runs import STATUSES
from surecall.eval.storage.trial import CONTROL, Cell, Score, Served, Trial
from surecall.values.types import Usage
from tests.support.spec import proves
from tests.support.trials import CELL, ONE_SCENARIO, rich_trials, series, trial


def only(summary: Summary) -> Summary:
    assert len(summary.cells) == 1
    assert summary.cells[0].totals == summary.totals
    return summary


def test_the_tool_rate_leaves_out_what_the_model_is_not_to_blame_for() -> None:
    totals = only(summarise(series("...xii s".replace(" ", "")))).totals

    assert totals.tool.counts == Rate(3, 4)
    assert totals.end_to_end.counts == Rate(3, 6)
    assert (totals.trials, totals.infra, totals.skipped) == (7, 2, 1)


def test_the_control_is_counted_apart() -> None:
    totals = summarise([*series("..x"), *series(".xxi", CONTROL)]).totals

    assert totals.tool.counts == Rate(2, 3)
    assert totals.end_to_end.counts == Rate(2, 3)
    assert totals.control.counts == Rate(1, 3)
    assert totals.infra == 1


@proves("I29")
def test_a_figure_carries_its_rate_and_interval() -> None:
    low, high = Rate(2, 3).interval

    assert summarise(series("..x")).totals.tool == Figure(2, 3, 2 / 3, low, high)
    assert figure([]) == Figure(0, 0, None, 0.0, 1.0)


def test_a_cell_nobody_ran_yet_is_shown_without_a_rate() -> None:
    later = Cell("maker/later")

    first, second = summarise(series("."), cells=[later, CELL, later]).cells

    assert (first.cell, second.cell) == (later, CELL)
    assert first.totals.tool.rate is None
    assert first.totals.latency.tool == Timing()
    assert first.totals.cost_per_run is None
    assert first.totals.pass_hat == ()
    assert first.totals.scenarios == ()


def test_cells_and_scenarios_keep_the_order_of_the_plan_and_others_follow() -> None:
    cells = [Cell("z"), Cell("b"), Cell("a")]
    trials = [each for cell in cells for name in "xyz" for each in series(".", name, cell)]

    summary = summarise(trials, cells=[Cell("z")], scenarios=["y", "never", "y"])

    assert [each.cell.model for each in summary.cells] == ["z", "a", "b"]
    assert [each.scenario for each in summary.totals.scenarios] == ["y", "x", "z"]


def test_the_order_in_which_trials_arrive_changes_nothing() -> None:
    trials = rich_trials()
    expected = msgspec.json.encode(summarise(trials))
    for seed in range(5):
        random.Random(seed).shuffle(trials)  # noqa: S311 - any order will do
        assert msgspec.json.encode(summarise(iter(trials))) == expected


def test_a_summary_survives_json() -> None:
    summary = summarise(rich_trials())

    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary) == summary


def test_totals_add_up() -> None:
    trials = rich_trials()
    summary = summarise(trials)

    assert sum(each.totals.trials for each in summary.cells) == len(trials) == 96
    assert list(summary.strategies) == ["baseline", "production"]
    for name in ("tool", "end_to_end", "control", "first_attempt"):
        cells: list[Figure] = [getattr(each.totals, name) for each in summary.cells]
        strategies: list[Figure] = [getattr(each, name) for each in summary.strategies.values()]
        whole: Figure = getattr(summary.totals, name)
        assert sum((each.counts for each in cells), Rate(0, 0)) == whole.counts
        assert sum((each.counts for each in strategies), Rate(0, 0)) == whole.counts
    passed = sum(each.ok and not each.is_control for each in trials)
    assert summary.totals.tool.k == passed


def test_an_empty_evaluation_has_an_empty_summary() -> None:
    summary = summarise([])

    assert summary.cells == ()
    assert summary.strategies == {}
    assert summary.totals.trials == 0


def test_times_are_of_the_runs_that_make_a_rate_and_of_all_requests() -> None:
    ran = [
        trial("passed", 1, elapsed_ms=10, requests=[_served(1), _served(9)]),
        trial("failed", 2, elapsed_ms=30, requests=[_served(5)]),
        trial("infra", 3, elapsed_ms=50),
        trial("skipped", 4, elapsed_ms=70),
        trial("passed", 1, CONTROL, elapsed_ms=20),
        trial("passed", 1, "mine", elapsed_ms=90, tools=False),
    ]

    latency = summarise(ran).totals.latency

    assert latency.tool == Timing(2, 30, 30)
    assert latency.control == Timing(1, 20, 20)
    assert latency.requests == Timing(3, 5, 9)


def _served(ms: int, provider: str = "") -> Served:
    return Served(0, ms, 1, provider=provider)


def test_tokens_cost_and_retries_are_summed_and_an_unknown_cost_stays_unknown() -> None:
    priced = [
        trial("passed", 1, usage=Usage(3, 4, 7, cost=0.25), retries=2),
        trial("infra", 2, usage=Usage(1, 0, 1, cost=0.5), retries=1),
        trial("failed", 3, usage=Usage(1, 1, 2)),
    ]

    totals = summarise(priced).totals

    assert totals.usage == Usage(5, 5, 10, cost=0.75)
    assert totals.cost_per_run == 0.375
    assert totals.retries == 3
    assert summarise(series("..")).totals.usage.cost is None


def test_the_first_attempt_has_a_rate_of_its_own() -> None:
    rescued = [
        trial("passed", 1, first_ok=True),
        trial("passed", 2, first_ok=False, attempts=2),
        trial("failed", 3),
        trial("infra", 4),
    ]

    assert summarise(rescued).totals.first_attempt.counts == Rate(1, 3)


def test_pass_hat_is_averaged_over_scenarios_and_models_never_pooled() -> None:
    other = Cell("maker/other")
    trials = [*series("..."), *series("..x", "two"), *series("xxxx", "two", other)]

    totals = summarise([*trials, *series("xx", CONTROL)]).totals

    assert totals.pass_hat == pytest.approx(
        [(1 + 2 / 3 + 0) / 3, (1 + 1 / 3 + 0) / 3, (1 + 0 + 0) / 3]
    )


def test_pass_hat_stops_at_ten() -> None:
    assert len(summarise(series("." * 25)).totals.pass_hat) == 10


def test_failures_are_counted_by_what_where_and_who_served_them() -> None:
    slow: dict[str, Any] = {
        "category": "TIMEOUT",
        "requests": [_served(1, "first"), _served(1, "acme")],
    }
    trials = [
        *series(".x"),
        trial("infra", 3, **slow),
        trial("infra", 4, **slow),
        trial("failed", 5, "two", category="NO_TOOL_CALLS", requests=[_served(1, "acme")]),
    ]

    failures = summarise(trials).totals.failures

    assert failures == (
        Failure("TIMEOUT", ONE_SCENARIO, "acme", infra=True, count=2),
        Failure("ASSERTION_FAILED", ONE_SCENARIO, "", infra=False, count=1),
        Failure("NO_TOOL_CALLS", "two", "acme", infra=False, count=1),
    )
    assert count_by(failures, "provider") == {"acme": 3, "": 1}
    assert list(count_by(failures, "category")) == ["TIMEOUT", "ASSERTION_FAILED", "NO_TOOL_CALLS"]
    assert count_by(failures, "scenario") == {ONE_SCENARIO: 3, "two": 1}


def test_a_repair_counts_once_for_each_run_it_fired_in() -> None:
    healed = [
        trial("passed", 1, fired=["unwrapped", "unwrapped", "tags"]),
        trial("failed", 2, fired=["unwrapped"]),
        trial("passed", 3),
    ]

    assert summarise(healed).totals.repairs == (Repair("unwrapped", 2, 1), Repair("tags", 1, 1))


def test_the_parts_of_a_score_are_rates_over_the_runs_they_apply_to() -> None:
    guard = "long_arguments_guard"
    seen = {"guard_fired": True, "recovered": False}
    scored = [
        trial("passed", 1, guard, score=Score(state=True, process=True, final=True)),
        trial("failed", 2, guard, score=Score(state=True, process=False, facts=seen)),
        trial("failed", 3, guard, score=Score(state=False, warnings=("slip",), facts=seen)),
        trial("infra", 4, guard, score=Score(state=False, facts=seen)),
        trial("passed", 1, CONTROL, score=Score(final=True)),
    ]

    totals = summarise(scored).totals
    parts = {name: part.counts for name, part in totals.parts.items()}
    scenario = totals.scenarios[1]

    assert parts == {"state": Rate(2, 3), "process": Rate(1, 2), "final": Rate(1, 1)}
    assert totals.warned == 1
    assert scenario.scenario == guard
    assert scenario.parts == totals.parts
    assert {name: fact.counts for name, fact in scenario.facts.items()} == {
        "guard_fired": Rate(2, 2),
        "recovered": Rate(0, 2),
    }


def test_each_scenario_has_its_rates() -> None:
    scenario, *others = summarise([*series("..xis", cell=Cell("a")), *series(".")]).totals.scenarios

    assert not others
    assert scenario.rate.counts == Rate(3, 4)
    assert scenario.end_to_end.counts == Rate(3, 5)
    assert (scenario.infra, scenario.skipped) == (1, 1)


def test_from_eight_scenarios_on_the_interval_is_clustered() -> None:
    rates = [Rate(4, 4)] * 7 + [Rate(0, 4)]
    trials = [
        each
        for at, rate in enumerate(rates)
        for each in series("." * rate.k + "x" * (rate.n - rate.k), f"s{at}")
    ]

    tool = summarise(trials).totals.tool

    assert (tool.low, tool.high) == interval(rates)
    assert tool.low < Rate(28, 32).interval[0]


def test_scenarios_without_tools_have_a_rate_of_their_own() -> None:
    mine = [trial(status, at, "mine", tools=False) for at, status in enumerate(STATUSES, 1)]
    totals = summarise([*series("..x"), *mine, *series(".", CONTROL)]).totals

    assert totals.tool.counts == Rate(2, 3)
    assert totals.end_to_end.counts == Rate(2, 3)
    assert totals.control.counts == Rate(1, 1)
    assert totals.no_tools.counts == Rate(1, 2)
    assert {each.scenario: each.kind for each in totals.scenarios} == {
        "happy_path": "tool",
        "mine": "no_tools",
        CONTROL: "control",
    }
    (found,) = candidates(summarise([*series("..x"), *mine]).cells)
    assert (found.tool, found.parts, found.infra) == (Rate(2, 3), (Rate(2, 3),), 0)
    assert sum(found.causes.values()) == 1


FIVE = series("." * 5)


def at_limit(trials: list[Trial], most: int = 5) -> bool:
    (cell,) = summarise(trials, cells=[CELL], stopping=Stopping(sequential=True, most=most)).cells
    assert cell.totals.tool == figure([cell.totals.tool.counts], cell.stopping)
    return cell.at_limit


def test_a_cell_is_at_its_limit_when_every_tool_scenario_is() -> None:
    assert at_limit(FIVE)
    assert at_limit(series("...ii"))
    assert at_limit([*FIVE, *series(".", CONTROL)])
    assert not at_limit(series("." * 4))
    assert not at_limit([*FIVE, *series("....", "other")])
    assert not at_limit([])
    assert not at_limit(FIVE, most=0)
