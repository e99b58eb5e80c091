"""Parallel calls: order, history and resumption, whatever the calls do and when."""

import asyncio
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall import replay, tool
from surecall.core.loop import next_move
from surecall.core.state import Finish
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.events import ToolCallStartEvent
from surecall.values.types import JSON
from surecall.wire.history_repair import repair_history
from tests.support.scripted_runs import SLEEP, call_ids, parallel_runner
from tests.support.timing import virtual_time


class Task(msgspec.Struct, frozen=True):
    delay_ms: int
    fate: str
    serial: bool


TASKS = st.lists(
    st.builds(
        Task,
        delay_ms=st.integers(0, 4),
        fate=st.sampled_from(["fine", "raises", "late", "unknown"]),
        serial=st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


async def _work(number: int, delay_ms: int, fate: str) -> int:
    """Work as told."""
    await asyncio.sleep(delay_ms / 1000)
    if fate == "raises":
        raise KeyError(number)
    return number


def _reply(tasks: list[Task]) -> JSON:
    def one(number: int, task: Task) -> JSON:
        if task.fate == "late":
            return calls("sleep")
        name = "missing" if task.fate == "unknown" else "serial" if task.serial else "free"
        return calls(name, number=number, delay_ms=task.delay_ms, fate=task.fate)

    return calls_many(*(one(number, task) for number, task in enumerate(tasks)))


FREE = tool(name="free")(_work)
SERIAL = tool(name="serial", serial=True)(_work)


@given(TASKS, st.integers(1, 9))
@settings(max_examples=60)
def test_order_and_history_are_right_whatever_the_calls_do(tasks: list[Task], bound: int) -> None:
    model = ScriptedModel(_reply(tasks), says("Done."))
    config = {"max_concurrent_tools": bound, "max_unknown_tool_calls": 99}
    with virtual_time():
        result = asyncio.run(parallel_runner(model, FREE, SERIAL, SLEEP, **config).run("Go."))

    assert isinstance(next_move(result.run), Finish)
    assert call_ids(result) == [f"call_{number}" for number in range(1, len(tasks) + 1)]
    assert [item.ok for item in result.run.results] == [task.fate == "fine" for task in tasks]
    assert repair_history(result.run.messages) == result.run.messages
    sent = [message for message in model.requests[1]["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in sent] == call_ids(result)
    assert replay(result.trace).run == result.run
    started = sum(isinstance(event, ToolCallStartEvent) for event in result.trace)
    assert started == len(tasks)


@given(TASKS, st.integers(1, 9), st.integers(0, 12))
@settings(max_examples=40)
def test_a_parallel_turn_cancelled_at_any_moment_can_be_gone_on_with(
    tasks: list[Task], bound: int, after_ms: int
) -> None:
    async def cancelled() -> Any:
        config = {"max_concurrent_tools": bound, "max_unknown_tool_calls": 99}
        model = ScriptedModel(_reply(tasks), says("Done."))
        stream = parallel_runner(model, FREE, SERIAL, SLEEP, **config).stream("Go.")

        async def watch() -> None:
            async for _ in stream:
                pass

        task = asyncio.create_task(watch())
        await asyncio.sleep(after_ms / 1000)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return stream.run

    with virtual_time():
        run = asyncio.run(cancelled())
    asked = ScriptedModel(*([_reply(tasks)] if run.turn_count == 0 else []), says("Done."))
    config = {"max_concurrent_tools": bound, "max_unknown_tool_calls": 99}
    before = {item.call_id for item in run.results}
    with virtual_time():
        resumed = asyncio.run(parallel_runner(asked, FREE, SERIAL, SLEEP, **config).resume(run))

    again = {event.call.id for event in resumed.trace if isinstance(event, ToolCallStartEvent)}
    assert not before & again
    assert call_ids(resumed) == [f"call_{number}" for number in range(1, len(tasks) + 1)]
