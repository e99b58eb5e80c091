"""Aggregates trials into the figures of cells, strategies, and the whole run.

    Trial ─► ScenarioCounts per cell and scenario ─► Totals by cell, strategy, all

There are two rates. The *tool* rate measures the model and excludes runs with infrastructure
errors. The *end-to-end* rate measures the service and counts those runs as failures. The control
and scenarios without tools have their own rates; skipped trials count in none. Trials are read
once, and their order does not affect the results.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from math import fsum
from typing import Final, TypeAlias

import msgspec

from surecall.eval.analysis.comparisons import (
    Comparisons,
    ToolOutcomes,
    compare_strategies,
    sort_names,
    sort_strategies,
)
from surecall.eval.analysis.failure_causes import (
    CauseCount,
    CauseTally,
    causes_of,
    count_causes,
    rank_counts,
)
from surecall.eval.analysis.stats import (
    EMPTY_RATE,
    FIXED_TRIALS,
    Rate,
    StoppingRule,
    pass_hat,
    percentile_index,
    pooled_interval,
)
from surecall.eval.storage.trial import (
    BehaviorMetrics,
    Cell,
    FalseFinals,
    ScenarioKind,
    Status,
    Trial,
)
from surecall.values.types import Usage


class Figure(msgspec.Struct, frozen=True):
    """A rate with its interval, which is clustered if there are enough scenarios."""

    k: int
    n: int
    rate: float | None
    low: float
    high: float

    @property
    def as_rate(self) -> Rate:
        """The counts without the interval."""
        return Rate(self.k, self.n)


class Timing(msgspec.Struct, frozen=True):
    """Percentiles of `n` durations, in milliseconds.

    `points` has the value at each percent from 0 to 100.
    """

    n: int = 0
    p50: int = 0
    p95: int = 0
    points: tuple[int, ...] = ()


class Latency(msgspec.Struct, frozen=True):
    """Durations of whole runs, including retries and tools, and of single requests.

    Reports show p50 and p95 of `tool`: the runs that count toward the tool rate. Runs with
    infrastructure errors measure client timeouts, so only `runs` includes them.
    """

    runs: Timing = Timing()
    tool: Timing = Timing()
    control: Timing = Timing()
    no_tools: Timing = Timing()
    requests: Timing = Timing()


def pooled_figure(parts: Iterable[Rate], stopping: StoppingRule = FIXED_TRIALS) -> Figure:
    """Return the pooled rate of several scenarios, with its interval."""
    rates = tuple(parts)
    total = sum(rates, EMPTY_RATE)
    bounds = pooled_interval(rates, sequential=stopping.sequential)
    return Figure(total.k, total.n, total.rate, *bounds)


class DurationCounts:
    """Durations in milliseconds, stored as counts of distinct values to save memory."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self.counts = Counter(values)

    def add(self, *values: int) -> None:
        """Add durations."""
        self.counts.update(values)

    @classmethod
    def merge(cls, parts: Iterable["DurationCounts"]) -> "DurationCounts":
        """Return the union of several collections."""
        found = cls()
        for part in parts:
            found.counts.update(part.counts)
        return found

    def __len__(self) -> int:
        return self.counts.total()

    def percentiles(self, percents: Sequence[int]) -> tuple[int, ...]:
        """Return the values at ascending percents, as defined by `stats.percentile`."""
        values = sorted(self.counts)
        ends = list(accumulate(self.counts[value] for value in values))
        if not values:
            return tuple(0 for _ in percents)
        places = (percentile_index(percent, ends[-1]) for percent in percents)
        return tuple(values[bisect_right(ends, place)] for place in places)

    @property
    def timing(self) -> Timing:
        """Percentiles for reports."""
        if not self.counts:
            return Timing()
        points = self.percentiles(range(101))
        return Timing(len(self), points[50], points[95], points)


_EMPTY_FIGURE: Final = pooled_figure(())


