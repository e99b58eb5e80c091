"""Evaluations without an endpoint: in this process, on a cluster, and with limited providers."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from surecall.eval.running.cells import Model
from surecall.eval.running.harness import LocalEngine, StopRequest, evaluate
from surecall.eval.running.ledger import EvaluationEvent, EvaluationReport
from surecall.eval.running.matrix import EvaluationPlan, ModelLibrary, build_plan, models_served_by
from surecall.eval.running.trial_run import TrialCase, run_trial
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.scenario import select_scenarios
from surecall.eval.settings.endpoint import OPENROUTER_URL, Endpoint, resolve_endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.resolution import result_settings
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Cell, Key, ServedRequest, Status, Trial
from surecall.runtime.transport import Client, OpenAICompatible
from surecall.settings.catalog import ModelCatalog, SamplingCatalog
from surecall.settings.connection import Limits, RetryPolicy
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.server import Simulator
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.trace import Trace
from surecall.values.types import HttpResponse, Usage
from surecall.wire.response import parse_fault
from tests.support.timing import PATIENCE_S, until_soon, virtual_time

# An evaluation without an endpoint: made-up trials, a store in memory, a client that is none


ENDPOINT = Endpoint(OPENROUTER_URL, "/v1", "openrouter")
GROK, CLAUDE = Cell("x-ai/grok-4.1-fast"), Cell("anthropic/claude-opus-4.6:nitro")
SERVED = (ServedRequest(turn=0, latency_ms=1, attempt=1),)
Outcome = Callable[[Key], Trial]


def planned(**changes: Any) -> EvaluationPlan:
    settings = Settings(**({"model_filter": "x_ai,anthropic", "scenarios": "simple"} | changes))
    catalog = ModelCatalog.builtin()
    library = ModelLibrary(models_served_by(ENDPOINT, catalog), catalog, SamplingCatalog.builtin())
    return build_plan(settings, select_scenarios(settings.scenarios, SCENARIOS), library, ENDPOINT)


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

    def __init__(self, answer: HttpResponse | None = None) -> None:
        self.answer = answer or HttpResponse(200, {}, b"")
        self.times_opened = 0

    async def send(self, body: bytes) -> HttpResponse:
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

    async def __call__(self, key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
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
    what: EvaluationPlan,
    trials: Callable[..., Any],
    store: Memory | None = None,
    stop: StopRequest | None = None,
    client: NoClient | None = None,
) -> tuple[EvaluationReport, list[EvaluationEvent]]:
    """Evaluate in virtual time: nothing here needs a thread or a connection."""
    notices: list[EvaluationEvent] = []
    served = client or NoClient()

    async def go() -> EvaluationReport:
        engine = LocalEngine(trials, lambda _: served)
        return await evaluate(
            what, store or Memory(), engine, notices.append, stop or StopRequest()
        )

    with virtual_time():
        return asyncio.run(go()), notices


# Trials that are made up in worker processes: these have to be found there by their names


DEADLY = 7


@contextmanager
def no_client(_: Settings) -> Iterator[Client]:
    yield NoClient()


@contextmanager
def refusing_client(_: Settings) -> Iterator[Client]:
    yield NoClient(HttpResponse(429, {"retry-after": "0.05"}, b""))


@contextmanager
def refusing_router(_: Settings) -> Iterator[Client]:
    headers = {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0"}
    body = {"error": {"code": 429, "metadata": {"headers": headers}}}
    yield NoClient(HttpResponse(429, {"date": "now"}, msgspec.json.encode(body)))


@contextmanager
def no_door(_: Settings) -> Iterator[Client]:
    raise ConfigError("there is no way in")
    yield NoClient()


async def quick(key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
    assert (case.scenario.id, case.setup.model) == (key.scenario, key.cell.model)
    await client.send(b"")
    if key.trial % 3 == 0:
        return a_trial(key, "failed", "X", cost=0.25), Trace(())
    return a_trial(key, cost=0.25), Trace(())


async def passing(key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
    del case, client
    await asyncio.sleep(0)
    return a_trial(key), Trace(())


async def deadly(key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
    """End the whole process in one of the trials of each cell and scenario."""
    if key.trial == DEADLY and key.scenario == "happy_path" and "grok" in key.cell.model:
        os.kill(os.getpid(), signal.SIGKILL)
    return await passing(key, case, client)


async def mistaken(key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
    del client
    raise ConfigError(f"no such thing in {key.scenario}, {case.scenario.id}")


class Gated:
    """Trials that begin, say so in a folder, and end when a file appears there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def begun(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("begun *"))

    def open(self) -> None:
        (self.folder / "open").touch()

    async def __call__(self, key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
        name = f"begun {key.cell.model} {key.scenario} {key.trial}".replace("/", "_")
        (self.folder / name).touch()
        await until_soon((self.folder / "open").exists)
        return await passing(key, case, client)


# Providers that take only so much, in virtual time, and conversations that are held with them. A
# provider decides when a request comes, and answers a while later, as real ones do. It counts what
# it was asked and what it refused. Conversations try again as all runs do, by `RetryPolicy`.


LATENCY_S: Final = 0.3
OK, TOO_MANY = 200, 429
# A clock on the wall that runs beside the virtual one.
WALL: Final = 1_700_000_000.0


class Rule(Protocol):
    """What a provider takes."""

    def takes(self, now: float, under_way: int) -> bool:
        """Whether one more request is served."""
        ...

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        """Return what every answer says about the limit."""
        ...


class Anything:
    """No limit."""

    def takes(self, now: float, under_way: int) -> bool:
        del now, under_way
        return True

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        del now, taken
        return {}


class Slots(Anything):
    """So many at the same time."""

    def __init__(self, most: int) -> None:
        self.most = most

    def takes(self, now: float, under_way: int) -> bool:
        del now
        return under_way < self.most


class Bucket(Anything):
    """So many a second, and a few at once after a pause."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self.tokens, self.seen = burst, 0.0

    def _fill(self, now: float) -> None:
        self.tokens = min(self.burst, self.tokens + (now - self.seen) * self.rate)
        self.seen = now

    def takes(self, now: float, under_way: int) -> bool:
        del under_way
        self._fill(now)
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class ToldBucket(Bucket):
    """A bucket that says what is left in it, and when it is full again, as OpenAI does."""

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        del taken
        self._fill(now)
        return {
            "x-ratelimit-limit-requests": f"{self.burst:.0f}",
            "x-ratelimit-remaining-requests": f"{int(self.tokens)}",
            "x-ratelimit-reset-requests": f"{(self.burst - self.tokens) / self.rate * 1000:.0f}ms",
        }


class AdvisingBucket(Bucket):
    """A bucket that says with each refusal when to come again."""

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        del now
        return {} if taken else {"retry-after": "1"}


class Window(Anything):
    """So many in each period, told in milliseconds since 1970, as OpenRouter does."""

    def __init__(self, most: int, period_s: float, *, told: bool = True) -> None:
        self.most, self.period_s, self.told = most, period_s, told
        self.taken: Counter[int] = Counter()

    def takes(self, now: float, under_way: int) -> bool:
        del under_way
        window = int(now // self.period_s)
        self.taken[window] += self.taken[window] < self.most
        return self.taken[window] < self.most

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        if taken or not self.told:
            return {}
        reset_s = (now // self.period_s + 1) * self.period_s
        return {
            "x-ratelimit-limit": f"{self.most}",
            "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": f"{(WALL + reset_s) * 1000:.0f}",
        }


class Dropping(Anything):
    """One rule until a moment, then another."""

    def __init__(self, before: Rule, after: Rule, at: float) -> None:
        self._rule: Callable[[float], Rule] = lambda now: before if now < at else after

    def takes(self, now: float, under_way: int) -> bool:
        return self._rule(now).takes(now, under_way)

    def headers(self, now: float, *, taken: bool) -> dict[str, str]:
        return self._rule(now).headers(now, taken=taken)


class Provider:
    """An endpoint with a limit. `refuses_after_s` is how soon it says no."""

    def __init__(
        self,
        rule: Rule,
        clock: Callable[[], float],
        refuses_after_s: float = LATENCY_S,
        varies: float = 0.25,
    ) -> None:
        self.rule = rule
        self.clock = clock
        self.start = clock()
        self.refuses_after_s = refuses_after_s
        self.varies = varies
        self.chance = random.Random(2).uniform  # noqa: S311  # repeatable, not secret
        self.under_way = self.asked = self.refused = 0
        self.served: list[float] = []

    async def send(self, body: bytes) -> HttpResponse:
        del body
        self.asked += 1
        now = self.clock() - self.start
        taken = self.rule.takes(now, self.under_way)
        headers = self.rule.headers(now, taken=taken)
        if not taken:
            self.refused += 1
            await asyncio.sleep(self.refuses_after_s)
            return HttpResponse(TOO_MANY, headers, b"{}")
        self.under_way += 1
        await asyncio.sleep(LATENCY_S * self.chance(1 - self.varies, 1 + self.varies))
        self.under_way -= 1
        self.served.append(self.clock() - self.start)
        return HttpResponse(OK, headers, b"{}")

    def opened(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def rate(self, first_s: float, last_s: float) -> float:
        """Return how many were served a second, from one moment to another."""
        return sum(first_s < at <= last_s for at in self.served) / (last_s - first_s)


class Conversations:
    """Trials of some requests each. What is refused too often spoils one, as it does in a run."""

    def __init__(self, requests: int = 2, retry: RetryPolicy | None = None) -> None:
        self.requests = requests
        self.retry = retry or RetryPolicy()
        self.jitter = random.Random(1).random  # noqa: S311  # repeatable, not secret

    async def __call__(self, key: Key, case: TrialCase, client: Client) -> tuple[Trial, Trace]:
        del case
        for _ in range(self.requests):
            if not await self._asked(client):
                return a_trial(key, "infra", ErrorCode.RATE_LIMIT), Trace(())
        return a_trial(key), Trace(())

    async def _asked(self, client: Client) -> bool:
        attempt = 0
        while True:
            attempt += 1
            answer = await client.send(b"{}")
            if answer.status == OK:
                return True
            fault = parse_fault({}, answer.status, answer.headers, WALL)
            wait_s = self.retry.wait(fault, attempt, self.jitter())
            if wait_s is None:
                return False
            await asyncio.sleep(wait_s)


SIMULATED_LIBRARY = ModelLibrary(
    tuple(
        Model(each.id, each.provider, imitates=each.imitates, simulated=True)
        for each in PERSONAS.values()
    ),
    ModelCatalog.builtin(),
    SamplingCatalog.builtin(),
)


def plan_simulated(**changes: Any) -> EvaluationPlan:
    usual: dict[str, Any] = {"model_filter": "sim/clean,sim/lazy", "trials": 2}
    settings = Settings(**(usual | changes))
    scenarios = select_scenarios(settings.scenarios, SCENARIOS)
    return build_plan(settings, scenarios, SIMULATED_LIBRARY, resolve_endpoint(settings))


def evaluate_simulated(base: Path, what: EvaluationPlan) -> tuple[EvaluationReport, list[Trial]]:
    async def go() -> EvaluationReport:
        async with Simulator(seed=what.settings.seed) as simulator:
            client = OpenAICompatible(simulator.url, limits=Limits(idle_s=PATIENCE_S))
            notices: list[EvaluationEvent] = []
            engine = LocalEngine(run_trial, lambda _: client)
            return await evaluate(what, store, engine, notices.append, StopRequest())

    with open_or_resume(base, result_settings(what.settings)) as store:
        report = asyncio.run(go())
        return report, list(store.trials())


def timeless(trial: Trial) -> Trial:
    served = [msgspec.structs.replace(each, latency_ms=0) for each in trial.requests]
    return msgspec.structs.replace(trial, elapsed_ms=0, started_at=0.0, requests=tuple(served))


CATALOG, PROFILES = ModelCatalog.builtin(), SamplingCatalog.builtin()


ROUTER_ENDPOINT = Endpoint(OPENROUTER_URL, "/v1", "openrouter")


OWN_ENDPOINT = Endpoint("http://localhost:8000", "/v1", "custom", is_explicit=True)


SIM_ENDPOINT = Endpoint("sim", "/v1", "sim", is_simulated=True)


IMITATORS = (
    Model("sim/clean", simulated=True, listed=False),
    Model("sim/like-grok", imitates="x-ai/grok-4.1-fast", simulated=True),
    Model("sim/like-gemini", imitates="google/gemini-2.5-flash:nitro", simulated=True),
)


def plan_at(endpoint: Endpoint = ROUTER_ENDPOINT, **changes: Any) -> EvaluationPlan:
    settings = Settings(**changes)
    models = IMITATORS if endpoint.is_simulated else models_served_by(endpoint, CATALOG)
    scenarios = select_scenarios(settings.scenarios, SCENARIOS)
    return build_plan(settings, scenarios, ModelLibrary(models, CATALOG, PROFILES), endpoint)


def planned_models(expression: str, endpoint: Endpoint = ROUTER_ENDPOINT) -> list[str]:
    found = plan_at(endpoint, model_filter=expression, scenarios="chat_only").cells
    return [each.model.id for each in found]
