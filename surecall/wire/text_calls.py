"""Extracts calls that a model wrote as text and moves them to `tool_calls`.

The text itself determines the dialect (see `dialects`). Extracted calls pass the same resolution,
masking, size limits, and validation as native calls. Only the model's text of this turn is parsed,
never tool output or user text. Whether a call may run is decided by the caller: `ExtractedCalls`
has both the message with its calls extracted and the message without extraction.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec

from surecall.parsing.budget import MAX_TEXT
from surecall.values.types import JSON, AmbiguousCall, ToolSpec, is_blank, object_or_empty
from surecall.wire.call_styles import TextCalls
from surecall.wire.chat_format import decode, name_and_arguments, raw_calls
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import RecoveredCall, RecoveredText, extract_reasoning, recover
from surecall.wire.dialects.call_values import has_key
from surecall.wire.dialects.marks import code_end
from surecall.wire.dialects.segments import QuotationTracker, starts_line
from surecall.wire.dialects.spelling import (
    ARGUMENT_KEYS,
    FENCE_LABELS,
    FENCES,
    OPENERS,
)
from surecall.wire.dialects.text_source import TextSource
from surecall.wire.text_edges import trim_edges

# Invalid JSON: a truncated call must not run, even if its beginning parses.
TRUNCATED_ARGUMENTS = "{"
REASONING_MOVED = "thinking_kept_apart"
ECHO_REMOVED = "text_echo_of_calls_removed"
# Name of the repair that extracts a call, followed by the name of the dialect.
TEXT_CALL_PREFIX = "text_call_"
_REASONING_END = "</think>"
_REASONING_FIELDS = ("reasoning_content", "reasoning")
# Start of special tokens of chat templates, and the last characters of calls.
_SPECIAL_START = "<|"
_CALL_LAST_CHARS = frozenset("}])>")
# How a text that is an unparsable call begins and ends.
_CALL_STARTS = ("{", "[", "«", ">>>", "Action:")
_CALL_ENDS = ("}", "]", "»")
# What distinguishes a damaged call from prose: marks near its end, beside its name, and in it.
_MAX_CLOSER = 64
_MAX_KEYS = 64
_MAX_LEAD_WORDS = 3
_CLOSING_MARKS = ("}", "]", ")", ">", "»", "</", "|", "`")
_NAME_ENDS = ("(", "{", "[", "<", ">", "=", ".call(")
_NAME_STARTS = ("<", "/", "[", "=")
_MARK_PIECES = (
    *("tool_c", "function", "invoke", "parameter", "arg_", "<|", "<｜", "DSML", "call:"),  # noqa: RUF001
    *(">>>", "«call ", "Action"),
    *('"arguments"', '"parameters"', '"name"', '"action_input"'),
)
_FIRST_MARKS = ("<", "{", "[", ">>>", "Action")
_SENTENCE_ENDS = (".", "!", "?", "。")
_LEAD_CHARS = frozenset('<{["«')
_LINE_MARKS = ("> ", "| ", "- ", "* ", "+ ", "• ")
_QUOTE_PAIRS = (
    *(('"', '"'), ("'", "'"), ("“", "”"), ("„", "“"), ("„", "”"), ("«", "»")),
    *(("»", "«"), ("‘", "’"), ("‹", "›"), ("「", "」")),  # noqa: RUF001
)
_LONG_FENCES = ("````", "~~~~")
_GUILLEMET_CALL = "«call "
_GEMINI = "default_api."
# What may stand before a fenced call.
_ACTION_WORDS = (
    *("action", "json", "tool", "name", "param", "call", "arg", "value", "message", "sep"),
)
# Labels of a code block that may be a call if it is the whole reply.
_CALL_LABELS = ("json", "call", *FENCE_LABELS)
# Marks that only open calls; weak marks, which also occur in prose, are excluded.
_WRAP_STEMS = tuple(opener.stem for opener in OPENERS if opener.kind == "wrap" and not opener.weak)


class ExtractedCalls(msgspec.Struct, frozen=True):
    """The calls in the text of a message.

    `message` has its calls extracted; `unextracted` still has them in its text. `requested_calls`
    are names and arguments, `call_texts` the text of each call, `claims` calls that cannot be
    extracted. `has_trailing_text` means that text follows the last call, `may_end_early` that a
    call may have ended too early. `apparent` is the text of a claim that only looks like a call.
    """

    message: JSON
    unextracted: JSON
    repairs: tuple[str, ...] = ()
    unextracted_repairs: tuple[str, ...] = ()
    requested_calls: tuple[tuple[str, Any], ...] = ()
    call_texts: tuple[str, ...] = ()
    claims: tuple[AmbiguousCall, ...] = ()
    has_trailing_text: bool = False
    may_end_early: bool = False
    apparent: str = ""

    @property
    def text(self) -> str:
        """The text of the message, including its calls."""
        return text_of(self.unextracted.get("content"))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the called tools."""
        return tuple(name for name, _ in self.requested_calls)


