"""ToolDispatcher: answers calls. The only place where an application's tools run.

    call ─ has a problem? ─► refusal
         └ policy ─► handler or executor, with a timeout ─► envelope ─► transforms, size guard

What a handler raises is told to the model without its internals; the trace keeps them.
"""

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from surecall.config import ToolCallingConfig
from surecall.errors import ConfigError, ErrorCode, SurecallError, ToolError
from surecall.pipeline import judge_call
from surecall.registry import Toolbox, ToolDefinition, is_async_callable
from surecall.results import failed, refusal, seal, success
from surecall.threads import Threads
from surecall.types import JSON, Problem, ToolCall, ToolResult, ToolSpec

MAX_MESSAGE = 500
Executor: TypeAlias = Callable[..., Any]


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


class PolicyBroken(SurecallError):
    """A tool policy raised, and the config wants that to end the run."""


class ToolDispatcher:
    """Runs tools for one registry and one config."""

    def __init__(  # collaborators, all but two by keyword
        self,
        toolbox: Toolbox,
        config: ToolCallingConfig,
        *,
        executor: Executor | None = None,
        policy: ToolPolicy | None = None,
        context: Mapping[str, Any] | None = None,
        threads: Threads | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._config = config
        self._executor = executor
        self._wants_id = executor is not None and accepts_call_id(executor)
        self._policy = policy
        self._context = context or {}
        self._threads = threads or Threads()
        self.on_policy_error: Callable[[Exception, ToolCall], None] = lambda _error, _call: None

    async def execute(self, name: str, arguments: Any, tool_call_id: str = "") -> ToolResult:
        """Answer a call that has not been judged yet: any name, any arguments."""
        call = judge_call(name.strip(), arguments, self._config, self._toolbox)
        return await self.answer(msgspec.structs.replace(call, id=tool_call_id))

    async def answer(self, call: ToolCall, longest_s: float | None = None) -> ToolResult:
        """Answer a judged call, within its timeout and within `longest_s`."""
        started = time.perf_counter()
        problem = call.problem or await self._authorized(call)
        executed, detail = problem is None, None
        if problem is not None:
            envelope = refusal(call.name, problem)
        else:
            envelope, detail = await self._run(call, longest_s)
        result = seal(call, envelope, self._config, executed=executed)
        elapsed_ms = round((time.perf_counter() - started) * 1000)
        return msgspec.structs.replace(result, elapsed_ms=elapsed_ms, detail=detail)

    async def _authorized(self, call: ToolCall) -> Problem | None:
        if self._policy is None:
            return None
        try:
            decided = self._policy.authorize(call, self._context)
            decision = await decided if inspect.isawaitable(decided) else decided
            outcome, reason = decision.outcome, decision.reason
        except Exception as error:  # noqa: BLE001  # a policy is foreign code
            self.on_policy_error(error, call)
            return self._policy_error(error)
        data = {"policy": {"outcome": outcome, "reason": reason}}
        if outcome == "allow":
            return None
        if outcome == "confirm":
            message = f"A person must confirm this call first. {reason}".strip()
            return Problem(ErrorCode.TOOL_CONFIRMATION_REQUIRED, message, data)
        return Problem(
            ErrorCode.TOOL_POLICY_DENIED, f"This call is not permitted. {reason}".strip(), data
        )

    def _policy_error(self, error: Exception) -> Problem | None:
        match self._config.policy_error_mode:
            case "allow":
                return None
            case "deny":
                return Problem(ErrorCode.TOOL_POLICY_ERROR, "This call could not be checked.")
            case "raise":
                raise PolicyBroken(f"the tool policy raised {type(error).__name__}") from error

    async def _run(self, call: ToolCall, longest_s: float | None) -> tuple[JSON, str | None]:
        """Run the tool; return its envelope, and what only the trace may know."""
        tool = self._toolbox.resolve(call.name)
        if tool is None:  # a call judged by another registry
            problem = Problem(ErrorCode.TOOL_NOT_ALLOWED, f"There is no tool {call.name[:64]!r}.")
            return refusal(call.name, problem), None
        limit = tool.timeout_s or self._config.tool_timeout_s
        limit = limit if longest_s is None else min(limit, longest_s)
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                return success(call.name, await self._value(tool, call)), None
        except ToolError as error:
            return failed(call.name, str(error.code), str(error)[:MAX_MESSAGE]), None
        except TimeoutError as error:
            if clock.expired():
                message = f"The tool did not finish within {limit:g} s. It may still be at work."
                return failed(call.name, ErrorCode.TOOL_TIMEOUT, message), None
            return _raised(call, error)
        except Exception as error:  # noqa: BLE001  # a tool is foreign code
            return _raised(call, error)

    async def _value(self, tool: ToolDefinition, call: ToolCall) -> Any:
        if tool.handler is None:
            if self._executor is None:
                raise ConfigError(f"tool {tool.name!r} has neither a handler nor an executor")
            ids = {"tool_call_id": call.id} if self._wants_id else {}
            work = functools.partial(self._executor, tool.name, call.arguments, **ids)
            is_async = is_async_callable(self._executor)
        else:
            work = functools.partial(tool.handler, **tool.bind(call.arguments))
            is_async = tool.is_async
        value = await work() if is_async else await self._threads.run(work)
        return await value if inspect.isawaitable(value) else value


def _raised(call: ToolCall, error: Exception) -> tuple[JSON, str]:
    """Tell the model that a tool raised; a ValueError is taken to be about the arguments."""
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
        return failed(call.name, ErrorCode.ARGUMENT_ERROR, str(error)[:MAX_MESSAGE]), detail
    message = "The tool itself failed. Go on without it, or try something else."
    return failed(call.name, ErrorCode.INTERNAL_ERROR, message), detail


def accepts_call_id(executor: Executor) -> bool:
    """Whether an executor takes a `tool_call_id`, by name or among any keywords."""
    try:
        parameters = inspect.signature(executor).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        item.name == "tool_call_id" or item.kind is inspect.Parameter.VAR_KEYWORD
        for item in parameters
    )
