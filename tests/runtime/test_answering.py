"""Parallel calls: at once and bounded, answered in order, and none brings down another."""

import asyncio
import threading
from typing import Any

import pytest

from surecall import (
    ErrorCode,
    RunResult,
    ToolLoopRunner,
    ToolRegistry,
    tool,
)
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON
from tests.support.patience import PATIENCE_S, never

PARALLEL: JSON = {"request_overrides": {"parallel_tool_calls": True}}


def many(name: str, count: int, **arguments: Any) -> JSON:
    return calls_many(*(calls(name, number=number, **arguments) for number in range(count)))


@tool(name="sleep", timeout_s=0.01, repeatable=True)
async def SLEEP() -> None:  # noqa: N802  # a tool, like the others below
    """Sleep for longer than anybody waits."""
    await never()


class Gauge:
    """Counts how many are inside at the same time."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


def runner_of(model: ScriptedModel, *tools: Any, **config: Any) -> ToolLoopRunner:
    registry = ToolRegistry(tools)
    return ToolLoopRunner(client=model, model="m", registry=registry, config=PARALLEL | config)


def answers(result: RunResult) -> list[Any]:
    return [item.envelope["data"]["value"] for item in result.run.results]


def numbered(result: RunResult) -> list[str]:
    return [item.call_id for item in result.run.results]


def test_ten_calls_of_one_turn_run_at_the_same_time() -> None:
    gauge = Gauge()
    together = asyncio.Barrier(10)

    @tool
    async def wait(number: int) -> int:
        """Wait for all the others."""
        with gauge:
            await together.wait()
        return number

    model = ScriptedModel(many("wait", 10), says("Done."))
    result = runner_of(model, wait, max_concurrent_tools=10).run_sync("Go.")

    assert gauge.most == 10
    assert answers(result) == list(range(10))


def test_blocking_tools_run_in_threads_of_their_own() -> None:
    together = threading.Barrier(5)

    @tool
    def wait(number: int) -> int:
        """Wait for all the others."""
        together.wait(PATIENCE_S)
        return number

    result = runner_of(ScriptedModel(many("wait", 5), says("Done.")), wait).run_sync("Go.")

    assert answers(result) == list(range(5))


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("bound", [1, 2, 3])
def test_no_more_run_at_once_than_the_config_says(bound: int) -> None:
    gauge = Gauge()

    @tool
    async def work(number: int) -> int:
        """Work for a moment."""
        with gauge:
            await asyncio.sleep(0.005)
        return number

    model = ScriptedModel(many("work", 7), says("Done."))
    runner_of(model, work, max_concurrent_tools=bound).run_sync("Go.")

    assert gauge.most == bound


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("overrides", [{}, {"parallel_tool_calls": False}])
def test_without_the_wish_for_parallel_calls_they_run_one_after_the_other(overrides: JSON) -> None:
    gauge = Gauge()

    @tool
    async def work(number: int) -> int:
        """Work for a moment."""
        with gauge:
            await asyncio.sleep(0.001)
        return number

    model = ScriptedModel(many("work", 4), says("Done."))
    config = {"request_overrides": overrides, "max_tool_calls_per_turn": 4}
    ToolLoopRunner(client=model, model="m", registry=[work], config=config).run_sync("Go.")

    assert gauge.most == 1


def test_serial_tools_never_meet_each_other_but_run_beside_the_rest() -> None:
    serial, together = Gauge(), asyncio.Barrier(2)
    order: list[int] = []

    async def change(number: int) -> int:
        with serial:
            order.append(number)
            if number == 0:
                await together.wait()
            await asyncio.sleep(0)
        return number

    @tool(serial=True)
    async def write(number: int) -> int:
        """Write."""
        return await change(number)

    @tool(serial=True)
    async def erase(number: int) -> int:
        """Erase."""
        return await change(number)

    @tool
    async def read(number: int) -> int:
        """Read."""
        await together.wait()
        return number

    reply = calls_many(
        calls("write", number=0),
        calls("read", number=9),
        calls("erase", number=1),
        calls("write", number=2),
    )
    result = runner_of(ScriptedModel(reply, says("Done.")), write, erase, read).run_sync("Go.")

    assert serial.most == 1
    assert order == [0, 1, 2]
    assert answers(result) == [0, 9, 1, 2]


@pytest.mark.usefixtures("virtual")
def test_a_tool_that_fails_or_takes_too_long_leaves_the_others_alone() -> None:
    @tool
    async def work(number: int) -> int:
        """Work."""
        if number == 0:
            raise RuntimeError
        await asyncio.sleep(0.03)
        return number

    reply = calls_many(calls("sleep"), many("work", 3))
    result = runner_of(ScriptedModel(reply, says("Done.")), work, SLEEP).run_sync("Go.")

    codes = [item.error_codes for item in result.run.results]
    assert codes == [(ErrorCode.TOOL_TIMEOUT,), (ErrorCode.INTERNAL_ERROR,), (), ()]


@pytest.mark.usefixtures("virtual")
def test_each_call_has_its_own_time() -> None:
    @tool(timeout_s=1.0)
    async def work(number: int) -> int:
        """Work."""
        await asyncio.sleep(0.4)
        return number

    model = ScriptedModel(many("work", 6), says("Done."))
    result = runner_of(model, work, max_concurrent_tools=2).run_sync("Go.")

    assert all(item.ok for item in result.run.results)
