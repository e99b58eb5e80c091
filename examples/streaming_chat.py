"""A chat in the terminal that shows the answer as it is written, tools and all.

Ask your own questions with `python examples/streaming_chat.py -`; an empty line ends it. The model
is simulated, and writes its calls as text on purpose: none of that reaches the screen.
"""

import sys
from collections.abc import Iterable

from surecall import OpenAICompatible, ToolLoopRunner
from surecall.simulator import Simulator
from surecall.streaming import CallAnnounced, TextDelta, TextWithdrawn


def get_weather(city: str, days: int) -> str:
    """Weather for a city."""
    return f"{city}: clear for {days} days"


def questions() -> Iterable[str]:
    """Give the questions: from the keyboard, or one that needs a tool."""
    typed = iter(lambda: input("\n> ").strip(), "")
    return typed if sys.argv[1:] == ["-"] else ["What is the weather in Paris for 3 days?"]


said = ""
with Simulator(seed=1) as simulator:
    runner = ToolLoopRunner(
        client=OpenAICompatible(simulator.url),
        model="sim/dialect-a1",
        tools=[get_weather],
    )
    history: Iterable[object] = []
    for question in questions():
        stream = runner.stream_sync(question, history=history)
        for event in stream:
            match event:
                case TextDelta(text):
                    said += text
                    print(text, end="", flush=True)
                case CallAnnounced(_, name):
                    print(f"[calling {name}]", flush=True)
                case TextWithdrawn():
                    print("\n[the connection broke; once more]", flush=True)
                case _:
                    pass  # the run's own events, as in its trace
        print()
        history = stream.result.history
    runner.close()
assert sys.argv[1:] or "Paris: clear for 3 days" in said
assert "tool_call" not in said
