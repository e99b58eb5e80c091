"""An MCP server with one tool, for `examples/mcp_tools.py`."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def get_weather(city: str, days: int) -> str:
    """Weather for a city."""
    return f"{city}: clear for {days} days"


server.run()
