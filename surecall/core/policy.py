"""The rules of a run: which calls are allowed, when to stop, and what counts as an answer."""

import msgspec

from surecall.core.cut_calls import has_refused_limit, has_used_turns
from surecall.core.exposed_tools import exposes_tools, missing_call_reason
from surecall.core.giving_up import (
    before_last_reply,
    call_recurrence,
    futile_tool,
    give_up_reasons,
    is_repeatable,
    is_safe_to_rerun,
)
from surecall.core.guided.grounding import find_sources, grounding_problem
from surecall.core.obligations import (
    contract_progress,
    is_same_call,
    is_wanted_by_contract,
    need_names,
    unmet_obligation,
)
from surecall.core.observed_values import returned_data
from surecall.core.state import Fail, Finish, Run
from surecall.core.tool_search import as_search
from surecall.core.typed_answers import answer_problem, mismatch_message
from surecall.settings.config import ToolUseMode
from surecall.settings.contract import describe_missing
from surecall.values.errors import ErrorCode
from surecall.values.types import Assistant, Problem, Refusal, Reply, ToolCall, ToolResult, is_blank
from surecall.wire.finish_reasons import FinishKind, finish_kind

_REPEATED_CALL = (
    "You made this exact call already, and its result has not changed. Go on from there."
)
_REPEATED_EMPTY_CALL = (
    "You made this exact call already, and there was nothing. Use other arguments."
)
# The stop reasons of incomplete answers.
_STOP_REASONS = {FinishKind.CUT_OFF: "length", FinishKind.FILTERED: "content_filter"}


def build_turn(run: Run, reply: Reply) -> Assistant:
    """Return a reply as a turn, with a problem on each call that is not allowed to run."""
    if not exposes_tools(run):
        turn = Assistant(reply.text, (), reply.calls, reply.finish_reason, reply.extra)
        return _with_origin(run, turn)
    calls: list[ToolCall] = []
    used = sum(result.executed for result in run.results) if reply.calls else 0
    several = len(reply.calls) > 1
    most = (run.max_calls_per_turn if several else None) or len(reply.calls)
    for call in reply.calls:
        if (search := as_search(run, call)) is not None:
            calls.append(search)
            most += 1
            continue
        allowed = len(calls) < most
        calls.append(_check_call(run, used, call) if allowed else _reject_excess_call(call))
        used += calls[-1].problem is None
    turn = Assistant(reply.text, tuple(calls), (), reply.finish_reason, reply.extra, reply.claims)
    return _with_origin(run, turn)


def _with_origin(run: Run, turn: Assistant) -> Assistant:
    """Record the origin of a turn whose provider state may only be sent back to that origin."""
    if not (turn.extra or any(call.extra for call in turn.calls)):
        return turn
    return msgspec.structs.replace(turn, origin=run.origin)


def _reject_excess_call(call: ToolCall) -> ToolCall:
    message = "Only the first calls of a turn run. Make this call again if you still need it."
    return _reject_call(call, ErrorCode.TOOL_CALL_NOT_EXECUTED, message)


def _check_call(run: Run, executed_calls: int, call: ToolCall) -> ToolCall:
    """Return a call with the sources of its arguments, or with the problem that it has."""
    config = run.config
    if (problem := _call_problem(run, executed_calls, call)) is not None:
        return msgspec.structs.replace(call, problem=problem)
    if known := find_sources(run, call):
        call = msgspec.structs.replace(call, grounds=known)
    wanted = is_wanted_by_contract(run, call)
    # A repeated write is answered with its recorded result instead.
    blocks = config.endpoint.block_repeated_success and is_safe_to_rerun(run, call)
    if (wanted or blocks) and (before := _recent_success(run, call)) is not None:
        if wanted:
            return call
        message = _REPEATED_CALL if returned_data(before) else _REPEATED_EMPTY_CALL
        return _reject_call(call, ErrorCode.REPEATED_CALL, message)
    again = call_recurrence(run, call)
    if again.times >= config.repeat_block_at:
        message = (
            f"You made this exact call {again.description}. Use its result, or do something else."
        )
        return _reject_call(call, ErrorCode.REPEATED_CALL, message)
    if again.times >= config.repeat_note_at:
        note = f"You have made this exact call {again.description}."
        return msgspec.structs.replace(call, warnings=(*call.warnings, note))
    return call


def _call_problem(run: Run, executed_calls: int, call: ToolCall) -> Problem | None:
    """Return why a call is not allowed, or not yet: wrong order, or values made up."""
    if call.problem is not None:
        return call.problem
    if executed_calls >= run.config.max_total_tool_calls:
        return Problem(ErrorCode.TOOL_CALL_LIMIT, "No more tool calls are left in this run.")
    if (first := contract_progress(run).later.get(call.name)) is not None:
        message = f"{call.name} comes later: call {first} first."
        return Problem(ErrorCode.TOOL_NOT_YET, message)
    return grounding_problem(run, call)


def _reject_call(call: ToolCall, code: ErrorCode, message: str) -> ToolCall:
    """Return a call with a problem, so that it does not run."""
    return msgspec.structs.replace(call, problem=Problem(code, message))


def _recent_success(run: Run, call: ToolCall) -> ToolResult | None:
    """Return the success of the same call in the newest turn with calls.

    Read-only calls change nothing, so earlier turns count if all calls since are read-only.
    """
    if is_repeatable(run, call):
        return None
    looks = {spec.name for spec in run.tools if spec.read_only}
    results = {result.call_id: result for result in run.results}
    for message in reversed(run.replies):
        same = [earlier for earlier in message.calls if is_same_call(call, earlier)]
        for earlier in same:
            if earlier.id in results and results[earlier.id].ok:
                return results[earlier.id]
        others = {earlier.name for earlier in message.calls if earlier not in same}
        if others and not {call.name, *others} <= looks:
            return None
    return None


