"""Tools of the tests of transforms: a transform by its name, and a run with some of them."""

import asyncio
import json
from typing import Any

from surecall import (
    RetryPolicy,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    tool,
)
from surecall.settings.endpoint_profile import FAMILIES
from surecall.testing import ScriptedModel
from surecall.values.types import JSON


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ask(model: ScriptedModel, config: ToolCallingConfig, **settings: Any) -> RunResult:
    registry = ToolRegistry([add])
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=registry,
        config=config,
        retry=RetryPolicy(attempts=1),
        **settings,
    )
    return asyncio.run(runner.run("1 + 2?"))


def heal(field: str, name: str, value: JSON) -> JSON:
    return FAMILIES[field][name](value)


def shown(model: ScriptedModel, turn: int = 1) -> JSON:
    """Return the newest tool result as the model was shown it."""
    decoded: JSON = json.loads(model.requests[turn]["messages"][-1]["content"])
    return decoded
