"""What is decided about a call before it may run: by the application's policy, or by a person."""

from typing import Literal, Self

import msgspec

from surecall.values.types import JSON


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool policy, or a person, says about one call.

    `confirm` leaves it to a person: the run stops, and the call waits. `replace` lets the call run
    with other `arguments`.
    """

    outcome: Literal["allow", "deny", "confirm", "replace"]
    reason: str = ""
    arguments: JSON = {}

    @classmethod
    def approve(cls) -> Self:
        """Let a call run as it is."""
        return cls("allow")

    @classmethod
    def deny(cls, reason: str = "") -> Self:
        """Let a call not run; the model is told the reason."""
        return cls("deny", reason)

    @classmethod
    def confirm(cls, reason: str = "") -> Self:
        """Let a call wait until a person has decided; they are told the reason."""
        return cls("confirm", reason)

    @classmethod
    def replace(cls, arguments: JSON) -> Self:
        """Let a call run with other arguments; the model is told so."""
        return cls("replace", arguments=arguments)


class WaitingCall(msgspec.Struct, frozen=True):
    """A call that waits for a person: what would run, and why it does not yet."""

    id: str
    name: str
    arguments: JSON
    reason: str = ""
