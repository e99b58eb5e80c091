"""An MCP server over stdio is killed between two turns of a run.

The model calls its tool three times. After the first call the server's process gets SIGKILL. The
next call must end within the limit of time, with an error that the model is told or with a
result; the run must go on; and the third call must work again.
"""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from scripts.features.clients import agents_model, inspect_model, langchain_model, pydantic_ai_model
from scripts.features.common import MODEL, ROOT, Verdict, in_part, main, no, yes
from surecall import ToolLoopRunner
from surecall.testing import Built, ScriptedProvider, calls, says

PROMPT = "Look three times."
LOOKS = 3
LIMIT_S = 90.0
SEEN = re.compile(r"seen by (\d+)")
COMMAND = (sys.executable, "-m", "scripts.features.mcp_killed", "serve", "it")
Run = Callable[[str], Coroutine[Any, Any, object]]


def serve() -> None:
    """Be the server: one tool, which tells its process. Two versions of the SDK are in use."""
    try:
        server = import_module("mcp.server.mcpserver").MCPServer("looks")
    except ImportError:
        server = import_module("mcp.server.fastmcp").FastMCP("looks")

    def look(number: int) -> str:
        """Look for something with a number."""
        return f"{number} is seen by {os.getpid()}"

    server.add_tool(look)
    server.run()


def results(request: dict[str, Any]) -> list[str]:
    """Return what the tool has said so far, as the model is shown it."""
    return [str(each["content"]) for each in request["messages"] if each["role"] == "tool"]


def asked(request: dict[str, Any]) -> Built:
    """Kill the server after its first result; look three times."""
    shown = results(request)
    if len(shown) == 1:
        for pid in SEEN.findall(shown[0]):
            with contextlib.suppress(ProcessLookupError):  # one that serves a single call is gone
                os.kill(int(pid), signal.SIGKILL)
    offered = request["tools"][0]["function"]["name"]
    return calls(offered, number=len(shown)) if len(shown) < LOOKS else says("Done.")


def probed(run: Run) -> dict[str, Verdict]:
    """Run, and look at what the model was told."""
    began = time.monotonic()
    failed = ""
    with ScriptedProvider(asked, repeat=True) as model:
        try:
            asyncio.run(asyncio.wait_for(run(model.url), LIMIT_S))
        except BaseException as error:  # noqa: BLE001  # whatever it raises is what was seen
            failed = f"{type(error).__name__}: {error}"[:120]
        shown = results(model.requests[-1]) if model.requests else []
    took = f"{time.monotonic() - began:.0f} s"
    worked = [bool(SEEN.search(each)) for each in shown]
    if failed or len(shown) < LOOKS:
        return {"mcp_killed": no(f"the run ended after {len(shown)} results, in {took}: {failed}")}
    words = ", ".join("a result" if each else "an error" for each in worked)
    return {
        "mcp_killed": (yes if worked[-1] else in_part)(f"the model was shown: {words} ({took})")
    }


async def surecall(url: str) -> object:
    """Run with the tools of the server."""
    opened = import_module("surecall.mcp").mcp_tools([*COMMAND], cwd=str(ROOT))
    async with opened as tools:
        return await ToolLoopRunner(client=url, model=MODEL, tools=tools).run(PROMPT)


async def pydantic_ai(url: str) -> object:
    """Run an agent with an MCP toolset whose errors are told to the model."""
    transport = import_module("fastmcp.client.transports").StdioTransport
    toolset = import_module("pydantic_ai.mcp").MCPToolset
    stdio = transport(COMMAND[0], [*COMMAND[1:]], cwd=str(ROOT))
    server = toolset(stdio, tool_error_behavior="failed", max_retries=LOOKS)
    agent = import_module("pydantic_ai").Agent(pydantic_ai_model(url), toolsets=[server])
    return await agent.run(PROMPT)


async def openai_agents(url: str) -> object:
    """Run an agent with an MCP server that is asked again when a call fails."""
    sdk, mcp = import_module("agents"), import_module("agents.mcp")
    params = {"command": COMMAND[0], "args": [*COMMAND[1:]], "cwd": str(ROOT)}
    async with mcp.MCPServerStdio(params, cache_tools_list=True, max_retry_attempts=2) as server:
        agent = sdk.Agent(name="looks", model=agents_model(url), mcp_servers=[server])
        return await sdk.Runner.run(agent, PROMPT)


async def langgraph(url: str) -> object:
    """Run langchain's agent with its MCP adapters, which start a server for each call."""
    client = import_module("langchain_mcp_adapters.client").MultiServerMCPClient
    params = {"command": COMMAND[0], "args": [*COMMAND[1:]], "cwd": str(ROOT), "transport": "stdio"}
    tools = await client({"looks": params}).get_tools()
    agent = import_module("langchain.agents").create_agent(langchain_model(url), tools)
    return await agent.ainvoke({"messages": [{"role": "user", "content": PROMPT}]})


async def inspect(url: str) -> object:
    """Evaluate one sample with an agent that has the server's tools."""
    ai, tool = import_module("inspect_ai"), import_module("inspect_ai.tool")
    sample = import_module("inspect_ai.dataset").Sample
    server = tool.mcp_server_stdio(command=COMMAND[0], args=[*COMMAND[1:]], cwd=str(ROOT))
    agent = import_module("inspect_ai.agent").react(tools=[server], submit=False)
    task = ai.Task(dataset=[sample(PROMPT)], solver=agent)
    (log,) = await ai.eval_async(task, model=inspect_model(url), log_dir="memory://logs")
    if log.status != "success":
        raise RuntimeError(log.error.message if log.error else log.status)
    return log


PROBES = {
    "surecall": lambda _: probed(surecall),
    "pydantic-ai": lambda _: probed(pydantic_ai),
    "openai-agents": lambda _: probed(openai_agents),
    "langgraph": lambda _: probed(langgraph),
    "inspect": lambda _: probed(inspect),
}

if __name__ == "__main__":
    main(PROBES, {"serve it": serve})
