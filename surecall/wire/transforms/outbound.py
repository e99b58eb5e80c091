"""Outbound transforms: what some endpoints want to see in a request.

message       one message of the history
tool          one tool definition
tool result   what a tool returned, before the model sees it
"""

from surecall.parsing.schema_walk import ANY_TYPE, is_untyped, rewritten
from surecall.values.family import Family
from surecall.values.types import JSON, is_blank

MESSAGE: Family[JSON] = Family("message transform")
TOOL: Family[JSON] = Family("tool transform")
TOOL_RESULT: Family[JSON] = Family("tool result transform")

SKIP_SIGNATURE = "skip_thought_signature_validator"


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
    function = tool.get("function")
    parameters = function.get("parameters") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(parameters, dict) or not parameters:
        return tool
    typed = rewritten(parameters, _typed)
    return tool if typed is parameters else tool | {"function": function | {"parameters": typed}}


def _typed(schema: JSON) -> JSON:
    return schema | {"type": list(ANY_TYPE)} if is_untyped(schema) else schema


@TOOL_RESULT.register
def tool_result_compact_envelope(envelope: JSON) -> JSON:
    """Leave out `data`, `warnings` and `errors` where they are empty, to save tokens."""
    present = [key for key in ("data", "warnings", "errors") if key in envelope]
    empty = [key for key in present if envelope[key] in ({}, [], None)]
    if not empty:
        return envelope
    return {key: value for key, value in envelope.items() if key not in empty}
