"""Where a run was decided that ended for another reason than an expectation that was not met.

Expectations know their own turns (see `scenarios.misses`). Here it is the turn in which the run
ended: the last answer that did not count, the call that went round in circles, the request that was
refused; of failures that were not repaired, the last call that failed.
"""

import msgspec

from surecall.core.outcome import RunResult
from surecall.eval.analysis.category import ASSERTION_FAILED, EXCEPTION, Verdict
from surecall.values.errors import ErrorCode
from surecall.values.events import FinalEvent, RunFailedEvent, RunStartEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON


class Place(msgspec.Struct, frozen=True):
    """A turn of a run, and a call in it; None and blank where there is none."""

    turn: int | None = None
    call_id: str = ""


def place_of(verdict: Verdict, result: RunResult, details: JSON | None = None) -> Place:
    """Return where a run was decided; `details` are those of the error that it ended with.

    An answer that may come without a call is decided by what was expected of it.
    """
    judged = details is None and verdict.category == ErrorCode.NO_TOOL_CALLS
    if judged or verdict.category in {"", ASSERTION_FAILED, EXCEPTION}:
        return Place()
    told = details or {}
    in_vain = {answer.call_id for answer in result.run.results if not answer.ok}
    failed = told.get("failed_tools", ()) if verdict.category == ErrorCode.TOOL_ERROR else ()
    repeated = told.get("tool_name") if verdict.category == ErrorCode.LOOP_DETECTED else None
    calls = [
        Place(turn, call.id)
        for turn, message in enumerate(result.run.said)
        for call in message.calls
        if call.name == repeated or (call.name in failed and call.id in in_vain)
    ]
    return calls[-1] if calls else Place(_last_turn(result.trace))


def _last_turn(trace: Trace) -> int | None:
    """Return the turn of the newest event that is about one; a request may have had no reply."""
    apart = (RunStartEvent, RunFailedEvent, FinalEvent)
    turns = (event.turn for event in reversed(trace.events) if not isinstance(event, apart))
    return next(turns, None)
