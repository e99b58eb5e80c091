"""ToolDispatcher: answers calls. The only code that runs an application's tools.

    call ─ has a problem? ─► refusal
         └ policy ─► still running? ─► refusal, or its late result (`answer_from_earlier`)
                  └ handler or executor, with a timeout ─► envelope ─► transforms, size guard

The model gets the message of a tool's exception without internals; the trace has the details.
"""

import asyncio
import functools
import json
import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from surecall.core.approvals import with_arguments
from surecall.core.effects import (
    EARLIER_OUTCOME_UNKNOWN,
    OUTCOME_UNKNOWN,
    UnknownOutcome,
    effect_of,
    execution_id,
)
from surecall.core.reply_parsing import resolve_call, resolve_given_call
from surecall.core.tool_results import (
    build_result,
    failure_envelope,
    refusal_envelope,
    success_envelope,
    unserializable_problem,
)
from surecall.runtime.execution import (
    Execution,
    LeftRunningTools,
    ToolThreadPool,
    UserCodeError,
    call_user_code,
)
from surecall.runtime.hooks import (
    AnyToolPolicy,
    Executor,
    accepts_call_id,
    accepts_tool,
    executor_context_parameter,
)
from surecall.runtime.retrying_requests import run_within_budget
from surecall.settings.config import ToolCallingConfig
from surecall.tools.context import Context
from surecall.tools.registry import Toolbox, ToolDefinition
from surecall.tools.signatures import is_async_callable
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError, ErrorCode, SurecallError, ToolError
from surecall.values.text import join_surrogates
from surecall.values.types import JSON, Problem, ToolCall, ToolResult

