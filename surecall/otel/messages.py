"""What was said, in the JSON of the GenAI conventions: messages that are made of parts.

    {"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]}

It is written only where an application asks for content.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json, encode_json
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from surecall.wire.messages import encode

UNWRITABLE: Final = '"(nested too deeply to be written)"'
_MODALITIES: Final = {"image_url": "image", "video_url": "video", "input_audio": "audio"}


def written(value: object) -> str:
    """Write a value as JSON, whatever it is."""
    try:
        return encode_json(value, encode, limit=MAX_WRAPPED_DEPTH).decode()
    except (TypeError, ValueError, OverflowError):
        return UNWRITABLE


def message_of(message: Message) -> str:
    """Write one message; blank for what was never sent."""
    match message:
        case System(words):
            return _message("system", [_text(words)])
        case User(content):
            return _message("user", _parts(content))
        case Assistant(words, calls):
            return _message("assistant", _said(words, calls))
        case ToolResult():
            return result_of(message)
        case _:  # a refusal
            return ""


def result_of(result: ToolResult) -> str:
    """Write what a tool returned, as it was told to the model."""
    # It is JSON already, and goes in as it is.
    part = {"type": "tool_call_response", "id": result.call_id, "response": as_json(result.content)}
    return _message("tool", [part])


def as_json(content: str) -> object:
    """Return JSON text as it can be put into other JSON; anything else stays a text."""
    try:
        return decode_json(content, msgspec.Raw)
    except ValueError:
        return content


def reply_of(reply: Reply) -> str:
    """Write what the model said, as it was read, as one of the messages so far."""
    return _message("assistant", _said(reply.text, reply.calls))


def outputs_of(reply: Reply) -> str:
    """Write the same as what came of a request."""
    return _outputs(_said(reply.text, reply.calls), reply.finish_reason or "error")


def said_by_user(words: str) -> str:
    """Write what the loop has said in the user's place."""
    return _message("user", [_text(words)])


def answer_of(words: str) -> str:
    """Write the answer of a run as what came of it."""
    return _outputs([_text(words)], "stop")


def _outputs(parts: list[JSON], finish_reason: str) -> str:
    return written([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}])


def definitions_of(tools: Iterable[ToolSpec]) -> str:
    """Write the tools that the model may call."""
    return written(
        [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in tools
        ]
    )


def _message(role: str, parts: list[JSON]) -> str:
    return written({"role": role, "parts": parts})


def _text(words: str) -> JSON:
    return {"type": "text", "content": words}


def _said(words: str, calls: Iterable[ToolCall]) -> list[JSON]:
    called = (
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in calls
    )
    return [*([_text(words)] if words else []), *called]


def _parts(content: str | list[Any]) -> list[JSON]:
    return [_text(content)] if isinstance(content, str) else [_part(item) for item in content]


def _part(item: Any) -> JSON:
    match item:
        case str():
            return _text(item)
        case {"type": "text", "text": str(words)}:
            return _text(words)
        case {"type": str(kind)} if kind in _MODALITIES:
            return _media(_MODALITIES[kind], item.get(kind))
        case {"type": str()}:
            return dict(item)
        case _:
            return {"type": "unknown", "content": item}


def _media(modality: str, given: Any) -> JSON:
    """Write an image, a sound or a film: its bytes if they are here, or where they are."""
    match given:
        case {"url": str(url)} if url.startswith("data:"):
            head, _, data = url.partition(",")
            kind = head.removeprefix("data:").partition(";")[0]
            return {"type": "blob", "modality": modality, "mime_type": kind, "content": data}
        case {"url": str(url)}:
            return {"type": "uri", "modality": modality, "uri": url}
        case {"data": str(data)}:
            return {"type": "blob", "modality": modality, "content": data}
        case _:
            return {"type": "unknown", "modality": modality}
