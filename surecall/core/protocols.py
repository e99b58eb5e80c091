"""The call protocols: native, guided, and prompted.

    native     tools, calls, and results in the endpoint's own fields
    guided     the reply must match a JSON schema: one of the calls allowed now, or the answer
    prompted   a format described in the prompt, for endpoints that support neither

`plan_encoder` rewrites plans, and `decode_message` rewrites raw messages. Everything else is shared
by all protocols, so a history recorded with one can be continued with another.
"""

from collections.abc import Callable

from surecall.core.guided.protocol import guided_format
from surecall.core.guided.replies import decode_guided as _hear_guided
from surecall.core.prompted import PROMPTED, PlanEncoder
from surecall.values.types import JSON, Plan
from surecall.wire.call_styles import CallProtocol

__all__ = ["decode_message", "plan_encoder"]


def plan_encoder(
    protocol: CallProtocol, max_args_bytes: int, thought_chars: int = 0, *, checks_fit: bool = False
) -> Callable[[Plan], Plan]:
    """Return a function that rewrites the plans of one conversation for a protocol.

    The schema of guided replies limits arguments to `max_args_bytes`. With `thought_chars`, a
    guided reply begins with a thought of at most that many characters; with `checks_fit`, the
    first one checks whether the closest tool fits.
    """
    match protocol:
        case "native":
            return _unchanged_plan
        case "guided":
            return PlanEncoder(guided_format(max_args_bytes, thought_chars, checks_fit=checks_fit))
        case "prompted":  # pragma: no branch  # mypy checks that the match is exhaustive
            return PlanEncoder(PROMPTED)


def _unchanged_plan(plan: Plan) -> Plan:
    return plan


def decode_message(protocol: CallProtocol, message: JSON, plan: Plan) -> JSON:
    """Return a raw message with its calls in `tool_calls`; the same object if nothing changes."""
    if protocol != "guided" or not plan.known_tools:
        return message
    typed = plan.output is not None
    return _hear_guided(message, plan.tools, plan.known_tools, typed=typed)
