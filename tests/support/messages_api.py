"""What tests of the Messages API send, answer with, and read from a stream."""

from typing import Any

import msgspec

from surecall.values.types import JSON
from surecall.wire.apis.adapter import ClientRequest
from surecall.wire.apis.messages_api import MessagesApi

FACE = MessagesApi()
TOOL = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m-1"}
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 4,
    "total_tokens": 14,
    "prompt_tokens_details": {"cached_tokens": 3},
}


def request(**fields: Any) -> bytes:
    """Write a request; what is None is left out."""
    basic = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}
    given = {key: value for key, value in (basic | fields).items() if value is not None}
    return msgspec.json.encode(given)


def asked(**fields: Any) -> ClientRequest:
    """Read a request."""
    return FACE.parse(request(**fields))


def chat(*messages: JSON, **fields: Any) -> list[JSON]:
    """Return the chat messages that messages become."""
    found: list[JSON] = asked(messages=list(messages), **fields).body["messages"]
    return found


def said(*blocks: Any) -> JSON:
    """Write an assistant message."""
    return {"role": "assistant", "content": list(blocks)}


def heard(*blocks: Any) -> JSON:
    """Write a user message."""
    return {"role": "user", "content": list(blocks)}


def text(text: str, **fields: Any) -> JSON:
    """Write a text block."""
    return {"type": "text", "text": text} | fields


def use(call_id: str, **given: Any) -> JSON:
    """Write a call's block."""
    return {"type": "tool_use", "id": call_id, "name": "add", "input": given}


def result(call_id: str, content: Any = "3", **fields: Any) -> JSON:
    """Write a result's block."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content} | fields


def call(call_id: str, arguments: str = '{"a":1}', **extra: Any) -> JSON:
    """Write a call of a chat message."""
    function = {"name": "add", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function} | extra


def completion(content: Any = None, *calls: JSON, finish: str = "stop", **extra: Any) -> JSON:
    """Write a chat completion."""
    message = {"role": "assistant", "content": content} | extra
    if calls:
        message["tool_calls"] = list(calls)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return HEAD | {"object": "chat.completion", "choices": [choice], "usage": USAGE}


def read_events(data: bytes) -> list[JSON]:
    """Read a stream's events; each has the name that its type says."""
    found = []
    for frame in data.decode().removesuffix("\n\n").split("\n\n"):
        name, _, payload = frame.partition("\n")
        event = msgspec.json.decode(payload.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def assembled(data: bytes) -> JSON:
    """Put a stream's events together as the SDKs do, and check their order on the way."""
    first, *events = read_events(data)
    message: JSON = first["message"]
    is_open = False
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert not is_open
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
                is_open = True
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(message["content"]) - 1
                _add(message["content"][-1], event["delta"])
            case "content_block_stop":
                assert is_open
                is_open = False
            case "message_delta":
                assert not is_open
                message |= event["delta"]
                message["usage"] |= event["usage"]
            case _:
                assert event is events[-1]
    assert events[-1] == {"type": "message_stop"}
    return message


def _add(block: JSON, delta: JSON) -> None:
    match delta:
        case {"type": "input_json_delta", "partial_json": str(written)}:
            block["input"] = msgspec.json.decode(written)
        case {"type": "signature_delta", "signature": str(signature)}:
            block["signature"] += signature
        case {"type": "text_delta", "text": str(more)}:
            block["text"] += more
        case {"type": "thinking_delta", "thinking": str(more)}:
            block["thinking"] += more
        case _:
            raise AssertionError(delta)
