"""Wherever a run is cut, what it resumes to makes no call twice that must not be made twice.

A run is recorded, cut after every one of its events, read back from the bytes on the disk and
resumed. Up to the cut, a call that has begun may have taken effect; nobody knows. So it must not
run again, unless its tool says that this does no harm: then it must.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest

from surecall import ToolLoopRunner, ToolRegistry
from surecall.core.outcome import RunResult
from surecall.runtime.recording import dump_trace, parse_trace
from surecall.runtime.replay import replay, run_of
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.events import Event, ToolCallEndEvent, ToolCallStartEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON, ToolResult

SCRIPTS: dict[str, list[JSON]] = {
    "one": [calls("pay", n=1)],
    "two turns": [calls("pay", n=1), calls("put", n=2)],
    "many": [
        calls_many(calls("pay", n=1), calls("put", n=2), calls("read", n=3), calls("pay", n=4))
    ],
    "same id": [
        calls_many(calls("pay", call_id="x", n=1), calls("pay", call_id="x", n=1)),
        calls("pay", call_id="x", n=1),
    ],
    "refused": [calls_many(calls("pay", n="one"), calls("nope"), calls("pay", n=1))],
}


class World:
    """What the tools did, by name and number."""

    def __init__(self) -> None:
        self.done: Counter[tuple[str, int]] = Counter()

    def tools(self, *, blocking: bool) -> ToolRegistry:
        hints = {"pay": {}, "put": {"idempotent": True}, "read": {"read_only": True}}
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return ToolRegistry(
            {"name": name, "parameters": schema, "handler": self.handler(name, blocking), **given}
            for name, given in hints.items()
        )

    def handler(self, name: str, blocking: bool) -> Callable[..., Any]:  # noqa: FBT001  # see above
        def work(n: int) -> str:
            self.done[name, n] += 1
            return f"{name} {n}"

        async def wait_and_work(n: int) -> str:
            await asyncio.sleep(0)
            return work(n)

        return work if blocking else wait_and_work


def runner_of(world: World, script: Sequence[JSON], *, blocking: bool) -> ToolLoopRunner:
    return ToolLoopRunner(
        client=ScriptedModel(*script, says("Done.")),
        model="m",
        tools=world.tools(blocking=blocking),
        config=raw(),
        llm_options_defaults={"parallel_tool_calls": True},
    )


def ids(events: Sequence[Event]) -> tuple[set[str], set[str]]:
    """Return which calls began, and which have a recorded end."""
    started = (event.call for event in events if isinstance(event, ToolCallStartEvent))
    began = {call.id for call in started if call.problem is None}
    return began, {event.result.call_id for event in events if isinstance(event, ToolCallEndEvent)}


def resumed(
    events: Sequence[Event], script: Sequence[JSON], *, blocking: bool
) -> tuple[RunResult, World]:
    """Resume from the bytes of a trace that was cut."""
    data = dump_trace(Trace(tuple(events)))
    run = run_of(parse_trace(data))
    world = World()
    rest = script[run.turn_count :]
    return runner_of(world, rest, blocking=blocking).resume_sync(run), world


def unknown(result: RunResult) -> list[ToolResult]:
    return [one for one in result.run.results if "CALL_OUTCOME_UNKNOWN" in one.error_codes]


@pytest.mark.parametrize(("name", "blocking"), list(product(SCRIPTS, [False, True])))
def test_a_run_that_is_cut_anywhere_makes_no_call_twice(name: str, *, blocking: bool) -> None:
    script = SCRIPTS[name]
    first = runner_of(World(), script, blocking=blocking).run_sync("Go.")
    events = list(first.trace)
    for cut in range(1, len(events)):
        began, ended = ids(events[:cut])
        result, world = resumed(events[:cut], script, blocking=blocking)
        answers = {answer.call_id: answer for answer in result.run.results}
        made = {call.id: call for said in result.run.replies for call in said.calls}
        payments = {made[one].arguments["n"] for one in began if made[one].name == "pay"}

        assert result.assistant_text == "Done."
        assert all(world.done["pay", n] == 0 for n in payments)
        assert all(times == 1 for times in (+world.done).values())
        for one in began - ended:
            again = made[one].name != "pay"
            assert answers[one].executed is again
            # What came with the id of a call that had ended was never begun.
            assert again or made[one].first_id or answers[one] in unknown(result)
        assert set(answers) == set(made)
        assert replay(result.trace).run == result.run


def test_a_second_crash_does_not_forget_what_the_first_one_left_open() -> None:
    script = SCRIPTS["one"]
    first = runner_of(World(), script, blocking=False).run_sync("Go.")
    events = list(first.trace)
    at = next(at for at, event in enumerate(events) if isinstance(event, ToolCallStartEvent))
    again, world = resumed(events[: at + 1], script, blocking=False)
    for cut in range(1, len(again.trace)):
        result, world = resumed(list(again.trace)[:cut], script, blocking=False)

        assert not world.done
        assert len(unknown(result)) == 1


def test_the_model_is_told_that_nobody_knows() -> None:
    events = list(runner_of(World(), SCRIPTS["one"], blocking=False).run_sync("Go.").trace)
    at = next(at for at, event in enumerate(events) if isinstance(event, ToolCallStartEvent))
    model = ScriptedModel(says("Done."))
    runner = ToolLoopRunner(
        client=model, model="m", tools=World().tools(blocking=False), config=raw()
    )
    runner.resume_sync(run_of(Trace(tuple(events[: at + 1]))))

    told = model.requests[0]["messages"][-1]
    assert told["role"] == "tool"
    assert "Nobody knows whether it took effect" in told["content"]
