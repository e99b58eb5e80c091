"""Holds the conversations of one client, in the environment of that client, and tells what ran.

It is started by `measure.py`, which gives it an address and cases as JSON, and writes for each case
a line when it begins and a line when it has ended:

    python -m bench.peers.client NAME FORM < cases
"""

import asyncio
import json
import logging
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TextIO

from bench.drift_clients import CLIENTS, Agent, Asked, Endpoint
from bench.peers.corpus import STREAMED, TASKS
from bench.peers.more_clients import agent_of
from surecall.simulator.demo_tasks import ToolRecorder
from surecall.values.types import JSON

AT_ONCE: Final = 8
TIMEOUT_S: Final = 120.0
LONGEST_RUN_S: Final = 300.0
_FRAMEWORKS: Final = {
    "langchain": "langchain",
    "openai-agents": "openai-agents chat",
    "pydantic-ai": "pydantic-ai",
}


def find(name: str, form: str) -> Agent:
    """Return a client by name, in one form."""
    streamed = form == STREAMED
    if name not in _FRAMEWORKS:
        return agent_of(name, streamed=streamed)
    client = next(each for each in CLIENTS if each.name == _FRAMEWORKS[name])
    return client.streamed if streamed else client.plain


def _own_line() -> TextIO:
    """Keep the standard output for ourselves: what libraries print there goes elsewhere."""
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return line


async def main(name: str, form: str) -> None:
    """Hold all conversations, a few at a time."""
    out, given = _own_line(), json.loads(sys.stdin.read())
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * AT_ONCE))
    agent, gate = find(name, form), asyncio.Semaphore(AT_ONCE)
    endpoint = _endpoint(name, f"{given['url']}/v1")

    def tell(**what: Any) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    async def one(case: JSON) -> None:
        async with gate:
            tell(began=case["key"])
            tell(key=case["key"], **await _held(agent, endpoint, case))

    await asyncio.gather(*map(one, given["cases"]))
    out.close()


def _endpoint(name: str, url: str) -> Endpoint:
    if name in _FRAMEWORKS:
        return Endpoint.at(url, TIMEOUT_S)
    return Endpoint(url, None, TIMEOUT_S)


async def _held(agent: Agent, endpoint: Endpoint, case: JSON) -> JSON:
    """Hold one conversation, for a bounded time."""
    desk, task = ToolRecorder(), TASKS[case["task"]]
    asked = Asked(case["model"], task.system, task.prompt, desk.tools(task), careful=True)
    try:
        async with asyncio.timeout(LONGEST_RUN_S):
            said: JSON = {"answer": await agent(endpoint, asked)}
    except Exception as error:  # noqa: BLE001  # whatever an application would be told
        said = {"error": f"{type(error).__name__}: {error}"}
    return said | {"made": list(desk.calls)}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main(*sys.argv[1:]))
    # Threads that still hold a conversation which took too long must not keep this one alive.
    os._exit(0)
