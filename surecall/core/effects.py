"""Effects happen at most once: which calls must not run, because they may have run already.

    begun, no recorded end ─► its outcome is unknown; the model is told so
    the id of a call that ran, same tool, same arguments ─► answered from the record
    same tool, same arguments, and it has succeeded ─► answered from the record

A tool that is read-only or idempotent may run again; so its calls always do. The last rule leaves
alone what is meant to be repeated: a `repeatable` tool, a need of the contract that says `repeat`,
and a call that the contract still asks for, because it names it twice.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from surecall.core.repetition import is_repeatable, may_repeat
from surecall.core.state import Run, once_per_run
from surecall.core.ways_out import gone_for_good
from surecall.values.errors import ErrorCode
from surecall.values.types import Problem, ToolCall, ToolResult
from surecall.wire.messages import encode

UNKNOWN: Final = Problem(
    ErrorCode.CALL_OUTCOME_UNKNOWN,
    "This call had begun when the run was interrupted. Nobody knows whether it took effect. It was "
    "not run again. Find out what happened before you make it again.",
)
UNRECORDED: Final = Problem(
    ErrorCode.CALL_NOT_RECORDED,
    "The application could not record this call, so the tool did not run. Nothing can be done "
    "about that here; say so.",
)
_AGAIN = "This is the result of an earlier call with the same id; the tool did not run again."
_MADE = (
    "This exact call was made before in this run, and it succeeded. It was not made again; this is "
    "the result that it had then."
)


def _is_harmless(run: Run, call: ToolCall) -> bool:
    """Whether a call is meant to be made again, or does nothing when it is."""
    return may_repeat(run, call) or is_repeatable(run, call)


def unless_begun(run: Run, call: ToolCall, *, in_time: bool = True) -> ToolCall:
    """Return the call; with a problem on it if it had begun before and does not begin again.

    Nor does its like in the same reply: the model did not know of the first when it made both.
    """
    unknown = _unknown(run) if run.begun or run.tail else ()
    if not unknown or call.problem is not None or (in_time and may_repeat(run, call)):
        return call
    if call.id not in run.begun and not _is_like_one_of(unknown, run, call):
        return call
    return msgspec.structs.replace(call, problem=UNKNOWN)


def _unknown(run: Run) -> tuple[str, ...]:
    """Return the calls of the newest reply of which nobody knows what came of them."""
    told = (item for item in run.tail if isinstance(item, ToolResult))
    lost = (item.call_id for item in told if ErrorCode.CALL_OUTCOME_UNKNOWN in item.error_codes)
    return (*run.begun, *lost)


def _is_like_one_of(ids: Collection[str], run: Run, call: ToolCall) -> bool:
    """Whether a call that is made once is equal to one of these, which came in the same reply."""
    if _is_harmless(run, call):
        return False
    return any(one.id in ids and _what(one) == _what(call) for one in run.said[-1].calls)


def unfinished(run: Run, started: Iterable[ToolCall]) -> Run:
    """Return the run with the calls of its newest reply that were started and are not answered."""
    due = {call.id for call in run.due}
    began = (call for call in started if call.id in due and call.problem is None)
    ids = [call.id for call in began if recorded(run, call) is None]
    begun = tuple(dict.fromkeys((*run.begun, *ids)))
    return run if begun == run.begun else msgspec.structs.replace(run, begun=begun)


class Twins(NamedTuple):
    """The calls with the id, tool and arguments of another: in earlier replies, and in its own."""

    earlier: Sequence[str] = ()
    beside: Sequence[str] = ()


def twins(run: Run, call: ToolCall) -> Twins:
    """Return what came before a call of the newest reply under the same id, if it matters.

    Some providers count their ids from zero in every reply: an id that another reply has used for
    something else says nothing. Nor does one that the model wrote into its text, beyond its reply.
    """
    if call.first_id is None or call.problem is not None or _is_harmless(run, call):
        return Twins()
    turns, what = _ids_given(run)[call.first_id], _what(call)
    *earlier, own = turns.values()
    beside = own[what]
    is_counter = call.from_text or any(made.keys() != {what} for made in earlier)
    before = [] if is_counter else [one for made in earlier for one in made[what]]
    return Twins(before, beside[: beside.index(call.id)])


@once_per_run
def _ids_given(run: Run) -> dict[str, dict[int, dict[tuple[str, bytes], list[str]]]]:
    """Return which calls came with an id, reply by reply, by what they call.

    A call that could not run says nothing about ids.
    """
    found: dict[str, dict[int, dict[tuple[str, bytes], list[str]]]] = {}
    for turn, said in enumerate(run.said):
        for call in said.calls:
            if call.problem is None:
                turns = found.setdefault(call.first_id or call.id, {})
                turns.setdefault(turn, {}).setdefault(_what(call), []).append(call.id)
    return found


def _what(call: ToolCall) -> tuple[str, bytes]:
    return call.name, msgspec.json.encode(call.arguments, order="deterministic")


def known_answer(
    run: Run, call: ToolCall, fresh: Sequence[ToolResult] = ()
) -> ToolResult | Problem | None:
    """Return what is known of a call that must not run; None if it has to be run to know."""
    return recorded(run, call, fresh) or gone_for_good(run, call, fresh)


def recorded(run: Run, call: ToolCall, fresh: Sequence[ToolResult] = ()) -> ToolResult | None:
    """Return the answer to a call that must not run, because it did; None if it has to run."""
    same = twins(run, call)
    for one in (*same.earlier, *same.beside):
        result = next((item for item in (*run.results, *fresh) if item.call_id == one), None)
        if result is not None and _may_have_run(result):
            detail = f"the result of call {result.call_id}, which had the same id"
            return _said_again(call, result, _AGAIN, detail)
    made = _made_before(run, call, fresh)
    if made is None:
        return None
    detail = f"the result of call {made.call_id}, which had the same arguments"
    return _said_again(call, made, _MADE, detail)


def first_like(run: Run, call: ToolCall) -> str:
    """Return the first call of the newest reply that a call must not run beside; else itself."""
    return call.id if _is_harmless(run, call) else _firsts(run).get(_what(call), call.id)


@once_per_run
def _firsts(run: Run) -> dict[tuple[str, bytes], str]:
    firsts: dict[tuple[str, bytes], str] = {}
    for call in run.said[-1].calls if run.said else ():
        firsts.setdefault(_what(call), call.id)
    return firsts


def _made_before(run: Run, call: ToolCall, fresh: Sequence[ToolResult]) -> ToolResult | None:
    """Return the first success of a call that is made once; None if it may be made now."""
    if not run.results and not fresh:
        return None
    if call.problem is not None or _is_harmless(run, call):
        return None
    asked = {one.id: one for one in run.said[-1].calls} if fresh else {}
    what = _what(call)
    beside = (
        item
        for item in fresh
        if item.name == call.name and _is_made(item) and _what(asked[item.call_id]) == what
    )
    return _writes(run).get(what) or next(beside, None)


@once_per_run
def _writes(run: Run) -> dict[tuple[str, bytes], ToolResult]:
    """Return what has succeeded in this run, by what was called: the first result of each."""
    writes: dict[tuple[str, bytes], ToolResult] = {}
    for call, result in run.answered_calls:
        if _is_made(result):
            writes.setdefault(_what(call), result)
    return writes


def _is_made(result: ToolResult) -> bool:
    return result.ok and result.executed


def _may_have_run(result: ToolResult) -> bool:
    return result.executed or ErrorCode.CALL_OUTCOME_UNKNOWN in result.error_codes


def _said_again(call: ToolCall, earlier: ToolResult, note: str, detail: str) -> ToolResult:
    envelope = earlier.envelope
    warnings = [*call.warnings, *envelope.get("warnings", ()), note]
    return ToolResult(
        call.id,
        call.name,
        ok=earlier.ok,
        content=encode(envelope | {"warnings": warnings}).decode(),
        error_codes=earlier.error_codes,
        detail=detail,
    )
