"""The rules of a run: which calls may run, when to stop, and what counts as an answer."""

import msgspec

from surecall.core.groundings import grounds, ungrounded
from surecall.core.obligations import is_wanted, names_of, progress, same_call, unmet
from surecall.core.offer import offers_tools
from surecall.core.promised_calls import missing_call
from surecall.core.repetition import before_newest, is_repeatable, may_repeat, recurrence
from surecall.core.seen import returned
from surecall.core.state import Done, Fail, Run
from surecall.core.typed_answers import form_problem, misfit
from surecall.core.ways_out import in_vain, way_out
from surecall.settings.config import ToolUseMode
from surecall.settings.contract import in_words
from surecall.values.errors import ErrorCode
from surecall.values.types import (
    Assistant,
    Problem,
    Refusal,
    Reply,
    ToolCall,
    ToolResult,
    is_blank,
)
from surecall.wire.finish_reasons import Ending, ending_of

_GO_ON = "You made this exact call already, and its result has not changed. Go on from there."
_NOTHING_THERE = "You made this exact call already, and there was nothing. Use other arguments."
# What an answer that is not whole is called.
_STOP_REASONS = {Ending.CUT_OFF: "length", Ending.FILTERED: "content_filter"}


def admit(run: Run, reply: Reply) -> Assistant:
    """Turn a reply into the model's turn: calls beyond a limit are marked and will not run."""
    if not offers_tools(run):
        said = Assistant(reply.text, (), reply.calls, reply.finish_reason, reply.extra)
        return _signed(run, said)
    calls: list[ToolCall] = []
    used = sum(result.executed for result in run.results) if reply.calls else 0
    several = len(reply.calls) > 1
    most = (run.calls_per_turn if several else None) or len(reply.calls)
    for position, call in enumerate(reply.calls):
        calls.append(_admit_call(run, used, call) if position < most else _one_too_many(call))
        used += calls[-1].problem is None
    said = Assistant(reply.text, tuple(calls), (), reply.finish_reason, reply.extra, reply.claims)
    return _signed(run, said)


def _signed(run: Run, said: Assistant) -> Assistant:
    """Say where a turn comes from, if it carries state that only that place may see again."""
    if not (said.extra or any(call.extra for call in said.calls)):
        return said
    return msgspec.structs.replace(said, origin=run.origin)


def _one_too_many(call: ToolCall) -> ToolCall:
    message = "Only the first calls of a turn run. Make this call again if you still need it."
    return _barred(call, ErrorCode.TOOL_CALL_NOT_EXECUTED, message)


def _admit_call(run: Run, used: int, call: ToolCall) -> ToolCall:
    config = run.config
    if (problem := _not_now(run, used, call)) is not None:
        return msgspec.structs.replace(call, problem=problem)
    if known := grounds(run, call):
        call = msgspec.structs.replace(call, grounds=known)
    wanted = is_wanted(run, call)
    # A write is answered from the record instead.
    blocks = config.endpoint.block_repeated_success and may_repeat(run, call)
    if (wanted or blocks) and (before := _just_succeeded(run, call)) is not None:
        if wanted:
            return call
        message = _GO_ON if returned(before) else _NOTHING_THERE
        return _barred(call, ErrorCode.REPEATED_CALL, message)
    again = recurrence(run, call)
    if again.times >= config.repeat_block_at:
        message = f"You made this exact call {again.words}. Use its result, or do something else."
        return _barred(call, ErrorCode.REPEATED_CALL, message)
    if again.times >= config.repeat_note_at:
        note = f"You have made this exact call {again.words}."
        return msgspec.structs.replace(call, warnings=(*call.warnings, note))
    return call


def _not_now(run: Run, used: int, call: ToolCall) -> Problem | None:
    """Say why a call cannot be made, or not yet: its turn has not come, its values are made up."""
    if call.problem is not None:
        return call.problem
    if used >= run.config.max_total_tool_calls:
        return Problem(ErrorCode.TOOL_CALL_LIMIT, "No more tool calls are left in this run.")
    if (first := progress(run).later.get(call.name)) is not None:
        message = f"{call.name} comes later: call {first} first."
        return Problem(ErrorCode.TOOL_NOT_YET, message)
    return ungrounded(run, call)


def _barred(call: ToolCall, code: ErrorCode, message: str) -> ToolCall:
    return msgspec.structs.replace(call, problem=Problem(code, message))


def _just_succeeded(run: Run, call: ToolCall) -> ToolResult | None:
    """Return how the same call has just succeeded, in the newest turn that called anything.

    A call that only looks changes nothing, so the same look-up is still known after others.
    """
    if is_repeatable(run, call):
        return None
    looks = {spec.name for spec in run.tools if spec.read_only}
    results = {result.call_id: result for result in run.results}
    for message in reversed(run.said):
        same = [earlier for earlier in message.calls if same_call(call, earlier)]
        for earlier in same:
            if earlier.id in results and results[earlier.id].ok:
                return results[earlier.id]
        others = {earlier.name for earlier in message.calls if earlier not in same}
        if others and not {call.name, *others} <= looks:
            return None
    return None


