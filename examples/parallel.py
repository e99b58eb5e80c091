"""Calls of one reply run at the same time; the answers go back in the order of the calls.

The model is simulated; like a real one it makes several calls at once when it is told to.
"""

import asyncio
import time

from surecall import OpenAICompatible, ToolLoopRunner, presets
from surecall.simulator import Simulator

running = most = 0


async def work(answer: str) -> str:
    """Take a moment, and note how many others are at it."""
    global running, most  # noqa: PLW0603  # it is a small example
    running += 1
    most = max(most, running)
    await asyncio.sleep(0.2)
    running -= 1
    return answer


async def state_get(workspace_id: str) -> str:
    """Read a workspace."""
    return await work(f"read {workspace_id}")


async def state_patch(workspace_id: str, request_id: str, ops: list[dict[str, str]]) -> str:
    """Change a workspace."""
    return await work(f"{request_id} changed {workspace_id} in {len(ops)} place")


CONFIG = presets.default_tool_calling().replace(
    request_overrides={"parallel_tool_calls": True}, max_concurrent_tools=4
)

with Simulator(seed=1) as simulator:
    runner = ToolLoopRunner(
        client=OpenAICompatible(simulator.url),
        model="sim/clean",
        tools=[state_get, state_patch],
        config=CONFIG,
        system="Your first message makes two calls at once: state_get and state_patch.",
    )
    started = time.perf_counter()
    result = runner.run_sync("Read the draft and set it. workspace_id=ws_1")
    elapsed = time.perf_counter() - started
    runner.close()

results = [item.envelope["data"]["value"] for item in result.run.results]
print(*results, sep="\n")
print(f"{len(results)} calls of 0.2 s each, {most} at the same time, took {elapsed:.2f} s")
assert results == ["read ws_1", "r1 changed ws_1 in 1 place"]
assert most == len(results)
