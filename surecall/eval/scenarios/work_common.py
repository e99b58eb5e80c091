"""Shared parts of the `work` pack's tasks: the system prompt and lookups in the state.

A task is an everyday job with data flow: a call needs what an earlier one found, and a similar item
is there to be chosen by mistake. The request does not name the calls to make. The tools are
annotated as in an application, and their state belongs to one attempt.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from surecall.eval.scenarios.function_scenarios import (
    STATE_KEY,
    ScenarioFunction,
    ToolsOrFactory,
    scenario,
)
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
# A task that may be impossible, or need no tool, must not be forced into a call.
MAY_FAIL: Final[JSON] = {"tool_failure_policy": "tolerated"}
NEEDS_NO_TOOL: Final[JSON] = {"tool_use_mode": "relaxed"}


def task(
    kind: str,
    *,
    tools: ToolsOrFactory,
    state: JSON,
    contract: Contract | None = None,
    config: JSON | None = None,
) -> Callable[[ScenarioFunction], Scenario]:
    """Make a task of the pack; `kind` is a second group that selects it."""
    return scenario(
        tags=(PACK, f"{PACK}_{kind}"),
        tools=tools,
        state=state,
        system=SYSTEM,
        contract=contract,
        config=config,
    )


def table_rows(context: Context, table: str) -> list[JSON]:
    """Return the rows of a table of the attempt's state."""
    found: list[JSON] = context[STATE_KEY][table]
    return found


def filter_rows(found: Iterable[JSON], field: str, words: str) -> list[JSON]:
    """Return the rows whose field contains all of some words, ignoring case."""
    wanted = words.casefold().split()
    return [row for row in found if all(word in str(row[field]).casefold() for word in wanted)]


def search_rows(found: Iterable[JSON], field: str, words: str) -> list[JSON]:
    """Return the rows whose field contains any of some words, the best matches first.

    Raise `ToolError` with a remedy if there are none.
    """
    wanted = {word.strip(",.") for word in words.casefold().split()}

    def hits(row: JSON) -> int:
        """Count the words of the query in a row."""
        return sum(word in str(row[field]).casefold() for word in wanted)

    fitting = sorted(filter(hits, found), key=hits, reverse=True)
    if not fitting:
        raise ToolError("Nothing has any of these words. Search with others.")
    return fitting


def find_row(found: Iterable[JSON], what: str, field: str, value: Any) -> JSON:
    """Return the row with an id; raise `ToolError` if there is none."""
    for row in found:
        if row[field] == value:
            return row
    raise ToolError(f"There is no {what} {str(value)[:64]!r}.")
