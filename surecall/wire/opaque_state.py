"""Opaque state: what a provider put into a reply beside the documented keys, kept to be sent back.

    in the message    reasoning, thinking blocks, encrypted content    `Assistant.extra`
    in its content    parts that are neither text nor a call           `Assistant.extra["content"]`
    in a call         signatures                                       `ToolCall.extra`
    in its function   signatures, too                                  `ToolCall.extra["function"]`

Nobody here knows what any of it means. It goes back as it came to the endpoint and model that made
it, but for fields that are known to be refused. No other endpoint or model sees it.
"""

from collections.abc import Iterable
from typing import Final

from surecall.values.types import JSON
from surecall.wire.content_parts import kept_parts, thoughts_in

CONTENT: Final = "content"
FUNCTION: Final = "function"
DOCUMENTED: Final = frozenset({"role", CONTENT, "tool_calls", "function_call", "name"})
DOCUMENTED_OF_CALL: Final = frozenset({"id", "type", FUNCTION, "index"})
DOCUMENTED_OF_FUNCTION: Final = frozenset({"name", "arguments"})
_THOUGHT = "reasoning_content"
# What a guided reply thought before its call. It is ours, kept for readers, and never sent.
GUIDED_THOUGHT: Final = "guided_thought"


def message_extra(message: JSON, said: JSON) -> JSON:
    """Return what stands beside the documented keys of a message, and the parts that it `said`."""
    extra = _beyond(message, DOCUMENTED)
    parts = kept_parts(said.get(CONTENT))
    return extra | {CONTENT: parts} if parts else extra


def call_extra(call: JSON) -> JSON:
    """Return what stands beside the documented keys of a call, and of its function."""
    extra = _beyond(call, DOCUMENTED_OF_CALL)
    function = call.get(FUNCTION)
    inner = _beyond(function, DOCUMENTED_OF_FUNCTION) if isinstance(function, dict) else {}
    return extra | {FUNCTION: inner} if inner else extra


def _beyond(mapping: JSON, documented: frozenset[str]) -> JSON:
    return {
        key: value for key, value in mapping.items() if key not in documented and value is not None
    }


def echoed(extra: JSON, fields: Iterable[str] | None, withheld: Iterable[str]) -> JSON:
    """Return the fields of a message that go back: all, or only these, but for those withheld."""
    allowed = extra if fields is None else frozenset(fields)
    left_out = {*withheld, CONTENT, GUIDED_THOUGHT}
    # The thought of signed parts is in the parts; as a field of the message it never came.
    if CONTENT in extra and extra.get(_THOUGHT) == thoughts_in(extra[CONTENT]):
        left_out.add(_THOUGHT)
    return {key: value for key, value in extra.items() if key in allowed and key not in left_out}
