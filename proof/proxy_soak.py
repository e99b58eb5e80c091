"""D12: a proxy under load for a while, with faults behind it and clients that leave.

What each request must bring is known beforehand. The load, the proxy and the upstream are processes
of their own. Of the requests that meet no fault one in ten goes to the upstream itself, so that
what the proxy adds is seen in the same run.
"""

import asyncio
import importlib
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import aiohttp
import msgspec

from proof.claims import Claim, Outcome, gathered
from proof.hostile_requests import ASKED
from proof.proxy_process import Running, State, proxy_process
from proof.soak_upstream import Plan, plan_of, upstream_process
from surecall.settings.connection import Limits, RetryPolicy
from surecall.values.types import JSON

# From so many requests on the load is the full one, and what takes time is judged.
FULL: Final = 27_000
FULL_RATE, SMALL_RATE = 300, 60
QUARTERS: Final = 4
GROWTH_MIB: Final = 5.0
WAITS_S: Final = 30.0
LATE_S: Final = 5.0
# Before the upstream has answered.
ABORTS_S: Final = 0.005
SPARE_DESCRIPTORS: Final = 4
BARS_MS: Final = {"median": 5.0, "p99": 50.0, "CPU": 1.0, "first byte": 5.0}
# A silent upstream is given up soon, and nothing is tried again: so each answer is known.
SETTINGS: Final[JSON] = {
    "limits": Limits(idle_s=1.0, max_connections=1000),
    "retry": RetryPolicy(attempts=1),
}


class Done(msgspec.Struct, frozen=True):
    """What came of a request: the milliseconds it took, and what is wrong with it."""

    plan: Plan
    direct: bool
    ms: float
    problem: str = ""


def asks_itself(plan: Plan, number: int) -> bool:
    """Whether a request goes to the upstream itself."""
    return number % 10 == 0 and not plan.fault and not plan.aborts


def problem_with(plan: Plan, status: int, body: Any) -> str:
    """Say what is wrong with an answer of the proxy; blank if nothing is."""
    failed = isinstance(body, dict) and "error" in body
    if plan.fault:
        return "" if failed and (status >= 500 or plan.streams) else f"{status} after {plan.fault}"
    if status != 200 or failed:
        return f"{status}: {str(body)[:200]}"
    message = body["choices"][0]["message"]
    if plan.kind == "text":
        return "" if plan.city in (message.get("content") or "") else f"text: {message}"
    calls = message.get("tool_calls") or [{}]
    function = calls[0].get("function", {})
    meant = ("get_weather", {"city": plan.city})
    said = (function.get("name"), msgspec.json.decode(function.get("arguments") or "null"))
    return "" if said == meant and len(calls) == 1 else f"{plan.kind}: {message}"


def gathered_stream(data: bytes) -> Any:
    """Put the events of a stream together into one answer."""
    text = ""
    calls: list[Any] = []
    for line in data.split(b"\n"):
        if not line.startswith(b"data: ") or line == b"data: [DONE]":
            continue
        event = msgspec.json.decode(line[6:])
        if "error" in event:
            return event
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
            calls += choice["delta"].get("tool_calls") or []
    whole = b"data: [DONE]" in data
    message = {"content": text, "tool_calls": calls}
    return {"choices": [{"message": message}]} if whole else {"cut": text}


class Load:
    """Sends requests at a steady rate."""

    def __init__(self, seed: int, proxy: Running, upstream: str) -> None:
        self._seed = seed
        self._proxy = proxy
        self._upstream = upstream
        self.done: list[Done] = []
        self.late_s = 0.0

    async def run(self, numbers: Sequence[int], rate: float) -> None:
        """Send requests, each at its time, and wait for all of them."""
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=WAITS_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            started = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for place, number in enumerate(numbers):
                    wait = started + place / rate - time.perf_counter()
                    self.late_s = max(self.late_s, -wait)
                    await asyncio.sleep(max(wait, 0))
                    group.create_task(self._one(session, number))

    async def _one(self, session: aiohttp.ClientSession, number: int) -> None:
        plan = plan_of(self._seed, number)
        direct = asks_itself(plan, number)
        url = self._upstream if direct else self._proxy.url
        body = {**ASKED, "user": str(number), "stream": plan.streams}
        started = time.perf_counter()
        problem = ""
        try:
            async with (
                asyncio.timeout(ABORTS_S if plan.aborts and number % 2 else None),
                session.post(f"{url}/v1/chat/completions", json=body) as response,
            ):
                if plan.aborts:
                    response.close()
                else:
                    problem = await _read(plan, response, direct=direct)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            problem = "" if plan.aborts else f"{type(error).__name__}: {error}"
        ms = (time.perf_counter() - started) * 1000
        self.done.append(Done(plan, direct, ms, problem))


