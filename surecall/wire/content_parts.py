"""Parses message content: text, content parts, and calls among the parts.

Some providers put calls in the content, in other vendors' formats:

    {"type": "tool_use", "id", "name", "input"}                         Anthropic
    {"type": "tool_call", "id", "name", "args"}                         LangChain
    {"type": "tool-call", "toolCallId", "toolName", "input"}            Vercel
    {"type": "function_call", "call_id", "name", "arguments"}           Responses
    {"type": "function", "id", "function": {"name", "arguments"}}       OpenAI, misplaced
    {"functionCall": {"name", "args"}}, {"toolUse": {"toolUseId", …}}   Gemini, Bedrock

In a stream a part may be a fragment of a call, without a name.
"""

from collections.abc import Sequence
from typing import Any, Final

from surecall.values.types import JSON

_KINDS = frozenset({"tooluse", "toolcall", "functioncall"})
_NAMES = ("name", "toolName", "tool_name")
_ARGUMENTS = ("arguments", "args", "input", "parameters")
_IDS = ("id", "call_id", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id")


def calls_in(content: Any) -> list[JSON]:
    """Return the calls among the parts of `content`, in `tool_calls` format."""
    return [call for part in parts_of(content) if (call := call_of(part)) is not None]


def parts_of(content: Any) -> list[Any]:
    """Return the parts of `content`; a single part need not be in a list."""
    if isinstance(content, dict):
        return [content]
    return content if isinstance(content, list) else []


def call_of(part: Any) -> JSON | None:
    """Return a part as a call; None if it is not one."""
    inner = _call_body(part) if isinstance(part, dict) else None
    if inner is None:
        return None
    wrapped = inner.get("function")
    function = wrapped if isinstance(wrapped, dict) else inner
    name = _first_present(function, _NAMES)
    given = _first_present(inner, _IDS) or _first_present(part, _IDS)
    call: JSON = {
        "type": "function",
        "function": {
            "name": name if isinstance(name, str) else "",
            "arguments": _first_present(function, _ARGUMENTS),
        },
    }
    if isinstance(index := part.get("index"), int):
        call["index"] = index
    return call | {"id": given} if isinstance(given, str | int) else call


def _call_body(part: JSON) -> JSON | None:
    """Return the mapping with the name and arguments if the part is a call."""
    kind = part.get("type")
    if isinstance(kind, str):
        own = part.get(kind)
        if _fold_kind(kind) in _KINDS:
            return own if isinstance(own, dict) else part
        is_call = kind == "function" and isinstance(own, dict) and "arguments" in own
        return part if is_call else None
    for key, value in part.items():
        if isinstance(value, dict) and _fold_kind(key) in _KINDS:
            return value
    return None


def _fold_kind(word: str) -> str:
    """Return a part type in lower case, without `-` and `_`."""
    return word.replace("_", "").replace("-", "").casefold()


def _first_present(mapping: JSON, keys: tuple[str, ...]) -> Any:
    """Return the value of the first of these keys that is not null."""
    return next((mapping[key] for key in keys if mapping.get(key) is not None), None)


# Content parts: text, reasoning, and provider state.
#
# A part that is neither text nor a call is provider state, such as signed reasoning, which its
# endpoint expects back unchanged.

_TEXT_PARTS: Final = frozenset({"text", "output_text"})


def text_of(content: Any) -> str:
    """Return content as text, joining its text parts."""
    match content:
        case str():
            return content
        case list():
            return "".join(_part_text(part) for part in content)
        case dict():
            return _part_text(content)
        case _:
            return ""


def _part_text(part: Any) -> str:
    match part:
        case str():
            return part
        case {"type": "text" | "output_text", "text": str(text)}:
            return text
        case {"type": _}:
            return ""
        case {"text": str(text)} | {"content": str(text)}:
            return text
        case _:
            return ""


def reasoning_in(parts: Sequence[Any]) -> str:
    """Return the joined text of reasoning parts."""
    return "".join(map(_part_reasoning, parts))


def _part_reasoning(part: Any) -> str:
    match part:
        case {"type": "thinking", "thinking": str() | list() as thought}:
            return text_of(thought)
        case {"type": "thinking" | "reasoning", "text": str(text)}:
            return text
        case _:
            return ""


def is_provider_state(part: Any) -> bool:
    """Whether a part is neither text nor a call."""
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and kind not in _TEXT_PARTS and call_of(part) is None


def parts_to_echo(content: Any) -> list[Any]:
    """Return the parts to send back, without calls; none if no part is provider state."""
    if not isinstance(content, list) or not any(map(is_provider_state, content)):
        return []
    # Calls are sent back in `tool_calls`; a part that repeats one is dropped.
    return [part for part in content if call_of(part) is None]


def parts_with_text(parts: Sequence[Any], text: str) -> list[Any]:
    """Return `parts` if their text is `text`, else their provider state followed by `text`."""
    if text_of(list(parts)) == text:
        return list(parts)
    text_parts: list[JSON] = [{"type": "text", "text": text}] if text else []
    return [*filter(is_provider_state, parts), *text_parts]
