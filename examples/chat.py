"""Chat: one question, one answer."""

from surecall import ToolLoopRunner
from surecall.simulator import Simulator

with Simulator() as simulator:
    runner = ToolLoopRunner(simulator.url, "sim/clean", system="Be brief.")
    print(runner.run_sync("Hello!").text)
