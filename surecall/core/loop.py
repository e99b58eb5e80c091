"""The tool loop: a pure state machine that a driver executes.

`next_move` returns the next move of a run. The driver carries it out and records what happened.
`TRANSITIONS` lists what may follow; `docs/architecture.md` draws it. Nothing here does I/O or reads
a clock, so all drivers share this code. The rules (when to stop, what counts) are in `policy`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from surecall.core.approvals import hold_calls, is_awaiting_approval, record_decisions
from surecall.core.exposed_tools import next_plan
from surecall.core.policy import build_turn, judge_answer, stop_failure
from surecall.core.premature_answers import follow_up_messages, objection_message
from surecall.core.state import (
    OBJECTION,
    AskModel,
    AwaitApproval,
    Fail,
    Finish,
    Move,
    Run,
    RunTools,
)
from surecall.core.tool_search import answer_searches
from surecall.values.errors import Fault
from surecall.values.types import Assistant, Refusal, Reply, ToolResult


def next_move(run: Run) -> Move:
    """Return what must happen next, according to the transcript."""
    match run.pending_calls or run.last_message:
        case tuple() as calls:
            is_waiting = run.decisions and is_awaiting_approval(run)
            return AwaitApproval(run.waiting) if is_waiting else RunTools(calls)
        case Assistant() as said:
            return judge_answer(run, said)
        case _:
            return stop_failure(run) or AskModel(next_plan(run))


def record_reply(run: Run, reply: Reply) -> Run:
    """Append the reply; if it is a premature or unusable answer, append the follow-up prompt."""
    turn = build_turn(run, reply)
    run = answer_searches(run.with_messages(turn))
    return run.with_messages(*follow_up_messages(run, turn))


def record_results(run: Run, results: Sequence[ToolResult]) -> Run:
    """Append the results of calls, in the order of the calls."""
    return run.with_results(results)


def record_refusal(run: Run, fault: Fault) -> Run:
    """Append a permanent failure of a request, or the end of the run's time."""
    return run.with_messages(Refusal(fault))


def record_objection(run: Run, reason: str, step: str = OBJECTION) -> Run:
    """Append an objection to the answer, by the application or its output type."""
    return run.with_messages(objection_message(run, reason, step))


# By move: what a driver may record, and the moves that can follow.
TRANSITIONS: Final[Mapping[type[Move], Mapping[Callable[..., Any], tuple[type[Move], ...]]]] = {
    AskModel: {record_reply: (AskModel, RunTools, Finish, Fail), record_refusal: (AskModel, Fail)},
    RunTools: {
        record_results: (AskModel, RunTools, AwaitApproval, Fail),
        hold_calls: (RunTools, AwaitApproval),
        record_refusal: (Fail,),
    },
    AwaitApproval: {record_decisions: (RunTools, AwaitApproval)},
    Finish: {record_objection: (AskModel, Fail)},
    Fail: {},
}
