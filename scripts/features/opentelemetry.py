"""OpenTelemetry spans of a run with one tool call, under the names of the GenAI conventions.

What is looked for: an `invoke_agent` span, two `chat` spans and an `execute_tool` span, told by
`gen_ai.operation.name`, of the library's own making and in the application's own exporter.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from scripts.features.clients import agents_model, langchain_model, pydantic_ai_model
from scripts.features.common import KEY, MODEL, Verdict, in_part, main, no, yes
from surecall import ToolLoopRunner
from surecall.testing import ScriptedProvider, calls, says

PROMPT = "Look."
WANTED = {"invoke_agent": 1, "chat": 2, "execute_tool": 1}
Run = Callable[[str, Any], Coroutine[Any, Any, object]]


def look() -> str:
    """Look."""
    return "seen"


def probed(run: Run) -> dict[str, Verdict]:
    """Run with an exporter in memory, and count the spans by their operation."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    sdk = import_module("opentelemetry.sdk.trace")
    export = import_module("opentelemetry.sdk.trace.export")
    memory = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    kept = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    import_module("opentelemetry.trace").set_tracer_provider(provider)
    with ScriptedProvider(calls("look"), says("Seen.")) as model:
        asyncio.run(run(model.url, provider))
    provider.force_flush()
    spans = kept.get_finished_spans()
    told = Counter(span.attributes.get("gen_ai.operation.name") for span in spans)
    found = {name: told[name] for name in WANTED}
    seen = f"{len(spans)} spans; of the conventions' operations: {found}"
    missing = [name for name in WANTED if found[name] < WANTED[name]]
    verdict = yes if not missing else in_part if len(missing) < len(WANTED) else no
    return {"otel": verdict(seen)}


async def surecall(url: str, provider: Any) -> object:
    """Run with the observer for OpenTelemetry."""
    observer = import_module("surecall.otel").OpenTelemetry(provider)
    runner = ToolLoopRunner(client=url, model=MODEL, tools=[look], observers=[observer])
    return await runner.run(PROMPT)


async def pydantic_ai(url: str, provider: Any) -> object:
    """Run an agent with instrumentation."""
    ai = import_module("pydantic_ai")
    settings = import_module("pydantic_ai.models.instrumented").InstrumentationSettings
    ai.Agent.instrument_all(settings(tracer_provider=provider))
    return await ai.Agent(pydantic_ai_model(url), name="looks", tools=[look]).run(PROMPT)


async def openai_agents(url: str, _: Any) -> object:
    """Run an agent with its tracing on: it has spans of its own, and no exporter for these."""
    os.environ.pop("OPENAI_AGENTS_DISABLE_TRACING", None)
    sdk = import_module("agents")
    sdk.set_trace_processors([])
    agent = sdk.Agent(name="looks", model=agents_model(url), tools=[sdk.function_tool(look)])
    return await sdk.Runner.run(agent, PROMPT)


async def langgraph(url: str, _: Any) -> object:
    """Run langchain's agent with LangSmith's OpenTelemetry mode, without LangSmith."""
    for name in ("TRACING", "OTEL_ENABLED", "OTEL_ONLY"):
        os.environ[f"LANGSMITH_{name}"] = "true"
    os.environ["LANGSMITH_API_KEY"] = KEY
    os.environ["LANGSMITH_ENDPOINT"] = url
    agent = import_module("langchain.agents").create_agent(langchain_model(url), [look])
    state = await agent.ainvoke({"messages": [{"role": "user", "content": PROMPT}]})
    import_module("langchain_core.tracers.langchain").wait_for_all_tracers()
    return state


async def litellm(url: str, provider: Any) -> object:
    """Ask twice with the callback for OpenTelemetry; the loop and its tool are the caller's."""
    library: Any = import_module("litellm")
    library.callbacks = ["otel"]
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    for _ in range(2):
        answer = await library.acompletion(
            f"openai/{MODEL}", messages, tools=tools, api_base=f"{url}/v1", api_key=KEY
        )
        message = json.loads(answer.choices[0].message.model_dump_json(exclude_none=True))
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": look()}
            for call in message.get("tool_calls", ())
        ]
        messages += [message, *results]
    await asyncio.sleep(1)  # it reports from a task of its own
    return messages


PROBES = {
    "surecall": lambda _: probed(surecall),
    "pydantic-ai": lambda _: probed(pydantic_ai),
    "openai-agents": lambda _: probed(openai_agents),
    "langgraph": lambda _: probed(langgraph),
    "litellm": lambda _: probed(litellm),
}

if __name__ == "__main__":
    main(PROBES)
