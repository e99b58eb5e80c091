"""Proxy: any OpenAI client, with malformed calls repaired on the way."""

from openai import OpenAI

from surecall.proxy import Proxy
from surecall.simulator import Simulator

with Simulator() as simulator, Proxy(simulator.url) as proxy:
    client = OpenAI(base_url=f"{proxy.url}/v1", api_key="any")
    reply = client.chat.completions.create(
        model="sim/tags",
        messages=[{"role": "user", "content": "What is the weather in Paris for 3 days?"}],
        tools=[{"type": "function", "function": {"name": "get_weather"}}],
    )
    print(reply.choices[0].message.tool_calls)
