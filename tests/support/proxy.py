"""Requests and turns for the tests of the proxy."""

from typing import Any

from surecall.proxy.faces.chat import Chat
from surecall.proxy.faces.face import Asked
from surecall.proxy.history import Entry, entries
from surecall.proxy.memory import Conversation, Memory
from surecall.values.types import JSON
from surecall.wire.messages import encode

WEATHER: JSON = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Return the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
USER: JSON = {"role": "user", "content": "Weather in Oslo?"}


def tool(name: str, **function: Any) -> JSON:
    return {"type": "function", "function": {"name": name} | function}


def call(call_id: str, name: str = "get_weather", **arguments: Any) -> JSON:
    written = encode(arguments).decode()
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}


def said(*calls: JSON, text: str | None = None, **fields: Any) -> JSON:
    message: JSON = {"role": "assistant", "content": text} | fields
    return message | {"tool_calls": list(calls)} if calls else message


def result(call_id: str, text: str = "12 degrees") -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def asked(*messages: JSON, tools: Any = (WEATHER,), **options: Any) -> Asked:
    body = {"model": "m", "messages": [USER, *messages], "tools": list(tools)} | options
    return Chat().parse(encode(body))


def completion(message: JSON, reason: str = "stop", **body: Any) -> JSON:
    choice = {"index": 0, "message": message, "finish_reason": reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "m"}
    return head | {"choices": [choice]} | body


def known(*messages: JSON, memory: Memory | None = None, whose: str = "me") -> Conversation:
    return Conversation(Memory() if memory is None else memory, whose, [USER, *messages])


def history(*messages: JSON, of: Conversation | None = None, **renamed: str) -> tuple[Entry, ...]:
    return entries([USER, *messages], of or known(), renamed)
