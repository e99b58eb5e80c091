"""ToolDispatcher: answers calls. The only place where an application's tools run.

    call ─ has a problem? ─► refusal
         └ policy ─► still at work? ─► refusal
                  └ handler or executor, with a timeout ─► envelope ─► transforms, size guard

What a handler raises is told to the model without its internals; the trace keeps them.
"""

import functools
import json
import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from surecall.core.approvals import with_arguments
from surecall.core.inbound import judge_call, judge_given
from surecall.core.tool_results import failed, refusal, seal, success, unserialisable
from surecall.runtime.execution import Execution, LeftRunning, Raised, asked
from surecall.runtime.hooks import (
    AnyToolPolicy,
    Executor,
    accepts_call_id,
    executor_context,
    wants_tool,
)
from surecall.runtime.thread_pool import Threads
from surecall.settings.config import ToolCallingConfig
from surecall.tools.context import Context
from surecall.tools.registry import Toolbox, ToolDefinition
from surecall.tools.signatures import is_async_callable
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError, ErrorCode, SurecallError, ToolError
from surecall.values.types import JSON, Problem, ToolCall, ToolResult
from surecall.wire.messages import scrub

_STILL_RUNNING = Problem(
    ErrorCode.TOOL_STILL_RUNNING,
    "This call was made before, took too long, and is still running. It was not started again.",
)
_TOO_MANY = Problem(
    ErrorCode.TOO_MANY_LEFT_RUNNING,
    "Too many tools took too long and are still running. This call was not started.",
)
_NO_TIME = Problem(
    ErrorCode.TOOL_TIMEOUT, "There was no time left in this run. The tool did not run."
)
MAX_MESSAGE = 500
MAX_DETAIL = 2_000
# These are ValueErrors by descent only; their words are not for the model.
_NOT_ABOUT_ARGUMENTS = (UnicodeError, json.JSONDecodeError, SurecallError)
Work: TypeAlias = functools.partial[Any]


class PolicyBroken(SurecallError):
    """A tool policy raised, and the config wants that to end the run."""


OnPolicyError: TypeAlias = Callable[[BaseException, ToolCall], None]


def _unheard(_error: BaseException, _call: ToolCall) -> None:
    """Do nothing."""


class Ready(msgspec.Struct, frozen=True):
    """A call that may begin: what is to be called, how long it may take, when it was made.

    What is blocking needs a thread.
    """

    call: ToolCall
    work: Work
    limit_s: float
    began: float
    is_blocking: bool


class _Bound(NamedTuple):
    """A tool, and what is to be called."""

    tool: ToolDefinition
    work: Work


