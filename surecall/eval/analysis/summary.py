"""Trials in any order, read once, reduced to the figures of a report.

    Trial ─► one count for each cell and scenario ─► Totals by cell, strategy, all

There are always two rates. *Tool* is about the model: runs that the endpoint spoiled are
left out. *End to end* is about the service: they count as failures. The control has a rate of its
own, and so have scenarios without tools; skipped trials have none. Sums do not depend on the order
in which trials arrive.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import fsum
from typing import Final, TypeAlias

import msgspec

from surecall.eval.analysis.causes import CauseCount, count_causes
from surecall.eval.analysis.counting import PARTS, Count
from surecall.eval.analysis.figures import Figure, Latency, Times, figure
from surecall.eval.analysis.outcomes import Outcomes
from surecall.eval.analysis.paired import (
    Comparisons,
    by_strategy,
    compare_strategies,
    in_order,
)
from surecall.eval.analysis.stats import CHOSEN, NOTHING, Rate, Stopping, pass_hat
from surecall.eval.storage.trial import Cell, Conduct, FalseFinals, Kind, Status, Trial
from surecall.values.types import Usage

MOST_IN_A_ROW: Final = 10


class Failure(msgspec.Struct, frozen=True):
    """How often a scenario ended in one way. `provider` served the last request, if known."""

    category: str
    scenario: str
    provider: str
    infra: bool
    count: int


class Repair(msgspec.Struct, frozen=True):
    """In how many runs a repair step fired, and how many of those passed."""

    name: str
    runs: int
    passed: int


class ScenarioSummary(msgspec.Struct, frozen=True):
    """One scenario: its rates, the parts of its score, and what was seen to happen."""

    scenario: str
    kind: Kind
    rate: Figure
    end_to_end: Figure
    infra: int
    skipped: int
    parts: dict[str, Figure]
    facts: dict[str, Figure]
    false_finals: FalseFinals = FalseFinals()


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Every figure over some set of trials. `parts` and `pass_hat` are about tool scenarios.

    `no_tools` is the rate of scenarios that offer none, other than the control.
    `pass_hat[k - 1]` is the chance that a scenario passes k times in a row, averaged over cells
    and scenarios, for each k that all of them have trials for. `builds` counts the runs that each
    build of a server had a part in, where the endpoint tells. `causes` say why runs failed.
    """

    trials: int
    infra: int
    skipped: int
    tool: Figure
    end_to_end: Figure
    control: Figure
    no_tools: Figure
    first_attempt: Figure
    parts: dict[str, Figure]
    pass_hat: tuple[float, ...]
    scenarios: tuple[ScenarioSummary, ...]
    latency: Latency
    usage: Usage
    cost_per_run: float | None
    retries: int
    warned: int
    failures: tuple[Failure, ...]
    repairs: tuple[Repair, ...]
    false_finals: FalseFinals = FalseFinals()
    builds: dict[str, int] = {}
    conduct: Conduct = Conduct()
    causes: tuple[CauseCount, ...] = ()


class CellSummary(msgspec.Struct, frozen=True):
    """The figures of one cell, and which strategies its own is significantly better than.

    `stopping` is how the number of its trials came about. It is `at_limit` when it has as many as
    that allows.
    """

    cell: Cell
    totals: Totals
    better_than: tuple[str, ...] = ()
    stopping: Stopping = CHOSEN
    at_limit: bool = False


class Summary(msgspec.Struct, frozen=True):
    """The figures of one evaluation."""

    cells: tuple[CellSummary, ...]
    strategies: dict[str, Totals]
    totals: Totals
    comparisons: Comparisons


_Counts: TypeAlias = dict[tuple[Cell, str], Count]


def summarise(
    trials: Iterable[Trial],
    *,
    cells: Iterable[Cell] = (),
    scenarios: Iterable[str] = (),
    stopping: Stopping = CHOSEN,
) -> Summary:
    """Reduce trials to figures. `cells` and `scenarios` give the order of the report.

    A cell named there appears even before its first trial. `stopping` says how many looks there
    were at the rates over tool scenarios, and so how wide their intervals must be.
    """
    counts: _Counts = {}
    found = Outcomes()
    for trial in trials:
        place = (trial.key.cell, trial.key.scenario)
        counts.setdefault(place, Count()).add(trial)
        if trial.kind == "tool":
            found.add(trial.key, trial.status)
    planned = tuple(dict.fromkeys(cells))
    extra = {cell for cell, _ in counts}.difference(planned)
    names = in_order({scenario for _, scenario in counts}, scenarios)
    cell_order = (*planned, *sorted(extra))
    strategies = {cell.strategy for cell in cell_order}
    compared = compare_strategies(found, cell_order)
    return Summary(
        cells=tuple(
            _cell(cell, _of(counts, cell), names, compared, stopping) for cell in cell_order
        ),
        strategies={
            strategy: _totals(_with_strategy(counts, strategy), names, stopping)
            for strategy in in_order(strategies, by_strategy(strategies))
        },
        totals=_totals(counts, names, stopping),
        comparisons=compared,
    )


def _cell(
    cell: Cell, counts: _Counts, names: Sequence[str], compared: Comparisons, stopping: Stopping
) -> CellSummary:
    tried = [count.statuses.total() for count in counts.values() if count.kind == "tool"]
    at_limit = 0 < stopping.most <= min(tried, default=0)
    totals = _totals(counts, names, stopping)
    return CellSummary(cell, totals, compared.beaten_by(cell), stopping, at_limit)


