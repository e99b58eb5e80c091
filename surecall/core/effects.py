"""Effects happen at most once: which calls must not run, because they may have run already.

    begun, no recorded end ─► its outcome is unknown; the model is told so
    the id of a call that ran, same tool, same arguments ─► answered from the record

A tool that is read-only or idempotent may run again; so its calls always do.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from surecall.core.state import Run, once_per_run
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


def may_repeat(run: Run, call: ToolCall) -> bool:
    """Whether running a call twice does no more than running it once."""
    return any(spec.may_repeat for spec in run.tools if spec.name == call.name)


def _is_harmless(run: Run, call: ToolCall) -> bool:
    """Whether a call is meant to be made again, or does nothing when it is."""
    return may_repeat(run, call) or any(
        spec.repeatable for spec in run.tools if spec.name == call.name
    )


def unless_begun(run: Run, call: ToolCall, *, in_time: bool = True) -> ToolCall:
    """Return the call; with a problem on it if it had begun before and does not begin again."""
    begins = in_time and may_repeat(run, call)
    if call.problem is not None or call.id not in run.begun or begins:
        return call
    return msgspec.structs.replace(call, problem=UNKNOWN)


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
    if call.problem is not None or call.first_id is None or _is_harmless(run, call):
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


def recorded(run: Run, call: ToolCall, fresh: Sequence[ToolResult] = ()) -> ToolResult | None:
    """Return the answer to a call that ran under the same id before; None if it has to run."""
    same = twins(run, call)
    for one in (*same.earlier, *same.beside):
        result = next((item for item in (*run.results, *fresh) if item.call_id == one), None)
        if result is not None and _may_have_run(result):
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
