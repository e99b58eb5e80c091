"""The harness: runs what a plan still lacks, and records each trial when it ends.

    ledger: what is left ─► engine: runs it, here or elsewhere ─► ledger: store, events

A trial that crashes is an infrastructure failure of its own, and the others go on. Ending early
loses nothing: the same plan over the same store continues, on any engine.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from surecall.eval.running.harness_events import Notice, Report
from surecall.eval.running.ledger import Ledger, Results
from surecall.eval.running.matrix import FIRST_TRIALS, MOST_TRIALS, Plan

# Who ends a process from outside waits a moment, then kills it.
GRACE_S: Final = 10.0


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


class Workers(Protocol):
    """Those who run trials, wherever they are."""

    async def run(self, ledger: Ledger) -> None:
        """Run what a ledger has left, until nothing may begin and all that began has ended.

        When this is cancelled, the trials under way are, too.
        """
        ...


class Engine(Protocol):
    """How trials are run. Results do not depend on it."""

    def opened(
        self, plan: Plan, tell: Callable[[Notice], None]
    ) -> AbstractAsyncContextManager[Workers]:
        """Have workers for a plan, for as long as the block lasts."""
        ...


async def evaluate(
    plan: Plan, store: Results, engine: Engine, on_event: Callable[[Notice], None], stop: Stop
) -> Report:
    """Run every trial of a plan that the store lacks, and say how far it came.

    If the plan leaves their number open, more are run where it matters.
    """
    async with engine.opened(plan, on_event) as workers:
        ledger = Ledger(plan, store, on_event)
        if stop.requested:
            ledger.close("interrupted")
        cells = [planned.cell for planned in plan.cells]
        first, last = 1, plan.trials
        while cells:
            ledger.begin_round(cells, first, last)
            await _worked_off(ledger, workers, stop)
            more = plan.automatic and last < MOST_TRIALS
            cells = ledger.undecided(cells, last) if more else []
            first, last = last + 1, last + FIRST_TRIALS
        return ledger.report()


async def _worked_off(ledger: Ledger, workers: Workers, stop: Stop) -> None:
    """Let the workers run what is left, and stop them when the user asks to."""
    work = asyncio.create_task(workers.run(ledger))
    watch = asyncio.create_task(_watch(stop, ledger, work))
    try:
        await asyncio.wait([work])
    finally:
        for task in (work, watch):
            task.cancel()
        ends = await asyncio.gather(work, watch, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def _watch(stop: Stop, ledger: Ledger, work: asyncio.Task[None]) -> None:
    await stop.asked()
    ledger.close("interrupted")
    await stop.impatient()
    work.cancel()
