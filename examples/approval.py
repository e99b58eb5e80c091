"""Approval: a run stops before a destructive call, and resumes with your decision."""

from surecall import AskFirst, Decision, ToolLoopRunner, tool
from surecall.simulator import Simulator

pay = tool(destructive=True, name="pay")(lambda euros: f"paid {euros} euros")
with Simulator() as simulator:
    runner = ToolLoopRunner(simulator.url, "sim/clean", [pay], tool_policy=AskFirst())
    result = runner.run_sync("Call pay with euros=40.")
    for call in result.waiting:
        yes = input(f"{call.name} {call.arguments}? ") == "y"
        decision = Decision.approve() if yes else Decision.deny("Not today.")
        result = runner.resume_sync(result, decisions={call.id: decision})
    print(result.text)
