"""What a person decided, checked before a run goes on: about calls that wait, in words we know."""

from collections.abc import Mapping
from typing import Any

from surecall.core.inbound import judge_given
from surecall.core.state import Run
from surecall.settings.config import ToolCallingConfig
from surecall.tools.registry import Toolbox
from surecall.values.decisions import Decision, WaitingCall
from surecall.values.errors import ConfigError
from surecall.wire.messages import encodable


def checked_decisions(decisions: Any, run: Run, toolbox: Toolbox) -> dict[str, Decision]:
    """Return what a person decided: about calls that wait, and so that it can be carried out."""
    if decisions is not None and not isinstance(decisions, Mapping):
        raise ConfigError("decisions must be a mapping such as {call.id: Decision.approve()}")
    waiting = {call.id: call for call in run.waiting}
    made: dict[str, Decision] = {}
    for key, decision in (decisions or {}).items():
        if key not in waiting:
            raise ConfigError(f"decisions: no call with the id {key!r} waits for one")
        made[key] = _checked_decision(decision, waiting[key], run.config, toolbox)
    return made


def _checked_decision(
    decision: Any, call: WaitingCall, config: ToolCallingConfig, toolbox: Toolbox
) -> Decision:
    match decision:
        case Decision("allow"):
            return decision
        case Decision("deny", reason):
            return Decision.deny(encodable(str(reason or "")))
        case Decision("replace", _, dict() as arguments):
            encodable(arguments)  # or it is refused here
            judged = judge_given(call.name, arguments, config, toolbox)
            if judged.problem is not None:
                where = f"decisions: the new arguments of {call.name} ({call.id})"
                raise ConfigError(f"{where} do not fit: {judged.problem.message}")
            return Decision.replace(judged.arguments)
        case _:
            raise ConfigError(
                f"decisions: about {call.name} ({call.id}) say Decision.approve(), "
                "Decision.deny(reason), or Decision.replace(arguments) with a mapping"
            )
