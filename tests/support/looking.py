"""Runs with one tool that looks around, to their end or to their failure."""

import asyncio
from typing import Any

import pytest

from surecall.core.outcome import (
    RunFailed,
    RunResult,
)
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.config import ToolCallingConfig
from surecall.settings.connection import RetryPolicy
from surecall.settings.presets import RAW
from surecall.testing import Item, ScriptedModel
from surecall.tools.registry import ToolRegistry, tool


@tool
def look(place: str = "") -> str:
    """Look around."""
    if place == "nowhere":
        raise ValueError("there is no such place")
    return f"nothing at {place}"


def ran(*script: Item, config: ToolCallingConfig = RAW, **settings: Any) -> RunResult:
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=ToolRegistry([look]),
        config=config,
        retry=RetryPolicy(attempts=2, first_wait_s=0.0),
        **settings,
    )
    return asyncio.run(runner.run("hi"))


def failed(*script: Item, **settings: Any) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        ran(*script, **settings)
    return caught.value
