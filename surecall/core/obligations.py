"""What a run still owes before a final answer counts, and what was said too early.

A debt comes from the mode (a call must be made), from failures that nothing made up for, or from
the contract. It is derived from the transcript alone; the ladder in `policy` answers it.
"""

from collections.abc import Iterable

import msgspec

from surecall.core.state import Run
from surecall.settings.config import ToolFailurePolicy, ToolUseMode
from surecall.settings.contract import in_words
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Assistant, ToolCall

# A call that could never have run is the model's slip, not a failed tool.
PROTOCOL_CODES = frozenset(
    {
        ErrorCode.TOOL_NOT_ALLOWED,
        ErrorCode.TOOL_CALL_NOT_EXECUTED,
        ErrorCode.REPEATED_CALL,
        ErrorCode.TOOL_CALL_LIMIT,
    }
)


# What failed so may have taken effect all the same, or was denied: it is not demanded again.
NOT_TO_REPEAT = frozenset(
    {
        ErrorCode.INTERNAL_ERROR,
        ErrorCode.TOOL_CONFIRMATION_REQUIRED,
        ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR,
        ErrorCode.TOOL_OUTPUT_TOO_DEEP,
        ErrorCode.TOOL_OUTPUT_TOO_LARGE,
        ErrorCode.TOOL_POLICY_DENIED,
        ErrorCode.TOOL_POLICY_ERROR,
        ErrorCode.TOOL_TIMEOUT,
    }
)
# A model whose calls fail so often in a row may say that it cannot do it.
HOPELESS = 3


class Debt(msgspec.Struct, frozen=True):
    """Why a final answer would not count: for people, and (`wanted`) for the model.

    A success of one of `tools` would bring the run on. Unless it is `demandable`, nobody insists:
    the run fails when the model ends it.
    """

    code: ErrorCode
    message: str
    wanted: str
    tools: tuple[str, ...] = ()
    details: JSON = {}
    demandable: bool = True


def owed(run: Run) -> Debt | None:
    """Say what a run still owes; nothing if a final answer would count now."""
    contract = run.config.contract
    if contract is not None and (missing := contract.missing(run.done)):
        words = in_words(missing)
        details = {"missing": [[str(need) for need in needs] for needs in missing]}
        tools = _to_demand(run, contract.next_tools(run.done))
        return Debt(
            ErrorCode.CONTRACT_UNMET,
            f"the contract is not met, missing is: {words}",
            _success(words),
            tools,
            details | _failed(run),
            bool(tools),
        )
    return _unmet(run) if run.config.tool_use_mode is ToolUseMode.ENFORCED else None


def _success(words: str) -> str:
    return f"a successful call of {words}"


def _to_demand(run: Run, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of some tools that are on offer, and whose last failure does not forbid it."""
    offered = {spec.name for spec in run.tools}
    answers = {call.name: result for call, result in run.answered_calls}
    forbidden = {
        name for name, last in answers.items() if NOT_TO_REPEAT.intersection(last.error_codes)
    }
    return tuple(name for name in names if name in offered - forbidden)


def is_hopeless(run: Run) -> bool:
    """Whether the newest calls have all failed, so often that nothing else is to be expected."""
    newest = run.results[-HOPELESS:]
    return len(newest) == HOPELESS and not any(result.ok for result in newest)


def _unmet(run: Run) -> Debt | None:
    """Say what an enforced run owes, whatever the contract."""
    if not run.called:
        message = "the model answered without calling any tool"
        return Debt(ErrorCode.NO_TOOL_CALLS, message, "a call of a tool")
    details = _failed(run)
    failed = tuple(details["failed_tools"])
    if run.config.tool_failure_policy is ToolFailurePolicy.FATAL and failed:
        words = ", ".join(failed)
        message = f"tools failed and were not repaired: {words}"
        tools = _to_demand(run, failed)
        # One that is not to be repeated cannot be made up for: nothing that is demanded would help.
        hopeful = len(tools) == len(failed)
        return Debt(ErrorCode.TOOL_ERROR, message, _success(words), tools, details, hopeful)
    if not any(result.ok for result in run.results):
        message = "no tool call succeeded"
        tools = _to_demand(run, [spec.name for spec in run.tools])
        return Debt(ErrorCode.TOOL_ERROR, message, _success("a tool"), tools, details, bool(tools))
    return None


def _failed(run: Run) -> JSON:
    failed, superseded = failures(run)
    return {
        "tool_failure_policy": run.config.tool_failure_policy.value,
        "failed_tools": sorted({call.name for call in failed}),
        "superseded_tools": sorted({call.name for call in superseded}),
    }


def failures(run: Run) -> tuple[list[ToolCall], list[ToolCall]]:
    """Return the calls that failed for good, and those that a success made up for.

    A success makes up for a failure when it came later from the same tool, or at any time from
    the very same call.
    """
    pairs = run.answered_calls
    last_success = {call.name: at for at, (call, result) in enumerate(pairs) if result.ok}
    done = [call for call, result in pairs if result.ok]
    failed: list[ToolCall] = []
    superseded: list[ToolCall] = []
    for position, (call, result) in enumerate(pairs):
        slip = not result.executed and PROTOCOL_CODES.intersection(result.error_codes)
        if result.ok or slip:
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
        # What could not be read is empty here; its size tells one attempt from another.
        and (call.arguments_bytes == other.arguments_bytes or bool(call.arguments))
        and not other.ignored
    )


def false_finals(run: Run) -> int:
    """Count the answers that came while something was owed: "Done." with nothing done."""
    return sum(
        isinstance(said, Assistant)
        and not said.calls
        and bool(said.text.strip())
        and owed(run.until(position)) is not None
        for position, said in enumerate(run.messages[run.start :], start=run.start)
    )
