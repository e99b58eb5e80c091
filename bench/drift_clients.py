"""The clients of `proxy_drift.py`: agents as their documentation writes them, plain and streamed.

Each is told an address and a model, has two tools, and returns its final answer. None of them is
taught anything about faults. They are imported when they are used: none is needed for anything
else, and some have no types.
"""

import inspect
import json
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from importlib import import_module, metadata
from typing import Any, Final, NamedTuple, Protocol

from surecall import tool
from surecall.values.types import JSON

KEY: Final = "none"
TIMEOUT_S: Final = 8.0
_MOST_TURNS: Final = 8

Tools = Sequence[Callable[..., str]]


class Endpoint(NamedTuple):
    """Where a client asks: the address with its version, and a client of OpenAI's SDK for it."""

    url: str
    openai: Any

    @classmethod
    def at(cls, url: str) -> "Endpoint":
        """Return the endpoint at an address."""
        sdk = import_module("openai")
        return cls(url, sdk.AsyncOpenAI(base_url=url, api_key=KEY, timeout=TIMEOUT_S))


class Client(NamedTuple):
    """A client: `plain` and `streamed` take an endpoint, a model, tools and what the user asks."""

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

    def __call__(
        self, endpoint: Endpoint, model: str, tools: Tools, prompt: str
    ) -> Awaitable[str]:
        """Hold it."""
        ...


def described(function: Callable[..., str]) -> JSON:
    """Describe a tool as one does by hand."""
    spec = tool(function).spec
    schema = {
        "name": spec.name,
        "description": inspect.getdoc(function),
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": schema}


# A loop by hand, over OpenAI's SDK.


async def _by_hand(
    endpoint: Endpoint, tools: Tools, prompt: str, ask: Callable[[list[JSON]], Awaitable[JSON]]
) -> str:
    """Hold a conversation as one writes it down in five minutes, trusting everybody."""
    by_name = {function.__name__: function for function in tools}
    messages: list[JSON] = [{"role": "user", "content": prompt}]
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


async def by_hand(endpoint: Endpoint, model: str, tools: Tools, prompt: str) -> str:
    """Ask for whole answers."""
    offered = [described(function) for function in tools]

    async def ask(messages: list[JSON]) -> JSON:
        create = endpoint.openai.chat.completions.create
        answer = await create(model=model, messages=messages, tools=offered)
        message: JSON = answer.choices[0].message.model_dump(exclude_none=True)
        return message

    return await _by_hand(endpoint, tools, prompt, ask)


async def by_hand_streamed(endpoint: Endpoint, model: str, tools: Tools, prompt: str) -> str:
    """Ask for streams, and put the deltas together as the documentation says."""
    offered = [described(function) for function in tools]

    async def ask(messages: list[JSON]) -> JSON:
        message: JSON = {"role": "assistant", "content": ""}
        calls: dict[int, JSON] = {}
        create = endpoint.openai.chat.completions.create
        stream = await create(model=model, messages=messages, tools=offered, stream=True)
        async for chunk in stream:
            for choice in chunk.choices[:1]:
                message["content"] += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    _add(calls, part)
        return message | ({"tool_calls": list(calls.values())} if calls else {})

    return await _by_hand(endpoint, tools, prompt, ask)


def _add(calls: dict[int, JSON], part: Any) -> None:
    if part.index not in calls:
        calls[part.index] = part.model_dump(exclude={"index"}, exclude_none=True)
    else:
        calls[part.index]["function"]["arguments"] += part.function.arguments or ""


# pydantic-ai.


def _pydantic_agent(endpoint: Endpoint, model: str, tools: Tools) -> Any:
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider
    chat = import_module("pydantic_ai.models.openai").OpenAIChatModel
    asked = chat(model, provider=provider(openai_client=endpoint.openai))
    return import_module("pydantic_ai").Agent(asked, tools=list(tools))


async def pydantic_ai(endpoint: Endpoint, model: str, tools: Tools, prompt: str) -> str:
    """Run an agent of pydantic-ai."""
    result = await _pydantic_agent(endpoint, model, tools).run(prompt)
    return str(result.output)


async def pydantic_ai_streamed(endpoint: Endpoint, model: str, tools: Tools, prompt: str) -> str:
    """Run it with streamed answers, and look at every event."""

    async def watch(_: Any, events: AsyncIterable[Any]) -> None:
        async for _event in events:
            pass

    agent = _pydantic_agent(endpoint, model, tools)
    result = await agent.run(prompt, event_stream_handler=watch)
    return str(result.output)


# openai-agents, with either of its two models.


def _openai_agent(endpoint: Endpoint, model: str, tools: Tools, kind: str) -> Any:
    agents = import_module("agents")
    agents.set_tracing_disabled(True)
    asked = getattr(agents, kind)(model=model, openai_client=endpoint.openai)
    # Strict mode would make every parameter a required one.
    made = [agents.function_tool(function, strict_mode=False) for function in tools]
    return agents.Agent(name="notes", model=asked, tools=made)


def _agents(kind: str) -> tuple[Agent, Agent]:
    """Return the two forms of openai-agents with one of its models."""

    async def plain(endpoint: Endpoint, model: str, tools: Tools, prompt: str) -> str:
        runner = import_module("agents").Runner
        result = await runner.run(_openai_agent(endpoint, model, tools, kind), prompt)
        return str(result.final_output)

    async def streamed(endpoint: Endpoint, model: str, tools: Tools, prompt: str) -> str:
        runner = import_module("agents").Runner
        result = runner.run_streamed(_openai_agent(endpoint, model, tools, kind), prompt)
        async for _event in result.stream_events():
            pass
        return str(result.final_output)

    return plain, streamed


# langchain.


def _langchain_agent(endpoint: Endpoint, model: str, tools: Tools) -> Any:
    chat = import_module("langchain_openai").ChatOpenAI
    asked = chat(model=model, base_url=endpoint.url, api_key=KEY, timeout=TIMEOUT_S)
    return import_module("langchain.agents").create_agent(asked, list(tools))


async def langchain(endpoint: Endpoint, model: str, tools: Tools, prompt: str) -> str:
    """Run an agent of langchain."""
    said = {"messages": [{"role": "user", "content": prompt}]}
    state = await _langchain_agent(endpoint, model, tools).ainvoke(said)
    return str(state["messages"][-1].text)


async def langchain_streamed(endpoint: Endpoint, model: str, tools: Tools, prompt: str) -> str:
    """Run it with streamed answers, and look at every token."""
    said = {"messages": [{"role": "user", "content": prompt}]}
    agent = _langchain_agent(endpoint, model, tools)
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
