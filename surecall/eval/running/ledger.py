"""Tracks which trials are pending, running, and done, and decides when to stop.

    plan minus recorded trials ─► one queue per lane ─ take_next ─► an engine runs the trial
                                  store, events  ◄─ record_result ─┘

A lane is a group of models that share a provider's rate limits. There is one ledger, in the main
process, and it alone writes to the store. Engines take keys from it and return results; how and
where trials run is up to them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from surecall.eval.analysis.classification import TOOLS_DISABLED
from surecall.eval.analysis.stats import EMPTY_RATE, Rate, is_decided, pooled_interval
from surecall.eval.running.limiter import CostBudget, NotifyOne
from surecall.eval.running.matrix import EvaluationPlan
from surecall.eval.running.trial_run import TrialResult
from surecall.eval.storage.trial import Cell, CompletedTrials, Key, Trial
from surecall.values.errors import ErrorCode

# Refused requests count as the model's failures only if the model ever answered.
#
# An endpoint returns 400 for a history that wrong settings made invalid, but also for an unknown
# model, an account without credit, or an unverified organization. If the first request of every
# trial of a model is refused, nothing was measured, and the trials are infrastructure failures.
# Once the model answers any request, earlier refusals were about the content of those requests.

REFUSED_REQUEST_CODES: Final = frozenset(
    {ErrorCode.BAD_REQUEST, ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNPROCESSABLE}
)


class RefusalTracker:
    """Tracks which models have answered, and the keys of refused trials of the others."""

    def __init__(self) -> None:
        self._answering_models: set[str] = set()
        self._refused_keys: dict[str, list[Key]] = {}

    def provisional_record(self, trial: Trial) -> Trial:
        """Return the trial, as an infrastructure failure if its model has never answered."""
        model = trial.key.cell.model
        if (
            trial.requests
            or trial.category not in REFUSED_REQUEST_CODES
            or model in self._answering_models
        ):
            return trial
        self._refused_keys.setdefault(model, []).append(trial.key)
        return msgspec.structs.replace(trial, status="infra", truth="")

    def take_now_failed(self, trial: Trial) -> list[Key]:
        """Return and forget the refused trials that count as failed now that the model answered."""
        if not trial.requests:
            return []
        self._answering_models.add(trial.key.cell.model)
        return self._refused_keys.pop(trial.key.cell.model, [])


def as_failed(trial: Trial) -> Trial:
    """Return a trial recorded as an infrastructure failure as a failure of the model.

    Its failure is an open one: the caller got an error.
    """
    return msgspec.structs.replace(trial, status="failed", truth="open")


# Consecutive failures after which an endpoint counts as unusable.
UNUSABLE_AFTER: Final = 10
ENDPOINT_ERRORS: Final = frozenset(
    {
        ErrorCode.AUTH,
        ErrorCode.PAYMENT_REQUIRED,
        ErrorCode.CONNECTION_ERROR,
        ErrorCode.NOT_FOUND,
        *REFUSED_REQUEST_CODES,
    }
)
# A gateway may refuse a key for one model only.
_MODELS_TO_CONFIRM: Final = 2


class EndpointHealth:
    """Decides from the results of trials whether an endpoint is usable.

    It is unusable after several endpoint errors in a row. A wrong key is detected sooner: when it
    is refused for two models, or the only one, and no request was answered. `category` and `error`
    are those of the last such trial; the error includes the remedy, if one is known.
    """

    def __init__(self, model_count: int) -> None:
        self._models_to_confirm = min(model_count, _MODELS_TO_CONFIRM)
        self._models_without_access: set[str] = set()
        self._consecutive_failures = 0
        self._has_answered = False
        self.category = self.error = ""

    def add(self, trial: Trial, message: str) -> None:
        """Add the result of a trial, with the endpoint's error message, if any."""
        # A refusal by a model that answers other requests is not the endpoint's problem.
        if trial.status != "infra" or trial.category not in ENDPOINT_ERRORS:
            self._consecutive_failures, self._has_answered = 0, True
            return
        self._consecutive_failures += 1
        self.category, self.error = trial.category, message or trial.error
        if trial.category == ErrorCode.AUTH:
            self._models_without_access.add(trial.key.cell.model)

    @property
    def is_unusable(self) -> bool:
        """Whether further trials would fail as well."""
        refused = (
            not self._has_answered and len(self._models_without_access) >= self._models_to_confirm
        )
        return refused or self._consecutive_failures >= UNUSABLE_AFTER

    @property
    def never_answered(self) -> bool:
        """Whether every trial so far failed with an endpoint error."""
        return bool(self._consecutive_failures) and not self._has_answered