_STILL_RUNNING = Problem(
    ErrorCode.TOOL_STILL_RUNNING,
    "This call was made before, took too long, and is still running. It was not started again. "
    "Make it again later to get its result.",
)
_HOW_TO_WAIT = " To wait for its result, make the same call again."
_LATE_RESULT_NOTE = (
    "This call was made before and took too long. It has finished since then, and this is its "
    "result. The tool did not run again."
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
# Subclasses of ValueError that are not about the arguments; the model does not get their messages.
_NOT_ABOUT_ARGUMENTS = (UnicodeError, json.JSONDecodeError, SurecallError)
Work: TypeAlias = functools.partial[Any]


# A tool that raises one of these stopped waiting, for example for the response to a payment. It
# does not know whether it took effect.
_OPEN_ENDED: Final = (TimeoutError, asyncio.CancelledError)
_STOPPED_WAITING: Final = (
    "The tool stopped waiting before its work was done; it may have taken effect."
)


class ToolPolicyFailed(SurecallError):
    """A tool policy raised, and `policy_error_mode` is `raise`."""


OnPolicyError: TypeAlias = Callable[[BaseException, ToolCall], None]


def _ignore_policy_error(_error: BaseException, _call: ToolCall) -> None:
    """Ignore an error of the tool policy."""


class ReadyCall(msgspec.Struct, frozen=True):
    """A call that is ready to run. `began` is when it was made; blocking work needs a thread."""

    call: ToolCall
    work: Work
    limit_s: float
    began: float
    is_blocking: bool
    is_repeatable: bool


class EarlierExecution(msgspec.Struct, frozen=True):
    """A call answered by an earlier execution with the same effect, still running or finished."""

    call: ToolCall
    name: str
    execution: Execution
    limit_s: float
    began: float


class _BoundCall(NamedTuple):
    """A tool, and its handler or executor bound to the arguments of a call."""

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
        threads: ToolThreadPool | None = None,
        left_running: LeftRunningTools | None = None,
        run_id: str = "",
        on_policy_error: OnPolicyError = _ignore_policy_error,
    ) -> None:
        self._toolbox = toolbox
        self._config = config
        self._executor = executor
        self._is_async = executor is not None and is_async_callable(executor)
        self._policy = policy
        self._context = Context(context)
        self._threads = threads or ToolThreadPool()
        self._left_running = LeftRunningTools() if left_running is None else left_running
        self._run_id = run_id
        self._on_policy_error = on_policy_error

    def is_serial(self, call: ToolCall) -> bool:
        """Whether a call must not run concurrently with other serial calls."""
        tool = self._toolbox.resolve(call.name)
        return tool is not None and tool.serial

    async def execute(self, name: str, arguments: Any, tool_call_id: str = "") -> ToolResult:
        """Validate and answer a call; name and arguments may be anything."""
        judge = functools.partial(
            resolve_call, name.strip(), arguments, self._config, self._toolbox
        )
        call = await run_within_budget(lambda budget: judge(budget=budget))
        return await self.answer(msgspec.structs.replace(call, id=tool_call_id))

    async def answer(self, call: ToolCall, remaining_s: float | None = None) -> ToolResult:
        """Answer a validated call within its timeout and `remaining_s`.

        A call that needs human approval is refused.
        """
        began = time.perf_counter()
        remaining = math.inf if remaining_s is None else remaining_s
        decision = call.problem or await self.decide(call, remaining)
        if isinstance(decision, Decision) and decision.outcome == "replace":
            call = with_arguments(call, decision.arguments)
            decision = await self.decide(call, remaining)
        if isinstance(decision, Decision) and decision.outcome == "confirm":
            decision = _confirmation_required(decision)
        remaining -= time.perf_counter() - began if self.has_policy else 0.0
        ready = (
            decision if isinstance(decision, Problem) else self.prepare_call(call, remaining, began)
        )
        return await self.run(ready) if isinstance(ready, ReadyCall) else self.refuse(call, ready)

    @property
    def has_policy(self) -> bool:
        """Whether there is a tool policy."""
        return self._policy is not None

    async def decide(
        self, call: ToolCall, remaining_s: float, earlier_decision: Decision | None = None
    ) -> Decision | Problem:
        """Return the decision about a call, or the problem for which it is refused.

        A person's decision (`earlier_decision`) overrides `confirm` and `replace` of the policy.
        The policy can still deny the call.
        """
        if earlier_decision is not None and earlier_decision.outcome in {"deny", "confirm"}:
            return (
                earlier_decision
                if earlier_decision.outcome == "confirm"
                else _denial(earlier_decision)
            )
        bound = self._bind_call(call) if earlier_decision is None else self._rebind_call(call)
        if isinstance(bound, Problem):
            return bound
        if self._policy is None:
            return Decision.approve()
        decision = await self._ask_policy(self._policy, bound.tool, call, remaining_s)
        if isinstance(decision, Decision) and decision.outcome == "deny":
            return _denial(decision)
        is_open = isinstance(decision, Problem) or earlier_decision is None
        return decision if is_open else Decision.approve()

    def prepare_call(self, call: ToolCall, remaining_s: float, began: float) -> ReadyCall | Problem:
        """Return an allowed call ready to run, or the problem for which it is refused."""
        bound = self._bind_call(call)
        if isinstance(bound, Problem):
            return bound
        tool, work = bound
        limit_s = min(tool.timeout_s or self._config.tool_timeout_s, remaining_s)
        is_async = tool.is_async if tool.handler is not None else self._is_async
        again = tool.spec.may_repeat or tool.spec.repeatable
        ready = ReadyCall(call, work, limit_s, began, not is_async, again)
        return _NO_TIME if remaining_s <= 0 else self._left_running_problem(tool, ready) or ready

    def _bind_call(self, call: ToolCall) -> "_BoundCall | Problem":
        """Bind a call to its tool, or return the problem for which it cannot run."""
        tool = self._toolbox.resolve(call.name)
        if tool is None:  # the call was validated against another registry or mask
            return Problem(ErrorCode.TOOL_NOT_ALLOWED, f"There is no tool {call.name[:64]!r}.")
        try:
            return _BoundCall(tool, self._build_work(tool, call))
        except ToolError as error:
            return Problem(ErrorCode.ARGUMENT_ERROR, _error_text(error)[:MAX_MESSAGE])

    def _rebind_call(self, call: ToolCall) -> "_BoundCall | Problem":
        """Bind a call that was waiting; its tool may have changed since it was validated."""
        bound = self._bind_call(call)
        if isinstance(bound, Problem) or not self._config.validate_arguments:
            return bound
        errors = bound.tool.validate(call.arguments)
        message = f"{call.name} has changed. Fix the arguments: {'; '.join(errors)}"
        return Problem(ErrorCode.ARGUMENT_ERROR, message) if errors else bound

    def _left_running_problem(self, tool: ToolDefinition, ready: ReadyCall) -> Problem | None:
        """Return the problem if tools that were left running prevent a call."""
        if not self._left_running:
            return None
        if not tool.spec.may_repeat and self._left_running.has_running(
            self._effect_key(ready.call)
        ):
            return _STILL_RUNNING
        count = self._left_running.count(blocking=ready.is_blocking)
        return _TOO_MANY if count >= self._config.max_tools_left_running else None

    def _effect_key(self, call: ToolCall) -> Hashable:
        """Return a key that is equal for calls with the same effect in one run."""
        tool = self._toolbox.resolve(call.name)
        return self._run_id, effect_of(call, {} if tool is None else tool.spec.parameters)

    def earlier_execution(
        self, call: ToolCall, unknown_outcome: UnknownOutcome, remaining_s: float, began: float
    ) -> EarlierExecution | None:
        """Return the execution that a doubt is about, if it is running or its outcome is known."""
        execution = (
            self._left_running.find(unknown_outcome.execution) if self._left_running else None
        )
        if execution is None:
            return None
        tool = self._toolbox.resolve(call.name)
        limit_s = (tool and tool.timeout_s) or self._config.tool_timeout_s
        return EarlierExecution(
            call, unknown_outcome.execution, execution, min(limit_s, remaining_s), began
        )

    async def answer_from_earlier(self, earlier: EarlierExecution) -> ToolResult:
        """Wait for an earlier execution within the call's timeout, and answer with its result."""
        execution, call = earlier.execution, earlier.call
        if not await execution.wait_until_done(max(earlier.limit_s, 0.0)):
            refused = self.refuse(call, _STILL_RUNNING)
            return msgspec.structs.replace(refused, execution=earlier.name)
        if not execution.has_outcome:
            return self.refuse(call, EARLIER_OUTCOME_UNKNOWN)
        annotated = msgspec.structs.replace(call, warnings=(*call.warnings, _LATE_RESULT_NOTE))
        return self._build_result(
            annotated, *_outcome_envelope(annotated, execution), earlier.began
        )

    def refuse(self, call: ToolCall, problem: Problem) -> ToolResult:
        """Answer a call that is not allowed to run."""
        result = build_result(
            call, refusal_envelope(call.name, problem), self._config, executed=False
        )
        if problem is not OUTCOME_UNKNOWN:
            return result
        return msgspec.structs.replace(result, execution=execution_id(self._run_id, call))

    async def run(self, ready: ReadyCall) -> ToolResult:
        """Run a tool and answer its call."""
        execution = Execution(ready.work, self._threads, blocking=ready.is_blocking)
        name, ended = execution_id(self._run_id, ready.call), False
        try:
            ended = await execution.wait_for_outcome(ready.limit_s)
        finally:
            # A thread may end at any moment, including this one.
            is_left = not ended and (execution.is_running or execution.has_outcome)
            if is_left:
                self._left_running.add(name, self._effect_key(ready.call), execution)
        if ended:
            return self._build_result(
                ready.call, *_outcome_envelope(ready.call, execution), ready.began
            )
        envelope = _timeout_envelope(ready, is_still_running=is_left)
        result = self._build_result(ready.call, envelope, None, ready.began)
        return msgspec.structs.replace(result, execution=name) if is_left else result

    def _build_result(
        self, call: ToolCall, envelope: JSON, detail: str | None, began: float
    ) -> ToolResult:
        result = build_result(call, envelope, self._config, executed=True)
        elapsed_ms = round((time.perf_counter() - began) * 1000)
        return msgspec.structs.replace(result, elapsed_ms=elapsed_ms, detail=detail)

    def _build_work(self, tool: ToolDefinition, call: ToolCall) -> Work:
        """Return the handler or executor bound to the arguments of a call."""
        # A copy, so that a tool that changes its arguments does not change the transcript.
        arguments = msgspec.to_builtins(call.arguments)
        if tool.handler is not None:
            return functools.partial(
                tool.handler, **tool.bind(arguments) | self._context_argument(tool.context)
            )
        if self._executor is None:
            raise ConfigError(
                f"tool {tool.name!r} cannot run: give it a handler, or the dispatcher an executor"
            )
        wants_id, context = self._executor_parameters
        ids: dict[str, Any] = {"tool_call_id": call.id} if wants_id else {}
        keywords = ids | self._context_argument(context)
        return functools.partial(self._executor, tool.name, arguments, **keywords)

    @functools.cached_property
    def _executor_parameters(self) -> tuple[bool, str | None]:
        """Whether the executor takes the call's id, and its parameter for the run's context.

        Determined at the first call, because many runs make none.
        """
        if self._executor is None:
            return False, None
        return accepts_call_id(self._executor), executor_context_parameter(self._executor)

    def _context_argument(self, parameter: str | None) -> dict[str, Any]:
        """Return the run's context as a keyword argument; nothing if no parameter takes it."""
        return {} if parameter is None else {parameter: self._context}

    async def _ask_policy(
        self, policy: AnyToolPolicy, tool: ToolDefinition, call: ToolCall, remaining_s: float
    ) -> Decision | Problem:
        """Ask the tool policy about a call, and validate its decision."""
        authorize: Callable[..., Any] = policy.authorize
        if self._policy_accepts_tool:
            authorize = functools.partial(authorize, tool=tool.spec)
        try:
            decision = await call_user_code(
                remaining_s, authorize, call.with_copied_arguments(), self._context
            )
            return self._parse_decision(call, decision)
        except UserCodeError as raised:
            return self._handle_policy_error(raised.error, call)
        except Exception as error:  # noqa: BLE001  # a decision of user code, or a timeout
            return self._handle_policy_error(error, call)

    def _parse_decision(self, call: ToolCall, decision: Any) -> Decision:
        """Validate a policy's decision; arguments that the tool does not take are its error."""
        reason = join_surrogates(str(decision.reason))  # stored with the run
        match decision.outcome:
            case "allow" | "confirm" as outcome:
                return Decision(outcome, reason)
            case "replace":
                validated = resolve_given_call(
                    call.name, decision.arguments, self._config, self._toolbox
                )
                if validated.problem is not None:
                    raise ValueError(validated.problem.message)
                return Decision("replace", reason, validated.arguments)
            case outcome:
                if outcome != "deny":  # probably a typo: deny to be safe
                    self._on_policy_error(ValueError(f"{outcome!r} is not a decision"), call)
                return Decision("deny", reason)

    @functools.cached_property
    def _policy_accepts_tool(self) -> bool:
        return self._policy is not None and accepts_tool(self._policy)

    def _handle_policy_error(self, error: BaseException, call: ToolCall) -> Decision | Problem:
        """Decide about a call whose policy raised, by `policy_error_mode`."""
        self._on_policy_error(error, call)
        match self._config.policy_error_mode:
            case "allow":
                return Decision.approve()
            case "deny":
                return Problem(ErrorCode.TOOL_POLICY_ERROR, "This call could not be checked.")
            case "raise":
                raise ToolPolicyFailed(f"the tool policy raised {type(error).__name__}") from error