class ToolDispatcher:
    """Runs tools for one registry and one config."""

    def __init__(  # noqa: PLR0913  # collaborators, all but two by keyword
        self,
        toolbox: Toolbox,
        config: ToolCallingConfig,
        *,
        executor: Executor | None = None,
        policy: AnyToolPolicy | None = None,
        context: Mapping[str, Any] | None = None,
        threads: Threads | None = None,
        left_running: LeftRunning | None = None,
        run_id: str = "",
        on_policy_error: OnPolicyError = _unheard,
    ) -> None:
        self._toolbox = toolbox
        self._config = config
        self._executor = executor
        self._is_async = executor is not None and is_async_callable(executor)
        self._policy = policy
        self._context = Context(context)
        self._threads = threads or Threads()
        self._left_running = LeftRunning() if left_running is None else left_running
        self._run_id = run_id
        self._on_policy_error = on_policy_error

    def is_serial(self, call: ToolCall) -> bool:
        """Whether a call must not run beside another one of its kind."""
        tool = self._toolbox.resolve(call.name)
        return tool is not None and tool.serial

    async def execute(self, name: str, arguments: Any, tool_call_id: str = "") -> ToolResult:
        """Answer a call that has not been judged yet: any name, any arguments."""
        call = judge_call(name.strip(), arguments, self._config, self._toolbox)
        return await self.answer(msgspec.structs.replace(call, id=tool_call_id))

    async def answer(self, call: ToolCall, longest_s: float | None = None) -> ToolResult:
        """Answer a judged call, within its timeout and within `longest_s`; no person is asked."""
        began = time.perf_counter()
        left = math.inf if longest_s is None else longest_s
        decision = call.problem or await self.decide(call, left)
        if isinstance(decision, Decision) and decision.outcome == "replace":
            call = with_arguments(call, decision.arguments)
            decision = await self.decide(call, left)
        if isinstance(decision, Decision) and decision.outcome == "confirm":
            decision = _unconfirmed(decision)
        left -= time.perf_counter() - began if self.has_policy else 0.0
        ready = decision if isinstance(decision, Problem) else self.ready(call, left, began)
        return await self.run(ready) if isinstance(ready, Ready) else self.refuse(call, ready)

    @property
    def has_policy(self) -> bool:
        """Whether the application has a say over calls."""
        return self._policy is not None

    async def decide(
        self, call: ToolCall, longest_s: float, settled: Decision | None = None
    ) -> Decision | Problem:
        """Return what is decided about a call, or why it may not run.

        What a person has `settled` stands for the policy's wish to ask or to change; but the policy
        can still deny the call.
        """
        if settled is not None and settled.outcome in {"deny", "confirm"}:
            return settled if settled.outcome == "confirm" else _denied(settled)
        bound = self._bound(call) if settled is None else self._still_bound(call)
        if isinstance(bound, Problem):
            return bound
        if self._policy is None:
            return Decision.approve()
        decision = await self._asked(self._policy, bound.tool, call, longest_s)
        if isinstance(decision, Decision) and decision.outcome == "deny":
            return _denied(decision)
        is_open = isinstance(decision, Problem) or settled is None
        return decision if is_open else Decision.approve()

    def ready(self, call: ToolCall, longest_s: float, began: float) -> Ready | Problem:
        """Return a call that may begin ready to run, or why it may not; it was made at `began`."""
        bound = self._bound(call)
        if isinstance(bound, Problem):
            return bound
        tool, work = bound
        limit_s = min(tool.timeout_s or self._config.tool_timeout_s, longest_s)
        is_async = tool.is_async if tool.handler is not None else self._is_async
        ready = Ready(call, work, limit_s, began, is_blocking=not is_async)
        return _NO_TIME if longest_s <= 0 else self._too_much(tool, ready) or ready

    def _bound(self, call: ToolCall) -> "_Bound | Problem":
        tool = self._toolbox.resolve(call.name)
        if tool is None:  # a call judged by another registry, or under another mask
            return Problem(ErrorCode.TOOL_NOT_ALLOWED, f"There is no tool {call.name[:64]!r}.")
        try:
            return _Bound(tool, self._work(tool, call))
        except ToolError as error:
            return Problem(ErrorCode.ARGUMENT_ERROR, _words(error)[:MAX_MESSAGE])

    def _still_bound(self, call: ToolCall) -> "_Bound | Problem":
        """Do the same for a call that has waited: its tool may have changed since it was judged."""
        bound = self._bound(call)
        if isinstance(bound, Problem) or not self._config.validate_arguments:
            return bound
        errors = bound.tool.validate(call.arguments)
        message = f"{call.name} has changed. Fix the arguments: {'; '.join(errors)}"
        return Problem(ErrorCode.ARGUMENT_ERROR, message) if errors else bound

    def _too_much(self, tool: ToolDefinition, ready: Ready) -> Problem | None:
        """Say whether what was left running stands in the way of a call."""
        if not self._left_running:
            return None
        if not tool.spec.may_repeat and self._left_running.has(self._key(ready.call)):
            return _STILL_RUNNING
        left = self._left_running.count(blocking=ready.is_blocking)
        return _TOO_MANY if left >= self._config.max_tools_left_running else None

    def _key(self, call: ToolCall) -> Hashable:
        arguments = msgspec.json.encode(call.arguments, order="deterministic")
        return self._run_id, call.name, arguments

    def refuse(self, call: ToolCall, problem: Problem) -> ToolResult:
        """Answer a call that must not run."""
        return seal(call, refusal(call.name, problem), self._config, executed=False)

    async def run(self, ready: Ready) -> ToolResult:
        """Run a tool, and answer its call."""
        execution = Execution(ready.work, self._threads, blocking=ready.is_blocking)
        try:
            ended = await execution.ended(ready.limit_s)
        finally:
            if execution.at_work:
                self._left_running.add(self._key(ready.call), execution)
        call = ready.call
        envelope, detail = (
            _came_to(call, execution) if ended else (_took_too_long(ready, execution), None)
        )
        result = seal(call, envelope, self._config, executed=True)
        elapsed_ms = round((time.perf_counter() - ready.began) * 1000)
        return msgspec.structs.replace(result, elapsed_ms=elapsed_ms, detail=detail)

    def _work(self, tool: ToolDefinition, call: ToolCall) -> Work:
        """Return what is to be called, with its arguments as it wants them."""
        # A copy: what a tool does to its arguments must not change the transcript.
        arguments = msgspec.to_builtins(call.arguments)
        if tool.handler is not None:
            return functools.partial(
                tool.handler, **tool.bind(arguments) | self._given(tool.context)
            )
        if self._executor is None:
            raise ConfigError(f"tool {tool.name!r} has neither a handler nor an executor")
        wants_id, context = self._executor_wants
        ids: dict[str, Any] = {"tool_call_id": call.id} if wants_id else {}
        given = ids | self._given(context)
        return functools.partial(self._executor, tool.name, arguments, **given)

    @functools.cached_property
    def _executor_wants(self) -> tuple[bool, str | None]:
        """Whether the executor takes the id of a call, and under which name the run's context.

        It is found out when the first call is made: many runs make none.
        """
        if self._executor is None:
            return False, None
        return accepts_call_id(self._executor), executor_context(self._executor)

    def _given(self, parameter: str | None) -> dict[str, Any]:
        """Return the run's context under the name that wants it."""
        return {} if parameter is None else {parameter: self._context}

    async def _asked(
        self, policy: AnyToolPolicy, tool: ToolDefinition, call: ToolCall, longest_s: float
    ) -> Decision | Problem:
        """Ask the application's policy about a call; what it says is foreign, and made ours."""
        authorize: Callable[..., Any] = policy.authorize
        if self._policy_wants_tool:
            authorize = functools.partial(authorize, tool=tool.spec)
        try:
            said = await asked(longest_s, authorize, call.private(), self._context)
            return self._understood(call, said)
        except Raised as raised:
            return self._policy_broke(raised.error, call)
        except Exception as error:  # noqa: BLE001  # a decision is foreign, too; or it took too long
            return self._policy_broke(error, call)

    def _understood(self, call: ToolCall, said: Any) -> Decision:
        """Make a decision ours; arguments that the tool does not take are the policy's error."""
        reason = str(scrub(str(said.reason)))  # it is written down with the run
        match said.outcome:
            case "allow" | "confirm" as outcome:
                return Decision(outcome, reason)
            case "replace":
                judged = judge_given(call.name, said.arguments, self._config, self._toolbox)
                if judged.problem is not None:
                    raise ValueError(judged.problem.message)
                return Decision("replace", reason, judged.arguments)
            case outcome:
                if outcome != "deny":  # a typing error; whatever was meant, it is not permitted
                    self._on_policy_error(ValueError(f"{outcome!r} is no decision"), call)
                return Decision("deny", reason)

    @functools.cached_property
    def _policy_wants_tool(self) -> bool:
        return self._policy is not None and wants_tool(self._policy)

    def _policy_broke(self, error: BaseException, call: ToolCall) -> Decision | Problem:
        self._on_policy_error(error, call)
        match self._config.policy_error_mode:
            case "allow":
                return Decision.approve()
            case "deny":
                return Problem(ErrorCode.TOOL_POLICY_ERROR, "This call could not be checked.")
            case "raise":
                raise PolicyBroken(f"the tool policy raised {type(error).__name__}") from error


