"""Message transforms: what some endpoints want to see in an outbound message."""

from surecall.values.family import Family
from surecall.values.types import JSON

MESSAGE: Family[JSON] = Family("message transform")

SKIP_SIGNATURE = "skip_thought_signature_validator"


@MESSAGE.register
def assistant_tool_calls_content_null_if_blank(message: JSON) -> JSON:
    """Send `content: null` beside calls: some hosts refuse a blank text."""
    content = message.get("content")
    if not message.get("tool_calls") or not isinstance(content, str) or content.strip():
        return message
    return message | {"content": None}


@MESSAGE.register
def assistant_tool_calls_reasoning_content_empty_if_missing(message: JSON) -> JSON:
    """Send an empty `reasoning_content` beside calls where there is no real one (DeepSeek)."""
    if not message.get("tool_calls") or "reasoning_content" in message:
        return message
    return message | {"reasoning_content": ""}


@MESSAGE.register
def assistant_tool_calls_signature_skip_validator_if_missing(message: JSON) -> JSON:
    """Mark calls that carry no thought signature, so that Gemini does not refuse them."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    marked = [_signed(call) for call in calls]
    if all(after is before for after, before in zip(marked, calls, strict=True)):
        return message
    return message | {"tool_calls": marked}


def _signed(call: object) -> object:
    if not isinstance(call, dict) or "signature" in call or "extra_content" in call:
        return call
    # Routers look at `signature`, Google's own endpoint at `extra_content`.
    google = {"google": {"thought_signature": SKIP_SIGNATURE}}
    return call | {"signature": SKIP_SIGNATURE, "extra_content": google}
