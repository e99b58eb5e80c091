"""Sampling: for every run, for one run, and any other request option."""

from surecall import ToolLoopRunner
from surecall.simulator import Simulator

with Simulator() as simulator:
    runner = ToolLoopRunner(simulator.url, "sim/clean", temperature=0.2, max_tokens=800)
    runner.run_sync("Hello!")
    runner.run_sync("Hello!", temperature=0.9, options={"top_p": 0.5, "seed": 7})
    first, second = simulator.requests
    assert (first["temperature"], first["max_tokens"]) == (0.2, 800)
    assert (second["temperature"], second["max_tokens"], second["seed"]) == (0.9, 800, 7)
