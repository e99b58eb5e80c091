"""A scenario whose own code ends in something odd spoils its own trial, and nothing else."""

import asyncio
from typing import Any

import pytest

from surecall import tool
from surecall.eval import expect, scenario
from surecall.eval.running.trial_run import Case, Setup, run_trial
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says

SETUP = Setup(model="m", config=raw())


def raising(error: BaseException) -> Scenario:
    @scenario()
    async def ends(_run: Any) -> None:
        raise error

    return ends


async def trial_of(one: Scenario) -> Trial:
    return (await run_trial(Key(Cell("m"), one.id, 1), Case(one, SETUP), ScriptedModel()))[0]


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError("made up")])
def test_a_scenario_that_ends_itself_is_a_crash(error: BaseException) -> None:
    trial = asyncio.run(trial_of(raising(error)))

    assert (trial.status, trial.category) == ("infra", "EXCEPTION")
    assert trial.error.startswith(type(error).__name__)


def test_a_trial_that_somebody_cancels_is_cancelled() -> None:
    @scenario()
    async def waits(_run: Any) -> None:
        await asyncio.Event().wait()

    async def go() -> bool:
        task = asyncio.create_task(trial_of(waits))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(go())


def with_tool(function: Any, *script: Any) -> Trial:
    @scenario(tools=[function])
    async def uses_it(run: Any) -> None:
        expect.that(await run("Use it."), condition=True, reason="")

    key = Key(Cell("m"), uses_it.id, 1)
    return asyncio.run(run_trial(key, Case(uses_it, SETUP), ScriptedModel(*script)))[0]


def raises_key_error() -> str:
    """Look for something that is not there."""
    nothing: dict[str, str] = {}
    return nothing["missing"]


def returns_nan() -> float:
    """Return what is no number."""
    return float("nan")


def refuses() -> str:
    """Say no, as a tool may."""
    raise ValueError("not today")


@pytest.mark.parametrize("answer", ["Done.", "It does not work."])
def test_a_crash_in_a_tool_of_the_scenario_is_nobodys_failure(answer: str) -> None:
    found = with_tool(tool(raises_key_error), calls("raises_key_error"), says(answer))
    assert (found.status, found.category) == ("infra", "EXCEPTION")
    assert found.error == "raises_key_error raised KeyError: 'missing'"
    spoiled = with_tool(tool(returns_nan), calls("returns_nan"), says(answer))
    assert (spoiled.status, spoiled.error) == (
        "infra",
        "returns_nan returned what cannot be shown",
    )


def test_a_refusal_by_a_tool_is_for_the_model_to_deal_with() -> None:
    assert with_tool(tool(refuses), calls("refuses"), says("Not today.")).status == "passed"
