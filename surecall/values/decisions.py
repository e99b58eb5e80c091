"""Decisions about calls before they run, made by the application's policy or by a person.

Call ids are not unique: `call_0` also exists in the next run. A person's decision is therefore
keyed by an approval id, which is bound to one call of one run.
"""

from typing import Any, Final, Literal, Self

import msgspec

from surecall.values.errors import ConfigError
from surecall.values.types import JSON, ToolCall, sha256

_DIGEST_BYTES: Final = 16


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decision of a tool policy or a person about one call.

    `confirm` requires human approval: the run pauses. `replace` runs the call with different
    `arguments`.
    """

    outcome: Literal["allow", "deny", "confirm", "replace"]
    reason: str = ""
    arguments: JSON = {}

    @classmethod
    def approve(cls) -> Self:
        """Run the call unchanged."""
        return cls("allow")

    @classmethod
    def deny(cls, reason: str = "") -> Self:
        """Do not run the call; the reason is sent to the model."""
        return cls("deny", reason)

    @classmethod
    def confirm(cls, reason: str = "") -> Self:
        """Require human approval; the reason is shown to the person who decides."""
        return cls("confirm", reason)

    @classmethod
    def replace(cls, arguments: JSON) -> Self:
        """Run the call with different arguments; the model is informed of the change."""
        return cls("replace", arguments=arguments)


class WaitingCall(msgspec.Struct, frozen=True):
    """A call that needs human approval.

    Decisions are keyed by `id`, the approval id, which is bound to the run, the call, the tool,
    and the arguments. `call_id` is the id of the call in the transcript.
    """

    id: str
    name: str
    arguments: JSON
    reason: str = ""
    call_id: str = ""


class StaleDecision(ConfigError):
    """A decision does not match any call that needs human approval; nothing ran.

    The call was already decided, its arguments changed, or it belongs to another run. `key` is the
    key of the decision, and `waiting` lists the calls that need approval now.
    """

    def __init__(self, key: object, waiting: tuple[WaitingCall, ...] = ()) -> None:
        now = ", ".join(repr(call.id) for call in waiting) or "none"
        super().__init__(
            f"decisions: no call with id {key!r} needs approval. It was already decided, changed, "
            f"or belongs to another run. Calls that need approval: {now}. Use the ids of `waiting`."
        )
        self.key = key
        self.waiting = waiting

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.waiting)


def approval_id(run_id: str, call: ToolCall) -> str:
    """Return an id that is unique to a run, call, tool, and arguments."""
    data = msgspec.json.encode((run_id, call.id, call.name, call.arguments), order="deterministic")
    return f"{call.name}:{call.id}:{sha256(data)[:_DIGEST_BYTES].hex()}"
