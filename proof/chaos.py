"""D9: a thousand simultaneous runs over faulty transport, against a drifting endpoint.

What must fail is known: a run fails exactly if the plan of the server spoilt all three attempts
of one of its requests. Every other run does its work, once.
"""

import asyncio
import multiprocessing
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from proof.chaos_server import Plan, Sent, serve
from proof.claims import Claim, Outcome, gathered
from scripts.soak import ASKED, GET, PATCH, Trial, config_for
from surecall import (
    Limits,
    OpenAICompatible,
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolCallingConfig,
    ToolDefinition,
    ToolLoopRunner,
    ToolRegistry,
)
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.values.events import RequestRefusedEvent
from surecall.values.types import JSON

TOGETHER = 1000
PERSONA = PERSONAS["sim/clean"]
# What is silent for this long is given up. A thousand requests that begin together take a while.
LIMITS = Limits(connect_s=30.0, idle_s=20.0, max_connections=TOGETHER)
ATTEMPTS = RetryPolicy().attempts


class Held(msgspec.Struct, frozen=True):
    """One run: how it went, how long it took, and whether its last fault could be retried."""

    trial: Trial
    seconds: float
    retryable: bool = False


def attempt(size: int, seed: int) -> Outcome:
    """Hold runs, a thousand at a time, and judge each by what was done to it."""
    failures: list[str] = []
    seconds: list[float] = []
    told: list[Sent] = []
    doomed_in_all = 0
    with _server(Plan(seed)) as (url, news):
        for first in range(0, size, TOGETHER):
            held = asyncio.run(together(url, range(first, min(first + TOGETHER, size))))
            sent, violations = news()
            doomed = doomed_runs(sent)
            failures += [f"refused request: {one}" for one in violations]
            failures += judged(held, doomed)
            seconds += [one.seconds for one in held.values() if isinstance(one, Held)]
            doomed_in_all += len(doomed)
            told += sent
    return Outcome(
        f"{min(size, TOGETHER)} concurrent runs over HTTP, half of them streamed, "
        "10 % transport faults and 10 % effective drift, three attempts",
        size,
        gathered(failures),
        figures=_figures(told, seconds, doomed_in_all),
    )


@contextmanager
def _server(plan: Plan) -> Iterator[tuple[str, "News"]]:
    """Serve in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=serve, args=(plan, there), daemon=True)
    process.start()
    try:
        yield here.recv(), News(here)
        here.send("")
        process.join()
    finally:
        process.kill()


class News:
    """What the server has sent since it was asked last, and what it had to refuse."""

    def __init__(self, line: "multiprocessing.connection.Connection") -> None:
        self._line = line

    def __call__(self) -> tuple[list[Sent], list[str]]:
        """Ask the server."""
        self._line.send("news")
        sent, violations = self._line.recv()
        return sent, violations


async def together(url: str, numbers: Sequence[int]) -> dict[str, Held | BaseException]:
    """Hold runs simultaneously; an exception that is no failure of a run is kept as it is."""
    config = config_for(PERSONA)
    async with OpenAICompatible(url, limits=LIMITS) as client:
        held = await asyncio.gather(
            *(hold(client, f"ws_{number}", config, streams=bool(number % 2)) for number in numbers),
            return_exceptions=True,
        )
    return dict(zip((f"ws_{number}" for number in numbers), held, strict=True))


async def hold(
    client: OpenAICompatible,
    workspace: str,
    config: ToolCallingConfig,
    *,
    streams: bool,
    model: str = PERSONA.id,
) -> Held:
    """Hold one run."""
    ran: list[tuple[str, JSON]] = []

    async def state_get(**arguments: object) -> JSON:
        ran.append(("state_get", arguments))
        return {"draft": {}}

    async def state_patch(**arguments: object) -> JSON:
        ran.append(("state_patch", arguments))
        return {"applied": 1}

    tools = [
        ToolDefinition("state_get", "Read.", parameters=GET, handler=state_get),
        ToolDefinition("state_patch", "Change.", parameters=PATCH, handler=state_patch),
    ]
    runner = ToolLoopRunner(client=client, model=model, registry=ToolRegistry(tools), config=config)
    started = time.perf_counter()
    try:
        result = await _result(runner, workspace, streams=streams)
    except RunFailed as failure:
        refused = [one for one in failure.result.trace if isinstance(one, RequestRefusedEvent)]
        trial = Trial(workspace, ran, failure.result, failure.code)
        retryable = bool(refused) and refused[-1].fault.retryable
        return Held(trial, time.perf_counter() - started, retryable)
    return Held(Trial(workspace, ran, result), time.perf_counter() - started)


async def _result(runner: ToolLoopRunner, workspace: str, *, streams: bool) -> RunResult:
    if not streams:
        return await runner.run(ASKED.format(workspace))
    stream = runner.stream(ASKED.format(workspace))
    async for _ in stream:
        pass
    return stream.result


def doomed_runs(sent: Sequence[Sent]) -> set[str]:
    """Return the runs in which every attempt at one request was spoilt."""
    lossy: Counter[tuple[str, int]] = Counter()
    for one in sent:
        lossy[one.run, one.request] += one.lossy
    return {run for (run, _), times in lossy.items() if times >= ATTEMPTS}


def judged(held: dict[str, Held | BaseException], doomed: set[str]) -> list[str]:
    """Say what went wrong that had not to go wrong."""
    problems: dict[str, list[str]] = defaultdict(list)
    for run, one in held.items():
        if not isinstance(one, Held):
            problems["unclassified"].append(f"{run}: {type(one).__name__}: {one}")
        elif one.trial.wrong:
            problems["wrong or repeated"].append(f"{run}: {one.trial.ran}")
        elif run in doomed and not one.retryable:
            problems["not told as passing"].append(f"{run}: {one.trial.code or 'it ended well'}")
        elif run not in doomed and not one.trial.right:
            problems["lost"].append(f"{run}: {one.trial.code or one.trial.result.assistant_text}")
    return [f"{kind}: {text}" for kind, texts in problems.items() for text in texts]


def _figures(sent: Sequence[Sent], seconds: Sequence[float], doomed: int) -> str:
    kinds = Counter(one.kind for one in sent)
    names = len({one.fault for one in sent if one.fault})
    p50, p95 = (statistics.quantiles(seconds, n=20)[at] for at in (9, 18))
    return (
        f"{len(sent):,} requests, {kinds['transport']} transport faults, {kinds['drift']} drifts "
        f"({names} kinds); {doomed} runs had to fail and reported it; a run took "
        f"{p50:.1f} s (median), "
        f"{p95:.1f} s (p95), all starting together"
    )


CLAIM = Claim(
    "D9",
    "Of 1,000 concurrent runs, only three consecutive faults end one; none is wrong or doubled.",
    attempt,
    (1000, 10_000, 50_000),
)
