"""Giving up: when the model may report failure, and when the loop stops retrying.

Repeated calls are detected in a row and in cycles of any length:

    A A A            in a row, period 1
    A B A B A B      a cycle, period 2
    A B C A B C      period 3, and so on

A turn without calls breaks both. Calls of a `repeatable` tool, and calls for a need with `repeat`
in the contract, are no repetitions, and a cycle that contains one is none either.

While a need is unmet, the model may give up after a permanent failure:

    a tool failed for a reason other than its arguments ─┐► an answer ends the run with GAVE_UP
    a tool failed twice with the same error ─────────────┘  and does not count as premature

Failures superseded by a success of the same tool or call do not count, nor do calls that could
never have run. The reasons offered to the model are the errors of the tools, so it cannot invent
one. Arguments refused before a tool ran say nothing about the tool: after two equal refusals the
model is no longer re-prompted, but an answer fails with what is missing. After three failures in a
row of any kind, a guided model may answer.

If the model does not give up, the loop stops. A tool that reported `retry=False` does not run again
with the same arguments, and at most twice more with others. Two turns without progress after the
second equal failure end the run. Calls of `repeatable` tools are exempt.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from surecall.core.obligations import (
    HOPELESS_FAILURES,
    is_repetition,
    is_same_call,
    split_failures,
    unmet_obligation,
)
from surecall.core.state import Run, once_per_run
from surecall.values.errors import ErrorCode
from surecall.values.types import Assistant, Problem, ToolCall, ToolResult, is_blank

_CallKey: TypeAlias = tuple[str, bytes, int]
_TurnKey: TypeAlias = frozenset[_CallKey] | None


class Recurrence(NamedTuple):
    """How often a call recurs, including now, over how many turns, and with which period."""

    times: int = 1
    turns: int = 1
    period: int = 1

    @property
    def description(self) -> str:
        """Describe the recurrence, as in `3 times in a row`."""
        how = "in a row" if self.period == 1 else f"in a cycle of {self.period} steps"
        return f"{self.times} times {how}"


def is_safe_to_rerun(run: Run, call: ToolCall) -> bool:
    """Whether the tool of a call is read-only or idempotent."""
    return any(spec.may_repeat for spec in run.tools if spec.name == call.name)


def is_repeatable(run: Run, call: ToolCall) -> bool:
    """Whether a call is meant to be repeated, according to its tool or the contract."""
    contract = run.config.contract
    return any(spec.repeatable for spec in run.tools if spec.name == call.name) or (
        contract is not None and any(need.repeat and need.met_by(call) for need in contract.needs)
    )


@once_per_run
def before_last_reply(run: Run) -> Run:
    """Return the run as it was before the newest turn."""
    position = len(run.messages) - len(run.tail)
    return run.until(max(position - 1, run.start))


def call_recurrence(run: Run, call: ToolCall) -> Recurrence:
    """Return how often a call recurs if it is made in the next turn."""
    if is_repeatable(run, call):
        return Recurrence()
    if row := call_streak(run, call):
        return Recurrence(row + 1, row + 1)
    if not _was_called_before(run, call):
        return Recurrence()
    return _find_cycle(_turn_keys(run), _call_key(call))


def _was_called_before(run: Run, call: ToolCall) -> bool:
    """Whether a call was ever made before: a cheap test that spares most calls the search."""
    earlier = (one for reply in run.replies for one in reply.calls)
    return any(one.name == call.name and one.arguments == call.arguments for one in earlier)


def call_streak(run: Run, call: ToolCall) -> int:
    """Count the turns in a row, up to the newest, in which the same call was made."""
    count = 0
    for message in reversed(run.own_messages):
        if isinstance(message, Assistant):
            if not any(is_same_call(call, earlier) for earlier in message.calls):
                break
            count += 1
    return count


def _find_cycle(turns: Sequence[_TurnKey], key: _CallKey) -> Recurrence:
    """Return the shortest cycle that a call completes: at least two rounds of the same turns."""
    here = len(turns)
    for period in range(2, (here + 1) // 2 + 1):
        before = turns[here - period]
        if before is None or key not in before:
            continue
        same = 0
        while same + period < here and _is_same_turn(turns, here - 1 - same, period):
            same += 1
        if same >= period - 1:
            return Recurrence(2 + same // period, same + 1 + period, period)
    return Recurrence()


def _is_same_turn(turns: Sequence[_TurnKey], at: int, period: int) -> bool:
    """Whether a turn has the same calls as the one `period` turns before it."""
    return turns[at] is not None and turns[at] == turns[at - period]


@once_per_run
def _turn_keys(run: Run) -> list[_TurnKey]:
    """Return the calls of each turn as keys; None for a turn that breaks a cycle."""
    return [_turn_key(run, reply) for reply in run.replies]


def _turn_key(run: Run, reply: Assistant) -> _TurnKey:
    """Return what identifies the calls of a turn; None for a turn that breaks a cycle."""
    calls = [call for call in reply.calls if not call.is_ignored]
    if not calls or any(is_repeatable(run, call) for call in calls):
        return None
    return frozenset(map(_call_key, calls))


def _call_key(call: ToolCall) -> _CallKey:
    """Return what identifies a call: its tool and its arguments."""
    # Unparsable arguments are empty here; their size distinguishes two attempts.
    size = 0 if call.arguments else call.arguments_bytes
    return call.name, msgspec.json.encode(call.arguments, order="deterministic"), size


_FailureKey: TypeAlias = tuple[str, tuple[str, ...], str]
# These concern the arguments: other arguments may succeed.
ARGUMENT_CODES: Final = frozenset(
    {
        ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,
        ErrorCode.ARGUMENTS_TOO_LARGE,
        ErrorCode.ARGUMENTS_TRUNCATED,
        ErrorCode.ARGUMENT_ERROR,
        ErrorCode.TOOL_OUTPUT_TOO_DEEP,
        ErrorCode.TOOL_OUTPUT_TOO_LARGE,
    }
)
# How often a tool may still run, with other arguments, after it reported `retry=False`.
MAX_MORE_RUNS: Final = 2
# How many turns without progress are allowed after the second equal failure.
MAX_MORE_TURNS: Final = 2
MAX_REASONS: Final = 5
MAX_REASON_CHARS: Final = 200


@once_per_run
def give_up_reasons(run: Run) -> tuple[str, ...]:
    """Return the reasons for giving up, newest first; empty while that is not allowed or needed."""
    if unmet_obligation(run) is None:
        return ()
    failed = _unresolved_failures(run)
    alike = Counter(_failure_key(item) for item in failed if item.executed)
    for_good = [item for item in failed if _is_permanent(item) or alike[_failure_key(item)] > 1]
    return tuple(dict.fromkeys(map(failure_summary, reversed(for_good))))[:MAX_REASONS]


def has_conclusive_failure(run: Run) -> bool:
    """Whether a call failed permanently or twice alike, so that the model is not re-prompted."""
    alike = Counter(map(_failure_key, _unresolved_failures(run)))
    return bool(give_up_reasons(run)) or max(alike.values(), default=0) > 1


def is_hopeless(run: Run) -> bool:
    """Whether no success is to be expected, so that a guided model may answer."""
    newest = run.results[-HOPELESS_FAILURES:]
    in_a_row = len(newest) == HOPELESS_FAILURES and not any(item.ok for item in newest)
    return in_a_row or has_conclusive_failure(run)


def _unresolved_failures(run: Run) -> list[ToolResult]:
    """Return the results of the failures that no success superseded."""
    results = {result.call_id: result for result in run.results}
    return [results[call.id] for call in split_failures(run)[0]]


def _is_permanent(result: ToolResult) -> bool:
    return not result.retry or not ARGUMENT_CODES.issuperset(result.error_codes)


def failure_summary(result: ToolResult) -> str:
    """Return the errors of a failed call in short form."""
    errors = result.envelope.get("errors")
    words = [str(item["message"]) for item in errors or () if item.get("message")]
    text = " ".join(words) or ", ".join(result.error_codes) or "it failed"
    return f"{result.name}: {text}"[:MAX_REASON_CHARS]


def _failure_key(result: ToolResult) -> _FailureKey:
    """Return what identifies a failure: the tool and its errors."""
    return result.name, result.error_codes, failure_summary(result)


def permanent_failure(
    run: Run, call: ToolCall, new_results: Sequence[ToolResult] = ()
) -> Problem | None:
    """Return why a call does not run whose tool has reported `retry=False`."""
    results = (*run.results, *new_results)
    if all(result.retry for result in results):
        return None
    if call.problem is not None or is_repeatable(run, call):
        return None
    calls = {one.id: one for reply in run.replies for one in reply.calls}
    failed: list[ToolCall] = []
    for result in results:
        if result.name == call.name and result.executed:
            failed = [] if result.ok else failed + [calls[result.call_id]] * (not result.retry)
    if len(failed) <= MAX_MORE_RUNS and not any(is_same_call(call, one) for one in failed):
        return None
    message = (
        f"{call.name} reported that this call will not help. The call was not made again. "
        "Do something else, or say that it cannot be done."
    )
    return Problem(ErrorCode.TOOL_UNAVAILABLE, message)


def futile_tool(run: Run) -> str | None:
    """Return a tool that failed twice alike, after which two turns made no progress."""
    if all(result.ok for result in run.results):
        return None
    results = {result.call_id: result for result in run.results}
    seen: Counter[_FailureKey] = Counter()
    turns = 0
    for reply in run.replies:
        answered = [(call, results[call.id]) for call in reply.calls if call.id in results]
        before = _tools_failing_alike(seen)
        for call, result in answered:
            _count_failure(seen, result, again=is_repeatable(run, call))
        if not before or any(_is_progress(result, seen, before) for _, result in answered):
            turns = 0
        else:
            turns += bool(answered)
    return min(_tools_failing_alike(seen), default=None) if turns >= MAX_MORE_TURNS else None


def _count_failure(seen: Counter[_FailureKey], result: ToolResult, *, again: bool) -> None:
    """Count a failure; a success resets the count of its tool."""
    if result.ok and result.executed:
        for failure in [item for item in seen if item[0] == result.name]:
            del seen[failure]
    elif result.executed and not again:
        # A failure with `retry=False` counts as two.
        seen[_failure_key(result)] += 1 if result.retry else 2


def _tools_failing_alike(seen: Counter[_FailureKey]) -> set[str]:
    """Return the tools that failed twice with the same error."""
    return {name for (name, *_), times in seen.items() if times > 1}


def _is_progress(result: ToolResult, seen: Counter[_FailureKey], alike: set[str]) -> bool:
    """Whether a call made progress: another tool was tried, or this one behaved differently."""
    if result.executed:
        return result.ok or seen[_failure_key(result)] <= 1
    return result.name not in alike and not is_repetition(result)


def count_premature_answers(run: Run) -> int:
    """Count the premature answers: "Done." while a requirement was unmet.

    A text with an ambiguous call is no answer yet, and giving up for a reason is not premature.
    """
    if run.config.demands_nothing:
        return 0
    return sum(
        isinstance(reply, Assistant)
        and not reply.calls
        and not reply.claims
        and not is_blank(reply.text)
        and _is_premature(run.until(position))
        for position, reply in enumerate(run.messages[run.start :], start=run.start)
    )


def _is_premature(run: Run) -> bool:
    return unmet_obligation(run) is not None and not give_up_reasons(run)
