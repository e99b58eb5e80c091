"""Tools: plain functions, called by a model that writes its calls as text."""

from surecall import ToolLoopRunner
from surecall.simulator import Simulator


def get_weather(city: str, days: int) -> dict[str, object]:
    """Weather for a city."""
    return {"city": city, "days": days, "sky": "clear"}


with Simulator() as simulator:
    runner = ToolLoopRunner(simulator.url, "sim/tags", [get_weather], config={"max_turns": 20})
    print(runner.run_sync("What is the weather in Paris for 3 days?").tool_calls)
