"""The rules of a run: which calls may run, when to stop, and what counts as an answer."""

import msgspec

from surecall.core.obligations import Debt, owed, same_call
from surecall.core.offer import offers_tools
from surecall.core.state import OBJECTION, Done, Fail, Run
from surecall.settings.config import ToolUseMode
from surecall.settings.contract import in_words
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import (
    Assistant,
    Message,
    Problem,
    Refusal,
    Reply,
    ToolCall,
    ToolResult,
    User,
)


def admit(run: Run, reply: Reply) -> Assistant:
    """Turn a reply into the model's turn: calls beyond a limit are marked and will not run."""
    if not offers_tools(run):
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
    wanted = _is_wanted(run, call)
    if (wanted or config.block_repeated_success) and _just_succeeded(run, call):
        if wanted:
            return call
        message = "You made this very call just now, and it succeeded. Do what comes next."
        return _barred(call, ErrorCode.REPEATED_CALL, message)
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


def _just_succeeded(run: Run, call: ToolCall) -> bool:
    """Whether the same call succeeded in the newest turn with calls, or was only barred since."""
    if _is_repeatable(run, call):
        return False
    results = {result.call_id: result for result in run.results}
    for message in reversed(run.said):
        same = [earlier for earlier in message.calls if same_call(call, earlier)]
        if message.calls and not same:
            return False
        if any(results[earlier.id].ok for earlier in same if earlier.id in results):
            return True
    return False


def _is_wanted(run: Run, call: ToolCall) -> bool:
    """Whether the contract asks for this very call, though it was made before."""
    contract = run.config.contract
    missing = () if contract is None else contract.missing(run.done)
    return any(need.met_by(call) for needs in missing for need in needs)


def _is_repeatable(run: Run, call: ToolCall) -> bool:
    return any(spec.repeatable for spec in run.tools if spec.name == call.name)


def streak(run: Run, call: ToolCall) -> int:
    """Count the turns in a row, up to the newest, in which the same call was made."""
    if _is_repeatable(run, call):
        return 0
    count = 0
    for message in reversed(run.own):
        if isinstance(message, Assistant):
            if not any(same_call(call, earlier) for earlier in message.calls):
                break
            count += 1
    return count


def follow_up(run: Run, said: Assistant) -> tuple[Message, ...]:
    """Return what the loop says to an answer that does not count: a step of the ladder, or none.

    An empty answer to a run that owes nothing is asked for once more.
    """
    if said.calls or run.turn >= run.config.max_turns:
        return ()
    debt = owed(run)
    if debt is not None and (step := _next_step(run, debt)):
        return (User(_corrected(debt), nudge=True, rung=step),)
    empty = not said.text.strip() and run.called and not run.nudged
    # After a ladder, whoever still owes something could not repay it without tools.
    config = run.config
    in_vain = debt is not None and config.final_ladder and config.fix_empty_final_disable_tools
    if empty and not in_vain and config.fix_empty_final:
        return (User(config.fix_empty_final_user_text, nudge=True),)
    return ()


def _next_step(run: Run, debt: Debt) -> str | None:
    """Return the step that is due: a debt is answered by the whole ladder, and only once.

    Whoever tries what is demanded, and fails, is met with the whole ladder again.
    """
    if not debt.demandable:
        return None
    words, taken = _corrected(debt), 0
    for message in reversed(run.own):
        if isinstance(message, ToolResult) and _is_attempt(message, debt):
            break
        taken += isinstance(message, User) and bool(message.rung) and message.content == words
    ladder = run.config.final_ladder
    return ladder[taken] if taken < len(ladder) else None


def _is_attempt(result: ToolResult, debt: Debt) -> bool:
    return result.name in debt.tools and ErrorCode.REPEATED_CALL not in result.error_codes


def _corrected(debt: Debt) -> str:
    return (
        f"This is not finished. Still missing: {debt.wanted}. "
        "Make the call now, and answer when it has succeeded."
    )


def objection(run: Run, reason: str) -> Message:
    """Return what an application's objection to an answer becomes: a step, or the end."""
    made = sum(isinstance(item, User) and item.rung == OBJECTION for item in run.own)
    if made >= len(run.config.final_ladder):
        return Refusal(Fault(ErrorCode.CONTRACT_UNMET, f"the answer was not accepted: {reason}"))
    stop = "" if reason.rstrip().endswith((".", "!", "?")) else "."
    text = f"This answer cannot be accepted: {reason.rstrip()}{stop} Correct it."
    return User(text, nudge=True, rung=OBJECTION)


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
    if (absent := _out_of_reach(run)) is not None:
        return absent
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


def _out_of_reach(run: Run) -> Fail | None:
    """Say which part of the contract no tool on offer can meet."""
    if run.config.contract is None:
        return None
    offers = run.config.tool_use_mode is not ToolUseMode.DISABLED
    offered = [spec.name for spec in run.tools] if offers else []
    missing = run.config.contract.out_of_reach(offered, run.done)
    if not missing:
        return None
    message = f"the contract needs tools that are not on offer: {in_words(missing)}"
    details = {"missing": [[str(need) for need in needs] for needs in missing]}
    return Fail(ErrorCode.CONTRACT_UNMET, message, details)


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
        and owed(run) is None
        and refusal.fault.code is ErrorCode.NO_TOOL_USE_ENDPOINT
        and refusals <= run.config.fallback_retry_count
    )


def verdict(run: Run, said: Assistant) -> Done | Fail:
    """Judge a turn without calls: an answer, or the reason why it is none."""
    if (debt := owed(run)) is not None:
        return Fail(debt.code, debt.message, debt.details)
    if said.text.strip():
        reason = said.finish_reason
        return Done(said.text, reason if reason in {"length", "content_filter"} else "final")
    if not run.config.fix_empty_final:
        return Done(said.text, "empty_final")
    why = " (it was cut off by the token limit)" if said.finish_reason == "length" else ""
    return Fail(ErrorCode.EMPTY_FINAL, f"the final answer is empty{why}")
