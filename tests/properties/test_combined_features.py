"""Properties that hold together: a chain of models, approvals, and a typed answer."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from surecall import (
    AskFirst,
    Decision,
    ErrorCode,
    Fallback,
    RetryPolicy,
    Run,
    RunFailed,
    RunResult,
    ToolLoopRunner,
    replay,
    run_of,
    tool,
)
from surecall.testing import Item, ScriptedModel, calls, calls_many, failure, says

ANSWERS = ['{"sum": 3}', '{"sum": "3"}', "Three.", '```json\n{"sum": 3}\n```', ""]
REPLIES = st.one_of(
    st.sampled_from(ANSWERS).map(says),
    st.lists(st.integers(0, 2), min_size=1, max_size=3).map(
        lambda amounts: calls_many(*(calls("pay", euros=each) for each in amounts))
    ),
    st.just(failure(503)),
)
CHAINS = st.lists(st.lists(REPLIES, max_size=4), min_size=1, max_size=3)
SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
DECISIONS = st.sampled_from([Decision.approve(), Decision.deny(), Decision.replace({"euros": 9})])
ONCE = RetryPolicy(attempts=1)


class World:
    """A till, and runners that share it."""

    def __init__(self, scripts: list[list[Item]]) -> None:
        self.paid: Counter[int] = Counter()
        down = [failure(503)] * 20
        self._models = [ScriptedModel(*script, *down) for script in scripts]

    def runner(self) -> ToolLoopRunner[Any]:
        """Make a runner, as another process would."""

        @tool(destructive=True)
        def pay(euros: int) -> str:
            """Pay."""
            self.paid[euros] += 1
            return "paid"

        chain = [Fallback(f"m{at}", client=model) for at, model in enumerate(self._models)]
        return ToolLoopRunner(
            client=self._models[0],
            model=chain,
            tools=pay,
            tool_policy=AskFirst(),
            output=SCHEMA,
            retry=ONCE,
        )


def step(runner: ToolLoopRunner[Any], run: Run | None, decisions: Any = None) -> RunResult[Any]:
    try:
        if run is None:
            return runner.run_sync("Pay.")
        return runner.resume_sync(run, decisions=decisions)
    except RunFailed as failed:
        return failed.result


@given(scripts=CHAINS, data=st.data())
def test_every_run_ends_well_or_says_why_and_nobody_pays_what_was_not_approved(
    scripts: list[list[Item]], data: st.DataObject
) -> None:
    world, approved = World(scripts), Counter[int]()
    result = step(world.runner(), None)
    for _ in range(30):
        assert replay(result.trace).run == result.run == run_of(result.trace)
        if not result.waiting:
            break
        decisions: dict[str, Decision] = {}
        for call in result.waiting:
            decisions[call.id] = data.draw(
                st.sampled_from(
                    [Decision.approve(), Decision.deny(), Decision.replace({"euros": 9})]
                )
            )
            if decisions[call.id].outcome == "allow":
                approved[call.arguments["euros"]] += 1
            elif decisions[call.id].outcome == "replace":
                approved[9] += 1
        result = step(world.runner(), Run.from_json(result.run.to_json()), decisions)

    assert not result.waiting
    assert world.paid <= approved
    assert all(times == 1 for times in world.paid.values())
    if result.stop_reason in set(ErrorCode):
        assert result.output is None
    else:
        assert result.output == {"sum": 3}
