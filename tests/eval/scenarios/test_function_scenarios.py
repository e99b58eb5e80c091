"""Functions as scenarios: a state for each attempt, judged also when the run fails."""

import asyncio
from typing import Any

import pytest

from surecall import Context, tool
from surecall.eval import expect, scenario
from surecall.eval.running.trial_run import CellSetup, TrialCase, run_trial
from surecall.eval.scenarios.function_scenarios import FunctionWorld
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key, SideEffects, Trial
from surecall.settings.contract import Contract, Need
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, failure, says
from surecall.tools.registry import ToolRegistry
from tests.support.scenario_packs import scripted_trial

SHARED: list[str] = []


@tool
def put(thing: str, context: Context) -> str:
    """Put a thing into the box."""
    context["state"]["box"].append(thing)
    return "it is in the box"


@tool
def put_for_all(thing: str) -> str:
    """Put a thing into the box of everybody."""
    SHARED.append(thing)
    return "it is in the box"


@scenario(tools=[put], state={"box": []})
async def fills_its_own_box(run: Any) -> None:
    out = await run("Put the ball into the box.")
    expect.state(out, run.state["box"], ["ball"])


@scenario(tools=[put_for_all])
async def fills_a_shared_box(run: Any) -> None:
    SHARED.clear()
    out = await run("Put the ball into the box.")
    expect.state(out, list(SHARED), ["ball"])


def side_by_side(one: Scenario, called: str, count: int = 20) -> list[Trial]:
    setup = CellSetup(model="m", config=raw())

    async def attempt(number: int) -> Trial:
        model = ScriptedModel(calls(called, thing="ball"), says("It is in the box."))
        return (await run_trial(Key(Cell("m"), one.id, number), TrialCase(one, setup), model))[0]

    async def go() -> list[Trial]:
        return await asyncio.gather(*map(attempt, range(1, count + 1)))

    return asyncio.run(go())


def test_a_perfect_model_passes_all_of_twenty_attempts_side_by_side() -> None:
    found = side_by_side(fills_its_own_box, "put")
    assert sum(each.ok for each in found) == 20
    assert all(each.draft == {"box": ["ball"]} for each in found)


def test_what_attempts_share_spoils_them_all() -> None:
    assert sum(each.ok for each in side_by_side(fills_a_shared_box, "put_for_all")) == 0


def test_tools_may_be_made_from_the_state_and_the_state_by_a_function() -> None:
    def tools(state: list[str]) -> list[Any]:
        @tool
        def add(thing: str) -> str:
            """Add a thing."""
            state.append(thing)
            return "added"

        return [add]

    @scenario(tools=tools, state=list)
    async def adds(run: Any) -> None:
        expect.state(await run("Add a ball."), run.state, ["ball"])

    for _ in range(2):
        found = scripted_trial(adds, calls("add", thing="ball"), says("Added."))
        assert (found.ok, found.draft) == (True, {"state": ["ball"]})


def test_a_scenario_may_give_a_context_of_its_own_beside_the_state() -> None:
    @tool
    def who(context: Context) -> str:
        """Say who asks."""
        return f"{context['user']} {context['state']}"

    @scenario(tools=[who])
    async def asks(run: Any) -> None:
        out = await run("Who am I?", context={"user": "Ada"})
        expect.that(out, out.calls[0].result.envelope["data"]["value"] == "Ada {}", "who")

    assert scripted_trial(asks, calls("who"), says("Ada.")).score.reasons == ()


@pytest.mark.parametrize("state", [object, "x" * 30_000])
def test_a_state_that_is_no_small_data_is_not_recorded(state: Any) -> None:
    async def nothing(_run: Any) -> None:
        """Do nothing."""

    assert FunctionWorld(nothing, ToolRegistry(), state).draft == {}


def test_the_hash_of_a_scenario_changes_with_the_state_it_begins_with() -> None:
    async def nothing(_run: Any) -> None:
        """Do nothing."""

    hashes = {scenario(state=state)(nothing).prompt_hash for state in ({}, None, {"a": 1}, [2])}
    assert len(hashes) == 3


def test_a_run_that_failed_is_judged_by_what_it_did() -> None:
    @scenario(tools=[put], state={"box": []}, contract=Contract(all_of=["put"]))
    async def fills(run: Any) -> None:
        out = await run("Put the ball into the box.")
        expect.effects(out, Need("put", {"thing": "ball"}))
        expect.state(out, run.state["box"], ["ball"])
        expect.that(out, out.failure is None, "the run failed")

    no = says("Done.")
    found = scripted_trial(fills, no, no, no)
    assert (found.status, found.category, found.truth) == ("failed", "NO_TOOL_CALLS", "open")
    assert found.score.effects == SideEffects()
    assert found.score.reasons == (
        'expected that exactly these effects are made: put(thing="ball"), got no call of put',
        'expected that the state is ["ball"], got []',
        "the run failed",
    )


def test_a_failed_run_stays_a_failure_whatever_else_was_said() -> None:
    @scenario(tools=[put], state={"box": []})
    async def asks_twice(run: Any) -> None:
        await run("Put the ball into the box.")
        await run("Thank you.")

    done = says("Done.")
    found = scripted_trial(asks_twice, done, done, done, calls("put", thing="ball"), says("Done."))
    assert (found.status, found.category) == ("failed", "NO_TOOL_CALLS")


def test_what_the_endpoint_spoiled_is_not_judged() -> None:
    judged: list[Any] = []

    @scenario()
    async def greets(run: Any) -> None:
        judged.append(await run("Hello."))

    found = scripted_trial(greets, failure(401))
    assert (found.status, found.truth, judged) == ("infra", "", [])
