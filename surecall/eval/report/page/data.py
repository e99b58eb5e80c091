"""Everything a report says, as one value: figures, advice and runs, nothing about how they look.

    Store ─► trials, read once ─► Report ─► page.py

A run that was interrupted, is empty or is damaged gives a report all the same; `notices` say what
is missing from it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from surecall.eval.analysis.candidate import BAR, Candidate, decide
from surecall.eval.analysis.causes import CauseCount
from surecall.eval.analysis.figures import Figure, Times, figure
from surecall.eval.analysis.headline import headline, headline_strategy
from surecall.eval.analysis.paired import Comparisons
from surecall.eval.analysis.recommend import Recommendation, candidates, recommend
from surecall.eval.analysis.stats import CHOSEN, Stopping
from surecall.eval.analysis.summary import Repair, Summary, Totals, summarise
from surecall.eval.analysis.verdicts import Decision
from surecall.eval.report.common import Column, Sheet
from surecall.eval.report.page.runs import STATUSES, Gatherer, Runs
from surecall.eval.storage.trial import Cell, Conduct, FalseFinals, Trial
from surecall.values.types import Usage

_PERCENT: Final = 100


class ScenarioRate(msgspec.Struct, frozen=True):
    """How one scenario went: `k` of `n` judged runs passed; infrastructure spoiled some more."""

    scenario: str
    k: int
    n: int
    infra: int = 0


class CellView(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the map. `scenarios` are the tool scenarios; `readers` what calls were read from.

    `p50_ms` and `p95_ms` are of the runs that make the tool rate.
    """

    cell: Cell
    tool: Figure
    control: Figure
    decision: Decision
    no_tools: Figure = figure(())
    readers: tuple[str, ...] = ()
    scenarios: tuple[ScenarioRate, ...] = ()
    misses: dict[str, int] = {}
    p50_ms: int = 0
    p95_ms: int = 0
    infra: int = 0
    skipped: int = 0
    trials: int = 0
    pass_hat: tuple[float, ...] = ()
    tokens_per_run: float | None = None
    cost_per_run: float | None = None
    retries: int = 0
    false_finals: FalseFinals = FalseFinals()
    conduct: Conduct = Conduct()


class FailureRow(msgspec.Struct, frozen=True):
    """How often runs of a model ended so. `infra` ones say nothing about the model."""

    code: str
    scenario: str
    model: str
    provider: str
    infra: bool
    count: int


class EarlyRow(msgspec.Struct, frozen=True):
    """How many early answers there were in one scenario, under one strategy."""

    scenario: str
    strategy: str
    found: FalseFinals


class ProviderRow(msgspec.Struct, frozen=True):
    """The outcomes of the runs whose last request a provider served."""

    provider: str
    passed: int
    failed: int
    infra: int


class Curve(msgspec.Struct, frozen=True):
    """How long things took: `points` are milliseconds, one for each percent from 0 to 100."""

    name: str
    n: int
    points: tuple[int, ...]


