"""Fallback: the second model continues the run when the first one fails."""

from surecall import ToolLoopRunner
from surecall.simulator import Simulator

with Simulator() as simulator:
    runner = ToolLoopRunner(simulator.url, ["sim/http-401", "sim/clean"])
    result = runner.run_sync("Hello!")
    print(result.models, result.text)
