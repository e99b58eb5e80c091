"""Calls that came as parts of the content, as in other vendors' formats.

    {"type": "tool_use", "id", "name", "input"}                         Anthropic
    {"type": "tool_call", "id", "name", "args"}                         LangChain
    {"type": "tool-call", "toolCallId", "toolName", "input"}            Vercel
    {"type": "function_call", "call_id", "name", "arguments"}           Responses
    {"type": "function", "id", "function": {"name", "arguments"}}       a call in the wrong place
    {"functionCall": {"name", "args"}}, {"toolUse": {"toolUseId", …}}   Gemini, Bedrock

A part is the model's by its form, like a call in the list of calls. In a stream it may be a piece
of one, without a name.
"""

from typing import Any

from surecall.values.types import JSON

_KINDS = frozenset({"tooluse", "toolcall", "functioncall"})
_NAMES = ("name", "toolName", "tool_name")
_ARGUMENTS = ("arguments", "args", "input", "parameters")
_IDS = ("id", "call_id", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id")


def calls_in(content: Any) -> list[JSON]:
    """Return the calls among the parts of a content, as items of a list of calls."""
    return [call for part in parts_of(content) if (call := call_of(part)) is not None]


def parts_of(content: Any) -> list[Any]:
    """Return the parts of a content; a lone one may come without its list."""
    if isinstance(content, dict):
        return [content]
    return content if isinstance(content, list) else []


def call_of(part: Any) -> JSON | None:
    """Return the call that a part is; None if it is something else."""
    inner = _inside(part) if isinstance(part, dict) else None
    if inner is None:
        return None
    wrapped = inner.get("function")
    function = wrapped if isinstance(wrapped, dict) else inner
    name = _first(function, _NAMES)
    given = _first(inner, _IDS) or _first(part, _IDS)
    call: JSON = {
        "type": "function",
        "function": {
            "name": name if isinstance(name, str) else "",
            "arguments": _first(function, _ARGUMENTS),
        },
    }
    if isinstance(index := part.get("index"), int):
        call["index"] = index
    return call | {"id": given} if isinstance(given, str | int) else call


def _inside(part: JSON) -> JSON | None:
    """Return what holds the name of a call, if the part says that it is one."""
    kind = part.get("type")
    if isinstance(kind, str):
        own = part.get(kind)
        if _folded(kind) in _KINDS:
            return own if isinstance(own, dict) else part
        is_call = kind == "function" and isinstance(own, dict) and "arguments" in own
        return part if is_call else None
    for key, value in part.items():
        if isinstance(value, dict) and _folded(key) in _KINDS:
            return value
    return None


def _folded(word: str) -> str:
    return word.replace("_", "").replace("-", "").casefold()


def _first(mapping: JSON, keys: tuple[str, ...]) -> Any:
    return next((mapping[key] for key in keys if mapping.get(key) is not None), None)
