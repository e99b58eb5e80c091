"""Provider state: undocumented fields of a reply, stored so they can be sent back.

    in the message    reasoning, thinking blocks, encrypted content    `Assistant.extra`
    in its content    parts that are neither text nor a call           `Assistant.extra["content"]`
    in a call         signatures                                       `ToolCall.extra`
    in its function   signatures, too                                  `ToolCall.extra["function"]`
    in other APIs     items that a chat message cannot hold            `Assistant.extra`

It is sent back unchanged, and only to the endpoint and model that produced it. Fields that an
endpoint is known to reject are left out.
"""

from collections.abc import Iterable
from typing import Final

from surecall.values.types import JSON, object_or_empty
from surecall.wire.content_parts import parts_to_echo, reasoning_in

CONTENT: Final = "content"
# The turn of an API other than chat completions, see `wire.apis.native_turns`.
NATIVE_TURN: Final = "native_turn"
FUNCTION: Final = "function"
DOCUMENTED_FIELDS: Final = frozenset({"role", CONTENT, "tool_calls", "function_call", "name"})
DOCUMENTED_CALL_FIELDS: Final = frozenset({"id", "type", FUNCTION, "index"})
DOCUMENTED_FUNCTION_FIELDS: Final = frozenset({"name", "arguments"})
_REASONING = "reasoning_content"
# The reasoning of a guided reply, stored for inspection and never sent.
GUIDED_REASONING: Final = "guided_thought"


def message_extra(message: JSON, original: JSON) -> JSON:
    """Return the undocumented fields of a message and the content parts of `original`."""
    extra = _present_fields(message, DOCUMENTED_FIELDS)
    parts = parts_to_echo(original.get(CONTENT))
    return extra | {CONTENT: parts} if parts else extra


def call_extra(call: JSON) -> JSON:
    """Return the undocumented fields of a call and its function."""
    extra = _present_fields(call, DOCUMENTED_CALL_FIELDS)
    inner = _present_fields(object_or_empty(call.get(FUNCTION)), DOCUMENTED_FUNCTION_FIELDS)
    return extra | {FUNCTION: inner} if inner else extra


def undocumented_fields(mapping: JSON, documented: frozenset[str]) -> JSON:
    """Return the fields of a mapping that are not in `documented`."""
    return {key: value for key, value in mapping.items() if key not in documented}


def _present_fields(mapping: JSON, documented: frozenset[str]) -> JSON:
    """Return the undocumented fields that are not null."""
    extra = undocumented_fields(mapping, documented)
    return {key: value for key, value in extra.items() if value is not None}


def fields_to_echo(extra: JSON, fields: Iterable[str] | None, withheld: Iterable[str]) -> JSON:
    """Return the fields to send back: all or only `fields`, except those in `withheld`."""
    allowed = extra if fields is None else {*fields, NATIVE_TURN}
    left_out = {*withheld, CONTENT, GUIDED_REASONING}
    # This field was built from the signed parts; the provider never sent it.
    if CONTENT in extra and extra.get(_REASONING) == reasoning_in(extra[CONTENT]):
        left_out.add(_REASONING)
    return {key: value for key, value in extra.items() if key in allowed and key not in left_out}
