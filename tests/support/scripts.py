"""Scripts of a model, run to their end with three tools: one adds, one fails, one is hidden."""

import asyncio
from typing import Any

from surecall import (
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    tool,
)
from surecall.testing import ScriptedModel, says


@tool
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool
async def fail() -> None:
    """Fail."""
    raise RuntimeError("internals")


@tool(exposed_to_model=False)
async def hidden() -> None:
    """Never to be called."""
    raise AssertionError("a hidden tool ran")


REGISTRY = ToolRegistry([add, fail, hidden])


def result_of(script: list[Any], config: ToolCallingConfig) -> tuple[RunResult, ScriptedModel]:
    """Run a script to its end, happy or not; the script ends with a plain answer."""
    model = ScriptedModel(*script, *[says("The end.")] * 8)
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=REGISTRY,
        config=config,
        system="Be brief.",
        retry=RetryPolicy(attempts=1),
    )
    try:
        return asyncio.run(runner.run("Go on.")), model
    except RunFailed as error:
        return error.result, model
