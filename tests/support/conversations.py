"""Stored conversations: stores that fail, people who answer, and a process that takes part."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from surecall import (
    AskFirst,
    Conversation,
    Decision,
    SqliteStore,
    Store,
    StoreConflict,
    Stored,
    SurecallError,
    ToolLoopRunner,
    tool,
)
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import Assistant, User

# Parts of conversations that are kept: a tool that pays, and whoever talks to it


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


# Stores for tests: one in memory, and one whose process dies at a given moment


class DictStore:
    """A store in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, Stored] = {}

    def load(self, key: str, known: int = 0) -> Stored | None:
        stored = self.kept.get(key)
        return None if stored is None or stored.version == known else stored

    def save(
        self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
    ) -> None:
        before = self.kept.get(key) or Stored(0, b"", ())
        if before.version != version:
            raise StoreConflict("another version is stored")
        assert keep <= len(before.messages)
        self.kept[key] = Stored(version + 1, head, (*before.messages[:keep], *messages))


class Killed(BaseException):
    """The process is dead. Nothing that it would do on any error happens any more."""


class Mortal:
    """A store as a process sees it that dies with its n-th write, before it or right after it."""

    def __init__(self, store: Store, writes: int, *, after: bool) -> None:
        self._store = store
        self._left = writes
        self._after = after
        self.is_dead = False

    def load(self, key: str, known: int = 0) -> Stored | None:
        if self.is_dead:
            raise Killed
        return self._store.load(key, known)

    def save(self, *change: Any) -> None:
        self._left -= 1
        if self.is_dead or (not self._left and not self._after):
            self.is_dead = True
            raise Killed
        self._store.save(*change)
        if not self._left:
            self.is_dead = True
            raise Killed


class Meddled(DictStore):
    """A store in which somebody else is faster: `meddle` is called before the next write."""

    def __init__(self) -> None:
        super().__init__()
        self.meddle: Callable[[], object] | None = None

    def save(
        self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
    ) -> None:
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        super().save(key, version, head, keep, messages)


# A process that takes part in a conversation which is kept in a file.
#     python -m tests.support.conversations chats.db paid.txt die       pays, is killed (-9) in it
#     python -m tests.support.conversations chats.db paid.txt approve   approves what waits
#
# Each payment is a line in the second file. What came of it is printed.


def conversation(chats: str, paid: str, *script: object, is_last: bool = False) -> Conversation:
    """Open the conversation, with a tool that pays; if it `is_last`, nothing comes after it."""

    @tool(destructive=True)
    def pay(amount: int) -> str:
        """Pay."""
        with Path(paid).open("a") as file:
            file.write(f"{amount}\n")
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    model = ScriptedModel(*script)  # type: ignore[arg-type]  # answers, as it takes them
    runner = ToolLoopRunner(client=model, model="m", tools=[pay], config={})
    return Conversation(runner, SqliteStore(chats), "customer-7", lease_s=3600)


def main(chats: str, paid: str, act: str) -> None:
    """Take part."""
    if act == "die":
        script = calls("pay", amount=5), says("Never said.")
        conversation(chats, paid, *script, is_last=True).say_sync("Pay 5.")
    chat = conversation(chats, paid, says("Paid."))
    decisions = {call.id: Decision.approve() for call in chat.waiting}
    _tell("ready")
    sys.stdin.readline()
    try:
        _tell(chat.resume_sync(decisions).assistant_text)
    except SurecallError as error:
        _tell(type(error).__name__)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])


class ThreeTools:
    """Three tools, and what they did."""

    def __init__(self) -> None:
        self.did: list[str] = []

    @property
    def tools(self) -> list[Any]:
        @tool(destructive=True)
        def pay(euros: int) -> str:
            """Pay."""
            self.did.append(f"pay {euros}")
            return "paid"

        @tool(read_only=True)
        def look() -> str:
            """Look."""
            self.did.append("look")
            return "seen"

        @tool
        def note(text: str) -> str:
            """Write a note."""
            self.did.append(f"note {text}")
            return "noted"

        return [pay, look, note]

    def runner(self, *script: Any, policy: Any = None, **config: Any) -> ToolLoopRunner:
        return ToolLoopRunner(
            client=ScriptedModel(*script),
            model="m",
            tools=self.tools,
            config=config,
            tool_policy=policy or AskFirst(),
        )


ALL_THREE = calls_many(calls("look"), calls("pay", euros=5), calls("note", text="a"))
