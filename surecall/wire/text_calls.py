"""Calls that came as text: found in the content, and put where calls belong.

The text itself says which dialect it is (see `dialects`). What is found passes the same resolver,
mask, size guard and validation as any other call. Only the model's own words of this turn are
looked at, never tool output or what a user wrote. Whether a call may run is not decided here: a
`TextReading` has both the message with its calls lifted out and the message as it came.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from surecall.values.types import JSON, Claim, ToolSpec, is_blank
from surecall.wire.call_styles import TextCalls
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import Found, Recovered, recover, without_thoughts
from surecall.wire.dialects.spelling import ARGUMENT_KEYS, OPENERS
from surecall.wire.messages import call_parts, decode, raw_calls
from surecall.wire.text_edges import trimmed

# A call that was cut off must not run, however well its beginning reads.
CUT_OFF = "{"
THINKING = "thinking_kept_apart"
ECHO = "text_echo_of_calls_removed"
# How the step that lifts a call out of the text is called, before the name of the dialect.
TEXT_CALL = "text_call_"
_THOUGHT_ENDS = "</think>"
_THOUGHTS = ("reasoning_content", "reasoning")
# How special tokens of chat templates begin, and what a call may end with.
_SPECIAL = "<|"
_ENDS = frozenset("}])>")
# How a text begins and ends that is nothing but a call, and whose call cannot be read.
_CALL_BEGINS = ("{", "[", "«", ">>>", "Action:")
_CALL_ENDS = ("}", "]", "»")
# Marks that open a call and nothing else; those that prose can have are weak.
_WRAPS = tuple(opener.stem for opener in OPENERS if opener.kind == "wrap" and not opener.weak)


class TextReading(msgspec.Struct, frozen=True):
    """What the text of a message holds: the message with its calls lifted out, and without that.

    `asked` are the names and arguments of the calls, `words` the words of each, and `claims` calls
    that cannot be lifted out. `followed` says that something comes after the last call, `spare`
    that a call may have ended too early. `apparent` has the words of a claim that only looks like
    a call.
    """

    message: JSON
    unlifted: JSON
    fired: tuple[str, ...] = ()
    unlifted_fired: tuple[str, ...] = ()
    asked: tuple[tuple[str, Any], ...] = ()
    words: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    followed: bool = False
    spare: bool = False
    apparent: str = ""

    @property
    def text(self) -> str:
        """What is said, with its calls in it."""
        return text_of(self.unlifted.get("content"))

    @property
    def names(self) -> tuple[str, ...]:
        """The tools that are called."""
        return tuple(name for name, _ in self.asked)


def with_text_calls(
    message: JSON, tools: Sequence[ToolSpec], mode: TextCalls, *, strip_thinking: bool = True
) -> TextReading:
    """Read the text of a raw message.

    Unless told otherwise, thoughts leave the text, also where no calls are looked for.
    """
    content = text_of(message.get("content"))
    if mode == "off" and not strip_thinking:
        return TextReading(message, message)
    if raw_calls(message):
        return _without_echo(message, content, tools, mode)
    if mode == "off":
        return _without_thoughts(message, without_thoughts(content))
    weak = mode == "any"
    if is_blank(content):
        return _from_thoughts(message, tools, weak=weak)
    found = recover(content, tools, weak=weak, keep_reasoning=not strip_thinking)
    plain = _without_thoughts(message, found) if strip_thinking else TextReading(message, message)
    reading = _lifted(message, found, plain)
    if reading.asked or reading.claims:
        return reading
    return _broken(reading, content, tools) or (
        reading if weak else _apparent(reading, content, tools)
    )


def _without_echo(
    message: JSON, content: str, tools: Sequence[ToolSpec], mode: TextCalls
) -> TextReading:
    """Take calls out of the text that stand where calls belong as well; they are not made twice."""
    if mode == "off" or is_blank(content):
        return TextReading(message, message)
    found = recover(content, tools, weak=mode == "any")
    made = [_plain_parts(raw) for raw in raw_calls(message)]
    if not found.calls or any((call.name, call.arguments) not in made for call in found.calls):
        return _without_thoughts(message, found)
    unlifted = message | {"content": found.text or None}
    return TextReading(unlifted, unlifted, (ECHO,), (ECHO,))


def _plain_parts(raw: JSON) -> tuple[str, Any]:
    """Return the name and the arguments of a call, decoded where they are JSON."""
    name, arguments = call_parts(raw)
    try:
        return name, decode(arguments.encode()) if isinstance(arguments, str) else arguments
    except ValueError:
        return name, arguments


def _without_thoughts(message: JSON, found: Recovered) -> TextReading:
    """Move thoughts to where a provider would have put them; a reply of thoughts alone stays."""
    text = found.unlifted
    if text == text_of(message.get("content")) or is_blank(text):
        return TextReading(message, message)
    apart = _thoughts(found) | message | {"content": text}
    return TextReading(apart, apart, (THINKING,), (THINKING,))


def _thoughts(found: Recovered) -> JSON:
    return {"reasoning_content": found.reasoning} if found.reasoning else {}


def _from_thoughts(message: JSON, tools: Sequence[ToolSpec], *, weak: bool) -> TextReading:
    """Take a call out of the reasoning when it is all there is; the last one is the decision."""
    plain = TextReading(message, message)
    for field in _THOUGHTS:
        thoughts = message.get(field)
        if isinstance(thoughts, str) and not is_blank(thoughts) and tools:
            # As if the server had left the thought in the text, or all of the text in the thought.
            whole = f"<think>{thoughts}"
            whole = whole if _THOUGHT_ENDS in thoughts else f"{whole}{_THOUGHT_ENDS}"
            found = recover(whole, tools, weak=weak)
            found = msgspec.structs.replace(found, reasoning="")
            if found.calls and not found.calls[-1].truncated:
                return _lifted(message, found, plain)
    return plain


def _lifted(message: JSON, found: Recovered, plain: TextReading) -> TextReading:
    """Put the calls of a text where calls belong."""
    claims = tuple(Claim(left.tool, left.rule) for left in found.passed_over if left.tool)
    if not found.calls:
        if not claims and is_nameless_call(found.unlifted):
            claims = (Claim("", "whole", alone=True),)
        return msgspec.structs.replace(plain, claims=claims)
    lifted = {"content": found.text, "tool_calls": [_raw(call) for call in found.calls]}
    return TextReading(
        _thoughts(found) | message | lifted,
        plain.unlifted,
        tuple(dict.fromkeys(f"{TEXT_CALL}{call.dialect}" for call in found.calls)),
        plain.unlifted_fired,
        tuple((call.name, call.arguments) for call in found.calls),
        found.words,
        claims,
        found.followed,
        found.spare,
    )


def _broken(reading: TextReading, content: str, tools: Sequence[ToolSpec]) -> TextReading | None:
    """Claim what is nothing but a call of a known tool, and cannot be read; None if it is not."""
    if "{" not in content:
        return None
    text = trimmed(content).strip()
    if not text.startswith(_CALL_BEGINS) or not text.rstrip("` \n").endswith(_CALL_ENDS):
        return None
    named = next((tool.name for tool in tools if tool.name in text), "")
    if not named or _is_json(text):
        return None
    claim = Claim(named, "whole", alone=True)
    return msgspec.structs.replace(reading, claims=(claim,), apparent=text)


def _is_json(text: str) -> bool:
    try:
        decode(text.encode("utf-8", "replace"))
    except ValueError:
        return False
    return True


def _apparent(reading: TextReading, content: str, tools: Sequence[ToolSpec]) -> TextReading:
    """Claim what ends a text and looks like a call, though its marks may mean something else."""
    text = trimmed(content).strip()
    if text[-1:] not in _ENDS:
        return reading
    named = next((tool.name for tool in tools if tool.name in text), "")
    # A text that begins with a token that is known is addressed to somebody.
    is_strange = text.startswith(_SPECIAL) and reading.text == content
    if _is_list_of_calls(text) or (named and is_strange):
        claim = Claim(named, "marked", alone=True)
        return msgspec.structs.replace(reading, claims=(claim,), apparent=text)
    found = recover(content, tools, weak=True) if named else None
    if found is None or not found.calls or found.followed:
        return reading
    if not all(_fits(call, tools) for call in found.calls):
        return reading
    claim = Claim(found.calls[-1].name, "marked", alone=is_blank(found.text))
    return msgspec.structs.replace(reading, claims=(claim,), apparent=found.words[-1])


def _fits(call: Found, tools: Sequence[ToolSpec]) -> bool:
    """Whether a call is whole, and all that it says is declared."""
    declared = {tool.name: tool.parameters.get("properties", {}) for tool in tools}
    given = call.arguments if isinstance(call.arguments, dict) else {}
    return not call.truncated and given.keys() <= declared.get(call.name, {}).keys()


def _is_list_of_calls(text: str) -> bool:
    """Whether a text is a list of calls in the form of the API, and nothing else."""
    if not text.startswith("{") or '"tool_calls"' not in text:
        return False
    try:
        value = decode(text.encode("utf-8", "replace"))
    except ValueError:
        return False
    calls = raw_calls(_mapping(value))
    return bool(calls) and all(call_parts(call)[0] for call in calls)


def is_nameless_call(text: str) -> bool:
    """Whether a text is a marked call and nothing else, and its object is right but for the name.

    Such a text is meant for the machine, even if it names no tool, or has a sentence for a name.
    """
    if "{" not in text:
        return False
    text = trimmed(text).strip()
    mark = next((stem for stem in _WRAPS if text.startswith(stem)), "")
    begin, end = text.find("{", len(mark)), text.rfind("}") + 1
    tag, after = text[len(mark) : max(begin, 0)].strip(" \t\r\n["), text[end:].strip(" \t\r\n],")
    opened = bool(mark) and (not tag or (mark[-1] != ">" and tag[-1] == ">"))
    closed = not after or (after[0] in "<[" and after[-1] in ">]")
    return opened and closed and _has_arguments(text[begin:end])


def _has_arguments(text: str) -> bool:
    try:
        value = decode(text.encode("utf-8", "replace"))
    except ValueError:
        return False
    inner = _mapping(_mapping(value).get("function")) or _mapping(value)
    if "type" in _mapping(inner.get("parameters")):
        return False  # it describes a tool
    return any(isinstance(inner.get(key), dict | str) for key in ARGUMENT_KEYS)


def _mapping(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def _raw(call: Found) -> JSON:
    arguments = CUT_OFF if call.truncated else call.arguments
    raw: JSON = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return raw | {"id": call.id} if call.id else raw
