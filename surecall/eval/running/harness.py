"""The harness: runs what a plan still lacks, and records each trial when it ends.

    plan ─ minus what the store has ─► one queue for each lane ─► workers ─► store, events

A fixed number of workers pull from the queues, so a large plan takes no more memory than a small
one. The result of a trial does not depend on how many run beside it. A trial that crashes is an
infrastructure failure of its own, and the others go on. Ending early loses nothing: the same plan
over the same store continues.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final, Protocol

import msgspec

from surecall.eval.analysis.category import TOOLS_DISABLED, of_exception
from surecall.eval.running.bell import Bell
from surecall.eval.running.cells import Model, PlannedCell
from surecall.eval.running.harness_events import (
    Ending,
    Finished,
    Notice,
    Planned,
    RateLimited,
    Report,
    Started,
    Stopped,
    Tally,
)
from surecall.eval.running.limiter import Budget, Limiter, Watched
from surecall.eval.running.matrix import FIRST_TRIALS, MOST_TRIALS, Plan
from surecall.eval.running.outlook import Outlook
from surecall.eval.running.refusals import Refusals
from surecall.eval.running.trial_run import CRASHES, Setup, is_cancelled
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.settings.endpoint import jobs_of
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.runtime.trace import dump_trace
from surecall.runtime.transport import Client
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.trace import Trace

# Who ends a process from outside waits a moment, then kills it.
GRACE_S: Final = 10.0
# A run watches the time itself; this is for whatever does not.
_GUARD: Final = 1.05
# A simulator needs no long pauses between retries.
_QUICK: Final = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.02)


class RunTrial(Protocol):
    """How one trial is run."""

    async def __call__(
        self, key: Key, scenario: Scenario, setup: Setup, client: Client
    ) -> tuple[Trial, Trace]:
        """Run one trial; return its record and its trace."""
        ...


class Results(Protocol):
    """Where trials are recorded."""

    def done_keys(self, *, infra: bool = True) -> set[Key]:
        """Return the keys of recorded trials; without `infra`, not those that were spoiled."""
        ...

    def trials(self) -> Iterator[Trial]:
        """Return all recorded trials."""
        ...

    def add(self, trial: Trial, trace: bytes | None = None) -> None:
        """Record a trial; it may replace one that the infrastructure spoiled."""
        ...


class Stop:
    """The user's request to end: once for no new trials, twice for right now.

    Trials under way have all the time that a trial may take: what was begun is paid for. Methods
    are called from the event loop, as its signal handlers are.
    """

    def __init__(self) -> None:
        self._first = asyncio.Event()
        self._second = asyncio.Event()

    def request(self) -> None:
        """Ask to end, or ask again."""
        (self._second if self.requested else self._first).set()

    def terminate(self, grace_s: float = GRACE_S) -> None:
        """Ask to end, and again a moment later."""
        self._first.set()
        asyncio.get_running_loop().call_later(grace_s, self._second.set)

    @property
    def requested(self) -> bool:
        """Whether the user asked to end."""
        return self._first.is_set()

    async def asked(self) -> None:
        """Wait until the user asks to end."""
        await self._first.wait()

    async def impatient(self) -> None:
        """Wait until the user asks again."""
        await self._second.wait()


class Bench(msgspec.Struct, frozen=True):
    """What the trials of one cell share."""

    lane: str
    setup: Setup
    client: Client


async def evaluate(
    plan: Plan,
    store: Results,
    run_trial: RunTrial,
    client_for: Callable[[Model], Client],
    on_event: Callable[[Notice], None],
    stop: Stop,
) -> Report:
    """Run every trial of a plan that the store lacks, and say how far it came."""
    limiter = Limiter(jobs_of(plan.settings), time.monotonic, time.time)

    def refused(lane: str, wait_s: float) -> None:
        on_event(RateLimited(lane, wait_s, limiter.lane(lane).limit))

    async with AsyncExitStack() as stack:
        opened: list[Client] = []
        benches: dict[Cell, Bench] = {}
        for planned in plan.cells:
            client, lane = client_for(planned.model), planned.model.lane
            if not any(client is other for other in opened):
                await stack.enter_async_context(client.opened())
                opened.append(client)
            watched = Watched(client, lane, limiter, refused)
            benches[planned.cell] = Bench(lane, setup_of(planned, plan), watched)
        evaluation = _Evaluation(plan, store, run_trial, benches, limiter, on_event)
        return await evaluation.run(stop)


def setup_of(planned: PlannedCell, plan: Plan) -> Setup:
    """Return what a cell means to its trials."""
    model = planned.model
    return Setup(
        model=model.id,
        config=planned.config,
        provider=model.provider,
        options=planned.options,
        contracted=planned.contracted,
        simulated=model.simulated,
        seed=plan.settings.seed,
        extra_attempts=plan.settings.empty_response_retry_count,
        retry=_QUICK if model.simulated else RetryPolicy(),
    )


class _Evaluation:
    """An evaluation under way: what is left to do, what was done, and why to stop."""

    def __init__(
        self,
        plan: Plan,
        store: Results,
        run_trial: RunTrial,
        benches: dict[Cell, Bench],
        limiter: Limiter,
        tell: Callable[[Notice], None],
    ) -> None:
        self._plan = plan
        self._store = store
        self._run_trial = run_trial
        self._benches = benches
        self._limiter = limiter
        self._tell = tell
        self._scenarios = {scenario.id: scenario for scenario in plan.scenarios}
        self._done = store.done_keys(infra=False)
        self._queues: dict[str, Iterator[Key]] = {}
        self._bell = Bell()
        self._tally = Tally()
        self._budget = Budget(plan.settings.max_cost)
        self._refusals = Refusals()
        self._counts: Counter[str] = Counter()
        self._outlook = Outlook(len({planned.model.id for planned in plan.cells}))
        self._wanted = self._recorded = self._left = self._ran = 0
        self._ending: Ending = "complete"
        self._error = ""

    async def run(self, stop: Stop) -> Report:
        """Run all trials, then, if the plan leaves their number open, more where it matters."""
        for trial in self._store.trials():
            self._count(trial)
        self._record_skips()
        if stop.requested:
            self._close("interrupted")
        cells = [planned.cell for planned in self._plan.cells]
        first, last = 1, self._plan.trials
        while cells:
            await self._run_batch(cells, first, last, stop)
            more = self._plan.automatic and self._ending == "complete" and last < MOST_TRIALS
            cells = [cell for cell in cells if more and self._needs_more(cell, last)]
            first, last = last + 1, last + FIRST_TRIALS
        # A few trials may end before the endpoint is given up.
        refused = self._outlook.category == ErrorCode.AUTH
        if self._outlook.silent and (refused or not self._recorded):
            self._close("unusable", self._outlook.error)
        return self._report()

    def _needs_more(self, cell: Cell, trials: int) -> bool:
        """Whether a cell is undecided, and its trials are not merely spoiled one after another."""
        return self._tally.counted(cell) >= trials and self._tally.undecided(cell, self._plan.bar)

    def _record_skips(self) -> None:
        for key, reason in self._plan.skipped_keys():
            if key not in self._done:
                skipped = Trial(key=key, status="skipped", category=TOOLS_DISABLED, error=reason)
                self._store.add(skipped)
                self._counts["skipped"] += 1

    async def _run_batch(self, cells: list[Cell], first: int, last: int, stop: Stop) -> None:
        """Run some trials of some cells, if the store lacks them."""
        known = Counter(key in self._done for key in self._plan.keys(first, last, cells))
        wanted, missing = known.total(), known[False]
        self._wanted += wanted
        self._recorded += wanted - missing
        self._left = missing
        self._tell(Planned(self._wanted, self._recorded))
        self._queues = self._queued(cells, first, last)
        count = min(jobs_of(self._plan.settings), missing)
        workers = [asyncio.create_task(self._work()) for _ in range(count)]
        await _all_of(workers, asyncio.create_task(self._watch(stop, workers)))

    def _queued(self, cells: list[Cell], first: int, last: int) -> dict[str, Iterator[Key]]:
        """Make a queue for each lane: a provider that must wait does not hold up the others."""
        lanes: dict[str, list[Cell]] = {}
        for cell in cells:
            lanes.setdefault(self._benches[cell].lane, []).append(cell)
        return {
            lane: (key for key in self._plan.keys(first, last, own) if key not in self._done)
            for lane, own in lanes.items()
        }

    async def _watch(self, stop: Stop, workers: Iterable[asyncio.Task[None]]) -> None:
        """Stop when the user asks to."""
        await stop.asked()
        self._close("interrupted")
        await stop.impatient()
        for worker in workers:
            worker.cancel()

    def _close(self, reason: Ending, error: str = "") -> None:
        """Begin no new trial."""
        if self._ending == "complete":
            self._ending, self._error = reason, error
            self._tell(Stopped(reason, self._limiter.under_way))
            self._bell.ring()

    async def _work(self) -> None:
        while (taken := await self._next()) is not None:
            lane, key = taken
            try:
                await self._run(key)
            finally:
                self._limiter.end(lane)
                self._bell.ring()

    async def _next(self) -> tuple[str, Key] | None:
        """Wait until a trial may begin; None when there is none left, or none may begin."""
        while self._left and self._ending == "complete":
            if (model := self._budget.silent) is not None:
                self._close("unpriced", f"{model} tells no prices, so --max-cost cannot be kept")
                return None
            advice = self._budget.advice(self._limiter.under_way)
            if advice == "stop":
                self._close("budget", "the next trial would cost more than is left")
                return None
            taken = self._take() if advice == "go" else None
            if taken is not None:
                return taken
            await self._bell.heard(self._limiter.opens_in(self._queues))
        return None

    def _take(self) -> tuple[str, Key] | None:
        """Take the next key of a lane that has room. Lanes take turns."""
        for lane in [lane for lane in self._queues if self._limiter.takes(lane)]:
            queue = self._queues.pop(lane)
            key = next(queue, None)
            if key is not None:
                self._queues[lane] = queue
                self._left -= 1
                self._limiter.begin(lane)
                return lane, key
        return None

    async def _run(self, key: Key) -> None:
        self._tell(Started(key))
        bench, scenario = self._benches[key.cell], self._scenarios[key.scenario]
        limit_s = self._plan.settings.timeout
        guard = None if limit_s is None else limit_s * _GUARD
        started_at, started = time.time(), time.perf_counter()
        trace, limit = Trace(()), asyncio.timeout(guard)
        try:
            async with limit:
                trial, trace = await self._run_trial(key, scenario, bench.setup, bench.client)
        except ConfigError:
            raise  # the user's mistake: every other trial would fail as well
        except CRASHES as error:  # a crash concerns this trial alone
            if is_cancelled(error):
                raise
            late = isinstance(error, TimeoutError) and limit.expired()
            trial = msgspec.structs.replace(
                _spoiled(key, f"no end within {limit_s:g} s" if late else error),
                started_at=started_at,
                elapsed_ms=round((time.perf_counter() - started) * 1000),
                tools=scenario.uses_tools,
            )
        self._finish(trial, trace, simulated=bench.setup.simulated)

    def _finish(self, trial: Trial, trace: Trace, *, simulated: bool) -> None:
        lines = dump_trace(trace) if len(trace) else None
        if not simulated:
            trial = self._refusals.judged(trial, lines)
        self._store.add(trial, lines)
        self._ran += 1
        self._counts[trial.status] += 1
        self._count(trial)
        self._tell(Finished(trial, self._budget.spent))
        if not simulated:
            self._outlook.add(trial, trace)
            if self._outlook.hopeless:
                self._close("unusable", self._outlook.error)

    def _count(self, trial: Trial) -> None:
        self._tally.add(trial)
        for refused, lines in self._refusals.settled_by(trial):
            self._store.add(refused, lines)
            self._counts.update(failed=1, infra=-1)
            self._tally.add(refused)
        bench, cost = self._benches.get(trial.key.cell), trial.usage.cost
        if bench is not None and bench.setup.simulated and cost is None:
            cost = 0.0
        if trial.requests or cost is not None:
            self._budget = self._budget.paid(cost, trial.key.cell.model)

    def _report(self) -> Report:
        return Report(
            ending=self._ending,
            wanted=self._wanted,
            recorded=self._recorded,
            ran=self._ran,
            passed=self._counts["passed"],
            failed=self._counts["failed"],
            infra=self._counts["infra"],
            skipped=self._counts["skipped"],
            spent=self._budget.spent,
            unpriced=self._budget.unpriced,
            error=self._error,
            category=self._outlook.category if self._ending == "unusable" else "",
        )


def _spoiled(key: Key, problem: BaseException | str) -> Trial:
    """Return the record of a trial that the infrastructure spoiled."""
    if isinstance(problem, str):
        return Trial(key=key, status="infra", category=ErrorCode.TIMEOUT, error=problem)
    verdict = of_exception(problem)
    return Trial(key=key, status=verdict.status, category=verdict.category, error=verdict.error)


async def _all_of(workers: Sequence[asyncio.Task[None]], watch: asyncio.Task[None]) -> None:
    """Wait for all workers, or for the first that fails; leave none of them behind."""
    try:
        if workers:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in (*workers, watch):
            task.cancel()
        ends = await asyncio.gather(*workers, watch, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end