class Reliability(msgspec.Struct, frozen=True):
    """How far one can rely on it, and what it takes."""

    curves: tuple[Curve, ...] = ()
    usage: Usage = Usage()
    cost_per_run: float | None = None
    retries: int = 0
    repairs: tuple[Repair, ...] = ()


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a report comes from: shown in one line under the sentence, in this order."""

    name: str = ""
    started: str = ""
    version: str = ""
    code: str = ""
    config_hash: str = ""
    base_url: str = ""
    api_prefix: str = ""
    seed: int | None = None
    command: str = ""
    served_by: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One report. The sentence is about `strategy`; so is advice that names no other.

    `infra` counts the runs that infrastructure spoiled; None means that they were not told apart,
    and are failures here. `about` is the address of a page that says what to compare it with.
    """

    origin: Origin = Origin()
    bar: float = BAR
    strategy: str = ""
    simulated: bool = False
    notices: tuple[str, ...] = ()
    about: str = ""
    stopping: Stopping = CHOSEN
    tool: Figure = figure(())
    control: Figure = figure(())
    end_to_end: Figure = figure(())
    trials: int = 0
    infra: int | None = 0
    skipped: int = 0
    scenarios: tuple[ScenarioRate, ...] = ()
    advice: tuple[Recommendation, ...] = ()
    cells: tuple[CellView, ...] = ()
    failures: tuple[FailureRow, ...] = ()
    causes: tuple[CauseCount, ...] = ()
    providers: tuple[ProviderRow, ...] = ()
    comparisons: Comparisons = Comparisons()
    reliability: Reliability = Reliability()
    early: tuple[EarlyRow, ...] = ()
    builds: tuple[str, ...] = ()
    runs: Runs = Runs()

    @property
    def judged(self) -> tuple[CellView, ...]:
        """The cells that the sentence is about."""
        return tuple(view for view in self.cells if view.cell.strategy == self.strategy)

    @property
    def conducted(self) -> tuple[CellView, ...]:
        """The cells with runs whose side effects were judged."""
        return tuple(view for view in self.cells if view.conduct.runs)

    @property
    def early_answers(self) -> dict[str, FalseFinals]:
        """The early answers under each strategy, none of them left out, if there was any."""
        found: dict[str, FalseFinals] = {}
        for view in self.cells if self.early else ():
            strategy = view.cell.strategy
            found[strategy] = found.get(strategy, FalseFinals()) + view.false_finals
        return found

    @property
    def has_reliability(self) -> bool:
        """Whether anything is known of it: after a first run, unless that was skipped."""
        return self.reliability != Reliability() or any(view.pass_hat for view in self.cells)

    @property
    def undecided(self) -> int:
        """How many of them cannot be told from the bar."""
        return sum(view.decision not in {"use", "avoid"} for view in self.judged)

    @property
    def hardest(self) -> ScenarioRate | None:
        """The scenario that passed least, if any run failed."""
        missed = [each for each in self.scenarios if each.k < each.n]
        return min(missed, key=lambda each: each.k / each.n, default=None)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a report needs beside the trials."""

    sheet: Sheet = Sheet()
    origin: Origin = Origin()
    provider: str = "openrouter"
    notices: tuple[str, ...] = ()

    @property
    def bar(self) -> float:
        """The bar that rates are held against."""
        percent = self.sheet.settings.get("bar")
        return percent / _PERCENT if isinstance(percent, int | float) else BAR


def report_of(trials: Iterable[Trial], context: Context) -> Report:
    """Make a report of trials, which are read once, in any order."""
    sheet = context.sheet
    planned = [column.cell for column in sheet.columns]
    gathered = Gatherer(planned, sheet.scenarios)
    summary = summarise(
        gathered.watch(trials), cells=planned, scenarios=sheet.scenarios, stopping=sheet.stopping
    )
    found, runs = candidates(summary.cells), gathered.runs
    strategy, totals = headline_strategy(summary), headline(summary)
    tools = [each for each in totals.scenarios if each.kind == "tool"]
    return Report(
        origin=context.origin,
        bar=context.bar,
        strategy=strategy,
        simulated=bool(sheet.simulated),
        notices=context.notices,
        stopping=sheet.stopping,
        tool=totals.tool,
        control=totals.control,
        end_to_end=totals.end_to_end,
        trials=summary.totals.trials,
        infra=summary.totals.infra,
        skipped=summary.totals.skipped,
        scenarios=tuple(
            ScenarioRate(each.scenario, each.rate.k, each.rate.n, each.infra) for each in tools
        ),
        advice=_advice(found, context),
        cells=_cells(summary, context),
        failures=_failures(summary),
        causes=summary.totals.causes,
        providers=_providers(runs),
        comparisons=summary.comparisons,
        reliability=_reliability(summary, gathered),
        early=_early(summary),
        builds=tuple(summary.totals.builds),
        runs=runs,
    )


def _advice(found: Sequence[Candidate], context: Context) -> tuple[Recommendation, ...]:
    return recommend(
        found,
        bar=context.bar,
        provider=context.provider,
        simulated=context.sheet.simulated,
    )


def _cells(summary: Summary, context: Context) -> tuple[CellView, ...]:
    found = {
        (each.model, each.profile, each.strategy): each
        for strategy in summary.strategies
        for each in candidates(summary.cells, strategy)
    }
    columns = {column.cell: column for column in context.sheet.columns}
    return tuple(
        _view(
            each.cell,
            each.totals,
            found[msgspec.structs.astuple(each.cell)],
            columns.get(each.cell, Column(each.cell)),
            context.bar,
        )
        for each in summary.cells
    )


def _view(cell: Cell, totals: Totals, candidate: Candidate, column: Column, bar: float) -> CellView:
    return CellView(
        cell=cell,
        tool=totals.tool,
        control=totals.control,
        no_tools=totals.no_tools,
        decision=decide(candidate, bar),
        readers=column.readers,
        scenarios=tuple(
            ScenarioRate(one.scenario, one.rate.k, one.rate.n, one.infra)
            for one in totals.scenarios
            if one.kind == "tool"
        ),
        misses=candidate.misses,
        p50_ms=totals.latency.tool.p50,
        p95_ms=totals.latency.tool.p95,
        infra=totals.infra,
        skipped=totals.skipped,
        trials=totals.trials,
        pass_hat=totals.pass_hat,
        tokens_per_run=_share(totals.usage.total_tokens, totals.trials - totals.skipped),
        cost_per_run=totals.cost_per_run,
        retries=totals.retries,
        false_finals=totals.false_finals,
        conduct=totals.conduct,
    )


def _share(total: int, parts: int) -> float | None:
    return total / parts if parts else None


def _failures(summary: Summary) -> tuple[FailureRow, ...]:
    counts: Counter[tuple[str, str, str, str, bool]] = Counter()
    for each in summary.cells:
        for one in each.totals.failures:
            place = (one.category, one.scenario, each.cell.model, one.provider, one.infra)
            counts[place] += one.count
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(FailureRow(*place, count) for place, count in ranked)


def _early(summary: Summary) -> tuple[EarlyRow, ...]:
    rows = (
        EarlyRow(each.scenario, strategy, each.false_finals)
        for strategy, totals in summary.strategies.items()
        for each in totals.scenarios
        if each.false_finals.answers
    )
    return tuple(sorted(rows, key=lambda row: -row.found.answers))


def _providers(runs: Runs) -> tuple[ProviderRow, ...]:
    counts = Counter(zip(runs.provider, (STATUSES[place] for place in runs.status), strict=True))
    rows = (
        ProviderRow(name, counts[at, "passed"], counts[at, "failed"], counts[at, "infra"])
        for at, name in enumerate(runs.providers)
    )
    used = [row for row in rows if row.passed + row.failed + row.infra]
    return tuple(sorted(used, key=lambda row: (-row.failed - row.infra, row.provider)))


def _reliability(summary: Summary, gathered: Gatherer) -> Reliability:
    totals = summary.totals
    times = {
        "whole runs with tools": gathered.run_ms["tool"],
        "whole runs of the control": gathered.run_ms["control"],
        "whole runs without tools": gathered.run_ms["no_tools"],
        "single requests": gathered.request_ms,
    }
    return Reliability(
        curves=tuple(_curve(name, values) for name, values in times.items() if values),
        usage=totals.usage,
        cost_per_run=totals.cost_per_run,
        retries=totals.retries,
        repairs=totals.repairs,
    )


def _curve(name: str, times: Times) -> Curve:
    return Curve(name, len(times), times.percentiles(range(_PERCENT + 1)))
