"""A run that stops for a person: y lets the call run, n does not, a number changes the amount.

The model is simulated. While the question is open the run is a file: this program could end, and
another one go on tomorrow.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from surecall import AskFirst, Decision, OpenAICompatible, Run, ToolLoopRunner, tool
from surecall.simulator import Simulator

paid: list[int] = []


@tool(destructive=True)
def pay(euros: int) -> str:
    """Pay an amount."""
    paid.append(euros)
    return f"paid {euros} euros"


def asked(question: str) -> Decision:
    """Ask a person."""
    said = input(question).strip()
    if said.isdecimal():
        return Decision.replace({"euros": int(said)})
    return Decision.approve() if said == "y" else Decision.deny("Not today.")


with Simulator() as simulator, TemporaryDirectory() as folder:
    client = OpenAICompatible(simulator.url)
    runner = ToolLoopRunner(client=client, model="sim/clean", tools=pay, tool_policy=AskFirst())
    result = runner.run_sync("Call pay with euros=40.")
    while result.waiting:
        Path(folder, "run.json").write_bytes(result.run.to_json())  # … and hours later:
        run = Run.from_json(Path(folder, "run.json").read_bytes())
        decisions = {call.id: asked(f"{call.name} {call.arguments}? ") for call in run.waiting}
        result = runner.resume_sync(run, decisions=decisions)
    print(result.assistant_text, paid)
