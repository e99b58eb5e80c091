"""A scenario whose own code ends in something odd spoils its own trial, and nothing else."""

import asyncio
from typing import Any

import pytest

from surecall import ToolCallingConfig
from surecall.eval.running.trial_run import Setup, run_trial
from surecall.eval.scenarios.scenario import Scenario, scenario
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.testing import ScriptedModel

SETUP = Setup(model="m", config=ToolCallingConfig())


def raising(error: BaseException) -> Scenario:
    @scenario()
    async def ends(_run: Any) -> None:
        raise error

    return ends


async def trial_of(one: Scenario) -> Trial:
    return (await run_trial(Key(Cell("m"), one.id, 1), one, SETUP, ScriptedModel()))[0]


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