def extract_text_calls(
    message: JSON, tools: Sequence[ToolSpec], mode: TextCalls, *, strip_thinking: bool = True
) -> ExtractedCalls:
    """Extract the calls from the text of a raw message.

    With `strip_thinking`, reasoning is removed from the text even if `mode` is "off".
    """
    content = text_of(message.get("content"))
    if mode == "off" and not strip_thinking:
        return ExtractedCalls(message, message)
    if raw_calls(message):
        return _remove_echoed_calls(message, content, tools, mode)
    if mode == "off":
        return _move_reasoning(message, extract_reasoning(content))
    weak = mode == "any"
    if is_blank(content):
        return _extract_from_reasoning(message, tools, weak=weak)
    found = recover(content, tools, weak=weak, keep_reasoning=not strip_thinking)
    plain = _move_reasoning(message, found) if strip_thinking else ExtractedCalls(message, message)
    reading = _move_calls(message, found, plain)
    if reading.requested_calls or reading.claims:
        return reading
    reading = _claim_unreadable_call(reading, content, tools) or (
        reading if weak else _claim_apparent_call(reading, content, tools)
    )
    return reading if reading.claims or found.has_recipient else _claim_damaged_call(reading, tools)


def _remove_echoed_calls(
    message: JSON, content: str, tools: Sequence[ToolSpec], mode: TextCalls
) -> ExtractedCalls:
    """Remove calls from the text that are also in `tool_calls`, so that they do not run twice."""
    if mode == "off" or is_blank(content):
        return ExtractedCalls(message, message)
    found = recover(content, tools, weak=mode == "any")
    existing = [_decoded_name_and_arguments(raw) for raw in raw_calls(message)]
    if not found.calls or any((call.name, call.arguments) not in existing for call in found.calls):
        return _move_reasoning(message, found)
    unlifted = message | {"content": found.text or None}
    return ExtractedCalls(unlifted, unlifted, (ECHO_REMOVED,), (ECHO_REMOVED,))


def _decoded_name_and_arguments(raw: JSON) -> tuple[str, Any]:
    """Return the name and the arguments of a call, decoded if they are JSON."""
    name, arguments = name_and_arguments(raw)
    try:
        return name, decode(arguments.encode()) if isinstance(arguments, str) else arguments
    except ValueError:
        return name, arguments


def _move_reasoning(message: JSON, found: RecoveredText) -> ExtractedCalls:
    """Move reasoning to `reasoning_content`, unless the reply has nothing else."""
    text = found.unextracted
    if text == text_of(message.get("content")) or is_blank(text):
        return ExtractedCalls(message, message)
    apart = _reasoning_field(found) | message | {"content": text}
    return ExtractedCalls(apart, apart, (REASONING_MOVED,), (REASONING_MOVED,))


def _reasoning_field(found: RecoveredText) -> JSON:
    """Return the field with the reasoning; no field without any."""
    return {"reasoning_content": found.reasoning} if found.reasoning else {}


