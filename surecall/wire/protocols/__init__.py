"""Call protocols: how calls are asked for, and how they are read. The loop does not know which.

    native     tools, calls and results in the fields that the endpoint has for them
    guided     the reply is bound to a JSON schema: one of the calls allowed now, or the answer
    prompted   a form described in words, for endpoints that offer nothing at all

`speaker` turns plans into plans, `hear` raw messages into raw messages. In between, and after them,
everything is the same: a history of one protocol can be continued in another.
"""

from collections.abc import Callable

from surecall.values.types import JSON, Plan
from surecall.wire.call_styles import CallProtocol
from surecall.wire.protocols.guided import guided
from surecall.wire.protocols.guided_reading import hear as _hear_guided
from surecall.wire.protocols.in_words import Speaker
from surecall.wire.protocols.prompted import PROMPTED

__all__ = ["hear", "speaker"]


def speaker(
    protocol: CallProtocol, longest: int, thought: int = 0, *, checks_fit: bool = False
) -> Callable[[Plan], Plan]:
    """Return what puts the plans of one conversation into the words of a protocol.

    Arguments of more than `longest` bytes would be refused, so that guided ones may not grow that
    long. A guided call begins with a thought of so many characters at most, if any; the first one
    with a check of whether the closest tool fits, if asked to.
    """
    match protocol:
        case "native":
            return _as_it_is
        case "guided":
            return Speaker(guided(longest, thought, checks_fit=checks_fit))
        case "prompted":  # pragma: no branch  # a closed set: mypy knows that there is no other
            return Speaker(PROMPTED)


def _as_it_is(plan: Plan) -> Plan:
    return plan


def hear(protocol: CallProtocol, message: JSON, plan: Plan) -> JSON:
    """Return a raw message with its calls where calls belong, or the same one."""
    if protocol != "guided" or not plan.known_tools:
        return message
    typed = plan.output is not None
    return _hear_guided(message, plan.tools, plan.known_tools, typed=typed)
