"""What would run of a reply: a body becomes calls, plain or streamed, under a preset."""

from collections.abc import Sequence
from typing import Any, Final

from surecall import ToolCallingConfig, ToolRegistry, presets
from surecall.core.inbound import inbound
from surecall.simulator.stream_events import events_of, frames_of
from surecall.values.types import JSON, Message, Plan, Reply, ToolCall, User
from tests.support.streams import assembled
from tests.support.streams import events_of as decoded_events

MARKED: Final = presets.resolve(provider="openai")
WEAK: Final = presets.content_tag_tool_call_fallback(MARKED)
PRESETS: Final[dict[str, ToolCallingConfig]] = {"marked": MARKED, "weak": WEAK}
ASKED: Final[tuple[Message, ...]] = (User("Go on."),)


def body_of(message: JSON, finish_reason: str = "stop") -> JSON:
    """Wrap a message as a provider does."""
    choice = {"index": 0, "message": {"role": "assistant"} | message}
    return {"id": "r", "model": "m", "choices": [choice | {"finish_reason": finish_reason}]}


def streamed_body(body: JSON) -> Any:
    """Send a body as a stream, and put the pieces together again."""
    frames = b"".join(frames_of(events_of(body)))
    return assembled(decoded_events([frames]))[0]


def reply_to(
    body: Any, config: ToolCallingConfig, tools: ToolRegistry, messages: Sequence[Message] = ASKED
) -> Reply:
    """Read a body as the next reply of a conversation."""
    specs = tuple(definition.spec for definition in tools.definitions)
    reply = inbound(body, Plan("m", tuple(messages), specs), config, tools)
    assert isinstance(reply, Reply), reply
    return reply


def runnable(reply: Reply) -> list[ToolCall]:
    """List the calls that would run."""
    return [call for call in reply.calls if call.problem is None]
