"""A model that says "Done." with nothing done, and a contract that does not let it.

The model is simulated: it stops early until it is told what is missing.
"""

from surecall import Contract, OpenAICompatible, RunFailed, ToolLoopRunner, presets
from surecall.simulator import Simulator

draft: dict[str, object] = {}


def state_get(workspace_id: str) -> dict[str, object]:
    """Read a workspace."""
    return {"workspace_id": workspace_id, "draft": draft}


def state_patch(workspace_id: str, request_id: str, ops: list[dict[str, str]]) -> str:
    """Change a workspace: each operation sets a path to a value."""
    for op in ops:
        draft[op["path"]] = op["value"]
    return f"{request_id}: {workspace_id} has changed"


CONTRACT = Contract(all_of=["state_patch"])
SYSTEM = 'Read the state, then set /draft/foo to "bar". When that is done, answer: Done.'

with Simulator(seed=1) as simulator:
    config = presets.default_tool_calling().replace(contract=CONTRACT)
    runner = ToolLoopRunner(
        client=OpenAICompatible(simulator.url),
        model="sim/hasty",
        tools=[state_get, state_patch],
        config=config,
        system=SYSTEM,
    )
    result = runner.run_sync("workspace_id=ws_1")
    print(result.trace)
    print(f"early answers: {result.false_finals}, draft: {draft}")
    assert result.false_finals == 1
    assert draft == {"/draft/foo": "bar"}
    runner.close()

    # Without the ladder the contract only judges: the run fails, and says what is missing.
    judge = ToolLoopRunner(
        client=OpenAICompatible(simulator.url),
        model="sim/hasty",
        tools=[state_get, state_patch],
        config=config.replace(final_ladder=()),
        system=SYSTEM,
    )
    code = ""
    try:
        judge.run_sync("workspace_id=ws_2")
    except RunFailed as failure:
        code = failure.code
        print(failure)
    judge.close()
    assert code == "CONTRACT_UNMET"
