"""The local engine: all trials in this process, many at the same time.

A fixed number of workers pull from the ledger, so a large plan takes no more memory than a small
one. The result of a trial does not depend on how many run beside it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from surecall.eval.running.cells import Model, PlannedCell
from surecall.eval.running.guarded_trial import Benches, RunTrial, benches_of
from surecall.eval.running.harness_events import Notice, RateLimited
from surecall.eval.running.ledger import Ledger
from surecall.eval.running.limiter import Limiter, Watched
from surecall.eval.running.matrix import Plan
from surecall.eval.settings.endpoint import jobs_of
from surecall.eval.storage.trial import Key
from surecall.runtime.transport import Client


class LocalEngine:
    """Runs trials in this process, over the client of each model."""

    def __init__(self, run_trial: RunTrial, client_for: Callable[[Model], Client]) -> None:
        self._run_trial = run_trial
        self._client_for = client_for

    @asynccontextmanager
    async def opened(
        self, plan: Plan, tell: Callable[[Notice], None]
    ) -> AsyncIterator["LocalWorkers"]:
        """Keep connections open for as long as the block lasts."""
        limiter = Limiter(jobs_of(plan.settings), time.monotonic, time.time)

        def refused(lane: str, wait_s: float) -> None:
            tell(RateLimited(lane, wait_s, limiter.lane(lane).limit))

        clients = {each.cell: self._client_for(each.model) for each in plan.cells}

        def client_of(planned: PlannedCell) -> Client:
            return Watched(clients[planned.cell], planned.model.lane, limiter, refused)

        async with AsyncExitStack() as stack:
            for client in {id(client): client for client in clients.values()}.values():
                await stack.enter_async_context(client.opened())
            benches = benches_of(plan, self._run_trial, client_of)
            yield LocalWorkers(benches, limiter, jobs_of(plan.settings))


class LocalWorkers:
    """Workers that take trials from a ledger, each one at a time."""

    def __init__(self, benches: Benches, limiter: Limiter, most: int) -> None:
        self._benches = benches
        self._limiter = limiter
        self._most = most

    async def run(self, ledger: Ledger) -> None:
        """Run what the ledger has left, until nothing may begin any more."""
        self._limiter.room = ledger.bell.ring
        count = min(self._most, ledger.left)
        await _all_of([asyncio.create_task(self._work(ledger)) for _ in range(count)])

    async def _work(self, ledger: Ledger) -> None:
        while (taken := await self._next(ledger)) is not None:
            lane, key = taken
            ledger.bell.ring()  # there may be room for one more
            ledger.begin(key)
            try:
                ended = await self._benches.run(key)
            finally:
                self._limiter.end(lane)
            ledger.finish(ended)
        ledger.bell.ring()  # the next one has nothing to wait for either

    async def _next(self, ledger: Ledger) -> tuple[str, Key] | None:
        """Wait until a trial may begin; None when there is none left, or none may begin."""
        while ledger.is_open:
            taken = ledger.take(self._limiter.takes)
            if taken is not None:
                self._limiter.begin(taken[0])
                return taken
            if ledger.is_open:
                await ledger.bell.heard(self._limiter.opens_in(ledger.lanes))
        return None


async def _all_of(workers: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all workers, or for the first that fails; leave none of them behind."""
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