def halted(run: Run) -> Fail | None:
    """Say why there is no further request: the last one failed for good, or a limit is reached."""
    if isinstance(run.last, Refusal) and not _may_ask_without_tools(run, run.last):
        fault = run.last.fault
        return Fail(fault.code, fault.message, fault=fault)
    return _limit(run)


def _limit(run: Run) -> Fail | None:
    config = run.config
    if config.tool_use_mode is ToolUseMode.ENFORCED and not run.tools:
        return Fail(ErrorCode.NO_TOOL_CALLS, "a tool must be called, but none is available")
    if (absent := _out_of_reach(run)) is not None:
        return absent
    if run.turn >= config.max_turns:
        return Fail(ErrorCode.MAX_TURNS_EXCEEDED, f"no final answer after {run.turn} turns")
    # A tool that ran may use the same words in its own errors; they mean nothing here.
    refusals = [result for result in run.results if not result.executed]
    codes = [code for result in refusals for code in result.error_codes]
    if refusals and _turns_in_vain(run, refusals) > config.max_unknown_tool_calls:
        return Fail(
            ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED, "the model keeps naming tools that do not exist"
        )
    if ErrorCode.TOOL_CALL_LIMIT in codes:
        message = f"more than {config.max_total_tool_calls} tool calls in one run"
        return Fail(ErrorCode.MAX_TOOL_CALLS_EXCEEDED, message)
    return _loop(run)


def _loop(run: Run) -> Fail | None:
    """Say that the model goes round in circles, if it does."""
    if (name := in_vain(run)) is not None:
        message = f"{name} failed in the same way again and again"
        return Fail(ErrorCode.LOOP_DETECTED, message, {"tool_name": name})
    if run.turn < run.config.repeat_stop_at:
        return None
    # A turn with more calls than may run in all is not meant; comparing them all takes too long.
    for call in run.said[-1].calls[: run.config.max_total_tool_calls]:
        if _goes_on_and_on(run, call):
            message = f"{call.name} was called with the same arguments again and again"
            return Fail(ErrorCode.LOOP_DETECTED, message, {"tool_name": call.name})
    return None


def _goes_on_and_on(run: Run, call: ToolCall) -> bool:
    """Whether a call of the newest turn has recurred too often, in a row or in a circle."""
    config = run.config
    again = recurrence(before_newest(run), call)
    # A circle ends when a whole round of it was blocked.
    return again.turns >= max(config.repeat_stop_at, config.repeat_block_at * again.period)


def _turns_in_vain(run: Run, refusals: list[ToolResult]) -> int:
    """Count the turns that named a tool that does not exist.

    What is told about a turn is read after all of it, so ten such calls at once are one mistake.
    """
    unknown = ErrorCode.TOOL_NOT_ALLOWED
    refused = {result.call_id for result in refusals if unknown in result.error_codes}
    return sum(any(call.id in refused for call in turn.calls) for turn in run.said)


def _out_of_reach(run: Run) -> Fail | None:
    """Say which part of the contract no available tool can meet."""
    if run.config.contract is None:
        return None
    offers = run.config.tool_use_mode is not ToolUseMode.DISABLED
    missing = progress(run).out_of_reach([spec.name for spec in run.tools] if offers else [])
    if not missing:
        return None
    message = f"the contract needs tools that are not available: {in_words(missing)}"
    return Fail(ErrorCode.CONTRACT_UNMET, message, {"missing": names_of(missing)})


def _may_ask_without_tools(run: Run, refusal: Refusal) -> bool:
    """Whether a request that was refused because of its tools may go out again without them."""
    refusals = sum(isinstance(message, Refusal) for message in run.tail)
    return (
        run.config.tool_use_mode is ToolUseMode.RELAXED
        and unmet(run) is None
        and refusal.fault.code is ErrorCode.NO_TOOL_USE_ENDPOINT
        and refusals <= run.config.fallback_retry_count
    )


def verdict(run: Run, said: Assistant) -> Done | Fail:
    """Judge a turn without calls: a final answer, or the reason why it does not count."""
    if (need := unmet(run)) is not None:
        if (reasons := way_out(run)) and not is_blank(said.text):
            message = f"the model gave up after a call had failed for good ({reasons[0]})"
            details = need.details | {"unmet": need.code, "reasons": list(reasons)}
            return Fail(ErrorCode.GAVE_UP, message, details)
        return Fail(need.code, need.message, need.details)
    if why := missing_call(run, said):
        return Fail(ErrorCode.CALL_MISSING, why)
    ending = ending_of(said.finish_reason)
    if not is_blank(said.text):
        return _form_failure(run) or Done(said.text, _STOP_REASONS.get(ending, "final"))
    if not run.config.fix_empty_final:
        return _form_failure(run) or Done(said.text, "empty_final")
    why = " (it was cut off by the token limit)" if ending is Ending.CUT_OFF else ""
    return Fail(ErrorCode.EMPTY_FINAL, f"the final answer is empty{why}")


def _form_failure(run: Run) -> Fail | None:
    """Say that an answer does not have the type that it is to have."""
    reason = form_problem(run)
    return Fail(ErrorCode.OUTPUT_INVALID, misfit(reason)) if reason else None
