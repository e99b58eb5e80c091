"""History: a result's messages are plain JSON, and continue the conversation."""

import json

from surecall import ToolLoopRunner
from surecall.simulator import Simulator

with Simulator() as simulator:
    runner = ToolLoopRunner(simulator.url, "sim/clean")
    first = runner.run_sync("My name is Ada.")
    saved = json.dumps(first.messages)
    second = runner.run_sync("What is my name?", history=json.loads(saved))
    assert second.messages[: len(first.messages)] == first.messages