def _extract_from_reasoning(
    message: JSON, tools: Sequence[ToolSpec], *, weak: bool
) -> ExtractedCalls:
    """Extract the last call in the reasoning of a reply that has nothing else."""
    plain = ExtractedCalls(message, message)
    for field in _REASONING_FIELDS:
        thoughts = message.get(field)
        if isinstance(thoughts, str) and not is_blank(thoughts) and tools:
            # Parse it as if the server had not separated the reasoning from the text.
            whole = f"<think>{thoughts}"
            whole = whole if _REASONING_END in thoughts else f"{whole}{_REASONING_END}"
            found = recover(whole, tools, weak=weak)
            found = msgspec.structs.replace(found, reasoning="")
            if found.calls and not found.calls[-1].truncated:
                return _move_calls(message, found, plain)
    return plain


def _move_calls(message: JSON, found: RecoveredText, plain: ExtractedCalls) -> ExtractedCalls:
    """Move the calls of a text to `tool_calls`."""
    claims = tuple(AmbiguousCall(left.tool, left.rule) for left in found.passed_over if left.tool)
    if not found.calls:
        if not claims and is_nameless_call(found.unextracted):
            claims = (AmbiguousCall("", "whole", alone=True),)
        return msgspec.structs.replace(plain, claims=claims)
    lifted = {"content": found.text, "tool_calls": [_raw_call(call) for call in found.calls]}
    return ExtractedCalls(
        _reasoning_field(found) | message | lifted,
        plain.unextracted,
        tuple(dict.fromkeys(f"{TEXT_CALL_PREFIX}{call.dialect}" for call in found.calls)),
        plain.unextracted_repairs,
        tuple((call.name, call.arguments) for call in found.calls),
        found.call_texts,
        claims,
        found.has_trailing_text,
        found.may_end_early,
    )


def _claim_unreadable_call(
    reading: ExtractedCalls, content: str, tools: Sequence[ToolSpec]
) -> ExtractedCalls | None:
    """Claim a text that is only an unparsable call of a known tool; None if it is not one."""
    if "{" not in content:
        return None
    text = trim_edges(content).strip()
    if not text.startswith(_CALL_STARTS) or not text.rstrip("` \n").endswith(_CALL_ENDS):
        return None
    named = next((tool.name for tool in tools if tool.name in text), "")
    if not named or _json_or_none(text) is not None:
        return None
    claim = AmbiguousCall(named, "whole", alone=True)
    return msgspec.structs.replace(reading, claims=(claim,), apparent=text)


def _json_or_none(text: str) -> Any:
    try:
        return decode(text.encode("utf-8", "replace"))
    except ValueError:
        return None


def _claim_apparent_call(
    reading: ExtractedCalls, content: str, tools: Sequence[ToolSpec]
) -> ExtractedCalls:
    """Claim what ends a text and looks like a call, although its marks are ambiguous."""
    text = trim_edges(content).strip()
    if text[-1:] not in _CALL_LAST_CHARS:
        return reading
    named = next((tool.name for tool in tools if tool.name in text), "")
    # An unchanged text that begins with a special token is in an unknown format.
    is_strange = text.startswith(_SPECIAL_START) and reading.text == content
    if _is_api_call_list(text) or (named and is_strange):
        claim = AmbiguousCall(named, "marked", alone=True)
        return msgspec.structs.replace(reading, claims=(claim,), apparent=text)
    found = recover(content, tools, weak=True) if named else None
    if found is None or not found.calls or found.has_trailing_text:
        return reading
    if not all(_fits_declaration(call, tools) for call in found.calls):
        return reading
    claim = AmbiguousCall(found.calls[-1].name, "marked", alone=is_blank(found.text))
    return msgspec.structs.replace(reading, claims=(claim,), apparent=found.call_texts[-1])


