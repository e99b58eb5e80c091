"""The misbehaving provider, in this process: three personas, one agent, the same right answer.

Start it for agents of any other kind with `surecall sim`, and see `surecall sim --list`.
"""

from surecall import OpenAICompatible, RetryPolicy, ToolLoopRunner
from surecall.simulator import Simulator


def get_weather(city: str, days: int) -> str:
    """Weather for a city."""
    return f"{city}: clear for {days} days"


answers = []
with Simulator(seed=1) as simulator:
    for persona in ("sim/clean", "sim/bends-arguments", "sim/html-502"):
        runner = ToolLoopRunner(
            client=OpenAICompatible(simulator.url),
            model=persona,
            tools=[get_weather],
            retry=RetryPolicy(first_wait_s=0.05),
        )
        result = runner.run_sync("What is the weather in Paris for 3 days?")
        runner.close()
        answers.append(result.text)
        print(f"{persona:22} {len(simulator.requests)} requests so far; {result.text}")

print("what a strict provider would have refused:", list(simulator.violations))
assert all("Paris: clear for 3 days" in answer for answer in answers)
assert not simulator.violations
