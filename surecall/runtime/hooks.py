"""What an application may hand to a runner beside its tools: the functions that a run will call.

Importing this loads nothing that runs anything, so that a runner can be named without its parts.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from surecall.core.outcome import RunResult
from surecall.tools.signatures import context_parameter
from surecall.values.errors import ConfigError
from surecall.values.events import Event
from surecall.values.types import ToolCall, ToolSpec

Observer: TypeAlias = Callable[[Event], object]
# Runs the tools that have no handler.
Executor: TypeAlias = Callable[..., Any]
# Says why an answer is not accepted, or None if it is. It may be a coroutine function.
AcceptFinal: TypeAlias = Callable[[RunResult], str | Awaitable[str | None] | None]


class Decision(msgspec.Struct, frozen=True):
    """What a tool policy says about one call."""

    outcome: Literal["allow", "deny", "confirm"]
    reason: str = ""


class ToolPolicy(Protocol):
    """An application's say over tools: which are shown, and which calls may run."""

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:
        """Whether the model may see a tool at all in this run."""

    def authorize(
        self, call: ToolCall, context: Mapping[str, Any]
    ) -> Decision | Awaitable[Decision]:
        """Whether one call may run."""


def accepts_call_id(executor: Executor) -> bool:
    """Whether an executor takes a `tool_call_id`, by name or among any keywords."""
    try:
        parameters = inspect.signature(executor).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        item.kind is item.VAR_KEYWORD
        or (item.name == "tool_call_id" and item.kind is not item.POSITIONAL_ONLY)
        for item in parameters
    )


def executor_context(executor: Executor) -> str | None:
    """Return the name under which an executor takes the run's context, if it does."""
    name = context_parameter(executor, (), "executor")
    if name is not None and name in list(inspect.signature(executor).parameters)[:2]:
        raise ConfigError(
            f"executor: it is called with the tool's name and arguments; `{name}: Context` comes "
            "after them"
        )
    return name
