"""What surecall costs: CPU per three-turn conversation against a loop written by hand.

Both sides hold the same conversation with the same server, which runs in a process of its own, so
the figures are the client's CPU alone. Rounds of both sides alternate in one run; printed is the
median of the rounds' ratios, with their range. Absolute times depend on the machine, ratios less.
"""

import asyncio
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import aiohttp

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.server import served_by
from surecall import OpenAICompatible, RunResult, ToolLoopRunner, ToolRegistry, presets, tool

ROUNDS = 31
SEQUENTIAL = 20
CONCURRENT = 64
LONG_TURNS = 40
LONG_RUNS = 15
IMPORTS = 9
# What any program loads that calls an endpoint asynchronously and decodes JSON quickly.
FLOOR = """
import time
began = time.process_time()
import aiohttp, asyncio, json, msgspec, re
print((time.process_time() - began) * 1000)
"""
# The figures are the process's own: the endpoint is in another one.
FIRST_RUN = """
import sys, time
began = time.process_time()
from surecall import OpenAICompatible, ToolLoopRunner, presets
imported = time.process_time()
def get_weather(city: str, days: int = 1) -> dict[str, object]:
    "Weather for a city."
    return {"city": city, "days": days, "sky": "clear"}
client = OpenAICompatible(sys.argv[1], "none")
runner = ToolLoopRunner(client=client, model="turns-2", tools=[get_weather])
runner.run_sync("Weather in Paris for 3 days?")
print((imported - began) * 1000, (time.process_time() - began) * 1000)
"""

Conversation = Callable[[], Awaitable[object]]


def weather(city: str, days: int = 1) -> dict[str, object]:
    """Weather for a city."""
    return {"city": city, "days": days, "sky": "clear"}


async def weather_async(city: str, days: int = 1) -> dict[str, object]:
    """Weather for a city."""
    return weather(city, days)


SCHEMA = tool(weather).spec.parameters
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather for a city.",
            "parameters": SCHEMA,
        },
    }
]


async def weather_in_thread(city: str, days: int = 1) -> dict[str, object]:
    """Run the blocking tool as one would by hand, without blocking everybody else."""
    return await asyncio.to_thread(weather, city, days)


async def by_hand(
    session: aiohttp.ClientSession, url: str, model: str, handler: Callable[..., Awaitable[object]]
) -> str:
    """Hold the conversation as one would write it down in five minutes, trusting everybody."""
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Weather in Paris for 3 days?"},
    ]
    headers = {"Authorization": "Bearer none"}
    while True:
        body = {"model": model, "messages": messages, "tools": TOOLS, "tool_choice": "auto"}
        async with session.post(url, json=body, headers=headers) as response:
            message = (await response.json())["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        for call in message["tool_calls"]:
            result = await handler(**json.loads(call["function"]["arguments"]))
            content = json.dumps(result)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


async def by_hand_streamed(session: aiohttp.ClientSession, url: str, model: str) -> str:
    """Hold the same conversation with streamed answers, as trustingly."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Weather in Paris for 3 days?"},
    ]
    headers = {"Authorization": "Bearer none"}
    while True:
        body: dict[str, Any] = {"model": model, "messages": messages, "tools": TOOLS}
        body |= {"tool_choice": "auto", "stream": True, "stream_options": {"include_usage": True}}
        message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": {}}
        async with session.post(url, json=body, headers=headers) as response:
            async for line in response.content:
                if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                    for choice in json.loads(line[6:])["choices"]:
                        add_delta(message, choice["delta"])
        message["tool_calls"] = calls = list(message["tool_calls"].values())
        if not calls:
            return str(message["content"])
        messages.append(message)
        for call in calls:
            result = await weather_async(**json.loads(call["function"]["arguments"]))
            content = json.dumps(result)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


def add_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a delta the way the documentation describes it, and no other."""
    message["content"] += delta.get("content") or ""
    for part in delta.get("tool_calls", ()):
        calls = message["tool_calls"]
        if part["index"] not in calls:
            calls[part["index"]] = part
        else:
            calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]


def runner_for(
    client: OpenAICompatible, model: str, handler: Callable[..., object]
) -> ToolLoopRunner:
    """Set up surecall as the README does, with the presets on."""
    return ToolLoopRunner(
        client=client,
        model=model,
        registry=ToolRegistry([tool(name="get_weather")(handler)]),
        config=presets.resolve(provider="openrouter", model=model).replace(
            max_turns=LONG_TURNS + 2
        ),
        system="You are a helpful assistant.",
    )