async def _read(plan: Plan, response: aiohttp.ClientResponse, *, direct: bool) -> str:
    data = await response.read()
    if direct:
        return ""
    streams = response.content_type == "text/event-stream"
    body = gathered_stream(data) if streams else msgspec.json.decode(data)
    return problem_with(plan, response.status, body)


def leaks(quarter: State, end: State, base: State) -> Iterator[str]:
    """Say what has grown, or is still there."""
    if end.rss_mib - quarter.rss_mib > GROWTH_MIB:
        yield f"memory grew by {end.rss_mib - quarter.rss_mib:.1f} MiB after the first quarter"
    if end.tasks > base.tasks:
        yield f"{end.tasks - base.tasks} tasks are left"
    if end.descriptors > base.descriptors + SPARE_DESCRIPTORS:
        yield f"{end.descriptors - base.descriptors} descriptors are left"


def waits(done: Sequence[Done]) -> dict[str, float]:
    """Return what the proxy adds to the wait for a plain answer, in milliseconds."""
    plain = [one for one in done if not (one.plan.streams or one.plan.fault or one.plan.aborts)]
    through, direct = (
        sorted(one.ms for one in plain if one.direct is itself) for itself in (False, True)
    )
    if min(len(through), len(direct)) < 2:
        return {}
    return {
        "median": statistics.median(through) - statistics.median(direct),
        "p99": through[int(len(through) * 0.99)] - direct[int(len(direct) * 0.99)],
    }


def overhead() -> dict[str, float]:
    """Return what the bench says that the proxy adds when nothing else is asked."""
    bench = importlib.import_module("bench.proxy")
    rounds = bench.rounds_of(5)
    return {
        "CPU": statistics.median(one.cpu for one in rounds),
        "first byte": statistics.median(one.first for one in rounds),
    }


async def _settled(proxy: Running, base: State) -> State:
    """Wait until those that were silent have been given up, and idle connections are closed."""
    for _ in range(int(WAITS_S)):
        now = await asyncio.to_thread(proxy.state)
        if now.tasks <= base.tasks and now.descriptors <= base.descriptors:
            return now
        await asyncio.sleep(1.0)
    return await asyncio.to_thread(proxy.state)


async def soaked(size: int, seed: int, rate: float) -> tuple[Load, list[str], tuple[State, State]]:
    """Send requests in four parts; return what came of them, leaks, and the states they show in."""
    with (
        upstream_process(seed) as upstream,
        proxy_process(upstream, head_s=2.0, **SETTINGS) as proxy,
    ):
        base = proxy.state()
        load = Load(seed, proxy, upstream)
        states = []
        for part in range(QUARTERS):
            await load.run(range(size * part // QUARTERS, size * (part + 1) // QUARTERS), rate)
            states.append(await asyncio.to_thread(proxy.state))
        end = await _settled(proxy, base)
        return load, list(leaks(states[0], end, base)), (states[0], end)


def attempt(size: int, seed: int) -> Outcome:
    """Send `size` requests, and judge each by what was planned for it."""
    rate = FULL_RATE if size >= FULL else SMALL_RATE
    load, failures, (quarter, end) = asyncio.run(soaked(size, seed, rate))
    wrong = [one for one in load.done if one.problem]
    random.Random(seed).shuffle(wrong)
    failures += [f"request {one.plan.number}: {one.problem}" for one in wrong]
    figures = waits(load.done) | overhead()
    if size >= FULL:
        slow = {name: ms for name, ms in figures.items() if ms > BARS_MS[name]}
        failures += [f"{name}: {ms:.1f} ms, limit {BARS_MS[name]:g}" for name, ms in slow.items()]
        failures += [f"{load.late_s:.1f} s behind its time"] if load.late_s > LATE_S else []
    rows = figures.items()
    told = ", ".join(f"{name} {ms:.1f} ms (limit {BARS_MS[name]:g})" for name, ms in rows)
    return Outcome(
        f"{rate} requests a second for {size / rate:.0f} s: half of them streams, 10 % faults of "
        "the upstream (503, reset, cut, garbage, silence), 5 % abandoned by the client, a third "
        "with calls written as text",
        size,
        gathered(failures),
        figures=f"{end.rss_mib:.0f} MiB at the end, {end.rss_mib - quarter.rss_mib:+.1f} MiB since "
        f"a quarter of it (limit {GROWTH_MIB:g}); added by the proxy: {told}"
        + ("" if size >= FULL else "; times not judged"),
    )


CLAIM = Claim(
    "D12",
    "A proxy under load answers correctly and does not leak memory.",
    attempt,
    (360, FULL, 1_080_000),
    alone=True,
)
