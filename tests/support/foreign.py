"""Runs in which a scripted model calls tools of other frameworks."""

import asyncio
from collections.abc import Mapping
from typing import Any

from surecall import RunResult, ToolLoopRunner
from surecall.testing import Item, ScriptedModel, says
from surecall.values.types import JSON


def run_of(
    tools: Any, *script: Item, context: Mapping[str, Any] | None = None
) -> tuple[RunResult, ScriptedModel]:
    """Let a scripted model make its calls, and return what came of them."""
    model = ScriptedModel(*script, says("done"))
    runner = ToolLoopRunner(client=model, model="m", tools=tools)
    return asyncio.run(runner.run("go", context=context)), model


def data_of(result: RunResult) -> list[JSON]:
    """Return the data of the results, in order."""
    return [item.envelope["data"] for item in result.run.results]


def errors_of(result: RunResult) -> list[tuple[str, str]]:
    """Return the first error of each result that is one: its code and its words."""
    failed = [item.envelope["errors"][0] for item in result.run.results if not item.ok]
    return [(error["code"], error["message"]) for error in failed]
