"""Effects happen at most once: which calls must not run, because they may have run already.

    begun, no recorded end ─► its outcome is unknown; the model is told so
    the id of a call that ran, same tool, same arguments ─► answered from the record

A tool that is read-only or idempotent may run again; so its calls always do.
"""

from collections.abc import Iterable, Sequence

import msgspec

from surecall.core.obligations import same_call
from surecall.core.state import Run
from surecall.values.errors import ErrorCode
from surecall.values.types import Problem, ToolCall, ToolResult
from surecall.wire.messages import encode

_UNKNOWN = (
    "This call had begun when the run was interrupted. Nobody knows whether it took effect. It was "
    "not run again. Find out what happened before you make it again."
)
_UNRECORDED = (
    "The application could not record this call, so the tool did not run. Nothing can be done "
    "about that here; say so."
)
_AGAIN = "This is the result of an earlier call with the same id; the tool did not run again."


def may_repeat(run: Run, call: ToolCall) -> bool:
    """Whether running a call twice does no more than running it once."""
    return any(spec.may_repeat for spec in run.tools if spec.name == call.name)


def _is_harmless(run: Run, call: ToolCall) -> bool:
    """Whether a call is meant to be made again, or does nothing when it is."""
    return may_repeat(run, call) or any(
        spec.repeatable for spec in run.tools if spec.name == call.name
    )


def unless_begun(run: Run, call: ToolCall) -> ToolCall:
    """Return the call; with a problem on it if it had begun before and must not begin again."""
    if call.problem is not None or call.id not in run.begun or may_repeat(run, call):
        return call
    return msgspec.structs.replace(call, problem=Problem(ErrorCode.CALL_OUTCOME_UNKNOWN, _UNKNOWN))


def unrecorded(call: ToolCall) -> ToolCall:
    """Return the call with a problem on it: its start could not be written down."""
    if call.problem is not None:
        return call
    return msgspec.structs.replace(call, problem=Problem(ErrorCode.CALL_NOT_RECORDED, _UNRECORDED))


def unfinished(run: Run, started: Iterable[ToolCall]) -> Run:
    """Return the run with the calls that were started and are not answered."""
    due = {call.id for call in run.due}
    ids = {call.id for call in started if call.problem is None and recorded(run, call) is None}
    begun = tuple(dict.fromkeys((*run.begun, *sorted(ids & due))))
    return run if begun == run.begun else msgspec.structs.replace(run, begun=begun)


def twin(run: Run, call: ToolCall) -> ToolCall | None:
    """Return the earlier call with the same id, tool and arguments, if it must not run twice.

    Some providers count their ids from zero in every reply. An id that a call of another reply
    has used for something else says nothing.
    """
    if call.problem is not None or call.first_id is None or _is_harmless(run, call):
        return None
    earlier: list[ToolCall] = []
    beside: list[ToolCall] = []
    for said in run.said:
        sharing = [one for one in said.calls if call.first_id in {one.id, one.first_id}]
        ids = [one.id for one in sharing]
        if call.id in ids:
            beside = sharing[: ids.index(call.id)]
            break
        earlier += sharing
    if not all(same_call(call, one) for one in earlier):
        earlier = []
    return next((one for one in (*earlier, *beside) if same_call(call, one)), None)


def recorded(run: Run, call: ToolCall, fresh: Sequence[ToolResult] = ()) -> ToolResult | None:
    """Return the answer to a call that ran under the same id before; None if it has to run."""
    first = twin(run, call)
    if first is None:
        return None
    for result in (*run.results, *fresh):
        if result.call_id == first.id and _may_have_run(result):
            return _said_again(call, result)
    return None


def _may_have_run(result: ToolResult) -> bool:
    return result.executed or ErrorCode.CALL_OUTCOME_UNKNOWN in result.error_codes


def _said_again(call: ToolCall, earlier: ToolResult) -> ToolResult:
    envelope = earlier.envelope
    warnings = [*envelope.get("warnings", ()), _AGAIN]
    return ToolResult(
        call.id,
        call.name,
        ok=earlier.ok,
        content=encode(envelope | {"warnings": warnings}).decode(),
        error_codes=earlier.error_codes,
        detail=f"the result of call {earlier.call_id}, which had the same id",
    )
