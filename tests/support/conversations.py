"""Parts of conversations that are kept: a tool that pays, and whoever talks to it."""

import asyncio
from collections.abc import Callable
from typing import Any

from surecall import Conversation, Store, ToolLoopRunner, tool
from surecall.testing import ScriptedModel
from surecall.values.types import Assistant, User


class Till:
    """A tool that pays, and counts how often; `meanwhile` happens before it says so."""

    def __init__(self, **hints: Any) -> None:
        self.paid: list[int] = []
        self.meanwhile: Callable[[], Any] = lambda: None
        self.tool = tool(**hints)(self.pay) if hints else self.pay

    async def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        done = self.meanwhile()
        if asyncio.iscoroutine(done):
            await done
        return f"paid {amount}"


def chat_of(store: Store, *script: Any, till: Till | None = None, **settings: Any) -> Conversation:
    """Open the one conversation of a store."""
    tools = [(till or Till()).tool]
    runner = ToolLoopRunner(client=ScriptedModel(*script), model="m", tools=tools, **settings)
    return Conversation(runner, store, "k")


def texts(chat: Conversation) -> list[str]:
    """Return what was said, in order, and leave out calls and their results."""
    said = (_text(message) for message in chat.history)
    return [text for text in said if text]


def _text(message: object) -> str:
    match message:
        case User(content):
            return str(content)
        case Assistant(text):
            return text
        case _:
            return ""