def _denial(decision: Decision) -> Problem:
    """Return the problem of a call that was denied."""
    message = f"This call is not permitted. {decision.reason}".strip()
    return Problem(ErrorCode.TOOL_POLICY_DENIED, message, _decision_as_details(decision))


def _confirmation_required(decision: Decision) -> Problem:
    """Return the problem of a call that needs approval."""
    message = f"A person must confirm this call first. {decision.reason}".strip()
    return Problem(ErrorCode.TOOL_CONFIRMATION_REQUIRED, message, _decision_as_details(decision))


def _decision_as_details(decision: Decision) -> JSON:
    return {"policy": {"outcome": decision.outcome, "reason": decision.reason}}


def _timeout_envelope(ready: ReadyCall, *, is_still_running: bool) -> JSON:
    ends = "was asked to stop; it may have taken effect."
    if is_still_running:
        ends = f"is still running.{'' if ready.is_repeatable else _HOW_TO_WAIT}"
    message = f"The tool did not finish within {ready.limit_s:g} s and {ends}"
    return failure_envelope(ready.call.name, ErrorCode.TOOL_TIMEOUT, message)


def _outcome_envelope(call: ToolCall, execution: Execution) -> tuple[JSON, str | None]:
    """Return the envelope of a finished tool, and details for the trace."""
    try:
        value = execution.value()
    except UserCodeError as raised:
        error = raised.error
        if isinstance(error, ToolError):
            words = _error_text(error)[:MAX_MESSAGE]
            return failure_envelope(call.name, str(error.code), words, retry=error.retry), None
        return _error_envelope(call, error)
    try:
        return success_envelope(call.name, value), None
    except BaseException as odd:  # noqa: BLE001  # the value's class is user code
        return refusal_envelope(call.name, unserializable_problem(odd)), _detailed_error_text(odd)


def _error_text(error: BaseException) -> str:
    """Return the text of an exception, whose `__str__` is user code and may raise."""
    try:
        return join_surrogates(str(error))
    except BaseException:  # noqa: BLE001  # see above
        return "(no message)"


def _detailed_error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {_error_text(error)[:MAX_DETAIL]}"


def _error_envelope(call: ToolCall, error: BaseException) -> tuple[JSON, str]:
    """Return the error envelope for an exception; a ValueError is about the arguments."""
    words, detail = _error_text(error), _detailed_error_text(error)
    if isinstance(error, ValueError) and not isinstance(error, _NOT_ABOUT_ARGUMENTS):
        return failure_envelope(call.name, ErrorCode.ARGUMENT_ERROR, words[:MAX_MESSAGE]), detail
    if isinstance(error, _OPEN_ENDED):
        return failure_envelope(call.name, ErrorCode.TOOL_TIMEOUT, _STOPPED_WAITING), detail
    message = "The tool itself failed. Continue without it, or try something else."
    return failure_envelope(call.name, ErrorCode.INTERNAL_ERROR, message), detail
