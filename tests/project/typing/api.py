"""Typical user code: checked by mypy, never run. What does not type-check here is a broken API."""

from typing import assert_type

from surecall import (
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
    ToolCallingConfig,
    ToolDefinition,
    ToolLoopRunner,
    ToolRegistry,
    Trace,
    presets,
    replay,
    tool,
)
from surecall.values.types import Message, ToolCall, ToolSpec, Usage


@tool
def get_weather(city: str, days: int = 1) -> dict[str, object]:
    """Weather for a city."""
    return {"city": city, "days": days}


@tool(timeout_s=3, repeatable=True)
async def poll(job: str) -> str:
    """Ask how a job is."""
    return job


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


async def main() -> None:
    """Use the API as the README does, and then some."""
    assert_type(get_weather, ToolDefinition)
    config = presets.resolve(provider="openrouter", model="m").but(max_turns=3)
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
        assert_type(result.usage, Usage)
        assert_type(result.trace, Trace)
        assert_type(result.history, list[Message])
        assert_type(replay(result.trace), RunResult)
        assert_type(Run.from_json(result.run.to_json()), Run)
        assert_type(runner.run_sync("And now?", history=result.history), RunResult)
