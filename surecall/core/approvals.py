"""Calls that need human approval: the run pauses and resumes with the decisions.

    the policy returns `confirm` ─► hold_calls: the call stays pending, and the run pauses
    a person decides ─► record_decisions: it runs, runs with other arguments, or is refused

A paused run ends like one whose policy had made the same decisions at once. Calls are answered in
order, so a call that waits for approval blocks those after it. Where calls run in parallel, it
blocks all of them.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from surecall.core.state import Run
from surecall.values.decisions import Decision, WaitingCall
from surecall.values.json_equality import is_same_json
from surecall.values.types import JSON, ToolCall

_ARGUMENTS_CHANGED: Final = (
    "The arguments of this call were changed before it ran, by an authorized person. Your call "
    "shows them as they are now."
)


def is_awaiting_approval(run: Run) -> bool:
    """Whether no pending call can be answered before a person has decided."""
    waiting = {call.call_id for call in run.waiting}
    return bool(waiting) and (run.concurrency > 1 or run.pending_calls[0].id in waiting)


def hold_calls(run: Run, confirmations: Mapping[str, Decision]) -> Run:
    """Record which calls need human approval, and why."""
    return (
        msgspec.structs.replace(run, decisions={**run.decisions, **confirmations})
        if confirmations
        else run
    )


def restore_holds(run: Run, waiting: tuple[WaitingCall, ...]) -> Run:
    """Record waiting calls again, from those reported when the run paused."""
    return hold_calls(run, {_call_id(call): Decision.confirm(call.reason) for call in waiting})


def has_same_waiting_calls(
    waiting: tuple[WaitingCall, ...], recorded: tuple[WaitingCall, ...]
) -> bool:
    """Whether two lists name the same calls; an earlier version may have recorded the second."""
    return [*map(_comparable_fields, waiting)] == [*map(_comparable_fields, recorded)]


def _comparable_fields(call: WaitingCall) -> tuple[str, str, JSON, str]:
    """Return what tells waiting calls apart, whichever version recorded them."""
    return _call_id(call), call.name, call.arguments, call.reason


def _call_id(call: WaitingCall) -> str:
    return call.call_id or call.id  # earlier versions recorded no approval id


def record_decisions(run: Run, decisions: Mapping[str, Decision]) -> Run:
    """Record decisions about waiting calls; the run continues from there."""
    for call in run.pending_calls:
        decision = decisions.get(call.id)
        if decision is not None and decision.outcome == "replace":
            run = replace_call(run, with_arguments(call, decision.arguments))
    return hold_calls(run, decisions)


def with_arguments(call: ToolCall, arguments: JSON) -> ToolCall:
    """Return a call with other arguments and a note about it for the model."""
    if is_same_json(arguments, call.arguments):
        return call
    # What is known about the old arguments does not apply to the new ones.
    return msgspec.structs.replace(
        call,
        arguments=arguments,
        warnings=(*call.warnings, _ARGUMENTS_CHANGED),
        arguments_bytes=len(msgspec.json.encode(arguments)),
        grounds={},
    )


def replace_call(run: Run, call: ToolCall) -> Run:
    """Return the run with one call of its newest reply replaced."""
    calls = tuple(call if one.id == call.id else one for one in run.replies[-1].calls)
    reply = msgspec.structs.replace(run.replies[-1], calls=calls)
    before = run.messages[: -len(run.tail) - 1]
    return msgspec.structs.replace(run, messages=(*before, reply, *run.tail))
