"""Another model goes on with a run: what stays, what changes, and what is taken back.

    stays       what was said and done, the tools, and what was promised: contract, limits, masks
    changes     model, endpoint, options, and how one talks to it
    taken back  the failure, or the unusable answer, that the change is made for

Nothing runs again, because results are in the transcript, and a change is made only where the model
is to be asked. Opaque state of the other model stays with us: see `wire.opaque_state`. Where nobody
knows whose it is, it is dropped.
"""

from typing import Final

import msgspec

from surecall.core.loop import next_move
from surecall.core.state import Ask, Fail, Move, Run
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.overlay import copy_with
from surecall.values.errors import Fault
from surecall.values.types import JSON, Assistant, Message, Refusal

# What a run promises does not depend on who answers.
_PROMISED: Final = (
    "contract",
    "event_context_keys",
    "max_total_tool_calls",
    "max_turns",
    "policy_error_mode",
    "run_deadline_s",
    "tool_allowlist",
    "tool_denylist",
    "tool_failure_policy",
)


def reason_of(move: Move) -> Fault | None:
    """Return why a model cannot go on, if it cannot."""
    if not isinstance(move, Fail):
        return None
    return move.fault or Fault(move.code, move.message)


def taken_over(
    run: Run, model: str, config: ToolCallingConfig, options: JSON, endpoint: str
) -> Run | None:
    """Return the run as another model takes it over; None where it is not a model's turn."""
    messages = tuple(map(_unsigned_dropped, _before_failure(run)))
    after = msgspec.structs.replace(
        run,
        model=model,
        config=_kept(run.config, config),
        options=options,
        endpoint=endpoint,
        messages=messages,
        since=len(messages),
    )
    return after if isinstance(next_move(after), Ask) else None


def _kept(promised: ToolCallingConfig, config: ToolCallingConfig) -> ToolCallingConfig:
    # A model that knows no tools may go on with a run that does not demand any.
    relaxed = promised.tool_use_mode is ToolUseMode.RELAXED
    chats = relaxed and config.tool_use_mode is ToolUseMode.DISABLED
    mode = (config if chats else promised).tool_use_mode
    same = {name: getattr(promised, name) for name in _PROMISED}
    return copy_with(config, {**same, "tool_use_mode": mode})


def _before_failure(run: Run) -> tuple[Message, ...]:
    """Return the transcript without the answer, or the refusals, that it ends with."""
    at = len(run.messages)
    if isinstance(run.last, Assistant) and not run.last.calls:
        return run.messages[: at - 1]
    while at > run.start and isinstance(run.messages[at - 1], Refusal):
        at -= 1
    return run.messages[:at]


def _unsigned_dropped(message: Message) -> Message:
    """Drop opaque state that nobody knows the origin of: it may be of any model."""
    if not isinstance(message, Assistant) or message.origin:
        return message
    if not (message.extra or any(call.extra for call in message.calls)):
        return message
    calls = tuple(msgspec.structs.replace(call, extra={}) for call in message.calls)
    return msgspec.structs.replace(message, extra={}, calls=calls)
