"""Hand a run over to the next model of its fallback chain.

    kept       the transcript, the tools, and the contract, limits, and tool lists
    changed    model, endpoint, options, and the settings of the endpoint
    removed    the failure or unusable answer that caused the change

No tool runs twice: results are in the transcript, and a change happens only before a request.
Provider state of the previous model is kept but not sent to the next: see `wire.provider_state`.
State of unknown origin is dropped.
"""

from typing import Final

import msgspec

from surecall.core.loop import next_move
from surecall.core.state import AskModel, Fail, Move, Run
from surecall.settings.config import ToolCallingConfig, ToolUseMode
from surecall.settings.overlay import copy_with
from surecall.values.errors import Fault
from surecall.values.types import JSON, Assistant, Message, Refusal

# What a run guarantees does not depend on the model.
_KEPT_SETTINGS: Final = (
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


def failure_fault(move: Move) -> Fault | None:
    """Return why a model cannot continue; None if it can."""
    if not isinstance(move, Fail):
        return None
    return move.fault or Fault(move.code, move.message)


def change_model(
    run: Run, model: str, config: ToolCallingConfig, options: JSON, endpoint: str
) -> Run | None:
    """Return the run for another model; None if the next move is not a request."""
    messages = tuple(map(_without_unattributed_state, _before_failure(run)))
    after = msgspec.structs.replace(
        run,
        model=model,
        config=_combine_configs(run.config, config),
        options=options,
        endpoint=endpoint,
        messages=messages,
        since=len(messages),
    )
    return after if isinstance(next_move(after), AskModel) else None


def _combine_configs(previous: ToolCallingConfig, config: ToolCallingConfig) -> ToolCallingConfig:
    """Return the next model's config, with the settings that hold for the whole run."""
    # A model without tool support may continue a run that requires no calls.
    relaxed = previous.tool_use_mode is ToolUseMode.RELAXED
    chats = relaxed and config.tool_use_mode is ToolUseMode.DISABLED
    mode = (config if chats else previous).tool_use_mode
    same = {name: getattr(previous, name) for name in _KEPT_SETTINGS}
    return copy_with(config, {**same, "tool_use_mode": mode})


def _before_failure(run: Run) -> tuple[Message, ...]:
    """Return the transcript without the final answer or refusals that it ends with."""
    at = len(run.messages)
    if isinstance(run.last_message, Assistant) and not run.last_message.calls:
        return run.messages[: at - 1]
    while at > run.start and isinstance(run.messages[at - 1], Refusal):
        at -= 1
    return run.messages[:at]


def _without_unattributed_state(message: Message) -> Message:
    """Drop provider state of unknown origin: it may come from any model."""
    if not isinstance(message, Assistant) or message.origin:
        return message
    if not (message.extra or any(call.extra for call in message.calls)):
        return message
    calls = tuple(msgspec.structs.replace(call, extra={}) for call in message.calls)
    return msgspec.structs.replace(message, extra={}, calls=calls)
