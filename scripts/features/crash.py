"""The process is killed after a tool took effect and before its result was written down.

The tool charges, writes that down, and kills its own process with SIGKILL. A second process goes
on with what was stored, as the library documents it. The model asks for the charge again unless it
is shown what came of the first one, as a model does. At most once means: charged once.
"""

import os
import signal
import tempfile
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.features.clients import (
    agents_model,
    langchain_model,
    litellm_agent,
    pydantic_ai_model,
)
from scripts.features.common import MODEL, Verdict, elsewhere, lines, main, no, note, yes
from surecall import JsonlSink, ToolLoopRunner, load_trace, run_of
from surecall.testing import Built, ScriptedProvider, calls, says

PROMPT = "Charge 10."


def asked(request: dict[str, Any]) -> Built:
    """Ask for the charge until its result is shown."""
    shown = any(message["role"] == "tool" for message in request["messages"])
    return says("Done.") if shown else calls("charge", amount=10)


def probed(name: str) -> dict[str, Verdict]:
    """Kill the first process, go on in a second one, and count the charges."""
    with tempfile.TemporaryDirectory() as folder, ScriptedProvider(asked, repeat=True) as model:
        code, _ = elsewhere(name, "begin", model.url, folder)
        before = len(lines(Path(folder, "effects")))
        ended, said = elsewhere(name, "resume", model.url, folder)
        after = len(lines(Path(folder, "effects")))
    seen = (
        f"charged {before} times before the kill ({code}), {after} times after the second process"
    )
    if ended:
        seen += f", which failed: {said[:100]}"
    return {"crash": yes(seen) if before == after == 1 and not ended else no(seen)}


def charging(folder: str) -> Any:
    """Return the tool; the first charge of a folder kills the process."""

    def charge(amount: int) -> str:
        """Charge an amount."""
        effects = Path(folder, "effects")
        note(effects, amount)
        if len(lines(effects)) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"charged {amount}"

    return charge


# surecall: a journal that is written before a tool begins.


def _runner(url: str, folder: str) -> ToolLoopRunner:
    journal = JsonlSink(Path(folder, "journal.jsonl"))
    return ToolLoopRunner(client=url, model=MODEL, tools=[charging(folder)], observers=[journal])


async def surecall_begin(url: str, folder: str) -> None:
    """Begin a run."""
    await _runner(url, folder).run(PROMPT)


async def surecall_resume(url: str, folder: str) -> None:
    """Go on with the run from its journal."""
    run = run_of(load_trace(Path(folder, "journal.jsonl")))
    await _runner(url, folder).resume(run)


# langgraph: a checkpoint after every step, written before the next one begins.


async def _langgraph(url: str, folder: str, said: Any) -> None:
    saver = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    create = import_module("langchain.agents").create_agent
    async with saver.from_conn_string(str(Path(folder, "state.db"))) as stored:
        agent = create(langchain_model(url), [charging(folder)], checkpointer=stored)
        thread = {"configurable": {"thread_id": "1"}}
        await agent.ainvoke(said, thread, durability="sync")


async def langgraph_begin(url: str, folder: str) -> None:
    """Begin a thread."""
    await _langgraph(url, folder, {"messages": [{"role": "user", "content": PROMPT}]})


async def langgraph_resume(url: str, folder: str) -> None:
    """Go on with the thread from its last checkpoint."""
    await _langgraph(url, folder, None)


# pydantic-ai and openai-agents: durable execution with DBOS, its database in SQLite, the tool as a
# step. A workflow that is started again under the same id goes on where it was.


async def _with_dbos(folder: str, run: Callable[[Any], Coroutine[Any, Any, object]]) -> None:
    dbos = import_module("dbos")
    database = f"sqlite:///{Path(folder, 'state.db')}"
    dbos.DBOS(config={"name": "cashier", "system_database_url": database})
    step = dbos.DBOS.step()(charging(folder))

    async def flow() -> str:
        return str(await run(step))

    workflow = dbos.DBOS.workflow()(flow)
    dbos.DBOS.launch()
    with dbos.SetWorkflowID("1"):
        handle = await dbos.DBOS.start_workflow_async(workflow)
    print(await handle.get_result())
    dbos.DBOS.destroy()


async def pydantic_ai_run(url: str, folder: str) -> None:
    """Run an agent with the capability for DBOS."""
    ai = import_module("pydantic_ai")
    durability = import_module("pydantic_ai.durable_exec.dbos").DBOSDurability()
    model = pydantic_ai_model(url)

    async def run(step: Any) -> object:
        return await ai.Agent(model, name="cashier", tools=[step], capabilities=[durability]).run(
            PROMPT
        )

    await _with_dbos(folder, run)


async def agents_run(url: str, folder: str) -> None:
    """Run an agent with the runner for DBOS that its documentation names."""
    sdk, runner = import_module("agents"), import_module("dbos_openai_agents").DBOSRunner
    model = agents_model(url)

    async def run(step: Any) -> object:
        agent = sdk.Agent(name="cashier", model=model, tools=[sdk.function_tool(step)])
        return await runner.run(agent, PROMPT)

    await _with_dbos(folder, run)


# LiteLLM: its tool loop keeps nothing; the run is asked for again.


async def litellm_run(url: str, folder: str) -> None:
    """Run the tool loop."""
    await litellm_agent(url, PROMPT, [charging(folder)])


PARTS = {
    "surecall begin": surecall_begin,
    "surecall resume": surecall_resume,
    "langgraph begin": langgraph_begin,
    "langgraph resume": langgraph_resume,
    "openai-agents begin": agents_run,
    "openai-agents resume": agents_run,
    "pydantic-ai begin": pydantic_ai_run,
    "pydantic-ai resume": pydantic_ai_run,
    "litellm begin": litellm_run,
    "litellm resume": litellm_run,
}
PROBES = dict.fromkeys(("surecall", "langgraph", "openai-agents", "pydantic-ai", "litellm"), probed)

if __name__ == "__main__":
    main(PROBES, PARTS)
