"""Calls of one reply run at the same time; the answers go back in the order of the calls.

The model is simulated; like a real one it makes several calls at once when it is told to.
"""

import asyncio
import time

from surecall import OpenAICompatible, ToolLoopRunner, ToolRegistry, tool
from surecall.simulator.server import Simulator

running = most = 0


async def work(answer: str) -> str:
    """Take a moment, and note how many others are at it."""
    global running, most  # noqa: PLW0603  # it is a small example
    running += 1
    most = max(most, running)
    await asyncio.sleep(0.2)
    running -= 1
    return answer


@tool
async def get_weather(city: str) -> str:
    """Weather for a city."""
    return await work(f"clear in {city}")


@tool
async def get_trains(city: str) -> str:
    """Trains to a city."""
    return await work(f"three trains to {city}")


with Simulator(seed=1) as simulator:
    runner = ToolLoopRunner(
        client=OpenAICompatible(simulator.url),
        model="sim/clean",
        registry=ToolRegistry([get_weather, get_trains]),
        config={"request_overrides": {"parallel_tool_calls": True}, "max_concurrent_tools": 4},
        system="Your first message makes two calls at once: get_weather and get_trains.",
    )
    started = time.perf_counter()
    result = runner.run_sync("Weather and trains, please. city=Paris")
    elapsed = time.perf_counter() - started
    runner.close()

results = [item.envelope["data"]["value"] for item in result.run.results]
print(*results, sep="\n")
print(f"{len(results)} calls of 0.2 s each, {most} at the same time, took {elapsed:.2f} s")
assert results == ["clear in Paris", "three trains to Paris"]
assert most == len(results)