class ScenarioCounts:
    """Counts over the trials of one scenario in one cell."""

    def __init__(self) -> None:
        self.statuses: Counter[Status] = Counter()
        self.kind: ScenarioKind = "tool"
        self.first_ok = 0
        self.run_ms = DurationCounts()
        self.scored_ms = DurationCounts()
        self.request_ms = DurationCounts()
        self.usage = Usage()
        self.costs = array("d")
        self.retries = 0
        self.failures: Counter[tuple[str, str, bool]] = Counter()
        self.repairs: Counter[str] = Counter()
        self.repairs_passed: Counter[str] = Counter()
        self.false_finals = FalseFinals()
        self.unsupported_claims = 0
        self.conduct = BehaviorMetrics()
        self.builds: Counter[str] = Counter()
        self.causes = CauseTally()

    def add(self, trial: Trial) -> None:
        """Add a trial."""
        self.statuses[trial.status] += 1
        self.kind = trial.kind
        if trial.status == "skipped":
            return
        self._add_effort(trial)
        if trial.status != "infra":
            self.scored_ms.add(trial.elapsed_ms)
            self.first_ok += trial.first_ok
            self.conduct += BehaviorMetrics.of(trial)
        fired = set(trial.fired)
        self.repairs.update(fired)
        if trial.ok:
            self.repairs_passed.update(fired)
        else:
            provider = trial.requests[-1].provider if trial.requests else ""
            self.failures[trial.category, provider, trial.status == "infra"] += 1
            self.causes.add(trial.key, causes_of(trial))

    def _add_effort(self, trial: Trial) -> None:
        """Add the time, tokens, cost, and retries of a trial."""
        self.run_ms.add(trial.elapsed_ms)
        self.request_ms.add(*(request.latency_ms for request in trial.requests))
        self.usage += trial.usage
        if trial.usage.cost is not None:
            self.costs.append(trial.usage.cost)
        self.retries += trial.retries
        self.false_finals += FalseFinals.of(trial.false_finals, passed=trial.ok)
        self.unsupported_claims += trial.unsupported_claims
        self.builds.update(trial.builds)

    @property
    def scored_rate(self) -> Rate:
        """Rate of passed runs, excluding infrastructure errors."""
        passed = self.statuses["passed"]
        return Rate(passed, passed + self.statuses["failed"])

    @property
    def end_to_end_rate(self) -> Rate:
        """Rate of passed runs, with infrastructure errors as failures."""
        return self.scored_rate + Rate(0, self.statuses["infra"])


MAX_CONSECUTIVE: Final = 10


class FailureCount(msgspec.Struct, frozen=True):
    """Number of runs of a scenario in one failure category.

    `provider` served the last request, if known.
    """

    category: str
    scenario: str
    provider: str
    infra: bool
    count: int


class RepairCount(msgspec.Struct, frozen=True):
    """Number of runs in which a repair was applied, and how many of those passed."""

    name: str
    runs: int
    passed: int


class ScenarioSummary(msgspec.Struct, frozen=True):
    """The figures of one scenario."""

    scenario: str
    kind: ScenarioKind = "tool"
    rate: Figure = _EMPTY_FIGURE
    end_to_end: Rate = EMPTY_RATE
    infra: int = 0
    skipped: int = 0
    false_finals: FalseFinals = FalseFinals()
    conduct: BehaviorMetrics = BehaviorMetrics()


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """All figures over a set of trials.

    `no_tools` is the rate of scenarios without tools, other than the control. `pass_hat[k - 1]` is
    the probability that a tool scenario passes k times in a row, averaged over cells and scenarios,
    for each k that all of them have trials for. `builds` counts runs by server build, where the
    endpoint reports it.
    """

    trials: int = 0
    infra: int = 0
    skipped: int = 0
    first_ok: int = 0
    tool: Figure = _EMPTY_FIGURE
    end_to_end: Figure = _EMPTY_FIGURE
    control: Figure = _EMPTY_FIGURE
    no_tools: Figure = _EMPTY_FIGURE
    pass_hat: tuple[float, ...] = ()
    scenarios: tuple[ScenarioSummary, ...] = ()
    latency: Latency = Latency()
    usage: Usage = Usage()
    cost_per_run: float | None = None
    retries: int = 0
    failures: tuple[FailureCount, ...] = ()
    repairs: tuple[RepairCount, ...] = ()
    false_finals: FalseFinals = FalseFinals()
    unsupported_claims: int = 0
    builds: dict[str, int] = {}
    conduct: BehaviorMetrics = BehaviorMetrics()
    causes: tuple[CauseCount, ...] = ()

    @property
    def run_count(self) -> int:
        """Number of trials that were not skipped."""
        return self.trials - self.skipped

    @property
    def passed_count(self) -> int:
        """Number of passed trials of all kinds."""
        return self.tool.k + self.control.k + self.no_tools.k

    @property
    def tool_scenarios(self) -> tuple[ScenarioSummary, ...]:
        """The scenarios that count toward the tool rate."""
        return tuple(each for each in self.scenarios if each.kind == "tool")


