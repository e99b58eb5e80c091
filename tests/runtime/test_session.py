"""A run that is cut short, cancelled or played again: what was done stays done."""

import asyncio
from typing import Any

import pytest

from surecall import (
    Decision,
    ErrorCode,
    RunFailed,
    ToolLoopRunner,
    replay,
    run_of,
    tool,
)
from surecall.core.loop import next_move
from surecall.core.state import Call
from surecall.testing import ScriptedModel, says
from surecall.values.events import ToolCallEndEvent
from surecall.values.trace import Trace
from surecall.values.types import ToolCall
from tests.runtime.test_answering import PARALLEL, many, numbered, runner_of
from tests.support.patience import never


@pytest.mark.usefixtures("virtual")
def test_a_policy_that_breaks_ends_the_run_before_any_of_its_calls_begins() -> None:
    class Policy:
        def visible(self, *_: object) -> bool:
            return True

        async def authorize(self, call: ToolCall, _context: object) -> Decision:
            if call.arguments["number"] == 0:
                raise LookupError
            return Decision("allow")

    finished: list[int] = []

    @tool
    async def work(number: int) -> int:
        """Work."""
        await asyncio.sleep(0.01)
        finished.append(number)
        return number

    runner = ToolLoopRunner(
        client=ScriptedModel(many("work", 3)),
        model="m",
        registry=[work],
        config=PARALLEL | {"policy_error_mode": "raise"},
        tool_policy=Policy(),
    )
    with pytest.raises(RunFailed) as failed:
        runner.run_sync("Go.")

    assert failed.value.code is ErrorCode.POLICY_ERROR
    assert finished == []
    assert numbered(failed.value.result) == []
    assert replay(failed.value.result.trace).run == failed.value.result.run


@pytest.mark.usefixtures("virtual")
def test_a_parallel_run_is_replayed_whatever_was_first() -> None:
    @tool
    async def work(number: int) -> int:
        """Work, the later the shorter."""
        await asyncio.sleep(0.01 * (3 - number))
        return number

    result = runner_of(ScriptedModel(many("work", 3), says("Done.")), work).run_sync("Go.")
    ended = [event.result.call_id for event in result.trace if isinstance(event, ToolCallEndEvent)]

    assert ended == ["call_3", "call_2", "call_1"]
    assert numbered(result) == ["call_1", "call_2", "call_3"]
    assert replay(result.trace).run == result.run


@pytest.mark.usefixtures("virtual")
def test_calls_that_were_answered_before_a_crash_do_not_run_again() -> None:
    ran: list[int] = []

    @tool(idempotent=True)
    async def work(number: int) -> int:
        """Work."""
        await asyncio.sleep(0.01 * (2 - number))
        ran.append(number)
        return number

    result = runner_of(ScriptedModel(many("work", 2), says("Done.")), work).run_sync("Go.")
    events = list(result.trace)
    first = next(at for at, event in enumerate(events) if isinstance(event, ToolCallEndEvent))
    crashed = run_of(Trace(tuple(events[: first + 1])))
    ran.clear()
    resumed = runner_of(ScriptedModel(says("Done.")), work).resume_sync(crashed)

    assert ran == [0]
    assert numbered(resumed) == ["call_1", "call_2"]


@pytest.mark.usefixtures("virtual")
def test_cancelling_reaches_every_call_and_keeps_what_is_done() -> None:
    async def cancel() -> tuple[list[str], Any]:
        seen: list[str] = []
        started = asyncio.Event()

        @tool
        async def work(number: int) -> int:
            """Work."""
            if number == 0:
                return number
            try:
                if number == 2:
                    started.set()
                await never()
            except asyncio.CancelledError:
                seen.append(f"cancelled {number}")
                raise
            return number

        stream = runner_of(ScriptedModel(many("work", 3)), work).stream("Go.")

        async def watch() -> None:
            async for _ in stream:
                pass

        task = asyncio.create_task(watch())
        await started.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return sorted(seen), stream.run

    seen, run = asyncio.run(cancel())

    assert seen == ["cancelled 1", "cancelled 2"]
    assert [item.call_id for item in run.results] == ["call_1"]
    move = next_move(run)
    assert isinstance(move, Call)
    assert [call.id for call in move.calls] == ["call_2", "call_3"]
