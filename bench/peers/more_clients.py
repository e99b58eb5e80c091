"""Clients beside those of `bench/drift_clients.py`: loops by hand, smolagents, and surecall.

The loop by hand is the careful one of the demo, which tells the model of every call that it cannot
run; there is one over OpenAI's SDK and one over LiteLLM's.
"""

import asyncio
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from bench.drift_clients import KEY, RETRIES, Agent, Asked, Endpoint
from surecall import OpenAICompatible, ToolLoopRunner
from surecall.simulator.demo_loops import converse, sdk_loop
from surecall.simulator.demo_tasks import DemoTask, describe_tools
from surecall.values.types import JSON

MOST_STEPS: Final = 8


def _task_of(asked: Asked) -> DemoTask:
    return DemoTask(asked.prompt, (), (), "", asked.system)


def in_a_thread(hold: Callable[[Endpoint, Asked], str]) -> Agent:
    """Return a conversation that blocks as one that does not."""

    async def agent(endpoint: Endpoint, asked: Asked) -> str:
        return await asyncio.to_thread(hold, endpoint, asked)

    return agent


# OpenAI's SDK.


@cache
def _client(url: str, timeout_s: float) -> Any:
    return import_module("openai").OpenAI(base_url=url, api_key=KEY, timeout=timeout_s)


def _openai(endpoint: Endpoint, asked: Asked, *, streamed: bool) -> str:
    client = _client(endpoint.url, endpoint.timeout_s)
    return sdk_loop(client, asked.model, _task_of(asked), asked.tools, streamed=streamed)


# LiteLLM.


def _litellm(endpoint: Endpoint, asked: Asked, *, streamed: bool) -> str:
    library = import_module("litellm")
    offered = describe_tools(asked.tools)
    ask_for = partial(
        library.completion,
        model=f"openai/{asked.model}",
        api_base=endpoint.url,
        api_key=KEY,
        timeout=endpoint.timeout_s,
        num_retries=RETRIES,
        drop_params=True,
        tools=offered,
        stream=streamed,
    )

    def ask(messages: list[JSON]) -> JSON:
        answer = ask_for(messages=messages)
        if streamed:
            answer = library.stream_chunk_builder(list(answer), messages=messages)
        message: JSON = answer.choices[0].message.model_dump(exclude_none=True, warnings=False)
        return message

    return converse(ask, _task_of(asked), asked.tools)


# smolagents.


def _smolagents(endpoint: Endpoint, asked: Asked, *, streamed: bool) -> str:
    library = import_module("smolagents")
    model = library.OpenAIModel(
        asked.model,
        api_base=endpoint.url,
        api_key=KEY,
        client=_client(endpoint.url, endpoint.timeout_s),
    )
    tools = [_smolagents_tool(library.Tool, function) for function in asked.tools]
    agent = library.ToolCallingAgent(
        tools,
        model,
        instructions=asked.system,
        max_steps=MOST_STEPS,
        stream_outputs=streamed,
        verbosity_level=library.LogLevel.OFF,
        return_full_result=True,
    )
    result = agent.run(asked.prompt)
    if result.state != "success":
        raise RuntimeError(f"it ended with {result.state}: {result.output}")
    return str(result.output)


def _smolagents_tool(base: Any, function: Callable[..., str]) -> Any:
    """Make a tool as its documentation does, with a class; an array of objects is an array."""
    inner = describe_tools([function])[0]["function"]
    schema, required = inner["parameters"]["properties"], inner["parameters"].get("required", [])
    inputs = {
        name: {
            "type": each["type"],
            "description": name,
            **({"enum": each["enum"]} if "enum" in each else {}),
            **({} if name in required else {"nullable": True}),
        }
        for name, each in schema.items()
    }

    def forward(_: Any, **arguments: Any) -> str:
        return function(**arguments)

    given = {
        "name": inner["name"],
        "description": inner["description"],
        "inputs": inputs,
        "output_type": "string",
        "forward": forward,
        "skip_forward_signature_validation": True,
    }
    return type(inner["name"], (base,), given)()


# surecall.


async def _surecall(endpoint: Endpoint, asked: Asked, *, streamed: bool) -> str:
    async with OpenAICompatible(endpoint.url, api_key=KEY) as client:
        runner = ToolLoopRunner(
            client=client, model=asked.model, tools=list(asked.tools), system=asked.system
        )
        if not streamed:
            return (await runner.run(asked.prompt)).assistant_text
        async with runner.stream(asked.prompt) as stream:
            async for _ in stream:
                pass
            return stream.result.assistant_text


BLOCKING: Final = {"openai": _openai, "litellm": _litellm, "smolagents": _smolagents}


def agent_of(name: str, *, streamed: bool) -> Agent:
    """Return one of these clients, by the name of its package."""
    if name in BLOCKING:
        return in_a_thread(partial(BLOCKING[name], streamed=streamed))
    return partial(_surecall, streamed=streamed)
