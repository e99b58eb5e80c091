"""Outbound transforms: what some endpoints want to see in a request.

message       one message of the history
tool          one tool definition
tool result   what a tool returned, before the model sees it
"""

from collections.abc import Callable
from typing import Any

from surecall.parsing.names import is_legal
from surecall.parsing.schema_walk import ANY_TYPE, is_untyped, rewritten
from surecall.values.family import Family
from surecall.values.types import JSON, is_blank
from surecall.wire.history_codec import with_signatures
from surecall.wire.messages import short_id

MESSAGE: Family[JSON] = Family("message transform")
TOOL: Family[JSON] = Family("tool transform")
TOOL_RESULT: Family[JSON] = Family("tool result transform")

# Azure takes no longer ids; others who mind take 64 characters.
LONGEST_ID = 40


@MESSAGE.register
def assistant_tool_calls_content_null_if_blank(message: JSON) -> JSON:
    """Send `content: null` beside calls: some hosts refuse a blank text."""
    content = message.get("content")
    if not message.get("tool_calls") or not isinstance(content, str) or not is_blank(content):
        return message
    return message | {"content": None}


@MESSAGE.register
def assistant_tool_calls_reasoning_content_empty_if_missing(message: JSON) -> JSON:
    """Send an empty `reasoning_content` beside calls where there is no real one (DeepSeek)."""
    if not message.get("tool_calls") or "reasoning_content" in message:
        return message
    return message | {"reasoning_content": ""}


@MESSAGE.register
def assistant_tool_calls_reasoning_content_space_if_blank(message: JSON) -> JSON:
    """Send a space as `reasoning_content` beside calls where there is no real one (Moonshot)."""
    if not message.get("tool_calls") or message.get("reasoning_content"):
        return message
    return message | {"reasoning_content": " "}


@MESSAGE.register
def call_ids_short_if_odd(message: JSON) -> JSON:
    """Send a short id where one is long or has signs beyond letters, digits, `_` and `-`."""
    answered = message.get("tool_call_id")
    if isinstance(answered, str) and _is_odd(answered):
        return message | {"tool_call_id": short_id(answered)}
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not any(_is_odd(_id_of(call)) for call in calls):
        return message
    return message | {
        "tool_calls": [
            call | {"id": short_id(_id_of(call))} if _is_odd(_id_of(call)) else call
            for call in calls
        ]
    }


def _id_of(call: Any) -> Any:
    return call.get("id") if isinstance(call, dict) else None


def _is_odd(call_id: Any) -> bool:
    # Legal names are made of the same signs.
    return isinstance(call_id, str) and not (is_legal(call_id) and len(call_id) <= LONGEST_ID)


@MESSAGE.register
def content_text_parts_to_text(message: JSON) -> JSON:
    """Send a text instead of a list of texts, for hosts that take no lists."""
    match message.get("content"):
        case [_, *_] as parts if all(map(_is_text, parts)):
            return message | {"content": "".join(part["text"] for part in parts)}
        case _:
            return message


def _is_text(part: Any) -> bool:
    match part:
        case {"type": "text", "text": str()}:
            return len(part) == len(("type", "text"))
        case _:
            return False


@MESSAGE.register
def assistant_tool_calls_signature_skip_validator_if_missing(message: JSON) -> JSON:
    """Mark calls that carry no thought signature, so that Gemini does not refuse them."""
    return with_signatures(message)


@TOOL.register
def openai_tools_strip_function_descriptions(tool: JSON) -> JSON:
    """Leave out the descriptions of functions, to save tokens; parameters keep theirs."""
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        return tool
    if "description" not in function:
        return tool
    rest = {key: value for key, value in function.items() if key != "description"}
    return tool | {"function": rest}


@TOOL.register
def openai_tools_untyped_to_any_type(tool: JSON) -> JSON:
    """Name all types where a schema names none; llama.cpp refuses the request otherwise."""
    return _with_schema(tool, _typed)


def _with_schema(tool: JSON, change: Callable[[JSON], JSON]) -> JSON:
    function = tool.get("function")
    parameters = function.get("parameters") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(parameters, dict) or not parameters:
        return tool
    changed = rewritten(parameters, change)
    if changed is parameters:
        return tool
    # Arguments are an object, whatever else is said of them: every endpoint wants to read that.
    root = {key: parameters[key] for key in ("type",) if key in parameters}
    return tool | {"function": function | {"parameters": changed | root}}


def _typed(schema: JSON) -> JSON:
    return schema | {"type": list(ANY_TYPE)} if is_untyped(schema) else schema


@TOOL.register
def openai_tools_types_into_any_of(tool: JSON) -> JSON:
    """Name types within `anyOf`, not beside it, and all where there is none (Moonshot)."""
    return _with_schema(_with_schema(tool, _moved), _chosen)


def _chosen(schema: JSON) -> JSON:
    choices = [{"type": name} for name in ANY_TYPE]
    return schema | {"anyOf": choices} if is_untyped(schema) else schema


def _moved(schema: JSON) -> JSON:
    kind, choices = schema.get("type"), schema.get("anyOf")
    if kind is None or not isinstance(choices, list):
        return schema
    if not all(_takes_type(choice, kind) for choice in choices):
        return schema
    rest = {key: value for key, value in schema.items() if key != "type"}
    return rest | {"anyOf": [{"type": kind} | choice for choice in choices]}


def _takes_type(choice: Any, kind: Any) -> bool:
    """Whether a choice means the same with the type that stood beside it."""
    if not isinstance(choice, dict) or {"$ref", "anyOf"} & choice.keys():
        return False
    allowed = kind if isinstance(kind, list) else [kind]
    return choice.get("type", kind) in (kind, *allowed)


@TOOL_RESULT.register
def tool_result_compact_envelope(envelope: JSON) -> JSON:
    """Leave out `data`, `warnings` and `errors` where they are empty, to save tokens."""
    present = [key for key in ("data", "warnings", "errors") if key in envelope]
    empty = [key for key in present if envelope[key] in ({}, [], None)]
    if not empty:
        return envelope
    return {key: value for key, value in envelope.items() if key not in empty}
