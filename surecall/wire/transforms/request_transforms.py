"""Outbound transforms: adapt requests to the requirements of some endpoints.

message       one message of the history
tool          one tool definition
tool result   what a tool returned, before the model sees it
"""

from collections.abc import Callable
from typing import Any

from surecall.parsing.coercion import ALL_TYPES, is_untyped, rewrite_schema
from surecall.parsing.names import is_legal_name
from surecall.values.family import Family
from surecall.values.types import JSON, is_blank
from surecall.wire.chat_format import short_id
from surecall.wire.request_adaptations import add_skip_signatures

MESSAGE: Family[JSON] = Family("message transform")
TOOL: Family[JSON] = Family("tool transform")
TOOL_RESULT: Family[JSON] = Family("tool result transform")

# The limit of Azure; other limits are 64 characters or more.
MAX_ID_LENGTH = 40


@MESSAGE.register
def assistant_tool_calls_content_null_if_blank(message: JSON) -> JSON:
    """Send `content: null` beside calls; some hosts reject blank text."""
    content = message.get("content")
    if not message.get("tool_calls") or not isinstance(content, str) or not is_blank(content):
        return message
    return message | {"content": None}


@MESSAGE.register
def assistant_tool_calls_reasoning_content_empty_if_missing(message: JSON) -> JSON:
    """Send an empty `reasoning_content` beside calls if there is none (DeepSeek)."""
    if not message.get("tool_calls") or "reasoning_content" in message:
        return message
    return message | {"reasoning_content": ""}


@MESSAGE.register
def assistant_tool_calls_reasoning_content_space_if_blank(message: JSON) -> JSON:
    """Send a space as `reasoning_content` beside calls if it is blank (Moonshot)."""
    if not message.get("tool_calls") or message.get("reasoning_content"):
        return message
    return message | {"reasoning_content": " "}


@MESSAGE.register
def call_ids_short_if_odd(message: JSON) -> JSON:
    """Shorten ids that are long or have characters other than letters, digits, `_`, and `-`."""
    answered = message.get("tool_call_id")
    if isinstance(answered, str) and _needs_short_id(answered):
        return message | {"tool_call_id": short_id(answered)}
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not any(_needs_short_id(_call_id(call)) for call in calls):
        return message
    return message | {
        "tool_calls": [
            call | {"id": short_id(_call_id(call))} if _needs_short_id(_call_id(call)) else call
            for call in calls
        ]
    }


def _call_id(call: Any) -> Any:
    return call.get("id") if isinstance(call, dict) else None


def _needs_short_id(call_id: Any) -> bool:
    # Legal tool names allow the same characters.
    return isinstance(call_id, str) and not (
        is_legal_name(call_id) and len(call_id) <= MAX_ID_LENGTH
    )


@MESSAGE.register
def content_text_parts_to_text(message: JSON) -> JSON:
    """Send text instead of a list of text parts, for hosts that reject lists."""
    match message.get("content"):
        case [_, *_] as parts if all(map(_is_text_part, parts)):
            return message | {"content": "".join(part["text"] for part in parts)}
        case _:
            return message


def _is_text_part(part: Any) -> bool:
    match part:
        case {"type": "text", "text": str()}:
            return len(part) == len(("type", "text"))
        case _:
            return False


@MESSAGE.register
def assistant_tool_calls_signature_skip_validator_if_missing(message: JSON) -> JSON:
    """Add a skip marker to calls without a thought signature, which Gemini would reject."""
    return add_skip_signatures(message)


@TOOL.register
def openai_tools_strip_function_descriptions(tool: JSON) -> JSON:
    """Omit function descriptions to save tokens; parameters keep theirs."""
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        return tool
    if "description" not in function:
        return tool
    rest = {key: value for key, value in function.items() if key != "description"}
    return tool | {"function": rest}


@TOOL.register
def openai_tools_untyped_to_any_type(tool: JSON) -> JSON:
    """List all types where a schema has none; llama.cpp rejects the request otherwise."""
    return _rewrite_schema(tool, _add_any_type)


def _rewrite_schema(tool: JSON, change: Callable[[JSON], JSON]) -> JSON:
    function = tool.get("function")
    parameters = function.get("parameters") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(parameters, dict) or not parameters:
        return tool
    changed = rewrite_schema(parameters, change)
    if changed is parameters:
        return tool
    # The root keeps its `type`: every endpoint requires that arguments are an object.
    root = {key: parameters[key] for key in ("type",) if key in parameters}
    return tool | {"function": function | {"parameters": changed | root}}


def _add_any_type(schema: JSON) -> JSON:
    return schema | {"type": list(ALL_TYPES)} if is_untyped(schema) else schema


@TOOL.register
def openai_tools_types_into_any_of(tool: JSON) -> JSON:
    """Move types into `anyOf`, and list all types where a schema has none (Moonshot)."""
    return _rewrite_schema(_rewrite_schema(tool, _move_type_into_any_of), _add_any_of)


def _add_any_of(schema: JSON) -> JSON:
    choices = [{"type": name} for name in ALL_TYPES]
    return schema | {"anyOf": choices} if is_untyped(schema) else schema


def _move_type_into_any_of(schema: JSON) -> JSON:
    """Declare the type in each alternative instead of beside `anyOf`."""
    kind, choices = schema.get("type"), schema.get("anyOf")
    if kind is None or not isinstance(choices, list):
        return schema
    if not all(_accepts_type(choice, kind) for choice in choices):
        return schema
    rest = {key: value for key, value in schema.items() if key != "type"}
    return rest | {"anyOf": [{"type": kind} | choice for choice in choices]}


def _accepts_type(choice: Any, kind: Any) -> bool:
    """Whether a choice has the same meaning with the type added."""
    if not isinstance(choice, dict) or {"$ref", "anyOf"} & choice.keys():
        return False
    allowed = kind if isinstance(kind, list) else [kind]
    return choice.get("type", kind) in (kind, *allowed)


@TOOL_RESULT.register
def tool_result_compact_envelope(envelope: JSON) -> JSON:
    """Omit empty `data`, `warnings`, and `errors` to save tokens."""
    present = [key for key in ("data", "warnings", "errors") if key in envelope]
    empty = [key for key in present if envelope[key] in ({}, [], None)]
    if not empty:
        return envelope
    return {key: value for key, value in envelope.items() if key not in empty}
