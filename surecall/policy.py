"""The rules of a run: which calls may run, when to stop, and what counts as an answer."""

import msgspec

from surecall.config import ToolFailurePolicy, ToolUseMode
from surecall.errors import ErrorCode
from surecall.state import Done, Fail, Run
from surecall.types import Assistant, Problem, Refusal, Reply, ToolCall, User

# A call that could never have run is the model's slip, not a failed tool.
PROTOCOL_CODES = frozenset(
    {
        ErrorCode.TOOL_NOT_ALLOWED,
        ErrorCode.TOOL_CALL_NOT_EXECUTED,
        ErrorCode.REPEATED_CALL,
        ErrorCode.TOOL_CALL_LIMIT,
    }
)


def admit(run: Run, reply: Reply) -> Assistant:
    """Turn a reply into the model's turn: calls beyond a limit are marked and will not run."""
    if not run.offers_tools:
        return Assistant(reply.text, (), reply.calls, reply.finish_reason, reply.extra)
    calls: list[ToolCall] = []
    used = sum(result.executed for result in run.results) if reply.calls else 0
    for position, call in enumerate(reply.calls):
        calls.append(_admit_call(run, position, used, call))
        used += calls[-1].problem is None
    return Assistant(reply.text, tuple(calls), (), reply.finish_reason, reply.extra)


def _admit_call(run: Run, position: int, used: int, call: ToolCall) -> ToolCall:
    config = run.config
    if run.calls_per_turn is not None and position >= run.calls_per_turn:
        message = "Only the first calls of a turn run. Make this call again if you still need it."
        return _barred(call, ErrorCode.TOOL_CALL_NOT_EXECUTED, message)
    if call.problem is not None:
        return call
    if used >= config.max_total_tool_calls:
        return _barred(call, ErrorCode.TOOL_CALL_LIMIT, "No more tool calls are left in this run.")
    times = streak(run, call) + 1
    if times >= config.repeat_block_at:
        message = (
            f"You made this very call {times} times in a row. Use its result, or do otherwise."
        )
        return _barred(call, ErrorCode.REPEATED_CALL, message)
    if times >= config.repeat_note_at:
        note = f"You have made this very call {times} times in a row."
        return msgspec.structs.replace(call, warnings=(*call.warnings, note))
    return call


def _barred(call: ToolCall, code: ErrorCode, message: str) -> ToolCall:
    return msgspec.structs.replace(call, problem=Problem(code, message))


def streak(run: Run, call: ToolCall) -> int:
    """Count the turns in a row, up to the newest, in which the same call was made."""
    if any(spec.repeatable for spec in run.tools if spec.name == call.name):
        return 0
    count = 0
    for message in reversed(run.own):
        if isinstance(message, Assistant):
            if not any(_same(call, earlier) for earlier in message.calls):
                break
            count += 1
    return count


def _same(call: ToolCall, other: ToolCall) -> bool:
    return (
        call.name == other.name
        and call.arguments == other.arguments
        # What could not be read is empty here; its size tells one attempt from another.
        and (call.arguments_bytes == other.arguments_bytes or bool(call.arguments))
        and not other.ignored
    )


def wants_nudge(run: Run, said: Assistant) -> bool:
    """Whether an empty final answer is to be asked for once more."""
    return (
        run.config.fix_empty_final
        and not said.calls
        and not said.text.strip()
        and run.called
        and not run.nudged
    )


def nudge(run: Run) -> User:
    """Return the request for the final answer."""
    return User(run.config.fix_empty_final_user_text, nudge=True)


def halted(run: Run) -> Fail | None:
    """Say whether another request is out of the question: one failed for good, or a limit."""
    if isinstance(run.last, Refusal) and not _may_ask_without_tools(run, run.last):
        fault = run.last.fault
        return Fail(fault.code, fault.message, fault=fault)
    return _limit(run)


def _limit(run: Run) -> Fail | None:
    config = run.config
    if config.tool_use_mode is ToolUseMode.ENFORCED and not run.tools:
        return Fail(ErrorCode.NO_TOOL_CALLS, "a tool must be called, but none is on offer")
    if run.turn >= config.max_turns:
        return Fail(ErrorCode.MAX_TURNS_EXCEEDED, f"no final answer after {run.turn} turns")
    # A tool that ran may use the same words in its own errors; they mean nothing here.
    refusals = [result for result in run.results if not result.executed]
    codes = [code for result in refusals for code in result.error_codes]
    if codes.count(ErrorCode.TOOL_NOT_ALLOWED) > config.max_unknown_tool_calls:
        return Fail(
            ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED, "the model keeps naming tools that do not exist"
        )
    if ErrorCode.TOOL_CALL_LIMIT in codes:
        message = f"more than {config.max_total_tool_calls} tool calls in one run"
        return Fail(ErrorCode.MAX_TOOL_CALLS_EXCEEDED, message)
    # Nobody means more calls in one turn than may run in all; comparing them all would not end.
    for call in _newest_calls(run)[: config.max_total_tool_calls]:
        if streak(run, call) >= config.repeat_stop_at:
            message = f"{call.name} was called with the same arguments again and again"
            return Fail(ErrorCode.LOOP_DETECTED, message, {"tool_name": call.name})
    return None


def _newest_calls(run: Run) -> tuple[ToolCall, ...]:
    for message in reversed(run.own):
        if isinstance(message, Assistant):
            return message.calls
    return ()


def _may_ask_without_tools(run: Run, refusal: Refusal) -> bool:
    """Whether a request that was refused because of its tools may go out again without them."""
    refusals = sum(isinstance(message, Refusal) for message in run.tail)
    return (
        run.config.tool_use_mode is ToolUseMode.RELAXED
        and refusal.fault.code is ErrorCode.NO_TOOL_USE_ENDPOINT
        and refusals <= run.config.fallback_retry_count
    )


def verdict(run: Run, said: Assistant) -> Done | Fail:
    """Judge a turn without calls: an answer, or the reason why it is none."""
    if run.config.tool_use_mode is ToolUseMode.ENFORCED and (fail := _unmet(run)) is not None:
        return fail
    if said.text.strip():
        reason = said.finish_reason
        return Done(said.text, reason if reason in {"length", "content_filter"} else "final")
    if not run.config.fix_empty_final:
        return Done(said.text, "empty_final")
    why = " (it was cut off by the token limit)" if said.finish_reason == "length" else ""
    return Fail(ErrorCode.EMPTY_FINAL, f"the final answer is empty{why}")


def _unmet(run: Run) -> Fail | None:
    """Say what an enforced run still owes."""
    if not run.called:
        return Fail(ErrorCode.NO_TOOL_CALLS, "the model answered without calling any tool")
    policy = run.config.tool_failure_policy
    failed, superseded = failures(run)
    details = {
        "tool_failure_policy": policy.value,
        "failed_tools": sorted({call.name for call in failed}),
        "superseded_tools": sorted({call.name for call in superseded}),
    }
    if policy is ToolFailurePolicy.FATAL and failed:
        names = ", ".join(details["failed_tools"])
        return Fail(ErrorCode.TOOL_ERROR, f"tools failed and were not repaired: {names}", details)
    if not any(result.ok for result in run.results):
        return Fail(ErrorCode.TOOL_ERROR, "no tool call succeeded", details)
    return None


def failures(run: Run) -> tuple[list[ToolCall], list[ToolCall]]:
    """Return the calls that failed for good, and those that a success made up for.

    A success makes up for a failure when it came later from the same tool, or at any time from
    the very same call.
    """
    results = {result.call_id: result for result in run.results}
    pairs = [
        (call, results[call.id])
        for message in run.said
        for call in message.calls
        if call.id in results
    ]
    last_success = {call.name: at for at, (call, result) in enumerate(pairs) if result.ok}
    done = [call for call, result in pairs if result.ok]
    failed: list[ToolCall] = []
    superseded: list[ToolCall] = []
    for position, (call, result) in enumerate(pairs):
        slip = not result.executed and PROTOCOL_CODES.intersection(result.error_codes)
        if result.ok or slip:
            continue
        redeemed = last_success.get(call.name, -1) > position or any(
            _same(call, other) for other in done
        )
        (superseded if redeemed else failed).append(call)
    return failed, superseded
