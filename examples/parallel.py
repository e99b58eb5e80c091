"""Three calls of one reply run at the same time; the answers go back in the order of the calls."""

import asyncio
import time

from surecall import ToolLoopRunner, ToolRegistry, tool
from surecall.testing import ScriptedModel, calls, calls_many, says


@tool
async def get_weather(city: str) -> str:
    """Weather for a city; it takes a moment."""
    await asyncio.sleep(0.2)
    return f"clear in {city}"


@tool(serial=True)
async def book_trip(city: str) -> str:
    """Book a trip. Bookings never overlap, whatever else runs."""
    await asyncio.sleep(0.2)
    return f"booked {city}"


CITIES = ("Paris", "Oslo", "Lima")
wishes = [calls("get_weather", city=city) for city in CITIES] + [calls("book_trip", city="Lima")]
runner = ToolLoopRunner(
    client=ScriptedModel(calls_many(*wishes), says("Lima it is.")),
    model="any",
    registry=ToolRegistry([get_weather, book_trip]),
    config={"request_overrides": {"parallel_tool_calls": True}, "max_concurrent_tools": 4},
)
started = time.perf_counter()
result = runner.run_sync("Where is the weather fine? Book it.")
elapsed = time.perf_counter() - started

results = [item.envelope["data"]["value"] for item in result.run.results]
print(*results, sep="\n")
print(f"four calls of 0.2 s each took {elapsed:.2f} s")
assert results == ["clear in Paris", "clear in Oslo", "clear in Lima", "booked Lima"]
