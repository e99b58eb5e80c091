"""One trial, guarded: whatever happens to it becomes a record, and concerns no other.

Every engine runs its trials through here, so what is recorded does not depend on the engine.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import msgspec

from surecall.eval.analysis.category import of_exception
from surecall.eval.running.cells import PlannedCell
from surecall.eval.running.matrix import Plan
from surecall.eval.running.trial_run import CRASHES, Case, Setup, is_cancelled
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.done import Place
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.runtime.trace import dump_trace
from surecall.runtime.transport import Client
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.events import LlmRequestErrorEvent
from surecall.values.trace import Trace

# A run watches the time itself; this is for whatever does not.
_GUARD: Final = 1.05
# A simulator needs no long pauses between retries.
_QUICK: Final = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.02)


class RunTrial(Protocol):
    """How one trial is run."""

    async def __call__(self, key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
        """Run one trial; return its record and its trace."""
        ...


class Ended(msgspec.Struct, frozen=True):
    """A trial that ended: its record, its trace as JSON lines, and what the endpoint said last.

    `said` is blank unless the endpoint refused a request; it says what to do, if that is known.
    """

    trial: Trial
    lines: bytes | None = None
    said: str = ""


class Bench(msgspec.Struct, frozen=True):
    """What the trials of one cell share."""

    lane: str
    setup: Setup
    client: Client


class Benches:
    """Everything that the trials of a plan need, each found by its key."""

    def __init__(
        self,
        benches: Mapping[Cell, Bench],
        scenarios: Iterable[Scenario],
        run_trial: RunTrial,
        limit_s: float | None,
    ) -> None:
        self._benches = benches
        self._scenarios = {scenario.id: scenario for scenario in scenarios}
        self._cases: dict[Place, Case] = {}
        self._run_trial = run_trial
        self._limit_s = limit_s

    async def run(self, key: Key) -> Ended:
        """Run one trial to its end; only a cancelled one, or the user's mistake, raises."""
        client = self._benches[key.cell].client
        guard = None if self._limit_s is None else self._limit_s * _GUARD
        started_at, started = time.time(), time.perf_counter()
        trace, limit = Trace(()), asyncio.timeout(guard)
        try:
            async with limit:
                trial, trace = await self._run_trial(key, self._case(key), client)
        except ConfigError:
            raise  # the user's mistake: every other trial would fail as well
        except CRASHES as error:  # a crash concerns this trial alone
            if is_cancelled(error):
                raise
            late = isinstance(error, TimeoutError) and limit.expired()
            trial = msgspec.structs.replace(
                _spoiled(key, f"no end within {self._limit_s:g} s" if late else error),
                started_at=started_at,
                elapsed_ms=round((time.perf_counter() - started) * 1000),
                tools=self._scenarios[key.scenario].uses_tools,
            )
        return Ended(trial, dump_trace(trace) if len(trace) else None, said_in(trace))

    def _case(self, key: Key) -> Case:
        """Return what the trials of a cell and scenario share; it is made when the first begins."""
        place = (key.cell, key.scenario)
        if place not in self._cases:
            scenario, setup = self._scenarios[key.scenario], self._benches[key.cell].setup
            self._cases[place] = Case(scenario, setup)
        return self._cases[place]


def setup_of(planned: PlannedCell, plan: Plan) -> Setup:
    """Return what a cell means to its trials."""
    model = planned.model
    return Setup(
        model=model.asked,
        config=planned.config,
        fallbacks=planned.fallbacks,
        provider=model.provider,
        options=planned.options,
        contracted=planned.contracted,
        simulated=model.simulated,
        seed=plan.settings.seed,
        extra_attempts=plan.settings.empty_response_retry_count,
        retry=_QUICK if model.simulated else RetryPolicy(),
    )


def benches_of(
    plan: Plan, run_trial: RunTrial, client_of: Callable[[PlannedCell], Client]
) -> Benches:
    """Return what the trials of a plan need, given the client of each cell."""
    benches = {
        each.cell: Bench(each.model.lane, setup_of(each, plan), client_of(each))
        for each in plan.cells
    }
    return Benches(benches, plan.scenarios, run_trial, plan.settings.timeout)


def said_in(trace: Trace) -> str:
    """Return what the last request that was refused was told; blank when none was."""
    faults = [event.fault for event in trace if isinstance(event, LlmRequestErrorEvent)]
    return str(faults[-1]) if faults else ""


def _spoiled(key: Key, problem: BaseException | str) -> Trial:
    """Return the record of a trial that the infrastructure spoiled."""
    if isinstance(problem, str):
        return Trial(key=key, status="infra", category=ErrorCode.TIMEOUT, error=problem)
    verdict = of_exception(problem)
    return Trial(key=key, status=verdict.status, category=verdict.category, error=verdict.error)
