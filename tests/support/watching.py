"""How tests watch a streamed run."""

import asyncio
from typing import Any

from surecall import RetryPolicy, RunFailed, ToolLoopRunner, presets
from surecall.core.streaming.display import TextWithdrawn
from surecall.runtime.run_stream import LiveEvent
from surecall.runtime.transport import Client
from surecall.testing import Item, streams
from surecall.values.events import RunFailedEvent
from surecall.wire.assembler import TextDelta
from tests.support.tools import add

QUICK = RetryPolicy(first_wait_s=0.001, longest_wait_s=0.002)
HEALING = presets.default_tool_calling()
PIECE = 7


def runner_of(client: Client, **settings: Any) -> ToolLoopRunner:
    given: dict[str, Any] = {"config": HEALING, "registry": [add], "retry": QUICK}
    return ToolLoopRunner(client=client, model="m", **given | settings)


def watched(client: Client, **settings: Any) -> list[LiveEvent]:
    """Watch a run to its end; a run that fails has told so in its last event."""

    async def watch() -> list[LiveEvent]:
        events: list[LiveEvent] = []
        try:
            async for event in runner_of(client, **settings).stream("1 + 2?"):
                events.append(event)  # noqa: PERF401  # kept when the run fails
        except RunFailed:
            assert isinstance(events[-1], RunFailedEvent)
        return events

    return asyncio.run(watch())


def shown(events: list[LiveEvent]) -> str:
    """Return what a screen shows in the end."""
    text = ""
    for event in events:
        if isinstance(event, TextWithdrawn):
            assert text.endswith(event.text)
            text = text.removesuffix(event.text)
        elif isinstance(event, TextDelta):
            text += event.text
    return text


def script(*replies: Item, piece_bytes: int = PIECE) -> list[Item]:
    return [streams(item, piece_bytes) if isinstance(item, dict) else item for item in replies]
