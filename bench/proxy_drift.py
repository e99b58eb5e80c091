"""What agents that are already written make of bent answers: direct, and through the proxy.

Each client holds two conversations with every persona of the simulator that is catalogued as
`repaired`, and, in a separate table, as `retried`. In one the user asks, one tool is called,
it returns a value, the answer tells it; in the other one two tools are called at once. The third
table is of the personas that quote a call which somebody wrote into what a tool returns: it must
not run. What is called and answered is known, so a run is judged by what ran and what was said:

    right     the expected calls with exactly the expected arguments, each once, and the answer
    wrong     a tool ran with other arguments, or one that was not meant, or twice
    error     the application was told of an error, or waited too long
    silent    the run ended as if all were well, and it was not

`bent` counts the runs through the proxy in which the persona's fault did show; the others are of
providers with rules of their own, or their fault needs another conversation. `illegal` counts the
runs through the proxy with a request that the simulator refused. A provider whose rules nobody has
told the proxy may refuse once, and the proxy learns: that is counted as `learned`. Exits with 1 if
what comes through the proxy is not good enough.

    python bench/proxy_drift.py [--clients NAME …] [--misses] [--limit N]
"""

import argparse
import asyncio
import logging
import sys
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.drift_clients import CLIENTS, Agent, Asked, Client, Endpoint
from bench.drift_tasks import Run, run_of
from surecall.proxy import Proxy
from surecall.settings.connection import Limits, RetryPolicy
from surecall.simulator import Simulator
from surecall.simulator.demo_tasks import (
    LIST,
    PAIR,
    QUOTE,
    SAVE,
    DemoTask,
    ToolRecorder,
    Verdict,
    describe_tools,
)
from surecall.simulator.personas.persona import QUOTED, REPAIRED, RETRIED, Persona, answer_request
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.values.types import JSON

AT_ONCE: Final = 8
LONGEST_RUN_S: Final = 20.0
LIMITS: Final = Limits(idle_s=5.0, total_s=7.0)
RETRY: Final = RetryPolicy(first_wait_s=0.01)
KEEP_ALIVE_S: Final = 1.0
BAR: Final = 0.95
_REASON: Final = 300

Door = Callable[[str], AbstractAsyncContextManager[str]]


def task_of(persona: Persona) -> DemoTask:
    """Return the task with one call in which a persona's fault shows: with arguments, if it can."""
    if persona.outcome == QUOTED:
        return QUOTE
    return next((task for task in (SAVE, LIST) if _shows(persona, task)), SAVE)


def _shows(persona: Persona, task: DemoTask) -> bool:
    """Whether the fault shows in the call, or in the answer."""
    messages: list[JSON] = [{"role": "user", "content": task.prompt}]
    tools = describe_tools(ToolRecorder().tools(task))
    request: JSON = {"model": persona.id, "messages": messages, "tools": tools}
    function = {"name": task.calls[0][0], "arguments": "{}"}
    call = {"id": "call_1", "type": "function", "function": function}
    done: list[JSON] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": task.expected_text},
    ]
    later = request | {"messages": messages + done}
    return any(answer_request(persona, each, 0).fault for each in (request, later))


async def held(agent: Agent, endpoint: Endpoint, persona: Persona, task: DemoTask) -> Run:
    """Hold one conversation, for a bounded time."""
    desk = ToolRecorder()
    asked = Asked(persona.id, task.system, task.prompt, desk.tools(task))
    answer: str | BaseException
    try:
        async with asyncio.timeout(LONGEST_RUN_S):
            answer = await agent(endpoint, asked)
    except Exception as error:  # noqa: BLE001  # whatever an application would be told
        answer = error
    return run_of(persona.id, task, desk.calls, answer)


async def side(agent: Agent, personas: list[Persona], door: Door) -> list[Run]:
    """Hold both conversations with every persona."""
    alone = [(persona, task_of(persona)) for persona in personas]
    pairs = [(persona, PAIR) for persona in personas if persona.outcome != QUOTED]
    both = await asyncio.gather(*(_talks(agent, cases, door) for cases in (alone, pairs)))
    return [run for runs in both for run in runs]


