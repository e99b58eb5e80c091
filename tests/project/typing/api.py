"""Typical user code: checked by mypy, never run. What does not type-check here is a broken API."""

from dataclasses import dataclass
from typing import Any, assert_type

from surecall import (
    Context,
    Conversation,
    Decision,
    ErrorCode,
    Event,
    JsonlSink,
    OpenAICompatible,
    ProviderError,
    Run,
    RunFailed,
    RunResult,
    Secret,
    SqliteStore,
    ToolCallingConfig,
    ToolDefinition,
    ToolLoopRunner,
    ToolRegistry,
    Trace,
    presets,
    replay,
    tool,
)
from surecall.mcp import MCPTools, mcp_tools
from surecall.runtime.run_stream import LiveEvent
from surecall.values.types import Message, ToolCall, ToolSpec, Usage


@tool
def get_weather(city: str, days: int = 1) -> dict[str, object]:
    """Weather for a city."""
    return {"city": city, "days": days}


@tool(timeout_s=3, repeatable=True)
async def poll(job: str) -> str:
    """Ask how a job is."""
    return job


@tool(name="cancel", description="Cancel an order.", serial=True, exposed_to_model=True)
def cancel(order: int, context: Context) -> str:
    """Cancel an order of the user for whom this runs."""
    user: str = context["user"]
    return f"{order} of {user}"


class Careful:
    """A tool policy."""

    def visible(self, tool: ToolSpec, context: object) -> bool:
        """Show everything but one."""
        return tool.name != "delete" or context is None

    async def authorize(self, call: ToolCall, context: object) -> Decision:
        """Let reading pass."""
        return Decision("allow" if context or call.name == "poll" else "confirm", "please ask")


def watch(event: Event) -> None:
    """Observe a run."""
    print(event.run_id, event.turn)  # noqa: T201  # an example


def blocking() -> None:
    """Use the doors that most programs use: no config, one tool, an address, blocking methods."""
    runner = ToolLoopRunner(client="http://127.0.0.1:8000", model="m", tools=get_weather)
    assert_type(runner.config, ToolCallingConfig)
    result = runner.run_sync("Hello", system="Be brief.", max_turns=3, context={"user": "kim"})
    assert_type(result, RunResult)
    assert_type(runner.resume_sync(result.run, on_event=watch, context=None), RunResult)
    stream = runner.stream_sync("And now?", history=result.history, on_event=watch)
    assert_type([event for event in stream], list[LiveEvent])  # noqa: C416  # the type is the point
    assert_type(stream.result, RunResult)
    bare = ToolLoopRunner(client=runner.client, model="m", registry=[cancel], config=presets.raw())
    assert_type(bare.run_sync([{"type": "text", "text": "Hello"}]), RunResult)


@dataclass
class Forecast:
    """What an answer is to be."""

    city: str
    days: int


def typed(schema: dict[str, Any]) -> None:
    """Ask for answers of a type."""
    runner = ToolLoopRunner(client="http://127.0.0.1:8000", model="m", output=Forecast)
    assert_type(runner, ToolLoopRunner[Forecast])
    result = runner.run_sync("Hello")
    assert_type(result, RunResult[Forecast])
    assert_type(result.output, Forecast)
    assert_type(runner.resume_sync(result.run).output, Forecast)
    assert_type(runner.stream_sync("Hello").result.output, Forecast)
    anything: ToolLoopRunner = runner
    assert_type(anything.run_sync("Hello"), RunResult)
    numbers = ToolLoopRunner(client=runner.client, model="m", tools=[poll], output=list[int])
    assert_type(numbers.run_sync("Hello").output, list[int])
    plain = ToolLoopRunner(client=runner.client, model="m", output=schema)
    assert_type(plain.run_sync("Hello").output, Any)


async def main() -> None:
    """Use the API as the README does, and then some."""
    assert_type(get_weather, ToolDefinition)
    config = presets.resolve(provider="openrouter", model="m").replace(max_turns=3)
    assert_type(config, ToolCallingConfig)
    client = OpenAICompatible("http://127.0.0.1:8000", Secret("k"))
    runner = ToolLoopRunner(
        client=client,
        model="m",
        registry=ToolRegistry([get_weather, poll]),
        config=config,
        observers=[watch, JsonlSink("trace.jsonl", secrets=[Secret("k")])],
        tool_policy=Careful(),
    )
    try:
        async with client:
            result = await runner.run("Hello", history=[{"role": "user", "content": "Hi"}])
    except ProviderError as error:
        assert_type(error.code, ErrorCode)
        assert_type(error.status, int | None)
    except RunFailed as error:
        assert_type(error.result, RunResult)
    else:
        assert_type(result.assistant_text, str)
        assert_type(await runner.stream("Hello").next_batch(), list[LiveEvent])
        assert_type(result.usage, Usage)
        assert_type(result.trace, Trace)
        assert_type(result.history, list[Message])
        assert_type(replay(result.trace), RunResult)
        assert_type(Run.from_json(result.run.to_json()), Run)
        assert_type(runner.run_sync("And now?", history=result.history), RunResult)
    async with mcp_tools(
        "npx some-server", allow=["read"], hints={"read": {"read_only": True}}
    ) as tools:
        assert_type(tools, MCPTools)
        assert_type(tools[0], ToolDefinition)
        await ToolLoopRunner(client=client, model="m", tools=[*tools, poll]).run("Read.")
    with mcp_tools("http://127.0.0.1:9000/mcp", headers={"X-Key": "k"}, timeout_s=5) as tools:
        ToolLoopRunner(client=client, model="m", tools=tools).run_sync("Read.")


async def kept(runner: ToolLoopRunner) -> None:
    """Keep a conversation."""
    chat = Conversation(runner, SqliteStore("chats.db"), "customer-7")
    assert_type(await chat.say("Hello"), RunResult)
    assert_type(chat.resume_sync({call.id: Decision.approve() for call in chat.waiting}), RunResult)
    assert_type(chat.history, list[Message])
