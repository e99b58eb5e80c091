"""Tools of an MCP server: a process that is started, called, and gone afterwards.

Any other command works as well, and so does an address:
mcp_tools("npx -y @modelcontextprotocol/server-everything"), mcp_tools("https://…/mcp").
"""

import asyncio
import sys

from surecall import ToolLoopRunner
from surecall.mcp import mcp_tools
from surecall.simulator import Simulator

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")

@server.tool()
def get_weather(city: str, days: int) -> str:
    "Weather for a city."
    return f"{city}: clear for {days} days"

server.run()
"""


async def main() -> str:
    """Ask a simulated model, which calls the tool of the server."""
    async with mcp_tools([sys.executable, "-c", SERVER], prefix="mcp_") as tools:
        with Simulator(seed=1) as simulator:
            runner = ToolLoopRunner(client=simulator.url, model="sim/clean", tools=tools)
            return (await runner.run("What is the weather in Paris for 3 days?")).assistant_text


answer = asyncio.run(main())
print(answer)
assert "Paris: clear for 3 days" in answer
