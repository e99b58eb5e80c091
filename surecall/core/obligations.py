"""Unmet requirements of a run.

A requirement comes from the mode (a tool must be called), from failures not followed by a success,
or from the contract. Everything is derived from the transcript, once for each `Run`. The response
to a premature answer is in `premature_answers`; the tools exposed meanwhile, in `exposed_tools`.
"""

from collections.abc import Iterable
from functools import partial

import msgspec

from surecall.core.observed_values import values_at_source
from surecall.core.state import Run, once_per_run
from surecall.settings.config import ToolFailurePolicy, ToolUseMode
from surecall.settings.contract import Contract, ContractProgress, describe_missing
from surecall.values.errors import ErrorCode
from surecall.values.json_equality import equality_key
from surecall.values.types import JSON, ToolCall, ToolResult

# A call that could never have run is a mistake of the model, not a failed tool.
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


# A call that failed with one of these may have taken effect or was denied: it is not requested.
NO_REPEAT_CODES = frozenset(
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
# After this many failed calls in a row, a guided model may answer.
HOPELESS_FAILURES = 3


class Obligation(msgspec.Struct, frozen=True):
    """An unmet requirement, because of which a final answer would not count.

    `message` is for people, `wanted` for the model. A successful call to one of `tools` makes
    progress. If it is not `demandable`, the model is not prompted for it: the run fails when the
    model ends it.
    """

    code: ErrorCode
    message: str
    wanted: str
    tools: tuple[str, ...] = ()
    details: JSON = {}
    demandable: bool = True


_NOTHING_MISSING = ContractProgress()


def contract_progress(run: Run) -> ContractProgress:
    """Return how far the contract is met; without a contract nothing is missing."""
    contract = run.config.contract
    return _NOTHING_MISSING if contract is None else _derive_progress(run)


@once_per_run
def _derive_progress(run: Run) -> ContractProgress:
    contract = run.config.contract or Contract()
    return contract.with_values(partial(values_at_source, run)).progress(run.successful_calls)


def unmet_obligation(run: Run) -> Obligation | None:
    """Return the requirement that is not met; None if a final answer would count now."""
    return None if run.config.demands_nothing else _derive_unmet(run)


@once_per_run
def _derive_unmet(run: Run) -> Obligation | None:
    if missing := contract_progress(run).missing:
        words = describe_missing(missing)
        later = contract_progress(run).later
        tools = _demandable_tools(
            run, [name for name in contract_progress(run).next_tools if name not in later]
        )
        return Obligation(
            ErrorCode.CONTRACT_UNMET,
            f"contract not met: still missing {words}",
            _required_success(words),
            tools,
            {"missing": need_names(missing)} | _failure_details(run),
            bool(tools),
        )
    return _unmet_by_mode(run) if run.config.tool_use_mode is ToolUseMode.ENFORCED else None


def need_names(missing: Iterable[Iterable[object]]) -> list[list[str]]:
    """Return missing needs as plain data, for the details of an error."""
    return [[str(need) for need in needs] for needs in missing]


def _required_success(tools: str) -> str:
    """Describe what is missing: a successful call of these tools."""
    return f"a successful call of {tools}"


def _demandable_tools(run: Run, names: Iterable[str]) -> tuple[str, ...]:
    """Return the tools that are available and whose last failure allows another call."""
    offered = {spec.name for spec in run.tools}
    answers = {call.name: result for call, result in run.answered_calls}
    forbidden = {
        name
        for name, last in answers.items()
        if not last.retry or NO_REPEAT_CODES.intersection(last.error_codes)
    }
    return tuple(name for name in names if name in offered - forbidden)


def _unmet_by_mode(run: Run) -> Obligation | None:
    """Return the unmet requirement of an enforced run, apart from its contract."""
    if not run.has_called_tools:
        message = "the model answered without calling any tool"
        return Obligation(ErrorCode.NO_TOOL_CALLS, message, "a call of a tool")
    details = _failure_details(run)
    failed = tuple(details["failed_tools"])
    if run.config.tool_failure_policy is ToolFailurePolicy.FATAL and failed:
        words = ", ".join(failed)
        message = f"tools failed without a later success: {words}"
        tools = _demandable_tools(run, failed)
        # If one of them must not be repeated, no other call would help.
        hopeful = len(tools) == len(failed)
        return Obligation(
            ErrorCode.TOOL_ERROR, message, _required_success(words), tools, details, hopeful
        )
    if not any(result.ok for result in run.results):
        message, wanted = "no tool call succeeded", _required_success("a tool")
        tools = _demandable_tools(run, [spec.name for spec in run.tools])
        return Obligation(ErrorCode.TOOL_ERROR, message, wanted, tools, details, bool(tools))
    return None


def _failure_details(run: Run) -> JSON:
    """Return the failed tools and the policy about them, for the details of an error."""
    failed, superseded = split_failures(run)
    return {
        "tool_failure_policy": run.config.tool_failure_policy.value,
        "failed_tools": sorted({call.name for call in failed}),
        "superseded_tools": sorted({call.name for call in superseded}),
    }


def split_failures(run: Run) -> tuple[list[ToolCall], list[ToolCall]]:
    """Return the failures not superseded by a success, and those that were.

    A later success of the same tool supersedes a failure, as does any success of the same call.
    """
    pairs = run.answered_calls
    last_success = {call.name: at for at, (call, result) in enumerate(pairs) if result.ok}
    done = [call for call, result in pairs if result.ok]
    failed: list[ToolCall] = []
    superseded: list[ToolCall] = []
    for position, (call, result) in enumerate(pairs):
        if result.ok or is_protocol_error(result):
            continue
        redeemed = last_success.get(call.name, -1) > position or any(
            is_same_call(call, other) for other in done
        )
        (superseded if redeemed else failed).append(call)
    return failed, superseded


def is_same_call(call: ToolCall, other: ToolCall) -> bool:
    """Whether two calls have the same tool and arguments; 1 equals 1.0."""
    return (
        call.name == other.name
        and call.arguments == other.arguments
        and equality_key(call.arguments) == equality_key(other.arguments)  # true is not 1
        # Unparsable arguments are empty here; their size distinguishes two attempts.
        and (call.arguments_bytes == other.arguments_bytes or bool(call.arguments))
        and not other.is_ignored
    )


def is_wanted_by_contract(run: Run, call: ToolCall) -> bool:
    """Whether the contract still requires this call, even if it was made before."""
    return any(need.met_by(call) for needs in contract_progress(run).missing for need in needs)


def is_protocol_error(result: ToolResult) -> bool:
    """Whether a call could never have run, so that its failure says nothing about the tool."""
    return not result.executed and bool(PROTOCOL_CODES.intersection(result.error_codes))


def is_repetition(result: ToolResult) -> bool:
    """Whether a call was a repetition: it was refused, or answered with its recorded result."""
    again = result.ok and not result.executed and result.found is None
    return again or ErrorCode.REPEATED_CALL in result.error_codes
