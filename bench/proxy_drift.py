"""What agents that are already written make of bent answers: direct, and through the proxy.

Each client holds the same conversation with every persona of the simulator that is catalogued as
`cured`, and, in a table of its own, as `retried`: the user asks, one tool is called, it returns a
value, the answer tells it. What the tool is called with and what it returns is known, so a run is
judged by what ran and by what was answered:

    right     the expected call with exactly the expected arguments, once; the answer tells its value
    wrong     a tool ran with other arguments, or one that was not meant, or twice
    error     the application was told of an error, or waited too long
    silent    the run ended as if all were well, and it was not

`illegal` counts what the simulator found wrong in requests that came through the proxy. A provider
whose rules nobody has told the proxy refuses once, and the proxy learns: that is counted as
`learned`. Exits with 1 if what comes through the proxy is not good enough.

    python bench/proxy_drift.py [--clients NAME …] [--misses] [--limit N]
"""

import argparse
import asyncio
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.drift_clients import CLIENTS, Agent, Client, Endpoint, Tools, described
from surecall.proxy import Proxy
from surecall.settings.connection import Limits, RetryPolicy
from surecall.simulator import Simulator
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.personas.intent import NOTE
from surecall.simulator.personas.persona import CURED, RETRIED, Persona, say
from surecall.values.types import JSON

AT_ONCE: Final = 8
LONGEST_RUN_S: Final = 20.0
LIMITS: Final = Limits(idle_s=5.0, total_s=7.0)
RETRY: Final = RetryPolicy(first_wait_s=0.01)
KEEP_ALIVE_S: Final = 1.0
BAR: Final = 0.95
# Its rules are those of everybody: who breaks them has not met an unknown provider.
_EVERYBODY: Final = "sim/strict-common"
_STRICT: Final = "sim/strict-"
_REASON: Final = 300

Folder = Literal["R&D", "Sales"]
Verdict = Literal["right", "wrong", "error", "silent"]
Made = tuple[str, JSON]


class Task(NamedTuple):
    """What the user asks, the one call that follows from it, and what the tool returns."""

    prompt: str
    call: Made
    value: str


SAVE: Final = Task(
    f'Please save a note with title=Groceries shelf=12 folder=R&D copies=3 urgent=true "{NOTE}" '
    "and tags=red",
    (
        "save_note",
        {
            "title": "Groceries",
            "note_text": NOTE,
            "shelf": "12",
            "folder": "R&D",
            "copies": 3,
            "urgent": True,
            "tags": ["red"],
            "priority": 5,
        },
    ),
    "kept as N-4821",
)
LIST: Final = Task("Which ones exist already? List them all.", ("list_known", {}), "only N-1377")


class Desk:
    """The tools of one run, and what they were called with."""

    def __init__(self) -> None:
        self.made: list[Made] = []

    @property
    def tools(self) -> Tools:
        """The tools, as functions."""
        made = self.made

        def save_note(  # noqa: PLR0913, PLR0917  # one of every kind of value
            title: str,
            note_text: str,
            shelf: str,
            folder: Folder,
            copies: int,
            urgent: bool,  # noqa: FBT001  # the model gives it by name
            tags: list[str],
            priority: int = 5,
        ) -> str:
            """Save a note."""
            given = {"title": title, "note_text": note_text, "shelf": shelf, "folder": folder}
            given |= {"copies": copies, "urgent": urgent, "tags": tags, "priority": priority}
            made.append(("save_note", given))
            return SAVE.value

        def list_known() -> str:
            """List what exists already."""
            made.append(("list_known", {}))
            return LIST.value

        return (save_note, list_known)


class Run(NamedTuple):
    """What came of one conversation."""

    persona: str
    verdict: Verdict
    reason: str
    violations: tuple[str, ...] = ()

    @property
    def broke_a_rule(self) -> bool:
        """Whether a request was illegal, for another reason than a rule that nobody knows."""
        is_unknown = self.persona.startswith(_STRICT) and self.persona != _EVERYBODY
        return bool(self.violations) and not is_unknown


def task_of(persona: Persona) -> Task:
    """Return the task in which a persona's fault shows: that of a call with arguments, if it can."""
    return next((task for task in (SAVE, LIST) if _shows(persona, task)), SAVE)


