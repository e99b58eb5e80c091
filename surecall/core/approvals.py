"""Calls that wait for a person: how a run says so, and how it goes on with what they decided.

    the policy says `confirm` ─► held: the call stays due, and the run stops there
    a person decides ─► decided: it runs, runs with other arguments, or is refused

A run that paused comes to the same as one whose policy had said the same at once. Calls are
answered in order, so those after a call that waits wait with it. Where calls run at the same time,
all wait with it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from surecall.core.state import Run
from surecall.values.decisions import Decision, WaitingCall
from surecall.values.types import JSON, ToolCall

_CHANGED: Final = (
    "The arguments of this call were changed before it ran, by someone who may do so. Your call "
    "shows them as they are now."
)


def is_stopped(run: Run) -> bool:
    """Whether none of the calls that are due can be answered before a person has decided."""
    waiting = {call.id for call in run.waiting}
    return bool(waiting) and (run.concurrency > 1 or run.due[0].id in waiting)


def held(run: Run, asked: Mapping[str, Decision]) -> Run:
    """Record which calls wait for a person, and why."""
    return msgspec.structs.replace(run, decisions={**run.decisions, **asked}) if asked else run


def held_again(run: Run, waiting: tuple[WaitingCall, ...]) -> Run:
    """Record the same from what was told when the run stopped."""
    return held(run, {call.id: Decision.confirm(call.reason) for call in waiting})


def decided(run: Run, decisions: Mapping[str, Decision]) -> Run:
    """Record what a person decided about calls that wait; the run goes on from there."""
    for call in run.due:
        decision = decisions.get(call.id)
        if decision is not None and decision.outcome == "replace":
            run = changed(run, with_arguments(call, decision.arguments))
    return held(run, decisions)


def with_arguments(call: ToolCall, arguments: JSON) -> ToolCall:
    """Return a call with other arguments, and a word about it for the model."""
    if arguments == call.arguments:
        return call
    # What was found out about the old arguments does not hold for the new ones.
    return msgspec.structs.replace(
        call,
        arguments=arguments,
        warnings=(*call.warnings, _CHANGED),
        arguments_bytes=len(msgspec.json.encode(arguments)),
        grounds={},
    )


def changed(run: Run, call: ToolCall) -> Run:
    """Return the run with one call of its newest reply as it is now."""
    calls = tuple(call if one.id == call.id else one for one in run.said[-1].calls)
    said = msgspec.structs.replace(run.said[-1], calls=calls)
    before = run.messages[: -len(run.tail) - 1]
    return msgspec.structs.replace(run, messages=(*before, said, *run.tail))
