"""A stored conversation, and two processes that use it at the same time.

Each of the two processes says five things, one after the other, in the same conversation. Every
turn that ended well must be in the store afterwards, its answer right after its question. A
process that is told of a conflict has lost nothing: it can say it again.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.features.clients import agents_model, langchain_model
from scripts.features.common import MODEL, Part, Verdict, child, ended, in_part, main, no, yes
from surecall import Conversation, ConversationBusy, SqliteStore, ToolLoopRunner
from surecall.testing import Scripted, ScriptedProvider, says
from surecall.values.types import Assistant, User

TURNS = 5
THINKS_S = 0.3
READY_S = 60.0
Say = Callable[[str], Awaitable[object]]


def answered(request: dict[str, Any]) -> Scripted:
    """Answer after a while with what was said last, so that the two processes overlap."""
    said = [each["content"] for each in request["messages"] if each["role"] == "user"][-1]
    heard = said.replace("said", "heard")
    body = json.dumps(says(heard, id="1", created=0, model=MODEL)).encode()
    return Scripted(200, body, {"content-type": "application/json"}, wait=THINKS_S)


def probed(name: str) -> dict[str, Verdict]:
    """Let two processes talk, and compare what ended well with what is stored."""
    with tempfile.TemporaryDirectory() as folder, ScriptedProvider(answered, repeat=True) as model:
        both = [child(name, "talk", model.url, folder, who) for who in "ab"]
        good = [turn for process in both for turn in ended(process)[1].split()]
        code, stored = ended(child(name, "read", model.url, folder))
    if code:
        return {"conversations": no(f"the store cannot be read: {stored}")}
    texts = json.loads(stored)
    kept = [turn for turn in good if f"said {turn}" in texts and f"heard {turn}" in texts]
    mixed = [
        turn for turn in kept if texts.index(f"heard {turn}") != texts.index(f"said {turn}") + 1
    ]
    seen = (
        f"{len(good)} of {2 * TURNS} turns ended well; of these {len(good) - len(kept)} are lost, "
        f"and {len(mixed)} have another's messages between question and answer"
    )
    found = no if not good or len(kept) < len(good) else in_part if mixed else yes
    return {"conversations": found(seen)}


async def talk(say: Say, folder: str, who: str) -> None:
    """Wait for the other process, say five things, and tell which of them went well."""
    Path(folder, f"ready-{who}").touch()
    until = time.monotonic() + READY_S
    while len(list(Path(folder).glob("ready-*"))) < 2 and time.monotonic() < until:  # both
        time.sleep(0.01)  # noqa: ASYNC251  # nothing else runs here
    good = []
    for number in range(TURNS):
        try:
            await say(f"said {who}{number}")
        except Exception:  # noqa: BLE001, S112  # a turn that failed is not lost: the caller knows
            continue
        good.append(f"{who}{number}")
    print(*good)


# surecall: a conversation in SQLite. A process that finds it busy says its words again.


def _conversation(url: str, folder: str) -> Conversation:
    runner = ToolLoopRunner(client=url, model=MODEL)
    return Conversation(runner, SqliteStore(Path(folder, "session.db")), "1")


async def surecall_talk(url: str, folder: str, who: str) -> None:
    """Talk in a conversation."""
    chat = _conversation(url, folder)

    async def say(text: str) -> object:
        while True:
            try:
                return await chat.say(text)
            except ConversationBusy:
                await asyncio.sleep(0.05)

    await talk(say, folder, who)


async def surecall_read(url: str, folder: str) -> None:
    """Read the conversation."""
    said = [
        message.content if isinstance(message, User) else message.text
        for message in _conversation(url, folder).history
        if isinstance(message, User | Assistant)
    ]
    print(json.dumps(said))


# openai-agents: a session in SQLite.


def _session(folder: str) -> Any:
    return import_module("agents").SQLiteSession("1", Path(folder, "session.db"))


async def agents_talk(url: str, folder: str, who: str) -> None:
    """Talk in a session."""
    sdk = import_module("agents")
    agent, session = sdk.Agent(name="listener", model=agents_model(url)), _session(folder)
    await talk(lambda text: sdk.Runner.run(agent, text, session=session), folder, who)


async def agents_read(_: str, folder: str) -> None:
    """Read the session."""
    items = await _session(folder).get_items()
    said = [item["content"] for item in items]
    print(json.dumps([each if isinstance(each, str) else each[0]["text"] for each in said]))


# langgraph: a checkpointer in SQLite, the same thread.


def _langgraph_agent(url: str, folder: str) -> Any:
    saver = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    create = import_module("langchain.agents").create_agent
    opened = saver.from_conn_string(str(Path(folder, "session.db")))
    return opened, lambda stored: create(langchain_model(url), [], checkpointer=stored)


async def langgraph_talk(url: str, folder: str, who: str) -> None:
    """Talk in a thread."""
    opened, made = _langgraph_agent(url, folder)
    async with opened as stored:
        agent, thread = made(stored), {"configurable": {"thread_id": "1"}}

        def say(text: str) -> Awaitable[object]:
            said: Awaitable[object] = agent.ainvoke(
                {"messages": [{"role": "user", "content": text}]}, thread, durability="sync"
            )
            return said

        await talk(say, folder, who)


async def langgraph_read(url: str, folder: str) -> None:
    """Read the thread."""
    opened, made = _langgraph_agent(url, folder)
    async with opened as stored:
        state = await made(stored).aget_state({"configurable": {"thread_id": "1"}})
        print(json.dumps([message.text for message in state.values["messages"]]))


PARTS: dict[str, Part] = {
    "surecall talk": surecall_talk,
    "surecall read": surecall_read,
    "openai-agents talk": agents_talk,
    "openai-agents read": agents_read,
    "langgraph talk": langgraph_talk,
    "langgraph read": langgraph_read,
}
PROBES = dict.fromkeys(("surecall", "openai-agents", "langgraph"), probed)

if __name__ == "__main__":
    main(PROBES, PARTS)
