"""A call waits for a person: the run is written down, and goes on in another process.

The model asks for three calls. The first process must end without running any. The second one
reads what the first wrote, approves the first call, gives the second one another amount, and
denies the third one with a reason that the model must be told. Libraries that ask while the run
waits in memory are given the same decisions in place.
"""

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.features.clients import (
    agents_model,
    inspect_model,
    langchain_model,
    pydantic_ai_model,
)
from scripts.features.common import (
    KEY,
    MODEL,
    Verdict,
    elsewhere,
    in_part,
    lines,
    main,
    no,
    note,
    yes,
)
from surecall import AskFirst, Decision, Run, ToolLoopRunner
from surecall.testing import ScriptedProvider, calls, calls_many, says

ASKED = (10, 20, 30)
REPLACED = 5
REASON = "thirty-is-too-much"
PROMPT = "Charge 10, 20 and 30."


def probed(name: str) -> dict[str, Verdict]:
    """Pause in one process, decide in another, and look at what was charged."""
    three = calls_many(*(calls("charge", amount=amount) for amount in ASKED))
    with tempfile.TemporaryDirectory() as folder, ScriptedProvider(three, says("Done.")) as model:
        state, effects = Path(folder, "state"), Path(folder, "effects")
        elsewhere(name, "pause", model.url, state, effects)
        early = lines(effects)
        code, said = elsewhere(name, "decide", model.url, state, effects)
        charged = sorted(map(int, lines(effects)))
        told = REASON in json.dumps(model.requests[-1])
    seen = f"charged {early} before the decisions, {charged} after them"
    if early or code or ASKED[0] not in charged:
        return {"approval": no(f"{seen}; {said}"), "decisions": no(seen)}
    return {"approval": yes(seen), "decisions": decided(charged, told=told)}


def in_place(run: Callable[[str, Any], Coroutine[Any, Any, object]]) -> dict[str, Verdict]:
    """Decide while the run waits, and look at what was charged."""
    three = calls_many(*(calls("charge", amount=amount) for amount in ASKED))
    with tempfile.TemporaryDirectory() as folder, ScriptedProvider(three, says("Done.")) as model:
        effects = Path(folder, "effects")
        asyncio.run(run(model.url, charging(str(effects))))
        charged = sorted(map(int, lines(effects)))
        told = REASON in json.dumps(model.requests[-1])
    waits = no("the run waits in memory for the decision; nothing of it is written down")
    return {"approval": waits, "decisions": decided(charged, told=told)}


def decided(charged: list[int], *, told: bool) -> Verdict:
    """Say which of the three decisions were followed."""
    followed = {
        "approve": ASKED[0] in charged,
        "replace": REPLACED in charged and ASKED[1] not in charged,
        "deny": told and ASKED[2] not in charged,
    }
    found = yes if all(followed.values()) else in_part if followed["approve"] else no
    return found(", ".join(f"{name}: {'yes' if done else 'no'}" for name, done in followed.items()))


def charging(effects: str) -> Any:
    """Return the tool."""

    def charge(amount: int) -> str:
        """Charge an amount."""
        note(effects, amount)
        return f"charged {amount}"

    return charge


# surecall: a policy that asks, a run as a value.


def _runner(url: str, effects: str) -> ToolLoopRunner:
    policy = AskFirst("everything")
    return ToolLoopRunner(client=url, model=MODEL, tools=[charging(effects)], tool_policy=policy)


async def surecall_pause(url: str, state: str, effects: str) -> None:
    """Run until calls wait, and write the run down."""
    result = await _runner(url, effects).run(PROMPT)
    Path(state).write_bytes(result.run.to_json())


async def surecall_decide(url: str, state: str, effects: str) -> None:
    """Read the run, and decide."""
    run = Run.from_json(Path(state).read_bytes())
    first, second, third = (call.id for call in run.waiting)
    decisions = {
        first: Decision.approve(),
        second: Decision.replace({"amount": REPLACED}),
        third: Decision.deny(REASON),
    }
    await _runner(url, effects).resume(run, decisions=decisions)


# pydantic-ai: deferred tools.


def _pydantic_agent(url: str, effects: str) -> Any:
    ai = import_module("pydantic_ai")
    tool = ai.Tool(charging(effects), requires_approval=True)
    return ai.Agent(
        pydantic_ai_model(url), tools=[tool], output_type=[str, ai.DeferredToolRequests]
    )


async def pydantic_ai_pause(url: str, state: str, effects: str) -> None:
    """Run until calls wait, and write the messages down."""
    result = await _pydantic_agent(url, effects).run(PROMPT)
    Path(state).write_bytes(result.all_messages_json())


async def pydantic_ai_decide(url: str, state: str, effects: str) -> None:
    """Read the messages, and decide."""
    ai = import_module("pydantic_ai")
    messages = import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    history = messages.validate_json(Path(state).read_bytes())
    first, second, third = (part.tool_call_id for part in history[-1].tool_calls)
    decisions = {
        first: True,
        second: ai.ToolApproved(override_args={"amount": REPLACED}),
        third: ai.ToolDenied(REASON),
    }
    results = ai.DeferredToolResults(approvals=decisions)
    agent = _pydantic_agent(url, effects)
    await agent.run(message_history=history, deferred_tool_results=results)


