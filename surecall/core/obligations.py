"""Which requirements a run has not met yet, and which answers came before they were met.

A requirement comes from the mode (a tool must be called), from failures not followed by a success,
or from the contract. Everything is derived from the transcript, once for each `Run`. What is said
to an early answer is in `early_answers`; what is offered meanwhile, in `offer`.
"""

from collections.abc import Iterable
from functools import partial

import msgspec

from surecall.core.seen import found_at
from surecall.core.state import Run, once_per_run
from surecall.settings.config import ToolFailurePolicy, ToolUseMode
from surecall.settings.contract import Progress, in_words
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, ToolCall, ToolResult

# A call that could never have run is the model's slip, not a failed tool.
PROTOCOL_CODES = frozenset(
    {
        ErrorCode.ARGUMENT_NOT_SEEN,
        ErrorCode.TOOL_NOT_ALLOWED,
        ErrorCode.TOOL_NOT_YET,
        ErrorCode.TOOL_CALL_NOT_EXECUTED,
        ErrorCode.REPEATED_CALL,
        ErrorCode.TOOL_CALL_LIMIT,
    }
)


# A call that failed with one of these may have taken effect, or was denied: it is not demanded.
NOT_TO_REPEAT = frozenset(
    {
        ErrorCode.CALL_NOT_RECORDED,
        ErrorCode.CALL_OUTCOME_UNKNOWN,
        ErrorCode.INTERNAL_ERROR,
        ErrorCode.TOOL_CONFIRMATION_REQUIRED,
        ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,
        ErrorCode.TOOL_OUTPUT_TOO_DEEP,
        ErrorCode.TOOL_OUTPUT_TOO_LARGE,
        ErrorCode.TOOL_POLICY_DENIED,
        ErrorCode.TOOL_POLICY_ERROR,
        ErrorCode.TOOL_STILL_RUNNING,
        ErrorCode.TOOL_TIMEOUT,
        ErrorCode.TOOL_UNAVAILABLE,
        ErrorCode.TOO_MANY_LEFT_RUNNING,
    }
)
# After this many failed calls in a row a model may say that it cannot do it.
HOPELESS = 3


class Obligation(msgspec.Struct, frozen=True):
    """An unmet need, the reason why a final answer would not count.

    `message` is for people, `wanted` for the model. A successful call to one of `tools` makes
    progress. If it is not `demandable`, the loop does not push for it: the run fails when the model
    ends it.
    """

    code: ErrorCode
    message: str
    wanted: str
    tools: tuple[str, ...] = ()
    details: JSON = {}
    demandable: bool = True


@once_per_run
def progress(run: Run) -> Progress:
    """Return how far the contract is met; without a contract nothing is missing."""
    contract = run.config.contract
    if contract is None:
        return Progress()
    return contract.given(partial(found_at, run)).progress(run.done)


@once_per_run
def unmet(run: Run) -> Obligation | None:
    """Return what a run still has to do; None if a final answer would count now."""
    if run.config.demands_nothing:
        return None
    if missing := progress(run).missing:
        words = in_words(missing)
        later = progress(run).later
        tools = _to_demand(run, [name for name in progress(run).next_tools if name not in later])
        return Obligation(
            ErrorCode.CONTRACT_UNMET,
            f"contract not met: still missing {words}",
            _success(words),
            tools,
            {"missing": names_of(missing)} | _failed(run),
            bool(tools),
        )
    return _unmet_by_mode(run) if run.config.tool_use_mode is ToolUseMode.ENFORCED else None


def names_of(missing: Iterable[Iterable[object]]) -> list[list[str]]:
    """Write missing needs as plain data, for the details of an error."""
    return [[str(need) for need in needs] for needs in missing]


def _success(words: str) -> str:
    return f"a successful call of {words}"


def _to_demand(run: Run, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of some tools that are available and whose last failure allows a repetition."""
    offered = {spec.name for spec in run.tools}
    answers = {call.name: result for call, result in run.answered_calls}
    forbidden = {
        name
        for name, last in answers.items()
        if not last.retry or NOT_TO_REPEAT.intersection(last.error_codes)
    }
    return tuple(name for name in names if name in offered - forbidden)


def _unmet_by_mode(run: Run) -> Obligation | None:
    """Return what an enforced run still has to do, apart from its contract."""
    if not run.called:
        message = "the model answered without calling any tool"
        return Obligation(ErrorCode.NO_TOOL_CALLS, message, "a call of a tool")
    details = _failed(run)
    failed = tuple(details["failed_tools"])
    if run.config.tool_failure_policy is ToolFailurePolicy.FATAL and failed:
        words = ", ".join(failed)
        message = f"tools failed and were not repaired: {words}"
        tools = _to_demand(run, failed)
        # If one of them must not be repeated, no call that could be demanded would help.
        hopeful = len(tools) == len(failed)
        return Obligation(ErrorCode.TOOL_ERROR, message, _success(words), tools, details, hopeful)
    if not any(result.ok for result in run.results):
        message, wanted = "no tool call succeeded", _success("a tool")
        tools = _to_demand(run, [spec.name for spec in run.tools])
        return Obligation(ErrorCode.TOOL_ERROR, message, wanted, tools, details, bool(tools))
    return None


def _failed(run: Run) -> JSON:
    failed, superseded = failures(run)
    return {
        "tool_failure_policy": run.config.tool_failure_policy.value,
        "failed_tools": sorted({call.name for call in failed}),
        "superseded_tools": sorted({call.name for call in superseded}),
    }


def failures(run: Run) -> tuple[list[ToolCall], list[ToolCall]]:
    """Return the failures not followed by a success, and those that were.

    A success counts for a failure if it came later from the same tool, or at any time from the
    same call.
    """
    pairs = run.answered_calls
    last_success = {call.name: at for at, (call, result) in enumerate(pairs) if result.ok}
    done = [call for call, result in pairs if result.ok]
    failed: list[ToolCall] = []
    superseded: list[ToolCall] = []
    for position, (call, result) in enumerate(pairs):
        if result.ok or is_slip(result):
            continue
        redeemed = last_success.get(call.name, -1) > position or any(
            same_call(call, other) for other in done
        )
        (superseded if redeemed else failed).append(call)
    return failed, superseded


def same_call(call: ToolCall, other: ToolCall) -> bool:
    """Whether a call was made before: the same tool with the same arguments."""
    return (
        call.name == other.name
        and call.arguments == other.arguments
        # Arguments that could not be read are empty here; their size tells two attempts apart.
        and (call.arguments_bytes == other.arguments_bytes or bool(call.arguments))
        and not other.ignored
    )


def is_wanted(run: Run, call: ToolCall) -> bool:
    """Whether the contract asks for this call, even if it was made before."""
    return any(need.met_by(call) for needs in progress(run).missing for need in needs)


def is_slip(result: ToolResult) -> bool:
    """Whether a call could never have run: that says nothing about its tool."""
    return not result.executed and bool(PROTOCOL_CODES.intersection(result.error_codes))


def is_repetition(result: ToolResult) -> bool:
    """Whether a call was only made again: it was barred, or answered from the record."""
    again = result.ok and not result.executed
    return again or ErrorCode.REPEATED_CALL in result.error_codes