# Events and the final report of an evaluation, and the rule for automatic numbers of trials.

EndReason: TypeAlias = Literal["complete", "interrupted", "budget", "unpriced", "unusable", "lost"]


class TrialsPlanned(msgspec.Struct, frozen=True):
    """The number of trials planned so far, and how many of them were already recorded."""

    wanted: int
    recorded: int


class TrialStarted(msgspec.Struct, frozen=True):
    """A trial started."""

    key: Key


class TrialFinished(msgspec.Struct, frozen=True):
    """A trial was recorded. `spent` is the known cost of all trials so far."""

    trial: Trial
    spent: float


class RateLimited(msgspec.Struct, frozen=True):
    """A provider is paused: it refused a request with 429, or its quota is used up."""

    provider: str
    wait_s: float
    limit: int


class EvaluationStopped(msgspec.Struct, frozen=True):
    """No new trials start; those running are finished."""

    reason: EndReason
    running: int


EvaluationEvent: TypeAlias = (
    TrialsPlanned | TrialStarted | TrialFinished | RateLimited | EvaluationStopped
)


class EvaluationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an evaluation. `recorded` trials existed before; `executed` were added.

    `skipped` trials did not apply; they are recorded but not among those `wanted`. `unpriced`
    trials reported no cost, so with any `spent` is a lower bound. `error` is the reason for ending
    early, and `category` the code of the error that made the endpoint unusable.
    """

    end_reason: EndReason
    wanted: int
    recorded: int
    executed: int = 0
    passed: int = 0
    failed: int = 0
    infra: int = 0
    skipped: int = 0
    spent: float = 0.0
    unpriced: int = 0
    error: str = ""
    category: str = ""

    @property
    def completed(self) -> int:
        """How many of the wanted trials are recorded."""
        return self.recorded + self.executed

    @property
    def missing(self) -> int:
        """How many wanted trials are not recorded."""
        return self.wanted - self.completed


class CellRates:
    """The pass rates so far, by cell and scenario; decides which cells need more trials.

    Like the tool rate, it counts scenarios with tools and excludes infrastructure failures.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._rates: dict[Cell, dict[str, Rate]] = {}
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """Add a trial to the rates, unless it is excluded from them."""
        if trial.kind != "tool" or trial.status not in {"passed", "failed"}:
            return
        rates = self._rates.setdefault(trial.key.cell, {})
        scenario = trial.key.scenario
        rates[scenario] = rates.get(scenario, EMPTY_RATE) + Rate(int(trial.ok), 1)

    def trial_count(self, cell: Cell) -> int:
        """Return the number of counted trials of a cell."""
        return sum(rate.n for rate in self._rates.get(cell, {}).values())

    def is_undecided(self, cell: Cell, threshold: float) -> bool:
        """Whether the confidence interval of a cell's rate contains the threshold.

        The interval is sequential: it holds although the rate is checked repeatedly.
        """
        return not is_decided(
            pooled_interval(self._rates.get(cell, {}).values(), sequential=True), threshold
        )


class TrialStore(Protocol):
    """The store that trials are recorded in."""

    def trials(self) -> Iterator[Trial]:
        """Return all recorded trials."""
        ...

    def add(self, trial: Trial, trace: bytes | None = None) -> None:
        """Record a trial; it may replace an infrastructure failure."""
        ...

    def find(self, key: Key) -> tuple[Trial, bytes | None] | None:
        """Return a recorded trial and its compressed trace."""
        ...

    def trace(self, key: Key) -> bytes | None:
        """Return the trace of a recorded trial as JSON lines."""
        ...