# openai-agents: a run's state. It approves or rejects; it has no way to give other arguments.


def _agent(url: str, effects: str) -> Any:
    sdk = import_module("agents")
    tool = sdk.function_tool(charging(effects), needs_approval=True)
    return sdk.Agent(name="cashier", model=agents_model(url), tools=[tool])


async def agents_pause(url: str, state: str, effects: str) -> None:
    """Run until calls wait, and write the state down."""
    result = await import_module("agents").Runner.run(_agent(url, effects), PROMPT)
    Path(state).write_text(result.to_state().to_string(), "utf-8")


async def agents_decide(url: str, state: str, effects: str) -> None:
    """Read the state, and decide."""
    sdk = import_module("agents")
    agent = _agent(url, effects)
    paused = await sdk.RunState.from_string(agent, Path(state).read_text("utf-8"))
    first, second, third = paused.get_interruptions()
    paused.approve(first)
    paused.reject(second)
    paused.reject(third, rejection_message=REASON)
    await sdk.Runner.run(agent, paused)


# langgraph: a checkpoint in SQLite, and langchain's middleware that asks.


async def _langgraph_run(url: str, state: str, effects: str, said: Any) -> Any:
    saver = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    middleware = import_module("langchain.agents.middleware").HumanInTheLoopMiddleware
    create = import_module("langchain.agents").create_agent
    async with saver.from_conn_string(state) as stored:
        asking = middleware(interrupt_on={"charge": True})
        tools = [charging(effects)]
        agent = create(langchain_model(url), tools, middleware=[asking], checkpointer=stored)
        return await agent.ainvoke(said, {"configurable": {"thread_id": "1"}})


async def langgraph_pause(url: str, state: str, effects: str) -> None:
    """Run until calls wait; the checkpointer writes."""
    said = {"messages": [{"role": "user", "content": PROMPT}]}
    await _langgraph_run(url, state, effects, said)


async def langgraph_decide(url: str, state: str, effects: str) -> None:
    """Decide, on the same thread."""
    command = import_module("langgraph.types").Command
    edited = {"name": "charge", "args": {"amount": REPLACED}}
    decisions = [
        {"type": "approve"},
        {"type": "edit", "edited_action": edited},
        {"type": "reject", "message": REASON},
    ]
    await _langgraph_run(url, state, effects, command(resume={"decisions": decisions}))


# inspect: an approver is asked while the sample waits.


async def inspect(url: str, charge: Any) -> object:
    """Evaluate one sample with an approver."""
    ai, tools = import_module("inspect_ai"), import_module("inspect_ai.tool")
    approval = import_module("inspect_ai.approval")
    sample = import_module("inspect_ai.dataset").Sample

    async def called(amount: int) -> str:
        return str(charge(amount))

    async def approve(message: str, call: Any, view: Any, history: Any) -> Any:
        amount = call.arguments["amount"]
        if amount == ASKED[0]:
            return approval.Approval(decision="approve")
        if amount == ASKED[1]:
            other = replace(call, arguments={"amount": REPLACED})
            return approval.Approval(decision="modify", modified=other)
        return approval.Approval(decision="reject", explanation=REASON)

    approver = approval.approver(name="person")(lambda: approve)()
    tool = tools.ToolDef(called, "charge", "Charge.", parameters={"amount": "The amount."})
    agent = import_module("inspect_ai.agent").react(tools=[tool], submit=False)
    task = ai.Task(dataset=[sample(PROMPT)], solver=agent)
    policies = [approval.ApprovalPolicy(approver, "*")]
    model = inspect_model(url)
    return await ai.eval_async(task, model=model, approval=policies, log_dir="memory://logs")


# LiteLLM: the tool loop yields an approval, and waits for it to be answered.


async def litellm(url: str, charge: Any) -> object:
    """Stream the tool loop, and answer its approvals."""
    library = import_module("litellm")
    asked = {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": KEY}
    with tempfile.TemporaryDirectory() as folder:
        place = library.sandbox.local(folder)
        session = await library.aagent_session(
            library.Harness.TOOL_LOOP, sandbox=place, tools=[charge], permissions="ask", **asked
        )
        async for event in session.astream(PROMPT):
            if type(event).__name__ == "Approval":
                allowed = event.input["amount"] == ASKED[0]
                event.allow() if allowed else event.deny(REASON)
        await session.astop()
    return None


PARTS = {
    "surecall pause": surecall_pause,
    "surecall decide": surecall_decide,
    "pydantic-ai pause": pydantic_ai_pause,
    "pydantic-ai decide": pydantic_ai_decide,
    "openai-agents pause": agents_pause,
    "openai-agents decide": agents_decide,
    "langgraph pause": langgraph_pause,
    "langgraph decide": langgraph_decide,
}
PROBES = {
    **dict.fromkeys(("surecall", "pydantic-ai", "openai-agents", "langgraph"), probed),
    "inspect": lambda _: in_place(inspect),
    "litellm": lambda _: in_place(litellm),
}

if __name__ == "__main__":
    main(PROBES, PARTS)
