"""The data that the page displays: figures, recommendations, and runs.

    RunStore ─► trials, read once ─► Report ─► html.py

Interrupted, empty, and damaged runs have a report too; its `notices` tell what is missing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from surecall.eval.analysis.comparisons import Comparisons
from surecall.eval.analysis.failure_causes import causes_of, rank_counts
from surecall.eval.analysis.recommendations import (
    DEFAULT_THRESHOLD,
    IntervalDecision,
    Recommendation,
    interval_decision,
    profile_candidates,
    recommend,
)
from surecall.eval.analysis.stats import FIXED_TRIALS, StoppingRule
from surecall.eval.analysis.summary import ScenarioSummary, Summary, Timing, Totals, summarize
from surecall.eval.analysis.verdict_text import headline_strategy, headline_totals
from surecall.eval.report.run_results import Sheet, SheetColumn
from surecall.eval.storage.trial import Cell, FalseFinals, Key, Status, Trial
from surecall.values.text import truncate
from surecall.values.types import Usage

STATUSES: Final[tuple[Status, ...]] = ("passed", "failed", "infra", "skipped")
# The trace has the full text; the page stores this much for each run.
_ERROR_CHARS: Final = 200


class RunColumns(msgspec.Struct, frozen=True):
    """All runs as columns of small integers, so that 100,000 runs fit into a page.

    Each distinct text is stored once in a table, and the columns hold indexes into it. `micros` is
    the cost in millionths of a dollar, -1 if unknown. `missed` indexes `sets`, whose members index
    `causes`; `unmet` are the indexes of causes that are expectations.
    """

    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    unmet: tuple[int, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    # One triple of model, profile and strategy for each cell.
    cells: tuple[tuple[int, int, int], ...] = ()
    cell: tuple[int, ...] = ()
    scenario: tuple[int, ...] = ()
    trial: tuple[int, ...] = ()
    status: tuple[int, ...] = ()
    code: tuple[int, ...] = ()
    error: tuple[int, ...] = ()
    ms: tuple[int, ...] = ()
    turns: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    micros: tuple[int, ...] = ()
    provider: tuple[int, ...] = ()
    repaired: tuple[int, ...] = ()
    missed: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of runs."""
        return len(self.cell)

    def key_at(self, index: int) -> Key:
        """Return the key of the trial at an index."""
        model, profile, strategy = self.cells[self.cell[index]]
        cell = Cell(self.models[model], self.profiles[profile], self.strategies[strategy])
        return Key(cell, self.scenarios[self.scenario[index]], self.trial[index])


_TEXTS: Final = RunColumns.__struct_fields__[: RunColumns.__struct_fields__.index("unmet")]
_COLUMNS: Final = RunColumns.__struct_fields__[RunColumns.__struct_fields__.index("cell") :]


class RunCollector:
    """Collects trials into columns while the summary reads them."""

    def __init__(self, cells: Sequence[Cell] = (), scenarios: Sequence[str] = ()) -> None:
        # Index of each text, in order of first occurrence.
        self._tables: dict[str, dict[str, int]] = {name: {} for name in _TEXTS}
        self._unmet: set[int] = set()
        self._sets: dict[tuple[int, ...], int] = {}
        self._cells: dict[Cell, int] = {}
        self._columns: tuple[list[int], ...] = tuple([] for _ in _COLUMNS)
        for cell in cells:
            self._cell_indexes(cell)
        for name in scenarios:
            self._text_index("scenarios", name)
        for table in ("codes", "providers", "errors"):
            self._text_index(table, "")

    def _text_index(self, table: str, text: str) -> int:
        """Return the index of a text in a table, adding it if it is new."""
        places = self._tables[table]
        return places.setdefault(text, len(places))

    def _cell_indexes(self, cell: Cell) -> tuple[int, int, int]:
        """Return the indexes of a cell's model, profile, and strategy."""
        return (
            self._text_index("models", cell.model),
            self._text_index("profiles", cell.profile),
            self._text_index("strategies", cell.strategy),
        )

    def collect(self, trials: Iterable[Trial]) -> Iterator[Trial]:
        """Yield each trial after adding it to the columns."""
        for trial in trials:
            self.add(trial)
            yield trial

    def add(self, trial: Trial) -> None:
        """Add a trial to the columns."""
        cost = trial.usage.cost
        row = (
            self._cells.setdefault(trial.key.cell, len(self._cells)),
            self._text_index("scenarios", trial.key.scenario),
            trial.key.trial,
            STATUSES.index(trial.status),
            self._text_index("codes", trial.category),
            self._text_index("errors", truncate(trial.error, _ERROR_CHARS)),
            trial.elapsed_ms,
            len(trial.requests),
            trial.usage.total_tokens,
            -1 if cost is None else round(cost * 1_000_000),
            self._text_index("providers", last_provider(trial)),
            int(bool(trial.fired)),
            self._sets.setdefault(self._cause_indexes(trial), len(self._sets)),
        )
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def _cause_indexes(self, trial: Trial) -> tuple[int, ...]:
        """Return the indexes of a trial's causes."""
        causes = causes_of(trial)
        places = tuple(dict.fromkeys(self._text_index("causes", cause.check) for cause in causes))
        self._unmet.update(
            self._text_index("causes", cause.check) for cause in causes if cause.expected
        )
        return places

    @property
    def runs(self) -> RunColumns:
        """The columns of all trials added so far."""
        cells = tuple(map(self._cell_indexes, self._cells))
        found: dict[str, Any] = {name: tuple(places) for name, places in self._tables.items()}
        found |= dict(zip(_COLUMNS, map(tuple, self._columns), strict=True))
        return RunColumns(
            unmet=tuple(sorted(self._unmet)),
            sets=tuple(self._sets),
            cells=cells,
            **found,
        )