def _shows(persona: Persona, task: Task) -> bool:
    """Whether the fault shows in the call, or in the answer."""
    messages: list[JSON] = [{"role": "user", "content": task.prompt}]
    tools = [described(function) for function in Desk().tools]
    request: JSON = {"model": persona.id, "messages": messages, "tools": tools}
    function = {"name": task.call[0], "arguments": "{}"}
    call = {"id": "call_1", "type": "function", "function": function}
    done: list[JSON] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": task.value},
    ]
    later = request | {"messages": messages + done}
    return any(say(persona, each, 0).fault for each in (request, later))


def judged(persona: str, task: Task, desk: Desk, answer: str | BaseException) -> Run:
    """Judge a run by what ran and by what was answered."""
    others = [_worded(call) for call in desk.made if not _same(call, task.call)]
    if others or len(desk.made) > 1:
        return Run(persona, "wrong", f"ran {', '.join(map(_worded, desk.made))}")
    if isinstance(answer, BaseException):
        return Run(persona, "error", f"{type(answer).__name__}: {answer}")
    if not desk.made or task.value not in answer:
        return Run(persona, "silent", f"ran {len(desk.made)} calls, answered {answer!r}")
    return Run(persona, "right", "")


def _same(made: Made, expected: Made) -> bool:
    """Compare with types: 1 is neither True nor 1.0."""
    return repr(made) == repr(expected)


def _worded(call: Made) -> str:
    return f"{call[0]}({', '.join(f'{key}={value!r}' for key, value in call[1].items())})"


async def held(agent: Agent, endpoint: Endpoint, persona: Persona) -> Run:
    """Hold one conversation, for a bounded time."""
    task, desk = task_of(persona), Desk()
    answer: str | BaseException
    try:
        async with asyncio.timeout(LONGEST_RUN_S):
            answer = await agent(endpoint, persona.id, desk.tools, task.prompt)
    except Exception as error:  # noqa: BLE001  # whatever an application would be told
        answer = error
    return judged(persona.id, task, desk, answer)


async def side(agent: Agent, personas: list[Persona], door: Callable[[str], Any]) -> list[Run]:
    """Hold a conversation with every persona of a simulator of its own, a few at a time."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with AsyncExitStack() as stack:
        simulator = stack.enter_context(Simulator())
        url = await stack.enter_async_context(door(simulator.url))
        endpoint = Endpoint.at(f"{url}/v1")
        stack.push_async_callback(endpoint.openai.close)

        async def one(persona: Persona) -> Run:
            async with gate:
                return await held(agent, endpoint, persona)

        runs = await asyncio.gather(*map(one, personas))
        return [run._replace(violations=_broken(simulator, run.persona)) for run in runs]


def _broken(simulator: Simulator, persona: str) -> tuple[str, ...]:
    return tuple(
        f"{seen.rule}: {seen.message}" for seen in simulator.violations if seen.persona == persona
    )


class Direct:
    """No proxy at all."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> str:
        return self._url

    async def __aexit__(self, *_: object) -> None:
        pass


def proxied(url: str) -> Proxy:
    """Put a proxy in front of an address."""
    return Proxy(upstream=url, limits=LIMITS, retry=RETRY, keep_alive_s=KEEP_ALIVE_S)


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
        return (
            not (illegal or self.count("wrong") or self.count("silent"))
            and self.count("right") >= BAR * len(self.proxied)
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as it is printed."""
        total = len(self.proxied)
        direct = "–" if self.direct is None else _share(self.direct)
        illegal = sum(run.broke_a_rule for run in self.proxied)
        learned = sum(bool(run.violations) for run in self.proxied) - illegal
        counts = (self.count("wrong"), illegal, learned, self.count("silent"), self.count("error"))
        return (
            self.client.name,
            self.client.version,
            self.form,
            str(total),
            direct,
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
    direct, through = await asyncio.gather(side(agent, met, Direct), side(agent, met, proxied))
    return Row(client, form, direct, through)


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
        print(f"missing: {client.name} is not installed ({client.package}; see bench/peers.txt)")
    good = bool(clients)
    for outcome in (CURED, RETRIED):
        with quiet():
            rows = asyncio.run(compared(clients, outcome, options.limit))
        print(f"\n{outcome}\n")
        show(rows, misses=options.misses)
        good = good and all(row.is_good for row in rows)
    return 0 if good and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
