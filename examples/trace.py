"""A whole conversation over real HTTP on this machine: no key, no network, no model needed.

The provider is scripted to misbehave as real ones do: it calls a tool that does not exist, hides
arguments in a code fence, is busy for a moment, and forgets to answer. Watch the trace.
"""

from surecall import OpenAICompatible, ToolLoopRunner, replay
from surecall.testing import ScriptedProvider, calls, failure, says

MODEL = "qwen/qwen3-next-80b-a3b-instruct"
FENCED = '```json\n{"city": "Paris", "days": 3}\n```'


def get_weather(city: str, days: int = 1) -> dict[str, object]:
    """Weather for a city."""
    return {"city": city, "days": days, "sky": "clear"}


fenced = calls("get_weather")
fenced["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = FENCED
busy = failure(429, {"error": {"message": "too many requests"}}, {"Retry-After": "0.1"})
mistaken = calls("weather", city="Paris")

with ScriptedProvider(mistaken, fenced, busy, says(""), says("Clear for 3 days.")) as provider:
    runner = ToolLoopRunner(
        client=OpenAICompatible(base_url=provider.url),
        model=MODEL,
        tools=[get_weather],
        system="You are a helpful assistant.",
    )
    result = runner.run_sync("Weather in Paris for 3 days?")
    runner.close()

print(result.trace)
print()
print(f"answer: {result.text}")
print(f"repairs: {', '.join(result.repairs)}")
print(f"usage:  {result.usage.total_tokens} tokens in {len(result.trace.turns)} turns")

assert result.text == "Clear for 3 days."
assert replay(result.trace).run == result.run
print("replay: the recording gives the same run again, without the provider")
