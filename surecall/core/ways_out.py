"""The honest way out: when a model may say that it cannot be done, and what ends a run in vain.

    a tool failed for a reason that is not its arguments ─┐► the way out is open: an answer ends
    a tool failed in the same way twice ──────────────────┘  the run with GAVE_UP, and is not early

Failures that were followed by a success of the same tool, or of the same call, do not count, and
neither do calls that could never have run. The way out matters only while a need is unmet: where
none is, every answer counts. Its reasons are what the tools have said, so that none is invented.
Calls whose arguments were refused before a tool ran say nothing about the tool: after two alike an
answer is no longer argued with, but it fails with what is missing. After three failures in a row of
any kind a guided model may answer, too.

A model that does not take it is not asked for ever. A tool that has said `retry=False` does not run
again with the same arguments, and at most twice more with others. Two turns in vain after the
second equal failure end the run. What is meant to be repeated (`repeatable`) is left alone.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from surecall.core.obligations import (
    HOPELESS,
    failures,
    is_repetition,
    same_call,
    unmet,
)
from surecall.core.repetition import is_repeatable
from surecall.core.state import Run, once_per_run
from surecall.values.errors import ErrorCode
from surecall.values.types import Assistant, Problem, ToolCall, ToolResult, is_blank

_Failure: TypeAlias = tuple[str, tuple[str, ...], str]
# What these say is about the arguments: others may help.
ABOUT_ARGUMENTS: Final = frozenset(
    {
        ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,
        ErrorCode.ARGUMENTS_TOO_LARGE,
        ErrorCode.ARGUMENTS_TRUNCATED,
        ErrorCode.ARGUMENT_ERROR,
        ErrorCode.TOOL_OUTPUT_TOO_DEEP,
        ErrorCode.TOOL_OUTPUT_TOO_LARGE,
    }
)
# How often a tool may still run, with other arguments, after it has said that this will not help.
MORE_RUNS: Final = 2
# How many turns in vain are left after the second equal failure.
MORE_TURNS: Final = 2
MOST_REASONS: Final = 5
LONGEST_REASON: Final = 200


@once_per_run
def way_out(run: Run) -> tuple[str, ...]:
    """Return why a model may give up, newest first; nothing while it may not or need not."""
    if unmet(run) is None:
        return ()
    failed = _failed(run)
    alike = Counter(_failure(item) for item in failed if item.executed)
    for_good = [item for item in failed if _is_for_good(item) or alike[_failure(item)] > 1]
    return tuple(dict.fromkeys(map(said_of, reversed(for_good))))[:MOST_REASONS]


def is_settled(run: Run) -> bool:
    """Whether a call has failed so that nothing is demanded any more: for good, or twice alike."""
    alike = Counter(map(_failure, _failed(run)))
    return bool(way_out(run)) or max(alike.values(), default=0) > 1


def is_hopeless(run: Run) -> bool:
    """Whether a success is not to be expected, so that a guided model may answer as well."""
    newest = run.results[-HOPELESS:]
    in_a_row = len(newest) == HOPELESS and not any(item.ok for item in newest)
    return in_a_row or is_settled(run)


def _failed(run: Run) -> list[ToolResult]:
    """Return the failures that were not followed by a success."""
    results = {result.call_id: result for result in run.results}
    return [results[call.id] for call in failures(run)[0]]


def _is_for_good(result: ToolResult) -> bool:
    return not result.retry or not ABOUT_ARGUMENTS.issuperset(result.error_codes)


def said_of(result: ToolResult) -> str:
    """Return in short what was said about a call that failed."""
    errors = result.envelope.get("errors")
    words = [str(item["message"]) for item in errors or () if item.get("message")]
    text = " ".join(words) or ", ".join(result.error_codes) or "it failed"
    return f"{result.name}: {text}"[:LONGEST_REASON]


def _failure(result: ToolResult) -> _Failure:
    return result.name, result.error_codes, said_of(result)


def gone_for_good(run: Run, call: ToolCall, fresh: Sequence[ToolResult] = ()) -> Problem | None:
    """Return why a call does not run whose tool has said that making it again will not help."""
    results = (*run.results, *fresh)
    if all(result.retry for result in results):
        return None
    if call.problem is not None or is_repeatable(run, call):
        return None
    asked = {one.id: one for said in run.said for one in said.calls}
    dead: list[ToolCall] = []
    for result in results:
        if result.name == call.name and result.executed:
            dead = [] if result.ok else dead + [asked[result.call_id]] * (not result.retry)
    if len(dead) <= MORE_RUNS and not any(same_call(call, one) for one in dead):
        return None
    message = (
        f"{call.name} has said that this will not help. The call was not made again. "
        "Do something else, or say that it cannot be done."
    )
    return Problem(ErrorCode.TOOL_UNAVAILABLE, message)


def in_vain(run: Run) -> str | None:
    """Return the tool that keeps failing alike, if two turns in vain came after it did so twice."""
    if all(result.ok for result in run.results):
        return None
    results = {result.call_id: result for result in run.results}
    seen: Counter[_Failure] = Counter()
    turns = 0
    for said in run.said:
        answered = [(call, results[call.id]) for call in said.calls if call.id in results]
        before = _alike(seen)
        for call, result in answered:
            _count(seen, result, again=is_repeatable(run, call))
        if not before or any(_is_new(result, seen, before) for _, result in answered):
            turns = 0
        else:
            turns += bool(answered)
    return min(_alike(seen), default=None) if turns >= MORE_TURNS else None


def _count(seen: Counter[_Failure], result: ToolResult, *, again: bool) -> None:
    """Count a failure; a success makes the failures of its tool forgotten."""
    if result.ok and result.executed:
        for failure in [item for item in seen if item[0] == result.name]:
            del seen[failure]
    elif result.executed and not again:
        # A tool that says so itself need not say it twice.
        seen[_failure(result)] += 1 if result.retry else 2


def _alike(seen: Counter[_Failure]) -> set[str]:
    """Return the tools that have failed in the same way twice."""
    return {name for (name, *_), times in seen.items() if times > 1}


def _is_new(result: ToolResult, seen: Counter[_Failure], alike: set[str]) -> bool:
    """Whether something came of a call: another tool was tried, or this one behaved otherwise."""
    if result.executed:
        return result.ok or seen[_failure(result)] <= 1
    return result.name not in alike and not is_repetition(result)


def false_finals(run: Run) -> int:
    """Count the early answers: "Done." while something was still to be done.

    A text with a doubtful call in it is no answer yet, and giving up for a reason is not early.
    """
    if run.config.demands_nothing:
        return 0
    return sum(
        isinstance(said, Assistant)
        and not said.calls
        and not said.claims
        and not is_blank(said.text)
        and _is_early(run.until(position))
        for position, said in enumerate(run.messages[run.start :], start=run.start)
    )


def _is_early(run: Run) -> bool:
    return unmet(run) is not None and not way_out(run)
