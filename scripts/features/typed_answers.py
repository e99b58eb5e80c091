"""A typed final answer together with tools, and a first answer that does not fit the type.

The model looks something up, then answers without a field that is required, and puts it right
once it is told. It answers in the way it is asked: by the tool that the library offers for the
answer, or in text.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from scripts.features.clients import (
    agents_model,
    inspect_model,
    langchain_model,
    litellm_agent,
    pydantic_ai_model,
)
from scripts.features.common import MODEL, Verdict, in_part, main, no, yes
from surecall import ToolLoopRunner
from surecall.testing import Built, ScriptedProvider, calls, says

PROMPT = "How long is the trip to Paris?"
WRONG, RIGHT = {"city": "Paris"}, {"city": "Paris", "days": 3}
Run = Callable[[str], Coroutine[Any, Any, Any]]


@dataclass
class Trip:
    """A trip."""

    city: str
    days: int


def lookup(city: str) -> str:
    """Look a trip up."""
    return f"The trip to {city} takes three days."


def answered(request: dict[str, Any]) -> Built:
    """Look it up, answer wrong, then right."""
    spoken = sum(message["role"] == "assistant" for message in request["messages"])
    if not spoken:
        return calls("lookup", city="Paris")
    answer = WRONG if spoken == 1 else RIGHT
    offered = [tool["function"]["name"] for tool in request.get("tools", ())]
    final = [name for name in offered if name != "lookup"]
    return calls(final[0], **answer) if final else says(json.dumps(answer))


def probed(run: Run) -> dict[str, Verdict]:
    """Ask, and look at what came."""
    with ScriptedProvider(answered, repeat=True) as model:
        try:
            got = asyncio.run(run(model.url))
        except Exception as error:  # noqa: BLE001  # whatever it raises is what was seen
            asked = len(model.requests)
            return {
                "typed": in_part(
                    f"the wrong answer raises {type(error).__name__} ({asked} requests)"
                )
            }
        asked = len(model.requests)
    if isinstance(got, Trip):
        return {"typed": yes(f"the model was told, and {got!r} came ({asked} requests)")}
    return {"typed": no(f"the wrong answer was handed over: {got!r} ({asked} requests)")}


async def surecall(url: str) -> Any:
    """Run with an output type."""
    runner = ToolLoopRunner(client=url, model=MODEL, tools=[lookup], output=Trip)
    return (await runner.run(PROMPT)).output


async def pydantic_ai(url: str) -> Any:
    """Run an agent with an output type."""
    agent = import_module("pydantic_ai").Agent
    made = agent(pydantic_ai_model(url), tools=[lookup], output_type=Trip)
    return (await made.run(PROMPT)).output


async def openai_agents(url: str) -> Any:
    """Run an agent with an output type."""
    sdk = import_module("agents")
    tool = sdk.function_tool(lookup)
    agent = sdk.Agent(name="guide", model=agents_model(url), tools=[tool], output_type=Trip)
    return (await sdk.Runner.run(agent, PROMPT)).final_output


async def langgraph(url: str) -> Any:
    """Run langchain's agent with a response format."""
    create = import_module("langchain.agents").create_agent
    strategy = import_module("langchain.agents.structured_output").ToolStrategy
    agent = create(langchain_model(url), [lookup], response_format=strategy(Trip))
    said = {"messages": [{"role": "user", "content": PROMPT}]}
    return (await agent.ainvoke(said))["structured_response"]


async def inspect(url: str) -> Any:
    """Generate with a response schema, in the loop of a model."""
    models, tools = import_module("inspect_ai.model"), import_module("inspect_ai.tool")
    schema = import_module("inspect_ai.util").json_schema(Trip)

    async def looked_up(city: str) -> str:
        return lookup(city)

    tool = tools.ToolDef(looked_up, "lookup", "Look it up.", parameters={"city": "The city."})
    config = models.GenerateConfig(
        response_schema=models.ResponseSchema(name="trip", json_schema=schema)
    )
    _, output = await inspect_model(url).generate_loop(PROMPT, tools=[tool], config=config)
    return output.completion


async def litellm(url: str) -> Any:
    """Run the tool loop with an output model."""
    model = import_module("pydantic").create_model("Trip", city=(str, ...), days=(int, ...))
    result = await litellm_agent(url, PROMPT, [lookup], output=model)
    return Trip(**result.output.model_dump())


PROBES = {
    "surecall": lambda _: probed(surecall),
    "pydantic-ai": lambda _: probed(pydantic_ai),
    "openai-agents": lambda _: probed(openai_agents),
    "langgraph": lambda _: probed(langgraph),
    "inspect": lambda _: probed(inspect),
    "litellm": lambda _: probed(litellm),
}

if __name__ == "__main__":
    main(PROBES)
