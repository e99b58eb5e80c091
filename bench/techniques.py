"""The tasks of the pack `work` with some of the levers only, to see what each of them does.

    surecall eval --gguf model.gguf --strategy guided_contract -s bench/techniques.py::bare,work

runs every task twice: without levers (`bare.work_pay_invoice`) and as it is (`work_pay_invoice`).
The groups `gate`, `ground`, `once`, `thought` and `closing` have one lever alone, `no_thought` has
all but the thought.

    gate      a sequence decides what is on offer; without it, its steps are needed in any order
    ground    parameters hold what was seen
    once      a write that has succeeded does not run again
    thought   a thought before each call
    closing   the writes and the request are repeated before the answer

The way out and the guard against circles are always there, and what a contract names are constants
in all of them; so what is called bare is not what a plain loop would be.
"""

from collections.abc import Collection
from copy import copy
from typing import Final

import msgspec

from surecall.eval.scenarios import work
from surecall.eval.scenarios.function_scenarios import FunctionWorld
from surecall.eval.scenarios.scenario import Scenario, World
from surecall.settings.contract import Contract, Need
from surecall.tools.registry import ToolDefinition, ToolRegistry


def with_levers(task: Scenario, name: str, levers: Collection[str]) -> Scenario:
    """Return a task that has these levers and no other."""

    def begin(attempt: str) -> World:
        world = task.begin(attempt)
        if not isinstance(world, FunctionWorld):
            raise TypeError(f"{task.id} is not a function of `run`")
        world.registry = ToolRegistry(_tool(each, levers) for each in world.registry.definitions)
        return world

    off = {} if "thought" in levers else {"guided_thought": 0}
    off |= {} if "closing" in levers else {"closing_reminder": False}
    return msgspec.structs.replace(
        task,
        id=f"{name}.{task.id}",
        tags=(name, *(f"{name}.{tag}" for tag in task.tags)),
        begin=begin,
        config=task.config | off,
        contract=None if task.contract is None else _contract(task.contract, levers),
    )


def _tool(tool: ToolDefinition, levers: Collection[str]) -> ToolDefinition:
    other = copy(tool)
    grounded = tool.spec.grounded if "ground" in levers else {}
    repeatable = tool.spec.repeatable or "once" not in levers
    other.spec = msgspec.structs.replace(tool.spec, grounded=grounded, repeatable=repeatable)
    return other


def _contract(contract: Contract, levers: Collection[str]) -> Contract:
    parts = {
        name: [_need(need, levers) for need in getattr(contract, name)]
        for name in ("all_of", "any_of", "in_order")
    }
    close = contract.then_finalise
    if "gate" not in levers:
        steps = parts.pop("in_order")
        # Out of order one call meets both of two equal steps, and must not close the tools.
        close = close and all(steps.count(step) == 1 for step in steps)
        parts["all_of"] += steps
    return Contract(**parts, then_finalise=close)


def _need(need: Need, levers: Collection[str]) -> Need:
    given = need.arguments.items()
    kept = {key: item for key, item in given if "ground" in levers or key not in need.sources}
    return msgspec.structs.replace(need, arguments=kept)


LEVERS: Final = ("gate", "ground", "once", "thought", "closing")
SCENARIOS: Final = [
    *(with_levers(task, "bare", ()) for task in work.WORK),
    *(with_levers(task, lever, (lever,)) for lever in LEVERS for task in work.WORK),
    *(with_levers(task, "no_thought", {*LEVERS} - {"thought"}) for task in work.WORK),
]
