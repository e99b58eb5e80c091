"""Tests of `surecall.eval.analysis.summary`."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.failure_causes import count_causes
from surecall.eval.analysis.recommendations import profile_candidates
from surecall.eval.analysis.stats import Rate, StoppingRule, percentile, pooled_interval
from surecall.eval.analysis.summary import (
    DurationCounts,
    FailureCount,
    Figure,
    RepairCount,
    ScenarioCounts,
    Summary,
    Timing,
    count_by,
    pooled_figure,
    summarize,
)
from surecall.eval.report.page.data import STATUSES
from surecall.eval.storage.trial import CONTROL, Cell, Miss, Score, ServedRequest, Trial
from surecall.values.types import Usage
from tests.support.spec import proves
from tests.support.trials import CELL, ONE_SCENARIO, rich_trials, series, trial

# From trials to figures: what counts where, and whatever the order


def only(summary: Summary) -> Summary:
    assert len(summary.cells) == 1
    assert summary.cells[0].totals == summary.totals
    return summary


def test_the_tool_rate_leaves_out_what_the_model_is_not_to_blame_for() -> None:
    totals = only(summarize(series("...xii s".replace(" ", "")))).totals

    assert totals.tool.as_rate == Rate(3, 4)
    assert totals.end_to_end.as_rate == Rate(3, 6)
    assert (totals.trials, totals.infra, totals.skipped) == (7, 2, 1)


def test_the_control_is_counted_apart() -> None:
    totals = summarize([*series("..x"), *series(".xxi", CONTROL)]).totals

    assert totals.tool.as_rate == Rate(2, 3)
    assert totals.end_to_end.as_rate == Rate(2, 3)
    assert totals.control.as_rate == Rate(1, 3)
    assert totals.infra == 1


@proves("I29")
def test_a_figure_carries_its_rate_and_interval() -> None:
    low, high = Rate(2, 3).interval

    assert summarize(series("..x")).totals.tool == Figure(2, 3, 2 / 3, low, high)
    assert pooled_figure([]) == Figure(0, 0, None, 0.0, 1.0)


def test_a_cell_nobody_ran_yet_is_shown_without_a_rate() -> None:
    later = Cell("maker/later")

    first, second = summarize(series("."), cells=[later, CELL, later]).cells

    assert (first.cell, second.cell) == (later, CELL)
    assert first.totals.tool.rate is None
    assert first.totals.latency.tool == Timing()
    assert first.totals.cost_per_run is None
    assert first.totals.pass_hat == ()
    assert first.totals.scenarios == ()


def test_cells_and_scenarios_keep_the_order_of_the_plan_and_others_follow() -> None:
    cells = [Cell("z"), Cell("b"), Cell("a")]
    trials = [each for cell in cells for name in "xyz" for each in series(".", name, cell)]

    summary = summarize(trials, cells=[Cell("z")], scenarios=["y", "never", "y"])

    assert [each.cell.model for each in summary.cells] == ["z", "a", "b"]
    assert [each.scenario for each in summary.totals.scenarios] == ["y", "x", "z"]


def test_the_order_in_which_trials_arrive_changes_nothing() -> None:
    trials = rich_trials()
    expected = msgspec.json.encode(summarize(trials))
    for seed in range(5):
        random.Random(seed).shuffle(trials)  # noqa: S311 - any order will do
        assert msgspec.json.encode(summarize(iter(trials))) == expected


def test_a_summary_survives_json() -> None:
    summary = summarize(rich_trials())

    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary) == summary


def test_totals_add_up() -> None:
    trials = rich_trials()
    summary = summarize(trials)

    assert sum(each.totals.trials for each in summary.cells) == len(trials) == 96
    assert list(summary.strategies) == ["baseline", "production"]
    for name in ("tool", "end_to_end", "control"):
        cells: list[Figure] = [getattr(each.totals, name) for each in summary.cells]
        strategies: list[Figure] = [getattr(each, name) for each in summary.strategies.values()]
        whole: Figure = getattr(summary.totals, name)
        assert sum((each.as_rate for each in cells), Rate(0, 0)) == whole.as_rate
        assert sum((each.as_rate for each in strategies), Rate(0, 0)) == whole.as_rate
    passed = sum(each.ok and not each.is_control for each in trials)
    assert summary.totals.tool.k == passed


def test_an_empty_evaluation_has_an_empty_summary() -> None:
    summary = summarize([])

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

    latency = summarize(ran).totals.latency

    assert _shown(latency.tool) == (2, 30, 30)
    assert _shown(latency.control) == (1, 20, 20)
    assert _shown(latency.no_tools) == (1, 90, 90)
    assert _shown(latency.runs) == (5, 30, 90)
    assert _shown(latency.requests) == (3, 5, 9)


def _shown(timing: Timing) -> tuple[int, int, int]:
    return timing.n, timing.p50, timing.p95


def _served(ms: int, provider: str = "") -> ServedRequest:
    return ServedRequest(0, ms, 1, provider=provider)


def test_tokens_cost_and_retries_are_summed_and_an_unknown_cost_stays_unknown() -> None:
    priced = [
        trial("passed", 1, usage=Usage(3, 4, 7, cost=0.25), retries=2),
        trial("infra", 2, usage=Usage(1, 0, 1, cost=0.5), retries=1),
        trial("failed", 3, usage=Usage(1, 1, 2)),
    ]

    totals = summarize(priced).totals

    assert totals.usage == Usage(5, 5, 10, cost=0.75)
    assert totals.cost_per_run == 0.375
    assert totals.retries == 3
    assert summarize(series("..")).totals.usage.cost is None


def test_first_attempts_that_passed_are_counted() -> None:
    rescued = [
        trial("passed", 1, first_ok=True),
        trial("passed", 2, first_ok=False, attempts=2),
        trial("failed", 3),
        trial("infra", 4),
    ]

    assert summarize(rescued).totals.first_ok == 1


def test_pass_hat_is_averaged_over_scenarios_and_models_never_pooled() -> None:
    other = Cell("maker/other")
    trials = [*series("..."), *series("..x", "two"), *series("xxxx", "two", other)]

    totals = summarize([*trials, *series("xx", CONTROL)]).totals

    assert totals.pass_hat == pytest.approx(
        [(1 + 2 / 3 + 0) / 3, (1 + 1 / 3 + 0) / 3, (1 + 0 + 0) / 3]
    )


def test_pass_hat_stops_at_ten() -> None:
    assert len(summarize(series("." * 25)).totals.pass_hat) == 10


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

    failures = summarize(trials).totals.failures

    assert failures == (
        FailureCount("TIMEOUT", ONE_SCENARIO, "acme", infra=True, count=2),
        FailureCount("ASSERTION_FAILED", ONE_SCENARIO, "", infra=False, count=1),
        FailureCount("NO_TOOL_CALLS", "two", "acme", infra=False, count=1),
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

    assert summarize(healed).totals.repairs == (
        RepairCount("unwrapped", 2, 1),
        RepairCount("tags", 1, 1),
    )


def test_each_scenario_has_its_rates() -> None:
    scenario, *others = summarize([*series("..xis", cell=Cell("a")), *series(".")]).totals.scenarios

    assert not others
    assert scenario.rate.as_rate == Rate(3, 4)
    assert scenario.end_to_end == Rate(3, 5)
    assert (scenario.infra, scenario.skipped) == (1, 1)


def test_from_eight_scenarios_on_the_interval_is_clustered() -> None:
    rates = [Rate(4, 4)] * 7 + [Rate(0, 4)]
    trials = [
        each
        for at, rate in enumerate(rates)
        for each in series("." * rate.k + "x" * (rate.n - rate.k), f"s{at}")
    ]

    tool = summarize(trials).totals.tool

    assert (tool.low, tool.high) == pooled_interval(rates)
    assert tool.low < Rate(28, 32).interval[0]


def test_scenarios_without_tools_have_a_rate_of_their_own() -> None:
    mine = [trial(status, at, "mine", tools=False) for at, status in enumerate(STATUSES, 1)]
    totals = summarize([*series("..x"), *mine, *series(".", CONTROL)]).totals

    assert totals.tool.as_rate == Rate(2, 3)
    assert totals.end_to_end.as_rate == Rate(2, 3)
    assert totals.control.as_rate == Rate(1, 1)
    assert totals.no_tools.as_rate == Rate(1, 2)
    assert {each.scenario: each.kind for each in totals.scenarios} == {
        "happy_path": "tool",
        "mine": "no_tools",
        CONTROL: "control",
    }
    (found,) = profile_candidates(summarize([*series("..x"), *mine]).cells)
    assert (found.tool, found.parts, found.infra) == (Rate(2, 3), (Rate(2, 3),), 0)
    assert sum(found.causes.values()) == 1


FIVE = series("." * 5)


def at_limit(trials: list[Trial], most: int = 5) -> bool:
    (cell,) = summarize(
        trials, cells=[CELL], stopping=StoppingRule(sequential=True, max_trials=most)
    ).cells
    assert cell.totals.tool == pooled_figure([cell.totals.tool.as_rate], cell.stopping)
    return cell.at_limit


def test_a_cell_is_at_its_limit_when_every_tool_scenario_is() -> None:
    assert at_limit(FIVE)
    assert at_limit(series("...ii"))
    assert at_limit([*FIVE, *series(".", CONTROL)])
    assert not at_limit(series("." * 4))
    assert not at_limit([*FIVE, *series("....", "other")])
    assert not at_limit([])
    assert not at_limit(FIVE, most=0)


# Figures: a rate with its interval, and times


def test_a_figure_pools_rates_and_has_their_interval() -> None:
    parts = [Rate(3, 4), Rate(4, 4)]

    assert pooled_figure(parts) == Figure(7, 8, 7 / 8, *pooled_interval(parts))
    assert pooled_figure(parts).as_rate == Rate(7, 8)
    assert pooled_figure([]) == Figure(0, 0, None, 0.0, 1.0)


def test_after_many_looks_the_interval_is_wider() -> None:
    once, often = (
        pooled_figure([Rate(40, 40)]),
        pooled_figure([Rate(40, 40)], StoppingRule(sequential=True)),
    )

    assert often.low < once.low
    assert (often.k, often.n, often.rate) == (once.k, once.n, once.rate)


def test_times_are_counted_and_never_interpolated() -> None:
    found = DurationCounts([3, 1, 2]).timing
    assert (found.n, found.p50, found.p95) == (3, 2, 3)
    assert (found.points[0], found.points[100]) == (1, 3)
    assert DurationCounts().timing == Timing()
    assert DurationCounts().percentiles((0, 100)) == (0, 0)


@given(st.lists(st.lists(st.integers(0, 30), max_size=30)))
def test_times_are_those_that_were_added_in_whatever_parts(parts: list[list[int]]) -> None:
    percents = range(101)
    found = DurationCounts.merge(map(DurationCounts, parts))
    every = [value for part in parts for value in part]

    assert len(found) == len(every)
    assert found.percentiles(percents) == tuple(percentile(every, each) for each in percents)
    one_by_one = DurationCounts()
    for value in every:
        one_by_one.add(value)
    assert one_by_one.percentiles(percents) == found.percentiles(percents)


# What the trials of one scenario in one cell add up to; `test_summary` tests the rest


def test_causes_are_kept_with_the_run_that_they_are_of() -> None:
    count = ScenarioCounts()
    missed = trial("failed", 2, score=Score(misses=(Miss("the state is 1", "1", "2"),)))
    for one in (trial(), missed, trial("skipped", 3)):
        count.add(one)

    (cause,) = count_causes([count.causes])
    assert (cause.runs, cause.times, cause.check) == ((missed.key,), 1, "the state is 1")


def test_what_was_spoiled_is_in_the_end_to_end_rate_alone() -> None:
    count = ScenarioCounts()
    for one in (trial(), trial("infra", 2), trial("failed", 3)):
        count.add(one)

    assert (count.scored_rate, count.end_to_end_rate) == (Rate(1, 2), Rate(1, 3))
    assert count.first_ok == 1
