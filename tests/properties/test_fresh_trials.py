"""Trials of one case share what is fixed, and nothing that changes.

A case, which holds the settings of a cell and scenario, is made once and used for all its trials,
also beside each other. So a trial must come out as if it were the only one, and no two may get hold
of the same list, mapping or object, except for what is fixed: tools, settings, and code.
"""

import asyncio
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import msgspec
import pytest

from surecall.core.outcome import RunFailed, RunResult
from surecall.eval import expect
from surecall.eval import scenario as written
from surecall.eval.running.trial_run import CellSetup, TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.function_scenarios import ScenarioRun
from surecall.eval.scenarios.scenario import AskModel, Scenario, World
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.config import ToolCallingConfig
from surecall.simulator import Simulator
from surecall.tools.context import Context
from surecall.tools.registry import ToolDefinition, ToolRegistry, tool
from surecall.values.types import ToolSpec

SETUP = make_cell_setup("sim/clean", strategy="guided_contract", contracted=True, simulated=True)
FIXED = (
    *(str, bytes, int, float, type(None), type, FunctionType, ModuleType),
    *(ToolRegistry, ToolDefinition, ToolSpec, ToolCallingConfig),
)
TRIALS = 3


@tool
def put(thing: str, context: Context) -> int:
    """Put a thing on the heap."""
    context["state"]["heap"].append(thing)
    return len(context["state"]["heap"])


@written(tools=[put], state={"heap": []}, options={"metadata": {"made": ["here"]}})
async def heaps(run: ScenarioRun) -> None:
    """Put things into a state that is given; the tools find it in their context."""
    out = await run("Put a stone on the heap.")
    expect.that(out, len(run.state["heap"]) < 2, reason="the heap was not empty")


def taking_from(state: Any) -> list[Any]:
    """Make the tools of one attempt."""

    def take() -> str:
        """Take a thing from the heap."""
        return str(state.pop())

    return [take]


@written(tools=taking_from, state=lambda: ["stone"])
async def takes(run: ScenarioRun) -> None:
    """Take things from a state that the tools are made from."""
    await run("Take a stone from the heap.")


ALL = (*SCENARIOS, *WORK, heaps, takes)


class Seen:
    """A world that keeps what came of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.result: RunResult | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    async def converse(self, ask: AskModel) -> RunResult:
        try:
            self.result = await self.world.converse(ask)
        except RunFailed as failure:
            self.result = failure.result
            raise
        return self.result


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


def watched(scenario: Scenario, seen: list[Seen]) -> Scenario:
    """Return the scenario with a note of each world that begins."""

    def begin(world_id: str) -> Seen:
        seen.append(Seen(scenario.begin(world_id)))
        return seen[-1]

    return msgspec.structs.replace(scenario, begin=begin)


def keys(scenario: Scenario) -> list[Key]:
    return [Key(Cell("sim/clean"), scenario.id, trial) for trial in range(1, TRIALS + 1)]


def timeless(trial: Trial) -> Trial:
    """Take out what no two runs have in common."""
    requests = tuple(msgspec.structs.replace(one, latency_ms=0) for one in trial.requests)
    return msgspec.structs.replace(trial, elapsed_ms=0, started_at=0.0, requests=requests)


def outcomes(url: str, cases: list[TrialCase]) -> list[Trial]:
    """Run a trial of each case, all at the same time."""

    async def go() -> list[Trial]:
        client = OpenAICompatible(url)
        async with client.opened():
            trials = [
                run_trial(key, case, client)
                for key, case in zip(keys(cases[0].scenario), cases, strict=True)
            ]
            return [trial for trial, _ in await asyncio.gather(*trials)]

    return [timeless(trial) for trial in asyncio.run(go())]


def changeable(value: Any) -> Iterator[Any]:
    """Return every object that can be changed and that can be reached from a value."""
    known: set[int] = set()
    left = [value]
    while left:
        one = left.pop()
        if id(one) in known or isinstance(one, FIXED):
            continue
        known.add(id(one))
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            left += one
        elif isinstance(one, msgspec.Struct):
            left += [getattr(one, name) for name in one.__struct_fields__]
        else:
            left += vars(one).values() if hasattr(one, "__dict__") else ()
        if isinstance(one, dict | list | set):
            yield one


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ALL, ids=lambda one: one.id)
def test_trials_of_one_case_end_as_each_would_alone(
    scenario: Scenario, simulator: Simulator
) -> None:
    shared = TrialCase(scenario, SETUP)

    together = outcomes(simulator.url, [shared] * TRIALS)

    assert together == outcomes(simulator.url, [TrialCase(scenario, SETUP) for _ in range(TRIALS)])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ALL, ids=lambda one: one.id)
def test_no_two_trials_get_hold_of_the_same_thing_that_changes(
    scenario: Scenario, simulator: Simulator
) -> None:
    seen: list[Seen] = []
    outcomes(simulator.url, [TrialCase(watched(scenario, seen), SETUP)] * TRIALS)
    held = [{id(one): one for one in changeable(each)} for each in seen if each.result is not None]

    assert len(held) == TRIALS
    for at, mine in enumerate(held):
        for others in held[:at]:
            assert not [mine[place] for place in mine.keys() & others.keys()]


def test_the_look_for_shared_things_finds_one(simulator: Simulator) -> None:
    common: list[str] = []

    @written(tools=[put], state=lambda: {"heap": common})
    async def careless(run: ScenarioRun) -> None:
        """Put things into a state that all attempts share."""
        await run("Put a stone on the heap.")

    seen: list[Seen] = []
    outcomes(simulator.url, [TrialCase(watched(careless, seen), SETUP)] * TRIALS)

    assert all(any(one is common for one in changeable(each)) for each in seen)


def test_a_setup_is_not_changed_by_its_cases() -> None:
    before = msgspec.json.encode(SETUP)
    again = msgspec.json.decode(before, type=CellSetup)
    for scenario in ALL:
        assert TrialCase(scenario, SETUP).config == TrialCase(scenario, again).config

    assert msgspec.json.encode(SETUP) == before