class CellSummary(msgspec.Struct, frozen=True):
    """The figures of one cell.

    `better_than` lists the strategies that the cell's own is significantly better than. `at_limit`
    means that the cell has as many trials as the stopping rule allows.
    """

    cell: Cell
    totals: Totals
    better_than: tuple[str, ...] = ()
    stopping: StoppingRule = FIXED_TRIALS
    at_limit: bool = False


class Summary(msgspec.Struct, frozen=True):
    """The figures of one evaluation."""

    cells: tuple[CellSummary, ...]
    strategies: dict[str, Totals]
    totals: Totals
    comparisons: Comparisons


_CountsByScenario: TypeAlias = dict[tuple[Cell, str], ScenarioCounts]


def summarize(
    trials: Iterable[Trial],
    *,
    cells: Iterable[Cell] = (),
    scenarios: Iterable[str] = (),
    stopping: StoppingRule = FIXED_TRIALS,
) -> Summary:
    """Return the figures of trials.

    `cells` and `scenarios` set the order; a listed cell appears even without trials. `stopping`
    determines how wide the intervals of tool rates must be.
    """
    counts: _CountsByScenario = {}
    found = ToolOutcomes()
    for trial in trials:
        place = (trial.key.cell, trial.key.scenario)
        counts.setdefault(place, ScenarioCounts()).add(trial)
        if trial.kind == "tool":
            found.add(trial.key, trial.status)
    planned = tuple(dict.fromkeys(cells))
    extra = {cell for cell, _ in counts}.difference(planned)
    names = sort_names({scenario for _, scenario in counts}, scenarios)
    cell_order = (*planned, *sorted(extra))
    strategies = {cell.strategy for cell in cell_order}
    compared = compare_strategies(found, cell_order)
    return Summary(
        cells=tuple(_cell_summary(cell, counts, names, compared, stopping) for cell in cell_order),
        strategies={
            strategy: _totals(_counts_of_strategy(counts, strategy), names, stopping)
            for strategy in sort_names(strategies, sort_strategies(strategies))
        },
        totals=_totals(counts, names, stopping),
        comparisons=compared,
    )


def _cell_summary(
    cell: Cell,
    counts: _CountsByScenario,
    names: Sequence[str],
    comparisons: Comparisons,
    stopping: StoppingRule,
) -> CellSummary:
    counts = {place: count for place, count in counts.items() if place[0] == cell}
    tried = [count.statuses.total() for count in counts.values() if count.kind == "tool"]
    at_limit = 0 < stopping.max_trials <= min(tried, default=0)
    totals = _totals(counts, names, stopping)
    return CellSummary(cell, totals, comparisons.strategies_beaten_by(cell), stopping, at_limit)


def count_by(failures: Iterable[FailureCount], field: str) -> dict[str, int]:
    """Return failure counts by `category`, `scenario`, or `provider`, most frequent first."""
    counts: Counter[str] = Counter()
    for failure in failures:
        counts[getattr(failure, field)] += failure.count
    return rank_counts(counts)


def _counts_of_strategy(counts: _CountsByScenario, strategy: str) -> _CountsByScenario:
    return {place: count for place, count in counts.items() if place[0].strategy == strategy}


def _totals(counts: _CountsByScenario, names: Iterable[str], stopping: StoppingRule) -> Totals:
    tool = {place: count for place, count in counts.items() if count.kind == "tool"}
    every = list(counts.values())
    pooled = partial(_clustered_figure, tool, stopping)
    costs = [cost for count in every for cost in count.costs]
    cost = fsum(costs) if costs else None
    usage = sum((count.usage for count in every), Usage())
    return Totals(
        trials=sum(count.statuses.total() for count in every),
        infra=_count_status(every, "infra"),
        skipped=_count_status(every, "skipped"),
        tool=pooled(lambda count: count.scored_rate),
        end_to_end=pooled(lambda count: count.end_to_end_rate),
        control=_kind_figure(every, "control"),
        no_tools=_kind_figure(every, "no_tools"),
        first_ok=sum(count.first_ok for count in every),
        pass_hat=_average_pass_hat([count.scored_rate for count in tool.values()]),
        scenarios=_scenario_summaries(counts, names),
        latency=_latency(every),
        usage=msgspec.structs.replace(usage, cost=cost),
        cost_per_run=None if cost is None else cost / len(costs),
        retries=sum(count.retries for count in every),
        failures=_failure_counts(counts),
        repairs=_repair_counts(every),
        false_finals=sum((count.false_finals for count in every), FalseFinals()),
        unsupported_claims=sum(count.unsupported_claims for count in every),
        builds=_runs_by_build(every),
        conduct=sum((count.conduct for count in every), BehaviorMetrics()),
        causes=count_causes(count.causes for count in every),
    )


