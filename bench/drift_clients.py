"""Agents of others as their documentation writes them, plain and streamed.

Each is told an address and a model, has two tools, and returns its final answer. None of them is
taught anything about faults; who is asked to be careful has every switch on that its documentation
has for answers that fail and calls that cannot run. They are imported when they are used: none is
needed for anything else, and some have no types.
"""

import json
from collections.abc import AsyncIterable, Awaitable, Callable
from importlib import import_module, metadata
from typing import Any, Final, NamedTuple, Protocol

from surecall.simulator.demo_tasks import ToolFunctions, describe_tools
from surecall.values.types import JSON

KEY: Final = "none"
TIMEOUT_S: Final = 8.0
RETRIES: Final = 2
_MOST_TURNS: Final = 8
_PASSING: Final = (408, 409, 429, 500, 502, 503, 504)


class Endpoint(NamedTuple):
    """Where a client asks: the address with its version, and a client of OpenAI's SDK for it."""

    url: str
    openai: Any
    timeout_s: float = TIMEOUT_S

    @classmethod
    def at(cls, url: str, timeout_s: float = TIMEOUT_S) -> "Endpoint":
        """Return the endpoint at an address."""
        sdk = import_module("openai")
        client = sdk.AsyncOpenAI(base_url=url, api_key=KEY, timeout=timeout_s)
        return cls(url, client, timeout_s)


class Asked(NamedTuple):
    """What an agent is to do: with which model, under which instructions, with which tools."""

    model: str
    system: str
    prompt: str
    tools: ToolFunctions
    careful: bool = False


class Client(NamedTuple):
    """A client, and how it holds a conversation: with whole answers, or with streamed ones."""

    name: str
    package: str
    modules: tuple[str, ...]
    plain: "Agent"
    streamed: "Agent"
    asks_for_chat: bool = True

    @property
    def version(self) -> str:
        """The version that is installed; blank if something of it is missing."""
        try:
            for module in self.modules:
                import_module(module)
            return metadata.version(self.package)
        except ImportError:
            return ""


class Agent(Protocol):
    """One conversation: the user asks, tools run, the final answer is returned."""

    def __call__(self, endpoint: Endpoint, asked: Asked) -> Awaitable[str]:
        """Hold it."""
        ...


# A loop by hand, over OpenAI's SDK.


