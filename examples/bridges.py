"""Tools of LangChain and pydantic-ai beside one's own, and one's own tool in their frameworks.

Needs `pip install langchain-core pydantic-ai-slim`; surecall itself imports neither.
"""

from langchain_core.tools import ToolException
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import Tool

from surecall import ToolLoopRunner, tool
from surecall.testing import ScriptedProvider, calls, says


@langchain_tool
def find_city(country: str) -> str:
    """Name the capital of a country."""
    return {"Norway": "Oslo", "Italy": "Rome"}[country]


def get_weather(city: str, days: int = 1) -> dict[str, object]:
    """Weather for a city."""
    return {"city": city, "days": days, "sky": "clear"}


@tool(read_only=True)
def to_fahrenheit(celsius: float) -> float:
    """Convert a temperature."""
    return celsius * 9 / 5 + 32


script = (calls("find_city", country="Norway"), calls("get_weather", city="Oslo", days="3"))
with ScriptedProvider(*script, calls("to_fahrenheit", celsius=10), says("Clear.")) as provider:
    tools = [tool(read_only=True)(find_city), Tool(get_weather), to_fahrenheit]
    runner = ToolLoopRunner(client=provider.url, model="any", tools=tools)
    print(runner.run_sync("The weather in the capital of Norway?").trace)
    runner.close()

theirs = langchain_tool(to_fahrenheit.as_function(raises=ToolException))
print(f"LangChain calls ours: {theirs.invoke({'celsius': 20})}")
assert theirs.invoke({"celsius": 20}) == 68.0  # noqa: PLR2004  # degrees
