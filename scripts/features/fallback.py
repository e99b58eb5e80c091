"""Another model goes on when one fails: before its answer, in the middle of it, after an effect.

`fallback`: the first endpoint answers 503, the second one answers.
`cut_stream`: the first endpoint has a call made and takes its result; then its streamed answer is
cut. The second one must answer, must be shown the result, and nothing may be charged twice.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from scripts.features.clients import langchain_model, pydantic_ai_model
from scripts.features.common import KEY, MODEL, Verdict, in_part, main, no, yes
from surecall import ToolLoopRunner
from surecall.testing import Built, Item, ScriptedProvider, calls, failure, says, streams

PROMPT = "Charge 10."
ANSWER = "Charged, says the second model."
CUT_AFTER = 700
Run = Callable[[str, str, Any], Coroutine[Any, Any, str]]


def probed(plain: Run, streamed: Run) -> dict[str, Verdict]:
    """Play both scenes."""
    simple = _scene(plain, failure(503), says(ANSWER))
    return {"fallback": simple, "cut_stream": _scene(streamed, cut, streams(says(ANSWER)))}


def cut(request: dict[str, Any]) -> Built:
    """Ask for the charge; once its result is shown, begin an answer and hang up."""
    if any(message["role"] == "tool" for message in request["messages"]):
        return streams(says("This answer is cut in the middle. " * 9), after=CUT_AFTER)
    return streams(calls("charge", amount=10))


def _scene(run: Run, first: Item, second: Item) -> Verdict:
    charged: list[int] = []

    def charge(amount: int) -> str:
        """Charge an amount."""
        charged.append(amount)
        return f"receipt-{amount}"

    with ScriptedProvider(first, repeat=True) as one, ScriptedProvider(second) as two:
        try:
            said = asyncio.run(run(one.url, two.url, charge))
        except Exception as error:  # noqa: BLE001  # whatever it raises is what was seen
            return no(
                f"the run failed: {type(error).__name__}; asked the second: {len(two.requests)}"
            )
        shown = not charged or f"receipt-{charged[0]}" in json.dumps(two.requests)
    if ANSWER not in said or not shown:
        return no(f"answered {said[:40]!r}; the second was shown the result: {shown}")
    if len(charged) > 1:
        return in_part(f"the second model answered; charged {len(charged)} times")
    return yes(f"the second model answered; charged {len(charged)} times")


# surecall: a chain of models.


def _runner(one: str, two: str, tool: Any) -> Any:
    fallback = import_module("surecall").Fallback
    chain = [MODEL, fallback("second", client=two)]
    return ToolLoopRunner(client=one, model=chain, tools=[tool])


async def surecall(one: str, two: str, tool: Any) -> str:
    """Run with a chain."""
    return str((await _runner(one, two, tool).run(PROMPT)).assistant_text)


async def surecall_streamed(one: str, two: str, tool: Any) -> str:
    """Do the same, and look at every delta."""
    async with _runner(one, two, tool).stream(PROMPT) as stream:
        async for _ in stream:
            pass
    return str(stream.result.assistant_text)


# pydantic-ai: the capability that its documentation prefers inside an agent.


def _pydantic_agent(one: str, two: str, tool: Any) -> Any:
    fallback = import_module("pydantic_ai.capabilities").ModelFallback(pydantic_ai_model(two))
    agent = import_module("pydantic_ai").Agent
    return agent(pydantic_ai_model(one), tools=[tool], capabilities=[fallback])


async def pydantic_ai(one: str, two: str, tool: Any) -> str:
    """Run an agent with a chain of models."""
    result = await _pydantic_agent(one, two, tool).run(PROMPT)
    return str(result.output)


async def pydantic_ai_streamed(one: str, two: str, tool: Any) -> str:
    """Do the same, and look at every event."""
    said = ""
    async with _pydantic_agent(one, two, tool).run_stream_events(PROMPT) as events:
        async for event in events:
            if type(event).__name__ == "AgentRunResultEvent":
                said = str(event.result.output)
    return said


# langgraph: langchain's middleware.


def _langchain_agent(one: str, two: str, tool: Any) -> Any:
    middleware = import_module("langchain.agents.middleware").ModelFallbackMiddleware
    create = import_module("langchain.agents").create_agent
    return create(langchain_model(one), [tool], middleware=[middleware(langchain_model(two))])


async def langgraph(one: str, two: str, tool: Any) -> str:
    """Run an agent with a chain of models."""
    said = {"messages": [{"role": "user", "content": PROMPT}]}
    state = await _langchain_agent(one, two, tool).ainvoke(said)
    return str(state["messages"][-1].text)


async def langgraph_streamed(one: str, two: str, tool: Any) -> str:
    """Do the same, and look at every token."""
    said = {"messages": [{"role": "user", "content": PROMPT}]}
    state: Any = {}
    async for kind, seen in _langchain_agent(one, two, tool).astream(
        said, stream_mode=["messages", "values"]
    ):
        state = seen if kind == "values" else state
    return str(state["messages"][-1].text)


# LiteLLM: a router with fallbacks, in a loop by hand.


async def _litellm_loop(one: str, two: str, tool: Any, *, stream: bool) -> str:
    library = import_module("litellm")
    models = [
        {
            "model_name": name,
            "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": KEY},
        }
        for name, url in (("one", one), ("two", two))
    ]
    router = library.Router(model_list=models, fallbacks=[{"one": ["two"]}], num_retries=0)
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "charge", "parameters": schema}}]
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    while True:
        asked = {"model": "one", "messages": messages, "tools": tools, "stream": stream}
        answer = await router.acompletion(**asked)
        if stream:
            answer = library.stream_chunk_builder([chunk async for chunk in answer])
        message = answer.choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = tool(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def litellm(one: str, two: str, tool: Any) -> str:
    """Ask for whole answers."""
    return await _litellm_loop(one, two, tool, stream=False)


async def litellm_streamed(one: str, two: str, tool: Any) -> str:
    """Ask for streams."""
    return await _litellm_loop(one, two, tool, stream=True)


PROBES = {
    "surecall": lambda _: probed(surecall, surecall_streamed),
    "pydantic-ai": lambda _: probed(pydantic_ai, pydantic_ai_streamed),
    "langgraph": lambda _: probed(langgraph, langgraph_streamed),
    "litellm": lambda _: probed(litellm, litellm_streamed),
}

if __name__ == "__main__":
    main(PROBES)
