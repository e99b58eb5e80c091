"""A run that was recorded is played again without a model, and without its effects.

The first run asks a provider and charges once. The second one is played from what the first left
behind, with the provider gone: it must give the same answer, and must not charge again. Where a
library keeps the model's answers in a cache, the cache is on.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.features.clients import inspect_model, langchain_model
from scripts.features.common import KEY, MODEL, Verdict, in_part, main, no, yes
from surecall import ToolLoopRunner, load_trace, replay, save_trace
from surecall.testing import ScriptedProvider, calls, says

PROMPT = "Charge 10."
ANSWER = "Charged 10."
Run = Callable[[str, str, Any], Awaitable[str]]


def probed(run: Run) -> dict[str, Verdict]:
    """Run twice at the same address; the second time nobody is there."""
    charged: list[int] = []

    def charge(amount: int) -> str:
        """Charge an amount."""
        charged.append(amount)
        return f"charged {amount}"

    async def twice(folder: str) -> str:
        with ScriptedProvider(calls("charge", amount=10), says(ANSWER)) as model:
            await run(model.url, folder, charge)
        return await run(model.url, folder, charge)

    with tempfile.TemporaryDirectory() as folder:
        try:
            said = asyncio.run(twice(folder))
        except Exception as error:  # noqa: BLE001  # whatever it raises is what was seen
            return {"replay": no(f"without the provider: {type(error).__name__}: {error}"[:150])}
    if ANSWER not in said:
        return {"replay": no(f"without the provider it answers {said!r}")}
    seen = (
        f"without the provider the same answer came; charged {len(charged)} times in the two runs"
    )
    return {"replay": (yes if len(charged) == 1 else in_part)(seen)}


async def surecall(url: str, folder: str, tool: Any) -> str:
    """Run with a trace; play it if there is one."""
    path = Path(folder, "trace.jsonl")
    if path.exists():
        return replay(load_trace(path)).assistant_text
    result = await ToolLoopRunner(client=url, model=MODEL, tools=[tool]).run(PROMPT)
    save_trace(result.trace, path)
    return result.assistant_text


async def langgraph(url: str, folder: str, tool: Any) -> str:
    """Run langchain's agent with a cache of the model's answers."""
    community = import_module("langchain_core.caches")
    model = langchain_model(url)
    model.cache = _KEPT.setdefault("langgraph", community.InMemoryCache())
    agent = import_module("langchain.agents").create_agent(model, [tool])
    state = await agent.ainvoke({"messages": [{"role": "user", "content": PROMPT, "id": "1"}]})
    return str(state["messages"][-1].text)


_KEPT: dict[str, Any] = {}


async def inspect(url: str, folder: str, tool: Any) -> str:
    """Generate in a loop with a cache of the model's answers."""
    models, tools = import_module("inspect_ai.model"), import_module("inspect_ai.tool")
    os.environ["INSPECT_CACHE_DIR"] = folder

    async def charge(amount: int) -> str:
        return str(tool(amount))

    charger = tools.ToolDef(charge, "charge", "Charge.", parameters={"amount": "The amount."})
    model = inspect_model(url)
    said = [models.ChatMessageUser(content=PROMPT, id="1")]
    _, output = await model.generate_loop(
        said, tools=[charger], cache=models.CachePolicy(expiry=None)
    )
    return str(output.completion)


async def litellm(url: str, folder: str, tool: Any) -> str:
    """Ask in a loop by hand, with a cache of the answers on disk."""
    library: Any = import_module("litellm")
    library.cache = _KEPT.setdefault("litellm", library.Cache(type="local"))
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "charge", "parameters": schema}}]
    asked = {"model": f"openai/{MODEL}", "tools": tools, "api_base": f"{url}/v1", "api_key": KEY}
    while True:
        answer = await library.acompletion(messages=messages, caching=True, **asked)
        message = answer.choices[0].message
        if not message.tool_calls:
            await asyncio.sleep(1)  # the cache is written by a task of its own
            return str(message.content)
        made = [call.model_dump(include={"id", "type", "function"}) for call in message.tool_calls]
        messages.append({"role": "assistant", "content": "", "tool_calls": made})
        for call in made:
            result = tool(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


PROBES = {
    "surecall": lambda _: probed(surecall),
    "langgraph": lambda _: probed(langgraph),
    "inspect": lambda _: probed(inspect),
    "litellm": lambda _: probed(litellm),
}

if __name__ == "__main__":
    main(PROBES)
