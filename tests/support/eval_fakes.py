"""An evaluation without an endpoint: made-up trials, a store in memory, a client that is none."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from surecall.eval.running.harness import Stop, evaluate
from surecall.eval.running.harness_events import (
    Notice,
    Report,
)
from surecall.eval.running.local_engine import LocalEngine
from surecall.eval.running.matrix import Library, Plan, models_at, plan
from surecall.eval.running.trial_run import Case
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.scenario import select_scenarios
from surecall.eval.settings.endpoint import OPENROUTER_URL, Endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.trial import Cell, Key, Served, Status, Trial
from surecall.runtime.transport import Client
from surecall.settings.catalog import ModelCatalog
from surecall.settings.sampling import SamplingCatalog
from surecall.values.trace import Trace
from surecall.values.types import Answer, Usage
from tests.support.clock import virtual_time

ENDPOINT = Endpoint(OPENROUTER_URL, "/v1", "openrouter")
GROK, CLAUDE = Cell("x-ai/grok-4.1-fast"), Cell("anthropic/claude-opus-4.6:nitro")
SERVED = (Served(turn=0, latency_ms=1, attempt=1),)
Outcome = Callable[[Key], Trial]


def planned(**changes: Any) -> Plan:
    settings = Settings(**({"model_filter": "x_ai,anthropic", "scenarios": "simple"} | changes))
    catalog = ModelCatalog.builtin()
    library = Library(models_at(ENDPOINT, catalog), catalog, SamplingCatalog.builtin())
    return plan(settings, select_scenarios(settings.scenarios, SCENARIOS), library, ENDPOINT)


class Memory:
    """A store that forgets when the test ends."""

    def __init__(self, *trials: Trial) -> None:
        self.found = {trial.key: trial for trial in trials}
        self.traces: dict[Key, bytes | None] = {}

    def trials(self) -> Iterator[Trial]:
        return iter(list(self.found.values()))

    def find(self, key: Key) -> tuple[Trial, bytes | None] | None:
        return (self.found[key], None) if key in self.found else None

    def trace(self, key: Key) -> bytes | None:
        return self.traces.get(key)

    def add(self, trial: Trial, trace: bytes | None = None) -> None:
        assert trial.key not in self.found or self.found[trial.key].status == "infra"
        self.found[trial.key] = trial
        self.traces[trial.key] = trace


class NoClient:
    """An endpoint that answers as it is told, and knows how often it was opened."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer or Answer(200, {}, b"")
        self.times_opened = 0

    async def send(self, body: bytes) -> Answer:
        del body
        return self.answer

    def opened(self) -> AbstractAsyncContextManager[None]:
        self.times_opened += 1
        return nullcontext()


class Trials:
    """Makes trials up; knows which began, and how many were ever under way at once."""

    def __init__(
        self, outcome: Outcome, pause: Callable[[Key], Awaitable[Any]] | None = None
    ) -> None:
        self.outcome = outcome
        self.pause = pause
        self.begun: list[Key] = []
        self.under_way = self.most = 0

    async def __call__(self, key: Key, case: Case, client: Client) -> tuple[Trial, Trace]:
        assert case.scenario.id == key.scenario
        assert case.setup.model == key.cell.model
        self.begun.append(key)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await client.send(b"")
            await (asyncio.sleep(0) if self.pause is None else self.pause(key))
            return self.outcome(key), Trace(())
        finally:
            self.under_way -= 1


def a_trial(key: Key, status: Status = "passed", category: str = "", cost: float = 0.0) -> Trial:
    return Trial(key=key, status=status, category=category, requests=SERVED, usage=Usage(cost=cost))


def run(
    what: Plan,
    trials: Callable[..., Any],
    store: Memory | None = None,
    stop: Stop | None = None,
    client: NoClient | None = None,
) -> tuple[Report, list[Notice]]:
    """Evaluate in virtual time: nothing here needs a thread or a connection."""
    notices: list[Notice] = []
    served = client or NoClient()

    async def go() -> Report:
        engine = LocalEngine(trials, lambda _: served)
        return await evaluate(what, store or Memory(), engine, notices.append, stop or Stop())

    with virtual_time():
        return asyncio.run(go()), notices
