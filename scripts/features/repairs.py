"""Bent replies that have one meaning: how many conversations come out right.

The conversations of `bench/proxy_drift.py`, without the proxy: whole answers of every persona of
the simulator that is catalogued as `repaired`, once with one call, once with two at a time. Right
means that exactly the expected calls ran, each once, and the user got the answer.
"""

import asyncio
import tempfile
from importlib import import_module
from typing import Any

from bench.drift_clients import CLIENTS as MEASURED
from bench.drift_clients import KEY, TIMEOUT_S, Agent, Asked, Endpoint, langchain, pydantic_ai
from bench.proxy_drift import direct, side
from scripts.features.common import Verdict, in_part, main, no, yes
from surecall import OpenAICompatible, ToolLoopRunner
from surecall.simulator.demo_tasks import describe_tools
from surecall.simulator.personas.persona import REPAIRED
from surecall.simulator.personas.persona_catalog import PERSONAS

ALMOST_ALL, MOST = 0.99, 0.5


def probed(agent: Agent) -> dict[str, Verdict]:
    """Hold all conversations, and count those that came out right."""
    met = [each for each in PERSONAS.values() if each.outcome == REPAIRED and each.kind != "stream"]
    runs = asyncio.run(side(agent, met, direct))
    right = sum(run.verdict == "right" for run in runs)
    share = right / len(runs)
    verdict = yes if share >= ALMOST_ALL else in_part if share >= MOST else no
    return {"repairs": verdict(f"{right} of {len(runs)} right")}


async def surecall(endpoint: Endpoint, asked: Asked) -> str:
    """Run as the README does."""
    async with OpenAICompatible(endpoint.url, api_key=KEY) as client:
        runner = ToolLoopRunner(
            client=client, model=asked.model, tools=list(asked.tools), system=asked.system
        )
        return (await runner.run(asked.prompt)).assistant_text


async def inspect(endpoint: Endpoint, asked: Asked) -> str:
    """Generate in the loop of a model."""
    models, tools = import_module("inspect_ai.model"), import_module("inspect_ai.tool")
    model = models.get_model(
        f"openai-api/loopback/{asked.model}", base_url=endpoint.url, api_key=KEY
    )
    said = [
        models.ChatMessageSystem(content=asked.system),
        models.ChatMessageUser(content=asked.prompt),
    ]
    config = models.GenerateConfig(max_retries=2, timeout=int(TIMEOUT_S))
    offered = [_inspect_tool(tools.ToolDef, each) for each in asked.tools]
    _, output = await model.generate_loop(said, tools=offered, config=config)
    return str(output.completion)


def _inspect_tool(made: Any, function: Any) -> Any:
    async def called(**arguments: Any) -> str:
        return str(function(**arguments))

    (schema,) = describe_tools([function])
    inner = schema["function"]
    params = import_module("inspect_ai.tool").ToolParams(
        properties=inner["parameters"].get("properties", {}),
        required=inner["parameters"].get("required", []),
    )
    return made(called, inner["name"], inner["description"], parameters=params)


async def litellm(endpoint: Endpoint, asked: Asked) -> str:
    """Run its tool loop."""
    library = import_module("litellm")
    with tempfile.TemporaryDirectory() as folder:
        result = await library.aagent(
            library.Harness.TOOL_LOOP,
            asked.prompt,
            sandbox=library.sandbox.local(folder),
            model=f"openai/{asked.model}",
            api_base=endpoint.url,
            api_key=KEY,
            instructions=asked.system,
            tools=list(asked.tools),
            options=library.harness.ToolLoopOptions({"timeout": TIMEOUT_S, "num_retries": 2}),
        )
    if result.stop_reason != "done":
        raise RuntimeError(result.stop_reason)
    return str(result.text)


BY_NAME = {client.name: client.plain for client in MEASURED}
PROBES = {
    "surecall": lambda _: probed(surecall),
    "pydantic-ai": lambda _: probed(pydantic_ai),
    "openai-agents": lambda _: probed(BY_NAME["openai-agents chat"]),
    "langgraph": lambda _: probed(langchain),
    "inspect": lambda _: probed(inspect),
    "litellm": lambda _: probed(litellm),
}

if __name__ == "__main__":
    main(PROBES)