def count_by(failures: Iterable[Failure], field: str) -> dict[str, int]:
    """Add up failures by `category`, `scenario` or `provider`, the most frequent first."""
    counts: Counter[str] = Counter()
    for failure in failures:
        counts[getattr(failure, field)] += failure.count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _of(counts: _Counts, cell: Cell) -> _Counts:
    return {place: count for place, count in counts.items() if place[0] == cell}


def _with_strategy(counts: _Counts, strategy: str) -> _Counts:
    return {place: count for place, count in counts.items() if place[0].strategy == strategy}


def _totals(counts: _Counts, names: Iterable[str], stopping: Stopping) -> Totals:
    tool = {place: count for place, count in counts.items() if count.kind == "tool"}
    every = list(counts.values())
    pooled = partial(_figure, tool, stopping)
    costs = [cost for count in every for cost in count.costs]
    cost = fsum(costs) if costs else None
    usage = sum((count.usage for count in every), Usage())
    return Totals(
        trials=sum(count.statuses.total() for count in every),
        infra=_statuses(every, "infra"),
        skipped=_statuses(every, "skipped"),
        tool=pooled(lambda count: count.judged),
        end_to_end=pooled(lambda count: count.end_to_end),
        control=_judged(every, "control"),
        no_tools=_judged(every, "no_tools"),
        first_attempt=pooled(lambda count: count.first_attempt),
        parts={name: pooled(partial(Count.part, name=name)) for name in PARTS},
        pass_hat=_pass_hat([count.judged for count in tool.values()]),
        scenarios=_scenarios(counts, names),
        latency=_latency(every),
        usage=msgspec.structs.replace(usage, cost=cost),
        cost_per_run=None if cost is None else cost / len(costs),
        retries=sum(count.retries for count in every),
        warned=sum(count.warned for count in every),
        failures=_failures(counts),
        repairs=_repairs(every),
        false_finals=sum((count.false_finals for count in every), FalseFinals()),
        builds=_builds(every),
        conduct=sum((count.conduct for count in every), Conduct()),
        causes=count_causes(count.causes for count in every),
    )


def _statuses(counts: Iterable[Count], status: Status) -> int:
    return sum(count.statuses[status] for count in counts)


def _judged(counts: Iterable[Count], kind: Kind) -> Figure:
    return figure([sum((count.judged for count in counts if count.kind == kind), NOTHING)])


def _figure(counts: _Counts, stopping: Stopping, pick: Callable[[Count], Rate]) -> Figure:
    """Pool a rate over cells within each scenario, then over scenarios, which cluster it."""
    by_scenario: dict[str, Rate] = {}
    for (_, scenario), count in sorted(counts.items(), key=lambda item: item[0]):
        by_scenario[scenario] = by_scenario.get(scenario, NOTHING) + pick(count)
    return figure(by_scenario.values(), stopping)


def _pass_hat(rates: Iterable[Rate]) -> tuple[float, ...]:
    tried = [rate for rate in rates if rate.n]
    if not tried:
        return ()
    longest = min(MOST_IN_A_ROW, *(rate.n for rate in tried))
    return tuple(
        fsum(pass_hat(k, rate.k, rate.n) or 0.0 for rate in tried) / len(tried)
        for k in range(1, longest + 1)
    )


def _scenarios(counts: _Counts, names: Iterable[str]) -> tuple[ScenarioSummary, ...]:
    by_name = {
        name: [count for place, count in counts.items() if place[1] == name] for name in names
    }
    return tuple(_scenario(name, found) for name, found in by_name.items() if found)


def _scenario(name: str, counts: list[Count]) -> ScenarioSummary:
    facts = sorted({fact for count in counts for fact, _ in count.facts})
    return ScenarioSummary(
        name,
        counts[0].kind,
        figure([sum((count.judged for count in counts), NOTHING)]),
        figure([sum((count.end_to_end for count in counts), NOTHING)]),
        _statuses(counts, "infra"),
        _statuses(counts, "skipped"),
        {part: figure([sum((count.part(part) for count in counts), NOTHING)]) for part in PARTS},
        {fact: figure([sum((count.fact(fact) for count in counts), NOTHING)]) for fact in facts},
        sum((count.false_finals for count in counts), FalseFinals()),
    )


def _latency(counts: Sequence[Count]) -> Latency:
    def judged(kind: Kind) -> Times:
        return Times.of(count.judged_ms for count in counts if count.kind == kind)

    return Latency(
        tool=judged("tool").timing,
        control=judged("control").timing,
        requests=Times.of(count.request_ms for count in counts).timing,
    )


def _failures(counts: _Counts) -> tuple[Failure, ...]:
    rows: Counter[tuple[str, str, str, bool]] = Counter()
    for (_, scenario), count in counts.items():
        for (category, provider, infra), number in count.failures.items():
            rows[category, scenario, provider, infra] += number
    ranked = sorted(rows.items(), key=lambda row: (-row[1], row[0]))
    return tuple(Failure(*row, number) for row, number in ranked)


def _repairs(counts: Iterable[Count]) -> tuple[Repair, ...]:
    runs: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for count in counts:
        runs.update(count.fired)
        passed.update(count.fired_passed)
    ranked = sorted(runs.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Repair(name, number, passed[name]) for name, number in ranked)


def _builds(counts: Iterable[Count]) -> dict[str, int]:
    runs: Counter[str] = Counter()
    for count in counts:
        runs.update(count.builds)
    return dict(sorted(runs.items(), key=lambda item: (-item[1], item[0])))