def stop_failure(run: Run) -> Fail | None:
    """Return why no further request is sent: a permanent failure or a limit."""
    if isinstance(run.last_message, Refusal) and not _can_retry_refused(run, run.last_message):
        fault = run.last_message.fault
        return Fail(fault.code, fault.message, fault=fault)
    return _limit_failure(run)


def _limit_failure(run: Run) -> Fail | None:
    config = run.config
    if config.tool_use_mode is ToolUseMode.ENFORCED and not run.tools:
        return Fail(ErrorCode.NO_TOOL_CALLS, "a tool must be called, but none is available")
    if (absent := _unreachable_contract(run)) is not None:
        return absent
    if run.counted_turns >= config.max_turns and has_used_turns(run):
        message = f"no final answer after {run.counted_turns} turns"
        return Fail(ErrorCode.MAX_TURNS_EXCEEDED, message)
    # A tool that ran may use the same codes in its own errors; those are ignored here.
    refusals = [result for result in run.results if not result.executed]
    codes = [code for result in refusals for code in result.error_codes]
    if refusals and _count_unknown_tool_turns(run, refusals) > config.max_unknown_tool_calls:
        return Fail(
            ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED, "the model keeps calling tools that do not exist"
        )
    if ErrorCode.TOOL_CALL_LIMIT in codes:
        message = f"more than {config.max_total_tool_calls} tool calls in one run"
        return Fail(ErrorCode.MAX_TOOL_CALLS_EXCEEDED, message)
    return _loop_failure(run)


def _loop_failure(run: Run) -> Fail | None:
    """Return the failure of a run that makes no progress."""
    if (name := futile_tool(run)) is not None:
        message = f"{name} kept failing with the same error"
        return Fail(ErrorCode.LOOP_DETECTED, message, {"tool_name": name})
    if run.turn_count < run.config.repeat_stop_at:
        return None
    # Comparing more calls than a run may make would take too long.
    for call in run.replies[-1].calls[: run.config.max_total_tool_calls]:
        if _recurs_too_often(run, call):
            message = f"{call.name} was called repeatedly with the same arguments"
            return Fail(ErrorCode.LOOP_DETECTED, message, {"tool_name": call.name})
    return None


def _recurs_too_often(run: Run, call: ToolCall) -> bool:
    """Whether a call of the newest turn has recurred too often, in a row or in a cycle."""
    config = run.config
    again = call_recurrence(before_last_reply(run), call)
    # A cycle ends the run after a whole round of it was blocked.
    return again.turns >= max(config.repeat_stop_at, config.repeat_block_at * again.period)


def _count_unknown_tool_turns(run: Run, refusals: list[ToolResult]) -> int:
    """Count the turns that called a tool that does not exist.

    The model sees the errors only after the whole turn, so several such calls are one mistake.
    """
    unknown = ErrorCode.TOOL_NOT_ALLOWED
    refused = {result.call_id for result in refusals if unknown in result.error_codes}
    return sum(any(call.id in refused for call in turn.calls) for turn in run.replies)


def _unreachable_contract(run: Run) -> Fail | None:
    """Return the failure of a contract that no available tool can meet."""
    if run.config.contract is None:
        return None
    offers = run.config.tool_use_mode is not ToolUseMode.DISABLED
    missing = contract_progress(run).unreachable(
        [spec.name for spec in run.tools] if offers else []
    )
    if not missing:
        return None
    message = f"the contract requires tools that are not available: {describe_missing(missing)}"
    return Fail(ErrorCode.CONTRACT_UNMET, message, {"missing": need_names(missing)})


def _can_retry_refused(run: Run, refusal: Refusal) -> bool:
    """Whether a refused request may be retried without its tools, or with its former limit."""
    if has_refused_limit(run):
        return True
    refusals = sum(isinstance(message, Refusal) for message in run.tail)
    return (
        run.config.tool_use_mode is ToolUseMode.RELAXED
        and unmet_obligation(run) is None
        and refusal.fault.code is ErrorCode.NO_TOOL_USE_ENDPOINT
        and refusals <= run.config.fallback_retry_count
    )


def judge_answer(run: Run, reply: Assistant) -> Finish | Fail:
    """Return the final answer of a turn without calls, or the reason why it does not count."""
    if (need := unmet_obligation(run)) is not None:
        if (reasons := give_up_reasons(run)) and not is_blank(reply.text):
            message = f"the model gave up after a call failed permanently ({reasons[0]})"
            details = need.details | {"unmet": need.code, "reasons": list(reasons)}
            return Fail(ErrorCode.GAVE_UP, message, details)
        return Fail(need.code, need.message, need.details)
    if reason := missing_call_reason(run, reply):
        return Fail(ErrorCode.CALL_MISSING, reason)
    ending = finish_kind(reply.finish_reason)
    if not is_blank(reply.text):
        return _type_failure(run) or Finish(reply.text, _STOP_REASONS.get(ending, "final"))
    if not run.config.fix_empty_final:
        return _type_failure(run) or Finish(reply.text, "empty_final")
    reason = " (it was cut off by the token limit)" if ending is FinishKind.CUT_OFF else ""
    return Fail(ErrorCode.EMPTY_FINAL, f"the final answer is empty{reason}")


def _type_failure(run: Run) -> Fail | None:
    """Return the failure of an answer that does not have the required type."""
    reason = answer_problem(run)
    return Fail(ErrorCode.OUTPUT_INVALID, mismatch_message(reason)) if reason else None
