"""What an application may hand to a runner beside its tools: the functions that a run will call.

Importing this loads nothing that runs anything, so that a runner can be named without its parts.
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

# Its class may also have the methods `run_entered(run_id, clients)` and `run_left(run_id, error)`.
# They are called where a run begins and where it is left, also if it was cancelled. `clients` has
# those that the run may ask, each by what events call its `endpoint`; `error` is the class of what
# it was left with, or None.
Observer: TypeAlias = Callable[[Event], object]
# Runs the tools that have no handler.
Executor: TypeAlias = Callable[..., Any]
# Says why an answer is not accepted, or None if it is. It may be a coroutine function.
AcceptFinal: TypeAlias = Callable[[RunResult], str | Awaitable[str | None] | None]


class ToolPolicy(Protocol):
    """An application's say over tools: which are shown, and which calls may run.

    A call that `authorize` answers with `Decision.confirm()` waits for a person.
    """

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:
        """Whether the model may see a tool at all in this run."""

    def authorize(
        self, call: ToolCall, context: Mapping[str, Any]
    ) -> Decision | Awaitable[Decision]:
        """Whether one call may run."""


class HintedToolPolicy(Protocol):
    """The same, for a policy that decides by the hints of a tool: it is given the tool, too."""

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:
        """Whether the model may see a tool at all in this run."""

    def authorize(
        self, call: ToolCall, context: Mapping[str, Any], tool: ToolSpec
    ) -> Decision | Awaitable[Decision]:
        """Whether one call may run."""


AnyToolPolicy: TypeAlias = ToolPolicy | HintedToolPolicy


class AskFirst:
    """A tool policy by hints: a person decides before anything of some weight is done.

    `"destructive"` asks about tools that are marked so, `"writes"` about every tool that is not
    marked read-only, `"everything"` about all of them.
    """

    def __init__(
        self, about: Literal["destructive", "writes", "everything"] = "destructive"
    ) -> None:
        if about not in (known := ("destructive", "writes", "everything")):
            raise ConfigError(f"AskFirst: {about!r} is none of {', '.join(map(repr, known))}")
        self._about = about

    def visible(self, tool: ToolSpec, context: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Show every tool."""
        return True

    def authorize(self, call: ToolCall, context: Mapping[str, Any], tool: ToolSpec) -> Decision:  # noqa: ARG002
        """Let a call wait for a person if its tool may do what this policy is about."""
        match self._about:
            case "destructive" if tool.destructive:
                return Decision.confirm(f"{call.name} is marked destructive.")
            case "writes" if not tool.read_only:
                return Decision.confirm(f"{call.name} is not marked read-only.")
            case "everything":
                return Decision.confirm("Every call is asked about.")
            case _:
                return Decision.approve()


def wants_tool(policy: AnyToolPolicy) -> bool:
    """Whether a policy wants to be given the tool beside the call: a parameter named `tool`."""
    try:
        return "tool" in inspect.signature(policy.authorize).parameters
    except (TypeError, ValueError):
        return False


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
