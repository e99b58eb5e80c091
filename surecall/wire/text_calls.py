"""Calls that came as text: found in the content, and put where calls belong.

The text itself says which dialect it is (see `dialects`). What is found passes the same resolver,
mask, size guard and validation as any other call. Only the model's own words of this turn are
looked at, never tool output or what a user wrote.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from surecall.values.types import JSON, ToolSpec
from surecall.wire.dialects import Found, Recovered, recover, without_thoughts
from surecall.wire.messages import raw_calls, text_of

TextCalls: TypeAlias = Literal["off", "marked", "any"]
# A call that was cut off must not run, however well its beginning reads.
CUT_OFF = "{"
THINKING = "thinking_kept_apart"
ECHO = "text_echo_of_calls_removed"
_THOUGHTS = ("reasoning_content", "reasoning")


def with_text_calls(
    message: JSON,
    tools: Sequence[ToolSpec],
    mode: TextCalls,
    fired: list[str],
    *,
    strip_thinking: bool = True,
) -> JSON:
    """Return a raw message with the calls of its text lifted out, or the same one.

    Unless told otherwise, thoughts leave the text as well, also where no calls are looked for.
    """
    content = text_of(message.get("content"))
    if mode == "off" and not strip_thinking:
        return message
    if raw_calls(message):
        return _without_echo(message, content, tools, mode, fired)
    if mode == "off":
        return _without_thoughts(message, without_thoughts(content), fired)
    weak = mode == "any"
    if not content.strip():
        return _from_thoughts(message, tools, fired, weak=weak)
    found = recover(content, tools, weak=weak, keep_reasoning=not strip_thinking)
    if found.calls:
        return _lifted(message, found, fired)
    return _without_thoughts(message, found, fired) if strip_thinking else message


def _without_echo(
    message: JSON, content: str, tools: Sequence[ToolSpec], mode: TextCalls, fired: list[str]
) -> JSON:
    """Take calls out of the text that stand where calls belong as well; they are not made twice."""
    found = Recovered(content) if mode == "off" else recover(content, tools, weak=mode == "any")
    if not found.calls:
        return message
    fired.append(ECHO)
    return message | {"content": found.text or None}


def _without_thoughts(message: JSON, found: Recovered, fired: list[str]) -> JSON:
    """Move thoughts to where a provider would have put them; a reply of thoughts alone stays."""
    if found.text == text_of(message.get("content")) or not found.text.strip():
        return message
    fired.append(THINKING)
    thoughts = {"reasoning_content": found.reasoning} if found.reasoning else {}
    return thoughts | message | {"content": found.text}


def _from_thoughts(
    message: JSON, tools: Sequence[ToolSpec], fired: list[str], *, weak: bool
) -> JSON:
    """Take a call out of the reasoning when it is all there is; the last one is the decision."""
    for field in _THOUGHTS:
        thoughts = message.get(field)
        if isinstance(thoughts, str) and thoughts.strip() and tools:
            found = recover(thoughts, tools, weak=weak)
            whole = [call for call in found.calls if not call.truncated]
            if whole:
                return _lifted(message, Recovered("", (whole[-1],)), fired)
    return message


def _lifted(message: JSON, found: Recovered, fired: list[str]) -> JSON:
    fired += dict.fromkeys(f"text_call_{call.dialect}" for call in found.calls)
    thoughts = {"reasoning_content": found.reasoning} if found.reasoning else {}
    lifted = {"content": found.text, "tool_calls": [_raw(call) for call in found.calls]}
    return thoughts | message | lifted


def _raw(call: Found) -> JSON:
    arguments = CUT_OFF if call.truncated else call.arguments
    raw: JSON = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return raw | {"id": call.id} if call.id else raw