async def _talks(agent: Agent, cases: list[tuple[Persona, DemoTask]], door: Door) -> list[Run]:
    """Hold one conversation with each persona of a simulator of its own, a few at a time."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with AsyncExitStack() as stack:
        simulator = stack.enter_context(Simulator())
        url = await stack.enter_async_context(door(simulator.url))
        endpoint = Endpoint.at(f"{url}/v1")
        stack.push_async_callback(endpoint.openai.close)

        async def one(persona: Persona, task: DemoTask) -> Run:
            async with gate:
                run = await held(agent, endpoint, persona, task)
            bent = any(simulator.faults[fault] for fault, _ in persona.faults)
            return run._replace(violations=_broken(simulator, persona), bent=bent)

        return await asyncio.gather(*(one(*case) for case in cases))


def _broken(simulator: Simulator, persona: Persona) -> tuple[str, ...]:
    seen = [each for each in simulator.violations if each.persona == persona.id]
    return tuple(f"{each.rule}: {each.message}" for each in seen)


@asynccontextmanager
async def direct(url: str) -> AsyncIterator[str]:
    """Put nothing in front of an address."""
    yield url


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[str]:
    """Put a proxy in front of an address."""
    proxy = Proxy(upstream=url, limits=LIMITS, retry=RETRY, keep_alive_s=KEEP_ALIVE_S)
    async with proxy:
        yield proxy.url


class Row(NamedTuple):
    """One client in one form: its runs at the simulator itself, if it can, and by the proxy."""

    client: Client
    form: str
    direct: list[Run] | None
    proxied: list[Run]

    def count(self, verdict: Verdict) -> int:
        """Count the runs by the proxy that came to this."""
        return sum(run.verdict == verdict for run in self.proxied)

    @property
    def is_good(self) -> bool:
        """Whether the proxy is good enough here: nothing wrong, illegal or silent, most right."""
        illegal = sum(run.broke_a_rule for run in self.proxied)
        return not (illegal or self.count("wrong") or self.count("silent")) and self.count(
            "right"
        ) >= BAR * len(self.proxied)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as it is printed."""
        total, bent = len(self.proxied), sum(run.bent for run in self.proxied)
        alone = "\u2013" if self.direct is None else _share(self.direct)
        illegal = sum(run.broke_a_rule for run in self.proxied)
        learned = sum(bool(run.violations) for run in self.proxied) - illegal
        counts = (self.count("wrong"), illegal, learned, self.count("silent"), self.count("error"))
        return (
            self.client.name,
            self.client.version,
            self.form,
            str(total),
            str(bent),
            alone,
            _share(self.proxied),
            *map(str, counts),
            "ok" if self.is_good else "SHORT",
        )


def _share(runs: list[Run]) -> str:
    right = sum(run.verdict == "right" for run in runs)
    return f"{right} ({right / len(runs):.0%})" if runs else "0"


HEAD: Final = (
    "client",
    "version",
    "form",
    "n",
    "bent",
    "direct right",
    "proxy right",
    "wrong",
    "illegal",
    "learned",
    "silent",
    "errors",
    "",
)


async def measured(client: Client, form: str, personas: list[Persona]) -> Row:
    """Run one client in one form; both sides at the same time."""
    agent = client.streamed if form == "streamed" else client.plain
    # What is wrong with a stream alone is not to be seen in a plain answer.
    met = [each for each in personas if form == "streamed" or each.kind != "stream"]
    if not client.asks_for_chat:
        return Row(client, form, None, await side(agent, met, proxied))
    sides = await asyncio.gather(*(side(agent, met, door) for door in (direct, proxied)))
    return Row(client, form, *sides)


def show(rows: list[Row], *, misses: bool) -> None:
    """Print a table, and each miss with its reason."""
    table = [HEAD, *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
    for row in rows if misses else ():
        for run in row.proxied:
            if run.verdict != "right" or run.broke_a_rule:
                said = "; ".join((run.reason, *run.violations))[:_REASON]
                print(f"miss: {row.client.name}, {row.form}, {run.persona}: {run.verdict}: {said}")


async def compared(clients: list[Client], outcome: str, limit: int | None) -> list[Row]:
    """Measure all clients with the personas of one outcome."""
    personas = [each for each in PERSONAS.values() if each.outcome == outcome][:limit]
    rows = []
    for client in clients:
        for form in ("plain", "streamed"):
            began = time.perf_counter()
            rows.append(await measured(client, form, personas))
            took = time.perf_counter() - began
            print(f"{outcome}: {client.name}, {form}: {took:.0f} s", file=sys.stderr)
    return rows


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what clients log and warn about out of the table: what counts is what they return."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def chosen(names: list[str]) -> tuple[list[Client], list[Client]]:
    """Return the clients whose names hold one of the words, and those of them that are missing."""
    wanted = [
        client for client in CLIENTS if not names or any(name in client.name for name in names)
    ]
    return [each for each in wanted if each.version], [each for each in wanted if not each.version]


def main() -> int:
    """Print the tables; the exit code says whether the proxy is good enough everywhere."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", nargs="+", default=[], help="only those with these words")
    parser.add_argument("--misses", action="store_true", help="print each miss with its reason")
    parser.add_argument("--limit", type=int, help="only so many personas")
    options = parser.parse_args()
    clients, missing = chosen(options.clients)
    for client in missing:
        print(f"missing: {client.name} is not installed: {client.package}")
    good = bool(clients)
    for outcome in (REPAIRED, RETRIED, QUOTED):
        with quiet():
            rows = asyncio.run(compared(clients, outcome, options.limit))
        print(f"\n{outcome}\n")
        show(rows, misses=options.misses)
        good = good and all(row.is_good for row in rows)
    return 0 if good and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