async def _by_hand(asked: Asked, ask: Callable[[list[JSON]], Awaitable[JSON]]) -> str:
    """Hold a conversation as one writes it down in five minutes, trusting everybody."""
    by_name = {function.__name__: function for function in asked.tools}
    messages: list[JSON] = [
        {"role": "system", "content": asked.system},
        {"role": "user", "content": asked.prompt},
    ]
    for _ in range(_MOST_TURNS):
        message = await ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        for call in message["tool_calls"]:
            function = call["function"]
            result = by_name[function["name"]](**json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    raise RuntimeError(f"no answer after {_MOST_TURNS} turns")


async def by_hand(endpoint: Endpoint, asked: Asked) -> str:
    """Ask for whole answers."""
    offered = describe_tools(asked.tools)

    async def ask(messages: list[JSON]) -> JSON:
        create = endpoint.openai.chat.completions.create
        answer = await create(model=asked.model, messages=messages, tools=offered)
        message: JSON = answer.choices[0].message.model_dump(exclude_none=True)
        return message

    return await _by_hand(asked, ask)


async def by_hand_streamed(endpoint: Endpoint, asked: Asked) -> str:
    """Ask for streams, and put the deltas together as the documentation says."""
    offered = describe_tools(asked.tools)

    async def ask(messages: list[JSON]) -> JSON:
        message: JSON = {"role": "assistant", "content": ""}
        calls: dict[int, JSON] = {}
        create = endpoint.openai.chat.completions.create
        stream = await create(model=asked.model, messages=messages, tools=offered, stream=True)
        async for chunk in stream:
            for choice in chunk.choices[:1]:
                message["content"] += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    _add(calls, part)
        return message | ({"tool_calls": list(calls.values())} if calls else {})

    return await _by_hand(asked, ask)


def _add(calls: dict[int, JSON], part: Any) -> None:
    if part.index not in calls:
        calls[part.index] = part.model_dump(exclude={"index"}, exclude_none=True)
    else:
        calls[part.index]["function"]["arguments"] += part.function.arguments or ""


# pydantic-ai.


def _pydantic_agent(endpoint: Endpoint, asked: Asked) -> Any:
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider
    chat = import_module("pydantic_ai.models.openai").OpenAIChatModel
    model = chat(asked.model, provider=provider(openai_client=endpoint.openai))
    agent = import_module("pydantic_ai").Agent
    retries = RETRIES if asked.careful else None
    return agent(model, instructions=asked.system, tools=list(asked.tools), retries=retries)


async def pydantic_ai(endpoint: Endpoint, asked: Asked) -> str:
    """Run an agent of pydantic-ai."""
    result = await _pydantic_agent(endpoint, asked).run(asked.prompt)
    return str(result.output)


async def pydantic_ai_streamed(endpoint: Endpoint, asked: Asked) -> str:
    """Run it with streamed answers, and look at every event."""

    async def watch(_: Any, events: AsyncIterable[Any]) -> None:
        async for _event in events:
            pass

    agent = _pydantic_agent(endpoint, asked)
    result = await agent.run(asked.prompt, event_stream_handler=watch)
    return str(result.output)


# openai-agents, with either of its two models.


def _openai_agent(endpoint: Endpoint, asked: Asked, kind: str) -> Any:
    agents = import_module("agents")
    agents.set_tracing_disabled(True)
    model = getattr(agents, kind)(model=asked.model, openai_client=endpoint.openai)
    # Strict mode would make every parameter a required one.
    tools = [agents.function_tool(function, strict_mode=False) for function in asked.tools]
    policies = agents.retry_policies
    policy = policies.any(policies.network_error(), policies.http_status(_PASSING))
    retry = agents.ModelRetrySettings(max_retries=RETRIES, policy=policy)
    settings = agents.ModelSettings(retry=retry if asked.careful else None)
    return agents.Agent(
        name="notes", instructions=asked.system, model=model, tools=tools, model_settings=settings
    )


def _settings_of_a_run(asked: Asked) -> Any:
    behaviour = "return_error_to_model" if asked.careful else "raise_error"
    return import_module("agents").RunConfig(tool_not_found_behavior=behaviour)


def _agents(kind: str) -> tuple[Agent, Agent]:
    """Return the two forms of openai-agents with one of its models."""

    async def plain(endpoint: Endpoint, asked: Asked) -> str:
        runner = import_module("agents").Runner
        agent, config = _openai_agent(endpoint, asked, kind), _settings_of_a_run(asked)
        result = await runner.run(agent, asked.prompt, run_config=config)
        return str(result.final_output)

    async def streamed(endpoint: Endpoint, asked: Asked) -> str:
        runner = import_module("agents").Runner
        agent, config = _openai_agent(endpoint, asked, kind), _settings_of_a_run(asked)
        result = runner.run_streamed(agent, asked.prompt, run_config=config)
        async for _event in result.stream_events():
            pass
        return str(result.final_output)

    return plain, streamed


# langchain.


def _langchain_agent(endpoint: Endpoint, asked: Asked) -> Any:
    chat = import_module("langchain_openai").ChatOpenAI
    model = chat(model=asked.model, base_url=endpoint.url, api_key=KEY, timeout=endpoint.timeout_s)
    given = import_module("langchain.agents.middleware")
    middleware = [
        given.ModelRetryMiddleware(max_retries=RETRIES, initial_delay=0.1, on_failure="error"),
        given.ToolErrorMiddleware(on_error=lambda error, _: f"Error: {error}"),
    ]
    create = import_module("langchain.agents").create_agent
    on = middleware if asked.careful else []
    return create(model, list(asked.tools), system_prompt=asked.system, middleware=on)


async def langchain(endpoint: Endpoint, asked: Asked) -> str:
    """Run an agent of langchain."""
    said = {"messages": [{"role": "user", "content": asked.prompt}]}
    state = await _langchain_agent(endpoint, asked).ainvoke(said)
    return str(state["messages"][-1].text)


async def langchain_streamed(endpoint: Endpoint, asked: Asked) -> str:
    """Run it with streamed answers, and look at every token."""
    said = {"messages": [{"role": "user", "content": asked.prompt}]}
    agent = _langchain_agent(endpoint, asked)
    state: JSON = {}
    async for kind, seen in agent.astream(said, stream_mode=["messages", "values"]):
        state = seen if kind == "values" else state
    return str(state["messages"][-1].text)


CLIENTS: Final = (
    Client("openai", "openai", ("openai",), by_hand, by_hand_streamed),
    Client(
        "pydantic-ai",
        "pydantic-ai-slim",
        ("openai", "pydantic_ai.models.openai"),
        pydantic_ai,
        pydantic_ai_streamed,
    ),
    Client(
        "openai-agents chat", "openai-agents", ("agents",), *_agents("OpenAIChatCompletionsModel")
    ),
    Client(
        "openai-agents responses",
        "openai-agents",
        ("agents",),
        *_agents("OpenAIResponsesModel"),
        asks_for_chat=False,
    ),
    Client(
        "langchain",
        "langchain",
        ("openai", "langchain.agents", "langchain_openai"),
        langchain,
        langchain_streamed,
    ),
)
