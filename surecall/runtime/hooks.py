"""The callbacks that an application can pass to a runner: observers, policies, executors, checks.

This module is cheap to import.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from surecall.core.outcome import RunResult
from surecall.tools.signatures import context_parameter
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError
from surecall.values.events import Event
from surecall.values.types import ToolCall, ToolSpec

# Its class may also have the methods `run_entered(run_id, clients)` and `run_left(run_id, error)`,
# called when a run begins and ends, including by cancellation. `clients` maps the `endpoint` of
# events to the run's clients; `error` is the class of the exception that ended the run, or None.
Observer: TypeAlias = Callable[[Event], object]
# Runs the tools that have no handler.
Executor: TypeAlias = Callable[..., Any]
# Returns why an answer is not accepted, or None if it is. It may be a coroutine function.
AcceptFinal: TypeAlias = Callable[[RunResult], str | Awaitable[str | None] | None]


class ToolPolicy(Protocol):
    """Decides which tools the model sees, and which calls are allowed.

    If `authorize` returns `Decision.confirm()`, the call needs human approval.
    """

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:
        """Whether the model may see a tool in this run."""

    def authorize(
        self, call: ToolCall, context: Mapping[str, Any]
    ) -> Decision | Awaitable[Decision]:
        """Return the decision about a call."""


class HintedToolPolicy(Protocol):
    """A tool policy whose `authorize` also gets the tool, to decide by its hints."""

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:
        """Whether the model may see a tool in this run."""

    def authorize(
        self, call: ToolCall, context: Mapping[str, Any], tool: ToolSpec
    ) -> Decision | Awaitable[Decision]:
        """Return the decision about a call."""


AnyToolPolicy: TypeAlias = ToolPolicy | HintedToolPolicy


class AskFirst:
    """A tool policy that requires human approval, depending on the tool's hints.

    `"destructive"` covers tools marked destructive, `"writes"` every tool not marked read-only, and
    `"everything"` all tools.
    """

    def __init__(
        self, about: Literal["destructive", "writes", "everything"] = "destructive"
    ) -> None:
        if about not in (choices := ("destructive", "writes", "everything")):
            raise ConfigError(f"AskFirst: {about!r} is not one of {', '.join(map(repr, choices))}")
        self._about = about

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Show every tool."""
        return True

    def authorize(self, call: ToolCall, context: Mapping[str, Any], tool: ToolSpec) -> Decision:  # noqa: ARG002
        """Require human approval if the policy covers the call's tool."""
        match self._about:
            case "destructive" if tool.destructive:
                return Decision.confirm(f"{call.name} is marked destructive.")
            case "writes" if not tool.read_only:
                return Decision.confirm(f"{call.name} is not marked read-only.")
            case "everything":
                return Decision.confirm("Every call needs approval.")
            case _:
                return Decision.approve()


def accepts_tool(policy: AnyToolPolicy) -> bool:
    """Whether the policy's `authorize` has a parameter named `tool`."""
    try:
        return "tool" in inspect.signature(policy.authorize).parameters
    except (TypeError, ValueError):
        return False


def accepts_call_id(executor: Executor) -> bool:
    """Whether an executor takes a `tool_call_id`, by name or as part of `**kwargs`."""
    try:
        parameters = inspect.signature(executor).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        item.kind is item.VAR_KEYWORD
        or (item.name == "tool_call_id" and item.kind is not item.POSITIONAL_ONLY)
        for item in parameters
    )


def executor_context_parameter(executor: Executor) -> str | None:
    """Return the parameter through which an executor gets the run's context, if it has one."""
    name = context_parameter(executor, (), "executor")
    if name is not None and name in list(inspect.signature(executor).parameters)[:2]:
        raise ConfigError(
            "executor: the first two parameters are the tool's name and arguments; put "
            f"`{name}: Context` after them"
        )
    return name