def _claim_damaged_call(reading: ExtractedCalls, tools: Sequence[ToolSpec]) -> ExtractedCalls:
    """Claim a call at the end of a text whose marks are missing, repeated, or exchanged.

    It names a known tool and one of its parameters, each with the marks of a call.
    """
    text = trim_edges(reading.text).strip()
    if len(text) > MAX_TEXT or not (_ends_with_mark(text) or _begins_with_mark(text)):
        return reading
    value = _json_or_none(text)
    for tool in tools:
        if value is not None:
            place = 0 if tool.name in text and _holds_call_of(value, tool) else -1
        else:
            place = _damaged_call_start(text, tool)
        if place >= 0 and not _is_shown(text, place, text.find(tool.name), tools):
            claim = AmbiguousCall(tool.name, "whole", alone=place == 0)
            return msgspec.structs.replace(reading, claims=(claim,), apparent=text[place:])
    return reading


def _ends_with_mark(text: str) -> bool:
    """Whether the last word of a text contains a closing mark."""
    words = text[-_MAX_CLOSER:].rsplit(maxsplit=1)
    return bool(words) and any(mark in words[-1] for mark in _CLOSING_MARKS)


def _begins_with_mark(text: str) -> bool:
    return text.startswith(_FIRST_MARKS) and not text.endswith(_SENTENCE_ENDS)


def _damaged_call_start(text: str, tool: ToolSpec) -> int:
    """Return where a damaged call of a tool may begin, or -1."""
    at = text.rfind(tool.name)
    if at < 0:
        return -1
    after = text[at + len(tool.name) :][:_MAX_CLOSER].lstrip()
    is_marked = after.startswith(_NAME_ENDS) or text[at - 1 : at] in _NAME_STARTS
    keys = list(islice(tool.parameters.get("properties") or {}, _MAX_KEYS))
    start = text.find(tool.name)
    first = text.rfind("\n\n", 0, start) + 1
    has_keys = any(has_key(text, key, first) or f"{tool.name}{key}" in text for key in keys)
    if not (is_marked or any(mark in text for mark in _MARK_PIECES)) or (keys and not has_keys):
        return -1
    line = text.rfind("\n", 0, start) + 1
    words = text[line:start].split(" ")
    is_lead = len(words) <= _MAX_LEAD_WORDS or text[line] in _LEAD_CHARS
    return line if is_lead else start - len(words[-1])


def _holds_call_of(value: object, tool: ToolSpec) -> bool:
    """Whether JSON has the name of a tool beside its arguments, under other keys than usual."""
    match value:
        case [item]:
            return _holds_call_of(item, tool)
        case dict() if tool.name in value.values():
            inner = next((item for item in value.values() if isinstance(item, dict)), value)
            return (
                bool(inner.keys() & _declared_keys(tool)) and _required_keys(tool) <= inner.keys()
            )
        case dict() if len(value) == 1 and tool.name not in value:
            # A key that occurs twice hides the name.
            (inner,) = value.values()
            return _holds_call_of(inner, tool) or _has_only_arguments(inner, tool)
        case _:
            return False


def _has_only_arguments(value: object, tool: ToolSpec) -> bool:
    """Whether a value is an object of arguments that a tool accepts."""
    return (
        isinstance(value, dict)
        and value.keys() <= _declared_keys(tool)
        and _required_keys(tool) <= value.keys() != set()
    )


def _declared_keys(tool: ToolSpec) -> set[str]:
    return {*(tool.parameters.get("properties") or ())}


def _required_keys(tool: ToolSpec) -> set[str]:
    return {*(tool.parameters.get("required") or ())}


