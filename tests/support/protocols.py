"""A conversation with two tools, to be put into words."""

from typing import Any, get_args

from surecall import ToolRegistry, tool
from surecall.settings.presets import raw
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    System,
    ToolCall,
    ToolResult,
    User,
)
from surecall.wire.call_styles import CallProtocol
from surecall.wire.protocols import speaker

LONGEST = raw().max_tool_args_bytes
PROTOCOLS = get_args(CallProtocol)
SPOKEN = ("guided", "prompted")


@tool
def add(a: int = 0, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool
def wipe(path: str = "/") -> str:
    """Remove everything."""
    return path


REGISTRY = ToolRegistry([add, wipe])
SPECS = (add.spec, wipe.spec)
CALL = ToolCall("c1", "add", {"a": 1, "b": 2})
RESULT = ToolResult("c1", "add", ok=True, content='{"ok":true,"data":3}', executed=True)
TALK: tuple[Message, ...] = (System("Be brief."), User("1 + 2?"), Assistant("", (CALL,)), RESULT)


def planned(*messages: Message, **changes: Any) -> Plan:
    given: JSON = {"tools": SPECS, "known_tools": SPECS, "tool_choice": "auto"} | changes
    return Plan("m", messages, **given)


def spoken(protocol: Any, *messages: Message, **changes: Any) -> list[Message]:
    return list(speaker(protocol, LONGEST)(planned(*messages, **changes)).messages)
