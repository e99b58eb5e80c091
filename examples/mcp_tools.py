"""MCP: the tools of a server, here a process; an address works as well."""

import sys

from surecall import ToolLoopRunner
from surecall.mcp import mcp_tools
from surecall.simulator import Simulator

command = [sys.executable, "examples/servers/weather.py"]
with Simulator() as simulator, mcp_tools(command) as tools:
    runner = ToolLoopRunner(simulator.url, "sim/clean", tools)
    print(runner.run_sync("What is the weather in Paris for 3 days?").text)
