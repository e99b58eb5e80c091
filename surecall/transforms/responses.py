"""Response transforms: heal the assistant message before anything else reads it."""

import json

from surecall.family import Family
from surecall.transforms.tags import read_tags
from surecall.types import JSON

RESPONSE: Family[JSON] = Family("response transform")


@RESPONSE.register
def assistant_function_call_to_tool_calls(message: JSON) -> JSON:
    """Lift the deprecated `function_call` object into a `tool_calls` array of one."""
    if "function_call" not in message:
        return message
    rest = {key: value for key, value in message.items() if key != "function_call"}
    legacy = message["function_call"]
    match legacy:
        case {"name": str(name)} if name.strip() and not message.get("tool_calls"):
            function = {"name": name, "arguments": _as_text(legacy.get("arguments"))}
            return rest | {"tool_calls": [{"type": "function", "function": function}]}
        case _:
            return rest


@RESPONSE.register
def assistant_tool_calls_object_to_array(message: JSON) -> JSON:
    """Wrap a bare `tool_calls` object: some routes drop the array around a single call."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": [calls]} if isinstance(calls, dict) else message


@RESPONSE.register
def assistant_tool_calls_arguments_json_string_if_hash(message: JSON) -> JSON:
    """Serialise `arguments` that arrive as an object; the contract is JSON text."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    healed = [_with_text_arguments(call) for call in calls]
    if all(after is before for after, before in zip(healed, calls, strict=True)):
        return message
    return message | {"tool_calls": healed}


@RESPONSE.register
def assistant_content_tool_call_tags_to_tool_calls(message: JSON) -> JSON:
    """Read `<tool_call>` text from models that do not emit structured calls."""
    content = message.get("content")
    if message.get("tool_calls") or not isinstance(content, str):
        return message
    text, calls = read_tags(content)
    if calls:
        return message | {"content": text.strip(), "tool_calls": calls}
    return message if text == content else message | {"content": text}


def _with_text_arguments(call: object) -> object:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or "arguments" not in function:
        return call
    text = _as_text(function["arguments"])
    if text is function["arguments"]:
        return call
    return call | {"function": function | {"arguments": text}}


def _as_text(arguments: object) -> object:
    """Write an object as JSON. What JSON cannot carry stays: the argument reader judges it."""
    if not isinstance(arguments, dict | list):
        return arguments
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments
