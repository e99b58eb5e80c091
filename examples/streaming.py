"""Streaming: print the answer as it arrives."""

from surecall import TextDelta, ToolLoopRunner
from surecall.simulator import Simulator

with Simulator() as simulator:
    runner = ToolLoopRunner(simulator.url, "sim/clean")
    stream = runner.stream_sync("Tell me a story.")
    for event in stream:
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
    print(f"\n{stream.result.usage.total_tokens} tokens")
