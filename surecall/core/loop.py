"""The tool loop: a pure state machine. It decides; a driver acts.

    next_move(run) ─► Ask  ─ the driver asks the model ─► heard(run, reply) ─┐
        ▲                                       └ in vain ─► refused(run, fault) ─┤
        │          ─► Call ─ the driver runs the tools ─► ran(run, results) ─┤
        │          ─► Wait ─ a person decides ─► decided(run, decisions) ────┤
        │          ─► Done ─ the application objects ─► objected(run, reason) ─┤
        │          ─► Fail                                                   │
        └────────────────────────────────────────────────────────────────────┘

Nothing here does I/O, reads a clock or hides state, so the async, sync, replay and test drivers
all run these same lines. What the words mean (when to stop, what counts) is in `policy`.
"""

from collections.abc import Sequence

from surecall.core.approvals import is_stopped
from surecall.core.early_answers import follow_up, objection
from surecall.core.offer import plan
from surecall.core.policy import admit, halted, verdict
from surecall.core.state import OBJECTION, Ask, Call, Move, Run, Wait
from surecall.values.errors import Fault
from surecall.values.types import Assistant, Refusal, Reply, ToolResult


def next_move(run: Run) -> Move:
    """Say what must happen next, judging by the transcript alone."""
    match run.due or run.last:
        case tuple() as calls:
            return Wait(run.waiting) if run.decisions and is_stopped(run) else Call(calls)
        case Assistant() as said:
            return verdict(run, said)
        case _:
            return halted(run) or Ask(plan(run))


def heard(run: Run, reply: Reply) -> Run:
    """Record a reply, and what the loop says to an answer that does not count."""
    said = admit(run, reply)
    run = run.plus(said)
    return run.plus(*follow_up(run, said))


def ran(run: Run, results: Sequence[ToolResult]) -> Run:
    """Record how calls were answered; in the transcript, answers stand in the order of calls."""
    return run.answered(results)


def refused(run: Run, fault: Fault) -> Run:
    """Record that a request failed for good, or that time ran out."""
    return run.plus(Refusal(fault))


def objected(run: Run, reason: str, rung: str = OBJECTION) -> Run:
    """Record that the application, or the type of the answer, does not accept it."""
    return run.plus(objection(run, reason, rung))