async def cpu_of(conversation: Conversation, total: int, at_once: int) -> float:
    """Return the CPU seconds of one conversation, averaged over many."""
    started = time.process_time()
    for _ in range(total // at_once):
        await asyncio.gather(*(conversation() for _ in range(at_once)))
    return (time.process_time() - started) / total


def check(by_hand_answer: object, result: object) -> None:
    """Refuse to time two conversations that are not the same, or that came to nothing."""
    if not isinstance(result, RunResult) or result.assistant_text != by_hand_answer:
        raise SystemExit("the two sides gave different answers")
    data = [item.envelope["data"] for item in result.run.results]
    if data != [weather(f"City {number}", 3) for number in range(2)]:
        raise SystemExit(f"the tools came to something else: {data}")


async def compare(floor: Conversation, ours: Conversation, total: int, at_once: int) -> list[float]:
    """Return the ratio of each round; the order of the two sides alternates."""
    check(await floor(), await ours())
    await cpu_of(floor, at_once, at_once)
    await cpu_of(ours, at_once, at_once)
    ratios = []
    for number in range(ROUNDS):
        pair = [(floor, 0), (ours, 1)]
        times = [0.0, 0.0]
        for side, slot in pair if number % 2 else pair[::-1]:
            times[slot] = await cpu_of(side, total, at_once)
        ratios.append(times[1] / times[0])
    return ratios


async def watched(runner: ToolLoopRunner) -> RunResult:
    """Hold a conversation as a stream, and look at every event."""
    stream = runner.stream("Weather in Paris for 3 days?")
    async for _ in stream:
        pass
    return stream.result


async def growth(client: OpenAICompatible) -> list[float]:
    """Return, per long run, what turns 33 to 40 cost in relation to turns 2 to 9."""
    marks: list[float] = []

    def marked(city: str, days: int = 1) -> dict[str, object]:
        """Weather for a city."""
        marks.append(time.process_time())
        return weather(city, days)

    runner = runner_for(client, f"turns-{LONG_TURNS}", marked)
    await runner.run("Weather everywhere?")
    ratios = []
    for _ in range(LONG_RUNS):
        marks.clear()
        await runner.run("Weather everywhere?")
        ratios.append((marks[39] - marks[31]) / (marks[8] - marks[0]))
    return ratios


def import_cost(base: str) -> list[tuple[float, ...]]:
    """Return the CPU milliseconds of each fresh process: floor, import, import and first run.

    Bytecode is written once, to a folder of its own, and read from there: a program that is
    installed does not compile its modules at every start, whatever the surroundings of this one.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        surroundings = os.environ | {"PYTHONPYCACHEPREFIX": bytecode}
        surroundings.pop("PYTHONDONTWRITEBYTECODE", None)

        def ran(code: str) -> list[float]:
            done = subprocess.run(  # noqa: S603  # our own interpreter and code
                [sys.executable, "-c", code, base],
                capture_output=True,
                text=True,
                check=True,
                env=surroundings,
            )
            return [float(word) for word in done.stdout.split()]

        rows = [(*ran(FLOOR), *ran(FIRST_RUN)) for _ in range(IMPORTS + 1)]
    return rows[1:]


def server() -> AbstractContextManager[str]:
    """Run the endpoint in another process."""
    return served_by(Path(__file__).with_name("server.py"))


def show(name: str, values: Sequence[float], bar: float, unit: str = " x") -> bool:
    """Print one line; say whether the median is within the bar."""
    median = statistics.median(values)
    verdict = "ok" if median <= bar else "OVER"
    spread = f"{min(values):.2f} to {max(values):.2f}, n={len(values)}"
    print(f"{name:<40} {median:7.2f}{unit}  (bar {bar:g}{unit}; {spread})  {verdict}")
    return median <= bar


async def measure(base: str) -> list[bool]:
    """Run all comparisons over HTTP."""
    url, model = f"{base}/v1/chat/completions", "turns-2"
    client = OpenAICompatible(base, "none")
    connector = aiohttp.TCPConnector(limit=100)
    async with client, aiohttp.ClientSession(connector=connector) as session:
        passed = []
        kinds: tuple[tuple[str, Callable[..., Awaitable[object]], Callable[..., object]], ...] = (
            ("async", weather_async, weather_async),
            ("blocking", weather_in_thread, weather),
        )
        for kind, by_hand_tool, our_tool in kinds:
            floor = functools.partial(by_hand, session, url, model, by_hand_tool)
            runner = runner_for(client, model, our_tool)
            ours = functools.partial(runner.run, "Weather in Paris for 3 days?")
            alone = await compare(floor, ours, SEQUENTIAL, 1)
            passed.append(show(f"CPU per run, one at a time, {kind} tool", alone, 2.0))
            crowd = await compare(floor, ours, CONCURRENT, CONCURRENT)
            passed.append(show(f"CPU per run, {CONCURRENT} at once, {kind} tool", crowd, 2.5))
        by_stream = functools.partial(by_hand_streamed, session, url, model)
        runner = runner_for(client, model, weather_async)
        streams = await compare(by_stream, functools.partial(watched, runner), SEQUENTIAL, 1)
        passed.append(show("CPU per streamed run, one at a time", streams, 2.0))
        crowd = await compare(by_stream, functools.partial(watched, runner), CONCURRENT, CONCURRENT)
        passed.append(show(f"CPU per streamed run, {CONCURRENT} at once", crowd, 2.0))
        late = await growth(client)
        return [*passed, show(f"turns 33-40 against turns 2-9 of {LONG_TURNS}", late, 1.3)]


def main() -> int:
    """Print the table; the exit code says whether every bar holds."""
    with server() as base:
        passed = asyncio.run(measure(base))
        floor, imported, first_run = zip(*import_cost(base), strict=True)
    passed.append(show("CPU of importing a runner", imported, 60.0, " ms"))
    ratios = [ours / bare for ours, bare in zip(first_run, floor, strict=True)]
    passed.append(show("import and first run, to bare imports", ratios, 1.4))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