def _is_shown(text: str, place: int, at: int, tools: Sequence[ToolSpec]) -> bool:
    """Whether a call from `place` on, with its name at `at`, is code or a quotation."""
    source = TextSource(text, tools)
    if (fence := _fence_around(source, place)) >= 0:
        block = text[fence:]
        label = block.partition("\n")[0].strip("~`").strip()
        lead = "".join(char if char.isalnum() else " " for char in text[:fence]).lower().split()
        is_code = label[:1].isalpha() and not label.startswith(_CALL_LABELS)
        is_code = (is_code or block.startswith(_LONG_FENCES)) and _GEMINI not in block
        return is_code or not all(word.startswith(_ACTION_WORDS) for word in lead)
    line = text[place : text.find("\n", place) % (len(text) + 1)]
    quoted = line.startswith(_LINE_MARKS) or any(
        line.startswith(opening) and line.rstrip(".!?").endswith(closing)
        for opening, closing in _QUOTE_PAIRS
    )
    if quoted or line.startswith(_GUILLEMET_CALL):
        return not (line.startswith(_GUILLEMET_CALL) and text.endswith(line))
    return (
        _is_inline_code(source, at)
        or "&lt;" in line
        or bool(QuotationTracker(source).quotation_reason(place, 0))
    )


def _is_inline_code(source: TextSource, at: int) -> bool:
    """Whether a place is inside inline code."""
    text, tick = source.text, source.text.rfind("\n", 0, at) + 1
    while (tick := text.find("`", tick, at)) >= 0:
        end = code_end(source, tick)
        if at < end and not text.startswith(FENCES, tick):
            return True
        tick = end
    return False


def _fence_around(source: TextSource, place: int) -> int:
    """Return where the code block around a place begins, or -1."""
    at = source.find_first(FENCES, 0)
    while 0 <= at < place:
        end = code_end(source, at)
        if starts_line(source.text, at) and place < end:
            return at
        at = source.find_first(FENCES, max(end, at + 1))
    return -1


def _fits_declaration(call: RecoveredCall, tools: Sequence[ToolSpec]) -> bool:
    """Whether a call is complete and all its arguments are declared."""
    declared = {tool.name: tool.parameters.get("properties", {}) for tool in tools}
    given = call.arguments if isinstance(call.arguments, dict) else {}
    return not call.truncated and given.keys() <= declared.get(call.name, {}).keys()


def _is_api_call_list(text: str) -> bool:
    """Whether a text is only a `tool_calls` object as in the API."""
    if not text.startswith("{") or '"tool_calls"' not in text:
        return False
    try:
        value = decode(text.encode("utf-8", "replace"))
    except ValueError:
        return False
    calls = raw_calls(object_or_empty(value))
    return bool(calls) and all(name_and_arguments(call)[0] for call in calls)


def is_nameless_call(text: str) -> bool:
    """Whether a text is only a marked call that is valid except for its name.

    Such a text is meant as a call even if it names no tool or has a sentence as its name.
    """
    if "{" not in text:
        return False
    text = trim_edges(text).strip()
    mark = next((stem for stem in _WRAP_STEMS if text.startswith(stem)), "")
    begin, end = text.find("{", len(mark)), text.rfind("}") + 1
    tag, after = text[len(mark) : max(begin, 0)].strip(" \t\r\n["), text[end:].strip(" \t\r\n],")
    opened = bool(mark) and (not tag or (mark[-1] != ">" and tag[-1] == ">"))
    closed = not after or (after[0] in "<[" and after[-1] in ">]")
    return opened and closed and _has_arguments(text[begin:end])


def _has_arguments(text: str) -> bool:
    """Whether a text is a JSON object with the arguments of a call."""
    try:
        value = decode(text.encode("utf-8", "replace"))
    except ValueError:
        return False
    inner = object_or_empty(object_or_empty(value).get("function")) or object_or_empty(value)
    if "type" in object_or_empty(inner.get("parameters")):
        return False  # it describes a tool
    return any(isinstance(inner.get(key), dict | str) for key in ARGUMENT_KEYS)


def _raw_call(call: RecoveredCall) -> JSON:
    """Return a recovered call in the form of `tool_calls`."""
    arguments = TRUNCATED_ARGUMENTS if call.truncated else call.arguments
    raw: JSON = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return raw | {"id": call.id} if call.id else raw