class Ledger:
    """The state of a running evaluation. Call its methods from one event loop; none blocks."""

    def __init__(
        self, plan: EvaluationPlan, store: TrialStore, on_event: Callable[[EvaluationEvent], None]
    ) -> None:
        self._plan = plan
        self._store = store
        self._on_event = on_event
        self._lane_by_cell = {planned.cell: planned.model.lane for planned in plan.cells}
        self._simulated = {each.cell for each in plan.cells if each.model.simulated}
        self._done = CompletedTrials()
        self._queues: dict[str, Iterator[Key]] = {}
        self._cell_rates = CellRates()
        self._budget = CostBudget(plan.settings.max_cost)
        self._refusals = RefusalTracker()
        self._counts: Counter[str] = Counter()
        self._endpoint_by_cell = {
            planned.cell: planned.model.endpoint_name for planned in plan.cells
        }
        self._endpoint_health = {
            at: EndpointHealth(
                len({each.model.id for each in plan.cells if each.model.endpoint_name == at})
            )
            for at in dict.fromkeys(self._endpoint_by_cell.values())
        }
        self._wanted = self._recorded = self._remaining = self._running = self._executed = 0
        self._end_reason: EndReason = "complete"
        self._error = self._category = ""
        # Notified when a trial ends, and when no other may start.
        self.state_changed = NotifyOne()
        for trial in store.trials():
            self._add_to_totals(trial)
            if trial.status != "infra":
                self._done.add(trial.key)
        self._record_skips()

    @property
    def remaining(self) -> int:
        """How many trials of this round have not been taken."""
        return self._remaining

    @property
    def can_start(self) -> bool:
        """Whether trials remain and the evaluation is not stopped."""
        return bool(self._remaining) and not self.is_stopped

    @property
    def is_stopped(self) -> bool:
        """Whether no trial may start, not even one already taken."""
        return self._end_reason != "complete"

    @property
    def lanes(self) -> Iterable[str]:
        """The lanes with remaining trials."""
        return self._queues.keys()

    def begin_round(self, cells: list[Cell], first: int, last: int) -> None:
        """Queue the trials `first` to `last` of some cells, except recorded ones."""
        wanted = self._plan.count_remaining(None, first, last, cells).total()
        missing = self._plan.count_remaining(self._done, first, last, cells).total()
        self._wanted += wanted
        self._recorded += wanted - missing
        self._remaining = missing
        self._on_event(TrialsPlanned(self._wanted, self._recorded))
        self._queues = self._build_queues(cells, first, last)

    def undecided_cells(self, cells: Iterable[Cell], trials: int) -> list[Cell]:
        """Return the undecided cells with at least this many counted trials.

        A cell with fewer lost trials to infrastructure failures; more would not decide it.
        """
        if self.is_stopped:
            return []
        return [
            cell
            for cell in cells
            if self._cell_rates.trial_count(cell) >= trials
            and self._cell_rates.is_undecided(cell, self._plan.threshold)
        ]

    def take_next(self, has_room: Callable[[str], bool]) -> tuple[str, Key] | None:
        """Return the next trial of a lane that has room; None if none may start now."""
        if not self.can_start:
            return None
        if (model := self._budget.unpriced_model) is not None:
            self.stop("unpriced", f"{model} reports no costs, so --max-cost cannot be enforced")
            return None
        advice = self._budget.next_action(self._running)
        if advice == "stop":
            self.stop("budget", "the next trial would exceed the rest of the budget")
        return self._take_key(has_room) if advice == "go" else None

    def record_start(self, key: Key) -> None:
        """Report that a trial starts."""
        self._on_event(TrialStarted(key))

    def record_result(self, result: TrialResult) -> None:
        """Record the result of a trial; stop if its endpoint is unusable."""
        trial, simulated = result.trial, result.trial.key.cell in self._simulated
        if not simulated:
            trial = self._refusals.provisional_record(trial)
        self._store.add(trial, result.trace_lines)
        self._executed += 1
        self._counts[trial.status] += 1
        self._add_to_totals(trial)
        self._on_event(TrialFinished(trial, self._budget.spent))
        if not simulated:
            place = self._endpoint_by_cell[trial.key.cell]
            self._endpoint_health[place].add(trial, result.endpoint_message)
            if self._endpoint_health[place].is_unusable:
                self._stop_unusable(place)
        self._running -= 1
        self.state_changed.notify_one()

    def stop(self, reason: EndReason, error: str = "") -> None:
        """Start no further trials, and report the reason."""
        if not self.is_stopped:
            self._end_reason, self._error = reason, error
            self._on_event(EvaluationStopped(reason, self._running))
            self.state_changed.notify_one()

    def _stop_unusable(self, endpoint: str) -> None:
        """Stop because an endpoint is unusable; it is named if there are several."""
        if not self.is_stopped:
            outlook = self._endpoint_health[endpoint]
            self._category = outlook.category
            self.stop("unusable", f"{endpoint}: {outlook.error}" if endpoint else outlook.error)

    def report(self) -> EvaluationReport:
        """Return the final report."""
        for place, outlook in self._endpoint_health.items():
            # An evaluation may end before its endpoint counts as unusable.
            refused = outlook.category == ErrorCode.AUTH
            if outlook.never_answered and (refused or not self._recorded):
                self._stop_unusable(place)
        return EvaluationReport(
            end_reason=self._end_reason,
            wanted=self._wanted,
            recorded=self._recorded,
            executed=self._executed,
            passed=self._counts["passed"],
            failed=self._counts["failed"],
            infra=self._counts["infra"],
            skipped=self._counts["skipped"],
            spent=self._budget.spent,
            unpriced=self._budget.unpriced,
            error=self._error,
            category=self._category,
        )

    def _record_skips(self) -> None:
        """Record the trials of scenarios that do not apply."""
        for key, reason in self._plan.skipped_keys():
            if key not in self._done:
                skipped = Trial(key=key, status="skipped", category=TOOLS_DISABLED, error=reason)
                self._store.add(skipped)
                self._counts["skipped"] += 1

    def _build_queues(self, cells: list[Cell], first: int, last: int) -> dict[str, Iterator[Key]]:
        """Return one queue per lane, so that a paused provider does not delay the others."""
        lanes: dict[str, list[Cell]] = {}
        for cell in cells:
            lanes.setdefault(self._lane_by_cell[cell], []).append(cell)
        return {
            lane: (key for key in self._plan.keys(first, last, own) if key not in self._done)
            for lane, own in lanes.items()
        }

    def _take_key(self, has_room: Callable[[str], bool]) -> tuple[str, Key] | None:
        """Return the next key of a lane that has room, and rotate the lanes."""
        for lane in [lane for lane in self._queues if has_room(lane)]:
            queue = self._queues.pop(lane)
            key = next(queue, None)
            if key is not None:
                self._queues[lane] = queue
                self._remaining -= 1
                self._running += 1
                return lane, key
        return None

    def _add_to_totals(self, trial: Trial) -> None:
        """Add a trial to the rates and the budget, and correct earlier refusals by its model."""
        self._cell_rates.add(trial)
        for key in self._refusals.take_now_failed(trial):
            self._count_as_failed(key)
        cost = trial.usage.cost
        if cost is None and trial.key.cell in self._simulated:
            cost = 0.0
        if trial.requests or cost is not None:
            self._budget = self._budget.with_cost(cost, trial.key.cell.model)

    def _count_as_failed(self, key: Key) -> None:
        """Record an earlier infrastructure failure as a failure of the model."""
        if (found := self._store.find(key)) is not None:
            failed = as_failed(found[0])
            self._store.add(failed, self._store.trace(key))
            self._counts.update(failed=1, infra=-1)
            self._cell_rates.add(failed)
