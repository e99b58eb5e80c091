"""Tasks of the pack `work`, played by the simulator or by a script."""

import asyncio
from typing import Any

from surecall.eval.running.trial_run import run_trial, setup_for
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.presets import CONTRACTED, Strategy
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedModel, calls, says

BY_ID = {one.id: one for one in WORK}


def played(simulator: Simulator, model: str, name: str, strategy: Strategy) -> Trial:
    setup = setup_for(
        model, strategy=strategy, provider="openrouter", contracted=strategy in CONTRACTED
    )

    async def go() -> Trial:
        client = OpenAICompatible(simulator.url)
        async with client.opened():
            key = Key(Cell(model, strategy=strategy), name, 1)
            return (await run_trial(key, BY_ID[name], setup, client))[0]

    return asyncio.run(go())


def scripted(name: str, *script: Any) -> Trial:
    key = Key(Cell("m"), name, 1)
    numbered = [each | {"id": f"r{at}"} for at, each in enumerate(script)]
    setup = setup_for("m", strategy="raw")
    return asyncio.run(run_trial(key, BY_ID[name], setup, ScriptedModel(*numbered)))[0]


def steps(*made: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return a call for each step, with an id of its own."""
    return [calls(name, call_id=f"c{at}", **arguments) for at, (name, arguments) in enumerate(made)]


def done(name: str, *made: tuple[str, dict[str, Any]], answer: str) -> Trial:
    """Play a task by calls and an answer, without any help."""
    return scripted(name, *steps(*made), says(answer))
