"""Runs an evaluation: the trials of a plan that the store does not have yet.

    ledger: pending trials ─► engine: runs them, here or elsewhere ─► ledger: store, events

A trial that crashes is recorded as an infrastructure failure, and the others continue. Stopping
early loses nothing: running the same plan with the same store resumes it, on any engine.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, Protocol

from surecall.eval.running.cells import Model, PlannedCell
from surecall.eval.running.ledger import (
    EvaluationEvent,
    EvaluationReport,
    Ledger,
    RateLimited,
    TrialStore,
)
from surecall.eval.running.limiter import Limiter, RateLimitedClient
from surecall.eval.running.matrix import MAX_TRIALS, TRIALS_PER_ROUND, EvaluationPlan
from surecall.eval.running.trial_run import RunTrial, TrialRunner, build_trial_runner
from surecall.eval.settings.endpoint import job_count
from surecall.eval.storage.trial import Key
from surecall.runtime.transport import Client

# The local engine runs trials concurrently in this process.
#
# A fixed number of workers pull from the ledger, so memory use does not depend on the plan's size.
# The result of a trial does not depend on how many run at the same time.


class LocalEngine:
    """Runs trials in this process, over the client of each model."""

    def __init__(self, run_trial: RunTrial, client_for: Callable[[Model], Client]) -> None:
        self._run_trial = run_trial
        self._client_for = client_for

    @asynccontextmanager
    async def open_workers(
        self, plan: EvaluationPlan, on_event: Callable[[EvaluationEvent], None]
    ) -> AsyncIterator["LocalWorkers"]:
        """Keep the clients open inside the block, and yield the workers."""
        limiter = Limiter(job_count(plan.settings), time.monotonic, time.time)

        def report_rate_limit(lane: str, wait_s: float) -> None:
            on_event(RateLimited(lane, wait_s, limiter.window(lane).limit))

        clients = {each.cell: self._client_for(each.model) for each in plan.cells}

        def client_of(planned: PlannedCell) -> Client:
            return RateLimitedClient(
                clients[planned.cell], planned.model.lane, limiter, report_rate_limit
            )

        async with AsyncExitStack() as stack:
            for client in {id(client): client for client in clients.values()}.values():
                await stack.enter_async_context(client.opened())
            benches = build_trial_runner(plan, self._run_trial, client_of)
            yield LocalWorkers(benches, limiter, job_count(plan.settings))


class LocalWorkers:
    """Workers that take trials from a ledger, one at a time each."""

    def __init__(self, trial_runner: TrialRunner, limiter: Limiter, max_workers: int) -> None:
        self._trial_runner = trial_runner
        self._limiter = limiter
        self._max_workers = max_workers

    async def run(self, ledger: Ledger) -> None:
        """Run the remaining trials of the ledger until none may start."""
        self._limiter.on_room = ledger.state_changed.notify_one
        count = min(self._max_workers, ledger.remaining)
        await _wait_for_workers(
            [asyncio.create_task(self._run_trials(ledger)) for _ in range(count)]
        )

    async def _run_trials(self, ledger: Ledger) -> None:
        """Run one trial after another, as one worker."""
        while (taken := await self._next_trial(ledger)) is not None:
            lane, key = taken
            ledger.state_changed.notify_one()  # another worker may have room, too
            ledger.record_start(key)
            try:
                ended = await self._trial_runner.run(key)
            finally:
                self._limiter.end_conversation(lane)
            ledger.record_result(ended)
        ledger.state_changed.notify_one()  # let the next worker end, too

    async def _next_trial(self, ledger: Ledger) -> tuple[str, Key] | None:
        """Wait until a trial may start and return it; None if none is left or may start."""
        while ledger.can_start:
            taken = ledger.take_next(self._limiter.has_room)
            if taken is not None:
                self._limiter.begin_conversation(taken[0])
                return taken
            if ledger.can_start:
                await ledger.state_changed.wait(self._limiter.next_opening_s(ledger.lanes))
        return None


async def _wait_for_workers(workers: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all workers or the first failure, then cancel the rest."""
    try:
        if workers:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for worker in workers:
            worker.cancel()
        ends = await asyncio.gather(*workers, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


# Time for running trials after SIGTERM: the whole command must end within two seconds.
TERMINATE_GRACE_S: Final = 0.5


class StopRequest:
    """The user's request to stop: the first starts no new trials, the second stops at once.

    After the first, running trials may take their full time, since they are already paid for. Call
    the methods from the event loop, such as from its signal handlers.
    """

    def __init__(self) -> None:
        self._first = asyncio.Event()
        self._second = asyncio.Event()

    def request(self, *, now: bool = False) -> None:
        """Stop after the running trials; on the second call, or with `now`, at once."""
        if now or self.is_requested:
            self._second.set()
        self._first.set()

    def terminate(self, grace_s: float = TERMINATE_GRACE_S) -> None:
        """Make the first request now, and the second after `grace_s` seconds."""
        self._first.set()
        asyncio.get_running_loop().call_later(grace_s, self._second.set)

    @property
    def is_requested(self) -> bool:
        """Whether a stop was requested."""
        return self._first.is_set()

    async def wait_for_first(self) -> None:
        """Wait for the first request."""
        await self._first.wait()

    async def wait_for_second(self) -> None:
        """Wait for the second request."""
        await self._second.wait()


class TrialWorkers(Protocol):
    """The workers of an engine."""

    async def run(self, ledger: Ledger) -> None:
        """Run the remaining trials of a ledger until none may start and none is running.

        Cancelling this cancels the running trials.
        """
        ...


class TrialEngine(Protocol):
    """Runs trials. Their results do not depend on the engine."""

    def open_workers(
        self, plan: EvaluationPlan, on_event: Callable[[EvaluationEvent], None]
    ) -> AbstractAsyncContextManager[TrialWorkers]:
        """Provide workers for a plan inside the block."""
        ...


async def evaluate(
    plan: EvaluationPlan,
    store: TrialStore,
    engine: TrialEngine,
    on_event: Callable[[EvaluationEvent], None],
    stop: StopRequest,
) -> EvaluationReport:
    """Run every trial of a plan that the store lacks, and return the report.

    With an automatic number of trials, undecided cells get more.
    """
    async with AsyncExitStack() as stack:
        ledger = Ledger(plan, store, on_event)
        cells = [planned.cell for planned in plan.cells]
        first, last = 1, plan.trials
        workers = await _open_engine(engine.open_workers(plan, on_event), stack, stop)
        if workers is None:
            ledger.stop("interrupted")
            ledger.begin_round(cells, first, last)
            return ledger.report()
        while cells:
            ledger.begin_round(cells, first, last)
            await _run_round(ledger, workers, stop)
            more = plan.has_automatic_trials and last < MAX_TRIALS
            cells = ledger.undecided_cells(cells, last) if more else []
            first, last = last + 1, last + TRIALS_PER_ROUND
        return ledger.report()


async def _open_engine(
    workers_context: AbstractAsyncContextManager[TrialWorkers],
    stack: AsyncExitStack,
    stop: StopRequest,
) -> TrialWorkers | None:
    """Open an engine; return None if a stop is requested before it is open."""
    opens = asyncio.create_task(stack.enter_async_context(workers_context))
    stop_wait = asyncio.create_task(stop.wait_for_first())
    try:
        await asyncio.wait([opens, stop_wait], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop_wait.cancel()
        if not opens.done():
            opens.cancel()
            await asyncio.wait([opens])
    if opens.cancelled():
        return None
    workers = opens.result()  # raises if the engine cannot be opened
    return None if stop.is_requested else workers


async def _run_round(ledger: Ledger, workers: TrialWorkers, stop: StopRequest) -> None:
    """Run the remaining trials, and stop the workers on request."""
    work = asyncio.create_task(workers.run(ledger))
    watch = asyncio.create_task(_stop_on_request(stop, ledger, work))
    try:
        await asyncio.wait([work])
    finally:
        for task in (work, watch):
            task.cancel()
        ends = await asyncio.gather(work, watch, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def _stop_on_request(stop: StopRequest, ledger: Ledger, work: asyncio.Task[None]) -> None:
    """Close the ledger at the first request to stop; cancel the work at the second."""
    await stop.wait_for_first()
    ledger.stop("interrupted")
    await stop.wait_for_second()
    work.cancel()