def _denied(decision: Decision) -> Problem:
    message = f"This call is not permitted. {decision.reason}".strip()
    return Problem(ErrorCode.TOOL_POLICY_DENIED, message, _told(decision))


def _unconfirmed(decision: Decision) -> Problem:
    message = f"A person must confirm this call first. {decision.reason}".strip()
    return Problem(ErrorCode.TOOL_CONFIRMATION_REQUIRED, message, _told(decision))


def _told(decision: Decision) -> JSON:
    return {"policy": {"outcome": decision.outcome, "reason": decision.reason}}


def _took_too_long(ready: Ready, execution: Execution) -> JSON:
    ends = "is still at work" if execution.at_work else "was told to stop; it may have taken effect"
    message = f"The tool did not finish within {ready.limit_s:g} s and {ends}."
    return failed(ready.call.name, ErrorCode.TOOL_TIMEOUT, message)


def _came_to(call: ToolCall, execution: Execution) -> tuple[JSON, str | None]:
    """Return the envelope of a tool that has ended, and what only the trace may know."""
    try:
        value = execution.value()
    except Raised as raised:
        error = raised.error
        if isinstance(error, ToolError):
            words = _words(error)[:MAX_MESSAGE]
            return failed(call.name, str(error.code), words, retry=error.retry), None
        return _raised(call, error)
    try:
        return success(call.name, value), None
    except BaseException as odd:  # noqa: BLE001  # a tool's own classes are foreign code
        return refusal(call.name, unserialisable(odd)), _detail(odd)


def _words(error: BaseException) -> str:
    """Return the text of an exception; its class is foreign code, and may be broken."""
    try:
        return str(scrub(str(error)))
    except BaseException:  # noqa: BLE001  # see above
        return "(no message)"


def _detail(error: BaseException) -> str:
    return f"{type(error).__name__}: {_words(error)[:MAX_DETAIL]}"


def _raised(call: ToolCall, error: BaseException) -> tuple[JSON, str]:
    """Tell the model that a tool raised; a ValueError is taken to be about the arguments."""
    words, detail = _words(error), _detail(error)
    if isinstance(error, ValueError) and not isinstance(error, _NOT_ABOUT_ARGUMENTS):
        return failed(call.name, ErrorCode.ARGUMENT_ERROR, words[:MAX_MESSAGE]), detail
    message = "The tool itself failed. Go on without it, or try something else."
    return failed(call.name, ErrorCode.INTERNAL_ERROR, message), detail