def _count_status(counts: Iterable[ScenarioCounts], status: Status) -> int:
    return sum(count.statuses[status] for count in counts)


def _kind_figure(counts: Iterable[ScenarioCounts], kind: ScenarioKind) -> Figure:
    """Return the rate of the scenarios of one kind, such as the control."""
    return pooled_figure(
        [sum((count.scored_rate for count in counts if count.kind == kind), EMPTY_RATE)]
    )


def _clustered_figure(
    counts: _CountsByScenario, stopping: StoppingRule, pick: Callable[[ScenarioCounts], Rate]
) -> Figure:
    """Pool a rate over cells within each scenario, then over scenarios as clusters."""
    by_scenario: dict[str, Rate] = {}
    for (_, scenario), count in sorted(counts.items(), key=lambda item: item[0]):
        by_scenario[scenario] = by_scenario.get(scenario, EMPTY_RATE) + pick(count)
    return pooled_figure(by_scenario.values(), stopping)


def _average_pass_hat(rates: Iterable[Rate]) -> tuple[float, ...]:
    """Return the mean of pass^k over scenarios, for each k that all have trials for."""
    tried = [rate for rate in rates if rate.n]
    if not tried:
        return ()
    longest = min(MAX_CONSECUTIVE, *(rate.n for rate in tried))
    return tuple(
        fsum(pass_hat(k, rate.k, rate.n) or 0.0 for rate in tried) / len(tried)
        for k in range(1, longest + 1)
    )


def _scenario_summaries(
    counts: _CountsByScenario, names: Iterable[str]
) -> tuple[ScenarioSummary, ...]:
    by_name = {
        name: [count for place, count in counts.items() if place[1] == name] for name in names
    }
    return tuple(_scenario_summary(name, found) for name, found in by_name.items() if found)


def _scenario_summary(name: str, counts: list[ScenarioCounts]) -> ScenarioSummary:
    return ScenarioSummary(
        name,
        counts[0].kind,
        pooled_figure([sum((count.scored_rate for count in counts), EMPTY_RATE)]),
        sum((count.end_to_end_rate for count in counts), EMPTY_RATE),
        _count_status(counts, "infra"),
        _count_status(counts, "skipped"),
        sum((count.false_finals for count in counts), FalseFinals()),
        sum((count.conduct for count in counts), BehaviorMetrics()),
    )


def _latency(counts: Sequence[ScenarioCounts]) -> Latency:
    def timing_of(kind: ScenarioKind) -> Timing:
        return DurationCounts.merge(
            count.scored_ms for count in counts if count.kind == kind
        ).timing

    return Latency(
        runs=DurationCounts.merge(count.run_ms for count in counts).timing,
        tool=timing_of("tool"),
        control=timing_of("control"),
        no_tools=timing_of("no_tools"),
        requests=DurationCounts.merge(count.request_ms for count in counts).timing,
    )


def _failure_counts(counts: _CountsByScenario) -> tuple[FailureCount, ...]:
    rows: Counter[tuple[str, str, str, bool]] = Counter()
    for (_, scenario), count in counts.items():
        for (category, provider, infra), number in count.failures.items():
            rows[category, scenario, provider, infra] += number
    return tuple(FailureCount(*row, number) for row, number in rank_counts(rows).items())


def _repair_counts(counts: Iterable[ScenarioCounts]) -> tuple[RepairCount, ...]:
    runs: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for count in counts:
        runs.update(count.repairs)
        passed.update(count.repairs_passed)
    return tuple(
        RepairCount(name, number, passed[name]) for name, number in rank_counts(runs).items()
    )


def _runs_by_build(counts: Iterable[ScenarioCounts]) -> dict[str, int]:
    """Return the number of runs of each build of the provider, the most frequent first."""
    runs: Counter[str] = Counter()
    for count in counts:
        runs.update(count.builds)
    return rank_counts(runs)
