"""Opaque state in reasoning items: what the upstream wants back travels through the client.

A reasoning item has `encrypted_content`, which clients keep and send back unread. Ours is a prefix
and JSON in base64: the fields of a chat message and of its calls that have no place in an item.
What others have encrypted is not ours to read, and nothing in here can make a request fail.
"""

import base64
from typing import Any, Final

import msgspec

from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json
from surecall.values.types import JSON
from surecall.wire.messages import encode
from surecall.wire.opaque_state import call_extra, message_extra

PREFIX: Final = "surecall1:"
# These have a form of their own in a Responses answer, or none that could go back.
_TOLD_OTHERWISE: Final = frozenset({"refusal", "annotations", "audio"})


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a turn has beside its text and calls; `opens` says that the turn begins here.

    Of several states of one turn the last one counts.
    """

    turn: str = ""
    opens: bool = False
    message: JSON = {}
    calls: dict[str, JSON] = {}


def state_of(turn: str, message: JSON, calls: list[JSON]) -> State:
    """Return what a chat message and its calls have beside the documented keys."""
    extra = message_extra(message, message)
    kept = {key: value for key, value in extra.items() if key not in _TOLD_OTHERWISE}
    extras = {call["id"]: call_extra(call) for call in calls}
    return State(turn, message=kept, calls={key: value for key, value in extras.items() if value})


def pack(state: State) -> str:
    """Write a state as a text that a client keeps."""
    return PREFIX + base64.b64encode(encode(state)).decode()


def unpack(text: Any) -> State | None:
    """Read such a text; nothing if it is not one of ours."""
    if not isinstance(text, str) or not text.startswith(PREFIX):
        return None
    try:
        data = base64.b64decode(text[len(PREFIX) :], validate=True)
        return decode_json(data, State, limit=MAX_WRAPPED_DEPTH)
    except ValueError:
        return None
