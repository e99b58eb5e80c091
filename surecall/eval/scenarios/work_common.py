"""What the tasks of the pack `work` have in common: the instructions, and how things are found.

A task is an everyday job with data flow: what one call finds, the next one needs; something that
looks like it is there to be chosen by mistake. The request does not say which call to make. The
tools are written as an application would write them, with the hints that it knows to be true, and
their state is that of one attempt. What they return is data; what they refuse is a `ToolError`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from surecall.eval.scenarios.functions import STATE, ScenarioFunction, Tools, scenario
from surecall.eval.scenarios.scenario import Scenario
from surecall.settings.contract import Contract
from surecall.tools.context import Context
from surecall.values.errors import ToolError
from surecall.values.types import JSON

PACK: Final = "work"
SYSTEM: Final = """\
You work in an office. You find things out and change them by calling tools.

Rules:
- Look things up before you change anything. Never make up an id.
- Do what the user asks for, once, and nothing else.
- A question that needs no tool is answered without one.
- If it cannot be done, change nothing else instead, and say that it cannot be done and why.
- The final answer is one or two sentences for the user."""
# A task that may turn out to be impossible, or to need no tool, must not be forced into a call.
MAY_FAIL: Final[JSON] = {"tool_failure_policy": "tolerated"}
NEEDS_NO_TOOL: Final[JSON] = {"tool_use_mode": "relaxed"}


def task(
    kind: str,
    *,
    tools: Tools,
    state: JSON,
    contract: Contract | None = None,
    config: JSON | None = None,
) -> Callable[[ScenarioFunction], Scenario]:
    """Make a task of the pack; `kind` is a second group that it can be selected by."""
    return scenario(
        tags=(PACK, f"{PACK}_{kind}"),
        tools=tools,
        state=state,
        system=SYSTEM,
        contract=contract,
        config=config,
    )


def rows(context: Context, table: str) -> list[JSON]:
    """Return a table of the attempt's state."""
    found: list[JSON] = context[STATE][table]
    return found


def matching(found: Iterable[JSON], field: str, words: str) -> list[JSON]:
    """Return the rows whose field holds all of some words, whatever the case."""
    wanted = words.casefold().split()
    return [row for row in found if all(word in str(row[field]).casefold() for word in wanted)]


def searched(found: Iterable[JSON], field: str, words: str) -> list[JSON]:
    """Return the rows whose field holds any of some words, as searches do: the best ones first.

    If there are none, the model is told so, and what to do.
    """
    wanted = {word.strip(",.") for word in words.casefold().split()}

    def hits(row: JSON) -> int:
        return sum(word in str(row[field]).casefold() for word in wanted)

    fitting = sorted(filter(hits, found), key=hits, reverse=True)
    if not fitting:
        raise ToolError("Nothing has any of these words. Search with others.")
    return fitting


def the_one(found: Iterable[JSON], what: str, field: str, value: Any) -> JSON:
    """Return the row with an id; the model is told if there is none."""
    for row in found:
        if row[field] == value:
            return row
    raise ToolError(f"There is no {what} {str(value)[:64]!r}.")
