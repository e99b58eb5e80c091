"""Clients of other people work against the simulator: the OpenAI SDK and pydantic-ai."""

import asyncio
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from surecall.simulator import Simulator

ASKED = "What is the weather in Paris for 3 days?"
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather for a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}


def test_the_openai_sdk_runs_the_clean_persona_to_the_end() -> None:
    with (
        Simulator() as simulator,
        openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="none") as client,
    ):
        assert "sim/clean" in [model.id for model in client.models.list()]
        messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": ASKED}]
        asked = client.chat.completions.create(
            model="sim/clean", messages=messages, tools=[WEATHER]
        )
        (call,) = asked.choices[0].message.tool_calls or []
        assert call.type == "function"
        assert call.function.arguments == '{"city":"Paris","days":3}'
        messages.append(asked.choices[0].message)  # type: ignore[arg-type]  # their own advice
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
        answer = client.chat.completions.create(
            model="sim/clean", messages=messages, tools=[WEATHER]
        )
    assert answer.choices[0].message.content == "Done. get_weather said: sunny"
    assert list(simulator.violations) == []


def test_the_openai_sdk_reads_a_refusal() -> None:
    with (
        Simulator() as simulator,
        openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="none") as client,
    ):
        orphan: ChatCompletionMessageParam = {"role": "tool", "tool_call_id": "a", "content": "x"}
        with pytest.raises(openai.BadRequestError, match="must be a response to"):
            client.chat.completions.create(model="sim/clean", messages=[orphan])
    assert [seen.rule for seen in simulator.violations] == ["orphan"]


async def hold(url: str, patched: list[Any]) -> str:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
        model = OpenAIChatModel("sim/clean", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model)

        @agent.tool_plain
        def state_get(workspace_id: str) -> dict[str, str]:
            """Read the workspace."""
            return {"workspace_id": workspace_id}

        @agent.tool_plain
        def state_patch(workspace_id: str, request_id: str, ops: list[dict[str, str]]) -> str:
            """Change the workspace."""
            patched.append((workspace_id, request_id, ops))
            return "applied"

        return (await agent.run("Please set the draft. workspace_id=ws_1")).output


def test_an_agent_of_pydantic_ai_runs_the_clean_persona_to_the_end() -> None:
    patched: list[Any] = []
    with Simulator() as simulator:
        answer = asyncio.run(hold(simulator.url, patched))
    assert answer == "Done."
    assert patched == [("ws_1", "r1", [{"op": "set", "path": "/draft/foo", "value": "bar"}])]
    assert list(simulator.violations) == []