def last_provider(trial: Trial) -> str:
    """Return the provider that served the last request; blank if unknown."""
    return trial.requests[-1].provider if trial.requests else ""


class CellView(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the matrix: its figures, decision, and the sources of its calls."""

    cell: Cell
    totals: Totals
    decision: IntervalDecision
    call_sources: tuple[str, ...] = ()

    @property
    def tokens_per_run(self) -> float | None:
        """Mean number of tokens per run."""
        ran = self.totals.run_count
        return self.totals.usage.total_tokens / ran if ran else None


class FailureRow(msgspec.Struct, frozen=True):
    """Number of failed runs of a model in one category. `infra` runs are not scored."""

    code: str
    scenario: str
    model: str
    provider: str
    infra: bool
    count: int


class PrematureAnswerRow(msgspec.Struct, frozen=True):
    """Premature answers in one scenario under one strategy."""

    scenario: str
    strategy: str
    found: FalseFinals


class ProviderRow(msgspec.Struct, frozen=True):
    """Outcomes of the runs whose last request a provider served."""

    provider: str
    passed: int
    failed: int
    infra: int


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a report, shown in its About section."""

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
    """The content of a report.

    The verdict is about `strategy`, whose figures are `headline`; `totals` covers all strategies.
    `infra_failed` means that infrastructure errors were recorded as failures. `about` links to a
    page about comparability.
    """

    origin: Origin = Origin()
    threshold: float = DEFAULT_THRESHOLD
    strategy: str = ""
    simulated: bool = False
    notices: tuple[str, ...] = ()
    about: str = ""
    stopping: StoppingRule = FIXED_TRIALS
    headline: Totals = Totals()
    totals: Totals = Totals()
    infra_failed: bool = False
    advice: tuple[Recommendation, ...] = ()
    cells: tuple[CellView, ...] = ()
    failures: tuple[FailureRow, ...] = ()
    providers: tuple[ProviderRow, ...] = ()
    comparisons: Comparisons = Comparisons()
    premature_rows: tuple[PrematureAnswerRow, ...] = ()
    runs: RunColumns = RunColumns()

    @property
    def headline_cells(self) -> tuple[CellView, ...]:
        """The cells of the headline strategy."""
        return tuple(view for view in self.cells if view.cell.strategy == self.strategy)

    @property
    def behavior_cells(self) -> tuple[CellView, ...]:
        """The cells with behavior metrics."""
        return tuple(view for view in self.cells if view.totals.conduct.runs)

    @property
    def premature_answers(self) -> dict[str, FalseFinals]:
        """The premature answers of each strategy; empty if there were none at all."""
        found: dict[str, FalseFinals] = {}
        for view in self.cells if self.premature_rows else ():
            strategy = view.cell.strategy
            found[strategy] = found.get(strategy, FalseFinals()) + view.totals.false_finals
        return found

    @property
    def builds(self) -> tuple[str, ...]:
        """The server builds that replies name."""
        return tuple(self.totals.builds)

    @property
    def curves(self) -> dict[str, Timing]:
        """Durations by kind of run, and of single requests."""
        latency = self.totals.latency
        found = {
            "tool runs": latency.tool,
            "control runs": latency.control,
            "runs without tools": latency.no_tools,
            "single requests": latency.requests,
        }
        return {name: timing for name, timing in found.items() if timing.n}

    @property
    def has_reliability(self) -> bool:
        """Whether the Reliability section has any content."""
        found = self.totals
        used = found.usage != Usage() or found.retries or found.repairs
        return bool(used or self.curves or any(view.totals.pass_hat for view in self.cells))

    @property
    def undecided_count(self) -> int:
        """Number of headline cells that are neither above nor below the threshold."""
        return sum(view.decision not in {"use", "avoid"} for view in self.headline_cells)

    @property
    def hardest_scenario(self) -> ScenarioSummary | None:
        """The tool scenario with the lowest rate, if any run failed."""
        return next(iter(weakest_scenarios(self.headline)), None)


def weakest_scenarios(totals: Totals) -> tuple[ScenarioSummary, ...]:
    """Return the tool scenarios with failures, lowest rate first."""
    missed = (one for one in totals.tool_scenarios if one.rate.k < one.rate.n)
    return tuple(sorted(missed, key=lambda one: one.rate.rate or 0.0))


class ReportContext(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a report other than the trials."""

    sheet: Sheet = Sheet()
    origin: Origin = Origin()
    provider: str = "openrouter"
    notices: tuple[str, ...] = ()

    @property
    def threshold(self) -> float:
        """The threshold that rates are compared with."""
        percent = self.sheet.settings.get("bar")
        return percent / 100 if isinstance(percent, int | float) else DEFAULT_THRESHOLD


def build_report(trials: Iterable[Trial], context: ReportContext) -> Report:
    """Return the report of trials, which are read once and may come in any order."""
    sheet = context.sheet
    planned = [column.cell for column in sheet.columns]
    gathered = RunCollector(planned, sheet.scenarios)
    summary = summarize(
        gathered.collect(trials), cells=planned, scenarios=sheet.scenarios, stopping=sheet.stopping
    )
    runs = gathered.runs
    return Report(
        origin=context.origin,
        threshold=context.threshold,
        strategy=headline_strategy(summary),
        simulated=bool(sheet.simulated_models),
        notices=context.notices,
        stopping=sheet.stopping,
        headline=headline_totals(summary),
        totals=summary.totals,
        advice=recommend(
            profile_candidates(summary.cells),
            threshold=context.threshold,
            provider=context.provider,
            simulated=sheet.simulated_models,
        ),
        cells=_cell_views(summary, context),
        failures=_failure_rows(summary),
        providers=_provider_rows(runs),
        comparisons=summary.comparisons,
        premature_rows=_premature_answer_rows(summary),
        runs=runs,
    )


def _cell_views(summary: Summary, context: ReportContext) -> tuple[CellView, ...]:
    decided = {
        (each.model, each.profile, each.strategy): interval_decision(each, context.threshold)
        for strategy in summary.strategies
        for each in profile_candidates(summary.cells, strategy)
    }
    columns = {column.cell: column for column in context.sheet.columns}
    return tuple(
        CellView(
            cell=each.cell,
            totals=each.totals,
            decision=decided[msgspec.structs.astuple(each.cell)],
            call_sources=columns.get(each.cell, SheetColumn(each.cell)).call_sources,
        )
        for each in summary.cells
    )


def _failure_rows(summary: Summary) -> tuple[FailureRow, ...]:
    counts: Counter[tuple[str, str, str, str, bool]] = Counter()
    for each in summary.cells:
        for one in each.totals.failures:
            place = (one.category, one.scenario, each.cell.model, one.provider, one.infra)
            counts[place] += one.count
    return tuple(FailureRow(*place, count) for place, count in rank_counts(counts).items())


def _premature_answer_rows(summary: Summary) -> tuple[PrematureAnswerRow, ...]:
    rows = (
        PrematureAnswerRow(each.scenario, strategy, each.false_finals)
        for strategy, totals in summary.strategies.items()
        for each in totals.scenarios
        if each.false_finals.answers
    )
    return tuple(sorted(rows, key=lambda row: -row.found.answers))


def _provider_rows(runs: RunColumns) -> tuple[ProviderRow, ...]:
    counts = Counter(zip(runs.provider, (STATUSES[place] for place in runs.status), strict=True))
    rows = (
        ProviderRow(name, counts[at, "passed"], counts[at, "failed"], counts[at, "infra"])
        for at, name in enumerate(runs.providers)
    )
    used = [row for row in rows if row.passed + row.failed + row.infra]
    return tuple(sorted(used, key=lambda row: (-row.failed - row.infra, row.provider)))


class CallSources(msgspec.Struct, frozen=True):
    """The places from which a strategy parses calls: for all models, and for some of them."""

    strategy: str
    always: tuple[str, ...]
    sometimes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sources as text."""
        also = f"; for some models also {', '.join(self.sometimes)}" if self.sometimes else ""
        return ", ".join(self.always) + also


def call_sources_by_strategy(report: Report) -> tuple[CallSources, ...]:
    """Return the call sources of each strategy, where they are recorded."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for view in report.cells:
        if view.call_sources:
            found.setdefault(view.cell.strategy, []).append(view.call_sources)
    return tuple(_call_sources(strategy, each) for strategy, each in found.items())


def _call_sources(strategy: str, sources_by_cell: list[tuple[str, ...]]) -> CallSources:
    names = dict.fromkeys(name for each in sources_by_cell for name in each)
    always = tuple(name for name in names if all(name in each for each in sources_by_cell))
    return CallSources(strategy, always, tuple(name for name in names if name not in always))
