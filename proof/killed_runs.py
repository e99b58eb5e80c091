"""Runs that die by SIGKILL at every point, and are resumed from their trace.

A process holds a run whose tools leave a line in a file, as their effect. It dies before, inside
and after each write of the trace, and before and after each effect. Another process resumes.
"""

import asyncio
import itertools
import os
import random
import shutil
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from scripts.kill_test import fork
from surecall import JsonlSink, RunResult, ToolDefinition, ToolLoopRunner, load_trace, presets
from surecall.core.state import Run
from surecall.runtime.replay import run_of
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.events import (
    Event,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from surecall.values.types import JSON

TURNS = 2
# What a second call would do, as the tools say it of themselves.
TOOLS: dict[str, dict[str, Any]] = {
    "send": {},
    "wipe": {"destructive": True},
    "look": {"read_only": True},
    "put": {"idempotent": True},
}
REPEATABLE = ("look", "put")
SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
MOST_REQUESTS = 9


class Way(msgspec.Struct, frozen=True):
    """How a run is held."""

    streams: bool
    parallel: bool
    in_loop: bool

    def __str__(self) -> str:
        words = ("streamed" if self.streams else "plain", "parallel" if self.parallel else "serial")
        return " ".join((*words, "async" if self.in_loop else "sync"))


WAYS = tuple(itertools.starmap(Way, itertools.product((False, True), repeat=3)))


class Ended(msgspec.Struct):
    """How a process that was not killed ended: what the model was told, or what was raised."""

    points: int = 0
    told: dict[str, str] = {}
    text: str = ""
    raised: str = ""


class Death:
    """Comes at a point; 0 means never."""

    def __init__(self, point: int = 0) -> None:
        self.passed = 0
        self._point = point

    def due(self) -> bool:
        """Pass a point, and say whether it is the last one."""
        self.passed += 1
        return self.passed == self._point

    def step(self) -> None:
        """Pass a point, or die there."""
        if self.due():
            die()


def die() -> None:
    """End this process as the power does."""
    os.kill(os.getpid(), signal.SIGKILL)


class MortalSink:
    """Writes a trace; may die before a line, in the middle of it, or after it."""

    is_journal = True

    def __init__(self, path: Path, death: Death) -> None:
        self._path = path
        self._sink = JsonlSink(path)
        self._death = death

    def __call__(self, event: Event) -> None:
        """Write one event."""
        self._death.step()
        before = self._path.stat().st_size if self._path.exists() else 0
        self._sink(event)
        if self._death.due():
            os.truncate(self._path, (before + self._path.stat().st_size) // 2)
            die()
        self._death.step()


class Place:
    """The files of one run."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.trace = folder / "trace.jsonl"
        self.ended = folder / "ended.json"
        self._effects = folder / "effects"

    def leave(self, item: str) -> None:
        """Leave a line that outlives the process."""
        descriptor = os.open(self._effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{item}\n".encode())
        os.close(descriptor)

    def effects(self) -> Counter[str]:
        """Count what was left."""
        text = self._effects.read_text("utf-8") if self._effects.exists() else ""
        return Counter(text.split())

    def begun(self) -> set[str]:
        """Return the calls that the trace knows to have begun, and not how they ended."""
        try:
            trace = load_trace(self.trace)
        except (OSError, ConfigError):
            return set()
        started = {one.call.id for one in trace if isinstance(one, ToolCallStartEvent)}
        before = next(one for one in trace if isinstance(one, RunStartEvent)).begun
        ended = {one.result.call_id for one in trace if isinstance(one, ToolCallEndEvent)}
        return (started | set(before)) - ended


def reply(request: JSON) -> JSON:
    """Answer as far as the conversation has come: calls of every tool, twice, then the end."""
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    if turn == TURNS:
        return says("done")
    named = (calls(name, f"{name}_{turn}", item=f"{name}_{turn}") for name in TOOLS)
    return calls_many(*named)


def tools(place: Place, death: Death, *, in_loop: bool) -> list[ToolDefinition]:
    """Return tools that leave a line, and may die before and after it."""

    def act(item: str) -> str:
        death.step()
        place.leave(item)
        death.step()
        return f"{item} is done"

    async def act_in_loop(item: str) -> str:
        await asyncio.sleep(0)
        said = act(item)
        await asyncio.sleep(0)
        return said

    handler: Callable[[str], Any] = act_in_loop if in_loop else act
    return [
        ToolDefinition(name, "Act.", parameters=SCHEMA, handler=handler, **hints)
        for name, hints in TOOLS.items()
    ]


def runner_of(model: ScriptedModel, place: Place, way: Way, death: Death) -> ToolLoopRunner:
    """Return a runner with the tools and the trace of a place."""
    return ToolLoopRunner(
        client=model,
        model="m",
        tools=tools(place, death, in_loop=way.in_loop),
        observers=[MortalSink(place.trace, death)],
        config=presets.raw().replace(max_concurrent_tools=8 if way.parallel else 1),
        llm_options_defaults={"parallel_tool_calls": True},
    )


def hold(place: Place, way: Way, death: Death) -> None:
    """Begin a run, or resume the one that the trace has; write down how it ended."""
    model = ScriptedModel(*(reply for _ in range(MOST_REQUESTS)))
    ended = Ended()
    try:
        runner = runner_of(model, place, way, death)
        result = asyncio.run(_result(runner, place, way))
        ended.text, ended.told = result.assistant_text, told(result.run)
    except BaseException:  # noqa: BLE001  # whatever it is, it is told
        ended.raised = traceback.format_exc(limit=-2)
    ended.points = death.passed
    place.ended.write_bytes(msgspec.json.encode(ended))


async def _result(runner: ToolLoopRunner, place: Place, way: Way) -> RunResult:
    try:
        run = run_of(load_trace(place.trace))
    except (OSError, ConfigError):  # it died before anything was written
        run = None
    if not way.streams:
        return await (runner.run("Do it.") if run is None else runner.resume(run))
    stream = runner.stream("Do it.") if run is None else runner.stream_resumed(run)
    async for _ in stream:
        pass
    return stream.result


def told(run: Run) -> dict[str, str]:
    """Return what the model was told about each call: `ok`, or the code of an error."""
    return {result.call_id: _word(result.content) for result in run.results}


def _word(content: str) -> str:
    if ErrorCode.CALL_OUTCOME_UNKNOWN in content:
        return str(ErrorCode.CALL_OUTCOME_UNKNOWN)
    return "ok" if "is done" in content else content[:80]


def points(place: Place, way: Way) -> int:
    """Count the points at which such a run can die."""
    os.waitpid(fork(lambda: hold(place, way, Death())), 0)
    return msgspec.json.decode(place.ended.read_bytes(), type=Ended).points


def killed(place: Place, way: Way, deaths: tuple[int, ...]) -> tuple[int, list[str]]:
    """Hold a run through its deaths; return how often it died, and what was wrong at its end."""
    unknown: set[str] = set()
    died = 0
    for point in (*deaths, 0):
        place.ended.unlink(missing_ok=True)
        # Bound here: the process begins with this very point.
        _, status = os.waitpid(fork(lambda at=point: hold(place, way, Death(at))), 0)  # type: ignore[misc]
        if not os.WIFSIGNALED(status):
            break
        died += 1
        unknown |= {call for call in place.begun() if not call.startswith(REPEATABLE)}
    return died, list(judged(place, unknown))


def judged(place: Place, unknown: set[str]) -> Iterator[str]:
    """Say what is not as it should be after the end of a run."""
    if not place.ended.exists():
        yield "it left nothing behind"
        return
    ended = msgspec.json.decode(place.ended.read_bytes(), type=Ended)
    if ended.raised or ended.text != "done":
        yield f"it ended with {ended.raised or ended.text!r}"
        return
    effects = place.effects()
    for name, turn in itertools.product(TOOLS, range(TURNS)):
        call = f"{name}_{turn}"
        said = ended.told.get(call, "nothing")
        wanted = str(ErrorCode.CALL_OUTCOME_UNKNOWN) if call in unknown else "ok"
        if said != wanted:
            yield f"of {call} the model was told {said}, not {wanted}"
        if name not in REPEATABLE and effects[call] > 1:
            yield f"{call} took effect {effects[call]} times"
        if call not in unknown and effects[call] < 1:
            yield f"{call} never took effect"


async def left(place: Place, way: Way, at: int) -> tuple[bool, list[str]]:
    """Leave a stream after an event, and go on from there; say whether it was left in time."""
    model = ScriptedModel(*(reply for _ in range(MOST_REQUESTS)))
    runner = runner_of(model, place, way, Death())
    stream = runner.stream("Do it.")
    seen = 0
    async for _ in stream:
        seen += 1
        if seen == at:
            break
    await stream.aclose()
    ended = Ended()
    result = await runner.resume(stream.run)
    ended.text, ended.told = result.assistant_text, told(result.run)
    place.ended.write_bytes(msgspec.json.encode(ended))
    unknown = {call for call in stream.run.begun if not call.startswith(REPEATABLE)}
    # The same runner knows what a tool came to after the stream was left.
    late = {
        item.call_id for item in result.run.results if "has finished since then" in item.content
    }
    return seen == at, list(judged(place, unknown - late))


def leave_streams(folder: Path) -> tuple[int, list[str]]:
    """Leave streams after each of their events."""
    times, failures = 0, []
    for way in (way for way in WAYS if way.streams):
        for at in itertools.count(1):
            # A place of its own: a thread that was left behind may leave its line much later.
            place = Place(folder / f"{way} {at}")
            in_time, problems = asyncio.run(left(place, way, at))
            failures += [f"{way}, left after event {at}: {problem}" for problem in problems]
            if not in_time:
                break
            times += 1
    return times, failures


def kill_runs(folder: Path, kills: int, seed: int) -> tuple[int, list[str]]:
    """Kill runs at points of a seeded choice, some of them again while they are resumed."""
    chance = random.Random(seed)
    most = {way: points(Place(folder), way) for way in WAYS}
    every = [(way, point) for way in WAYS for point in range(1, most[way] + 1)]
    chance.shuffle(every)
    died, failures = 0, []
    for way, point in itertools.islice(itertools.cycle(every), kills):
        again = (chance.randint(1, most[way]),) if chance.random() < 0.25 else ()
        if died >= kills:
            break
        times, problems = killed(Place(folder), way, (point, *again))
        died += times
        where = f"{way}, killed at point {' and '.join(map(str, (point, *again)))}"
        failures += [f"{where}: {problem}" for problem in problems]
    return died, failures
