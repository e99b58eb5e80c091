"""A limit binds, whatever a tool does; what is left running is known until it ends."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from surecall import ToolLoopRunner, tool
from surecall.runtime.execution import GRACE_S, Raised, within
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import ToolResult
from tests.support.patience import never, until, until_soon


def runner_of(handler: Any, *script: Any, **settings: Any) -> ToolLoopRunner:
    config = {"tool_timeout_s": 0.05} | settings
    model = ScriptedModel(*script, says("Done."))
    return ToolLoopRunner(client=model, model="m", tools=handler, config=config)


def results(handler: Any, *script: Any, **settings: Any) -> list[ToolResult]:
    return asyncio.run(runner_of(handler, *script, **settings).run("Go.")).run.results


class Stubborn:
    """A coroutine tool that takes no notice of being cancelled until it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.began = self.cancelled = 0

    async def __call__(self) -> str:
        self.began += 1
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        return "late"


@pytest.mark.usefixtures("virtual")
def test_a_coroutine_that_swallows_its_cancellation_is_abandoned() -> None:
    async def scenario() -> tuple[ToolResult, float]:
        stubborn = Stubborn()

        @tool
        async def slow() -> str:
            """Take ages."""
            return await stubborn()

        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await runner_of(slow, calls("slow"), tool_timeout_s=0.5).run("Go.")
        took = loop.time() - began
        stubborn.let_go.set()
        await until_soon(lambda: stubborn.cancelled)
        return result.run.results[0], took

    answer, took = asyncio.run(scenario())

    assert answer.error_codes == ("TOOL_TIMEOUT",)
    assert "is still at work" in answer.content
    assert answer.executed
    assert took == pytest.approx(0.5 + GRACE_S)


@pytest.mark.usefixtures("virtual")
def test_the_deadline_of_the_run_binds_it_as_well() -> None:
    async def scenario() -> tuple[str, float]:
        stubborn = Stubborn()

        @tool
        async def slow() -> str:
            """Take ages."""
            return await stubborn()

        loop = asyncio.get_running_loop()
        began = loop.time()
        runner = runner_of(slow, calls("slow"), run_deadline_s=1.0, tool_timeout_s=60)
        with pytest.raises(Exception, match="DEADLINE_EXCEEDED") as failure:
            await runner.run("Go.")
        stubborn.let_go.set()
        return str(failure.value), loop.time() - began

    assert asyncio.run(scenario())[1] == pytest.approx(1.0 + GRACE_S)


@pytest.mark.usefixtures("virtual")
def test_the_same_call_is_not_started_beside_one_that_still_runs() -> None:
    async def scenario() -> tuple[list[ToolResult], int]:
        stubborn = Stubborn()

        @tool
        async def slow(n: int) -> str:
            """Take ages, but for the second number."""
            return "quick" if n == 2 else await stubborn()

        script = (calls("slow", n=1), calls("slow", n=1), calls("slow", n=2))
        result = await runner_of(slow, *script).run("Go.")
        stubborn.let_go.set()
        return result.run.results, stubborn.began

    answers, began = asyncio.run(scenario())

    codes = [answer.error_codes for answer in answers]
    assert codes == [("TOOL_TIMEOUT",), ("TOOL_STILL_RUNNING",), ()]
    assert [answer.executed for answer in answers] == [True, False, True]
    assert began == 1


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("hint", ["read_only", "idempotent"])
def test_a_tool_that_may_be_repeated_is_started_again(hint: str) -> None:
    async def scenario() -> int:
        stubborn = Stubborn()

        slow = {"name": "slow", "handler": stubborn, hint: True}
        await runner_of([slow], calls("slow"), calls("slow")).run("Go.")
        stubborn.let_go.set()
        return stubborn.began

    assert asyncio.run(scenario()) == 2


@pytest.mark.usefixtures("virtual")
def test_once_it_has_ended_the_call_may_be_made_again() -> None:
    async def scenario() -> tuple[int, list[ToolResult]]:
        stubborn = Stubborn()

        @tool
        async def slow() -> str:
            """Take ages."""
            return await stubborn()

        @tool
        async def release() -> str:
            """Let it go."""
            stubborn.let_go.set()
            await asyncio.sleep(0)
            return "released"

        script = (calls("slow"), calls("release"), calls("slow"))
        result = await runner_of([slow, release], *script).run("Go.")
        return stubborn.began, result.run.results

    began, answers = asyncio.run(scenario())

    assert began == 2
    assert answers[-1].envelope["data"] == {"value": "late"}


def blocking_tool(gate: threading.Event, ended: list[int]) -> Callable[[int], Any]:
    @tool
    def block(n: int) -> str:
        """Block until the gate opens."""
        gate.wait()
        ended.append(n)
        return "late"

    return block


def test_threads_that_were_left_behind_are_counted_and_bounded() -> None:
    gate, ended = threading.Event(), list[int]()
    block = blocking_tool(gate, ended)
    script = (calls_many(*(calls("block", n=n) for n in range(5))), calls("block", n=9))
    answers = results(block, *script, max_tools_left_running=3)
    gate.set()
    until(lambda: len(ended) == 3)

    codes = [answer.error_codes[0] for answer in answers]
    assert codes == ["TOOL_TIMEOUT"] * 3 + ["TOO_MANY_LEFT_RUNNING"] * 3
    assert sorted(ended) == [0, 1, 2]


def test_a_coroutine_may_run_while_threads_are_left_behind() -> None:
    gate, ended = threading.Event(), list[int]()

    @tool
    async def quick() -> str:
        """Answer."""
        return "here"

    tools = [blocking_tool(gate, ended), quick]
    script = (calls("block", n=1), calls("quick"), calls("block", n=2))
    answers = results(tools, *script, max_tools_left_running=1)
    gate.set()
    until(lambda: ended)

    assert [answer.ok for answer in answers] == [False, True, False]
    assert answers[2].error_codes == ("TOO_MANY_LEFT_RUNNING",)


def test_a_thread_that_has_ended_makes_room_again() -> None:
    gate, ended = threading.Event(), list[int]()
    runner = runner_of(blocking_tool(gate, ended), calls("block", n=1), max_tools_left_running=1)
    asyncio.run(runner.run("Go."))
    assert runner._left_running.count(blocking=True) == 1
    gate.set()
    until(lambda: not runner._left_running.count(blocking=True))


class Odd(BaseException):
    """Nothing that anybody expects."""


@pytest.mark.parametrize("error", [GeneratorExit, SystemExit, KeyboardInterrupt, Odd])
@pytest.mark.parametrize("blocking", [False, True])
def test_whatever_a_tool_raises_is_told_and_recorded(
    error: type[BaseException], *, blocking: bool
) -> None:
    @tool(name="odd")
    async def in_the_loop() -> str:
        """Raise."""
        raise error("no")

    @tool(name="odd")
    def in_a_thread() -> str:
        """Raise."""
        raise error("no")

    (answer,) = results(in_a_thread if blocking else in_the_loop, calls("odd"))

    assert answer.error_codes == ("INTERNAL_ERROR",)
    assert error.__name__ in str(answer.detail)


def test_foreign_work_is_bound_and_what_would_end_the_loop_is_typed() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await within(0.0, never())
        with pytest.raises(Raised) as raised:
            await within(1.0, leave())
        assert isinstance(raised.value.error, SystemExit)

    asyncio.run(scenario())
