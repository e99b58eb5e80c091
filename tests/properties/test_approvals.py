"""A run that stopped for a person comes to the same as one that had its decisions at once."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from surecall import Decision, Run, RunResult, ToolLoopRunner, ToolRegistry, replay, run_of, tool
from surecall.core.loop import next_move
from surecall.core.state import AwaitApproval
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON, Message, ToolCall, ToolResult, ToolSpec

TOOLS = ("pay", "look", "note")
SAID = st.sampled_from([Decision.approve(), Decision.deny("Not today."), Decision.replace({})])
TURNS = st.lists(
    st.lists(st.tuples(st.sampled_from(TOOLS), st.integers(0, 3)), min_size=1, max_size=4),
    min_size=1,
    max_size=3,
)


class Policy:
    """Says what was decided, but leaves some calls to a person first."""

    def __init__(self, made: Mapping[str, Decision], asked: frozenset[str] = frozenset()) -> None:
        self._made = made
        self._asked = asked

    def visible(self, _tool: ToolSpec, _context: Mapping[str, Any]) -> bool:
        return True

    def authorize(self, call: ToolCall, _context: Mapping[str, Any]) -> Decision:
        if call.id in self._asked:
            return Decision.confirm(f"May {call.id} run?")
        return self._made[call.id]


class World:
    """Three tools that leave marks, a model that calls them, and a runner."""

    def __init__(self, turns: list[list[tuple[str, int]]], policy: Policy, **config: Any) -> None:
        self.marks: list[tuple[str, int]] = []
        script = [
            calls_many(*(calls(name, f"c{at}_{n}", number=x) for n, (name, x) in enumerate(turn)))
            for at, turn in enumerate(turns)
        ]
        self.model = ScriptedModel(*script, says("Done."))
        self._config = config
        self._policy = policy

    def runner(self) -> ToolLoopRunner:
        """Make a runner, as another process would."""

        def marked(name: str) -> Any:
            def handler(number: int) -> int:
                self.marks.append((name, number))
                return number

            return tool(name=name, description=name, read_only=name == "look")(handler)

        return ToolLoopRunner(
            client=self.model,
            model="m",
            tools=ToolRegistry(map(marked, TOOLS)),
            config=self._config,
            tool_policy=self._policy,
        )


def own(decision: Decision, at: int) -> Decision:
    """Return a decision that makes no call the same as another: a person is asked ahead of time."""
    is_replaced = decision.outcome == "replace"
    return Decision.replace({"number": 10 + at}) if is_replaced else decision


def told(run: Run) -> list[Message]:
    return [
        msgspec.structs.replace(item, elapsed_ms=0) if isinstance(item, ToolResult) else item
        for item in run.messages
    ]


def elsewhere(run: Run) -> Run:
    again = Run.from_json(run.to_json())
    assert again == run
    return again


def resumed(world: World, run: Run, made: Mapping[str, Decision], *, streamed: bool) -> RunResult:
    runner = world.runner()
    if not streamed:
        return runner.resume_sync(run, decisions=made)
    stream = runner.stream_resumed_sync(run, decisions=made)
    assert list(stream)
    return stream.result


def to_the_end(world: World, made: Mapping[str, Decision], data: st.DataObject) -> RunResult:
    result = world.runner().run_sync("Go.")
    for _ in range(40):
        assert replay(result.trace).run == result.run == run_of(result.trace)
        if not result.waiting:
            break
        waiting = st.sampled_from(result.waiting)
        assert isinstance(next_move(result.run), AwaitApproval)
        some = data.draw(st.lists(waiting, unique_by=lambda call: call.id, min_size=1))
        now = {call.id: made[call.call_id] for call in some}
        streamed = data.draw(st.booleans())
        result = resumed(world, elsewhere(result.run), now, streamed=streamed)
    assert not result.waiting
    return result


def check(turns: list[list[tuple[str, int]]], data: st.DataObject, **config: Any) -> None:
    ids = [f"c{at}_{n}" for at, turn in enumerate(turns) for n in range(len(turn))]
    made = {call_id: own(data.draw(SAID), at) for at, call_id in enumerate(ids)}
    asked = frozenset(data.draw(st.lists(st.sampled_from(ids), unique=True)))

    at_once = World(turns, Policy(made), **config)
    whole = at_once.runner().run_sync("Go.")
    in_parts = World(turns, Policy(made, asked), **config)
    result = to_the_end(in_parts, made, data)

    assert replay(whole.trace).run == whole.run
    assert sorted(in_parts.marks) == sorted(at_once.marks)
    if not config:
        assert in_parts.marks == at_once.marks
    assert told(result.run) == told(whole.run)
    assert (result.assistant_text, result.stop_reason) == ("Done.", whole.stop_reason)
    assert _bodies(in_parts) == _bodies(at_once)


def _bodies(world: World) -> list[JSON]:
    # A streamed request says that it is one.
    apart = ("stream", "stream_options")
    return [{k: v for k, v in body.items() if k not in apart} for body in world.model.requests]


@given(turns=TURNS, data=st.data())
def test_a_paused_run_comes_to_the_same_as_one_that_was_decided_at_once(
    turns: list[list[tuple[str, int]]], data: st.DataObject
) -> None:
    check(turns, data)


@given(turns=TURNS, data=st.data())
def test_so_does_one_whose_calls_run_at_the_same_time(
    turns: list[list[tuple[str, int]]], data: st.DataObject
) -> None:
    check(turns, data, request_overrides={"parallel_tool_calls": True})
