"""Requests of the Responses API and chat completions that answer them."""

import json
from collections.abc import Iterable
from typing import Any

from surecall.values.types import JSON
from surecall.wire.apis.adapter import ClientRequest, EventWriter
from surecall.wire.apis.responses_api import ResponsesApi

FACE = ResponsesApi()
HEAD: JSON = {"id": "chatcmpl-7", "created": 1_700_000_000, "model": "m"}
ADD: JSON = {"type": "function", "name": "add", "parameters": {"type": "object"}}
PATCH: JSON = {"type": "custom", "name": "apply_patch", "description": "Patch files."}
CRATE: JSON = {"type": "namespace", "name": "mcp__crate", "description": "", "tools": [ADD]}


def ask(*items: Any, **fields: Any) -> ClientRequest:
    """Read a request with these input items."""
    given = {"model": "m", "input": list(items) or "Hi"} | fields
    return FACE.parse(json.dumps(given).encode())


def call(call_id: str = "c1", name: str = "add", arguments: str = '{"a": 1}', **more: Any) -> JSON:
    """Write a call of a chat message."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function} | more


def completion(text: str | None = None, *calls: JSON, **fields: Any) -> JSON:
    """Write a chat completion; `finish` says how it ended, the rest belongs to the message."""
    finish = fields.pop("finish", "stop")
    message: JSON = {"role": "assistant", "content": text} | fields
    if calls:
        message["tool_calls"] = list(calls)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return HEAD | {"object": "chat.completion", "choices": [choice]}


def spoken(events: EventWriter, *steps: str | tuple[str, str], body: JSON) -> bytes:
    """Write a stream: texts, and thoughts as pairs of a text and its field."""
    data = events.begin(HEAD)
    for step in steps:
        data += events.write_text(step) if isinstance(step, str) else events.write_reasoning(*step)
    return data + events.finish(body)


def heard(data: bytes) -> list[JSON]:
    """Read the events of a stream."""
    found: list[JSON] = []
    for block in data.decode().removesuffix("\n\n").split("\n\n"):
        name, line = block.split("\n")
        event = json.loads(line.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def assembled(events: Iterable[JSON]) -> list[JSON]:
    """Put items together from the small events alone, as a client does that shows them live."""
    items: list[JSON] = []
    for event in events:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert event["output_index"] == len(items)
            items.append(json.loads(json.dumps(event["item"])))
        elif "output_index" in event:
            assert event["output_index"] == len(items) - 1
            _apply(items[-1], kind, event)
    return items


_WRITTEN = {
    "function_call_arguments.delta": "arguments",
    "custom_tool_call_input.delta": "input",
}
_PARTS = {
    "reasoning_summary_text.delta": ("summary", "summary_index", "text"),
    "output_text.delta": ("content", "content_index", "text"),
    "refusal.delta": ("content", "content_index", "refusal"),
}


def _apply(item: JSON, kind: str, event: JSON) -> None:
    if kind == "output_item.done":
        item["done"] = event["item"]
        return
    assert event["item_id"] == item["id"]
    if kind in _WRITTEN:
        item[_WRITTEN[kind]] += event["delta"]
    elif kind in _PARTS:
        holder, index, key = _PARTS[kind]
        item[holder][event[index]][key] += event["delta"]
    elif kind.endswith("part.added"):
        item["summary" if "summary_index" in event else "content"].append(event["part"])
