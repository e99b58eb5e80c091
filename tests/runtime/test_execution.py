"""A limit binds, whatever a tool does; what is left running is known until it ends."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from surecall import ToolDefinition, ToolError, ToolLoopRunner, tool
from surecall.runtime.execution import GRACE_S, LEAVING_S, UserCodeError, call_user_code
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import ToolResult
from tests.support.timing import PATIENCE_S, never, until, until_soon


def runner_of(handler: Any, *script: Any, **settings: Any) -> ToolLoopRunner:
    config = {"tool_timeout_s": 0.05} | settings
    model = ScriptedModel(*script, says("Done."))
    return ToolLoopRunner(client=model, model="m", tools=handler, config=config)


def results(handler: Any, *script: Any, **settings: Any) -> tuple[ToolResult, ...]:
    return asyncio.run(runner_of(handler, *script, **settings).run("Go.")).run.results


class Stubborn:
    """A coroutine tool that takes no notice of being cancelled until it is let go."""

    def __init__(self, *errors: BaseException) -> None:
        self.let_go = asyncio.Event()
        self.began = self.cancelled = 0
        self._errors = list(errors)

    @property
    def tool(self) -> ToolDefinition:
        return ToolDefinition("slow", "Take ages.", handler=self)

    async def __call__(self) -> str:
        self.began += 1
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        if self._errors:
            raise self._errors.pop()
        return "late"


@pytest.mark.usefixtures("virtual")
def test_a_coroutine_that_swallows_its_cancellation_is_abandoned() -> None:
    async def scenario() -> tuple[ToolResult, float]:
        stubborn = Stubborn()
        slow = stubborn.tool
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await runner_of(slow, calls("slow"), tool_timeout_s=0.5).run("Go.")
        took = loop.time() - began
        stubborn.let_go.set()
        await until_soon(lambda: stubborn.cancelled)
        return result.run.results[0], took

    answer, took = asyncio.run(scenario())

    assert answer.error_codes == ("TOOL_TIMEOUT",)
    assert "is still running" in answer.content
    assert answer.executed
    assert took == pytest.approx(0.5 + GRACE_S)


@pytest.mark.usefixtures("virtual")
def test_the_deadline_of_the_run_binds_it_as_well() -> None:
    async def scenario() -> tuple[str, float]:
        stubborn = Stubborn()
        slow = stubborn.tool
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
    async def scenario() -> tuple[tuple[ToolResult, ...], int]:
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


def released(*ends: Any) -> tuple[Stubborn, tuple[ToolResult, ...]]:
    """Call a tool that takes too long, let it end, and make the same call again and again."""

    async def scenario() -> tuple[Stubborn, tuple[ToolResult, ...]]:
        stubborn = Stubborn(*ends)

        @tool(read_only=True)
        async def release() -> str:
            """Let it go."""
            stubborn.let_go.set()
            await asyncio.sleep(0)
            return "released"

        script = (calls("slow"), calls("release"), calls("slow"), calls("release"), calls("slow"))
        often = {"repeat_note_at": 9, "repeat_block_at": 9, "repeat_stop_at": 9}
        result = await runner_of([stubborn.tool, release], *script, **often).run("Go.")
        return stubborn, result.run.results

    return asyncio.run(scenario())


@pytest.mark.usefixtures("virtual")
def test_once_it_has_ended_its_result_answers_the_same_call() -> None:
    stubborn, answers = released()

    assert stubborn.began == 1
    assert [answer.ok for answer in answers] == [False, True, True, True, True]
    late, again = answers[2], answers[4]
    assert late.envelope["data"] == again.envelope["data"] == {"value": "late"}
    assert "It has finished since then" in late.envelope["warnings"][-1]
    assert (late.executed, again.executed) == (True, False)


@pytest.mark.usefixtures("virtual")
def test_once_it_is_known_to_have_failed_the_call_may_be_made_again() -> None:
    stubborn, answers = released(ToolError("no money"))

    assert [answer.error_codes for answer in answers if answer.name == "slow"] == [
        ("TOOL_TIMEOUT",),
        ("ARGUMENT_ERROR",),
        (),
    ]
    assert stubborn.began == 2


@pytest.mark.usefixtures("virtual")
def test_an_error_after_a_cancellation_does_not_say_that_nothing_happened() -> None:
    stubborn, answers = released(RuntimeError("stopped"))

    unknown = ("CALL_OUTCOME_UNKNOWN",)
    codes = [answer.error_codes for answer in answers if answer.name == "slow"]
    assert codes == [("TOOL_TIMEOUT",), unknown, unknown]
    assert stubborn.began == 1


@pytest.mark.usefixtures("virtual")
def test_a_call_waits_for_the_one_that_still_runs() -> None:
    async def scenario() -> tuple[ToolResult, ...]:
        async def slow() -> str:
            loop = asyncio.get_running_loop()
            until_then = loop.time() + 1.7
            while loop.time() < until_then:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(until_then - loop.time())
            return "late"

        tools = [{"name": "slow", "handler": slow}]
        result = await runner_of(tools, calls("slow"), calls("slow"), tool_timeout_s=1.0).run("Go.")
        return result.run.results

    first, second = asyncio.run(scenario())

    assert "To wait for its result, make the same call again." in first.content
    assert second.envelope["data"] == {"value": "late"}


@pytest.mark.parametrize(("fails", "codes"), [(False, ()), (True, ("INTERNAL_ERROR",))])
def test_what_a_thread_came_to_late_answers_the_same_call(
    codes: tuple[str, ...], *, fails: bool
) -> None:
    gate, began = threading.Event(), list[int]()

    @tool
    def block() -> str:
        """Block until the gate opens."""
        began.append(1)
        gate.wait()
        if fails:
            raise RuntimeError("broken")
        return "late"

    @tool(read_only=True)
    def release() -> str:
        """Open the gate."""
        gate.set()
        until(lambda: not runner._sessions.left_running.count(blocking=True))
        return "open"

    script = (calls("block"), calls("release"), calls("block"))
    runner = runner_of([block, release], *script)
    answers = runner.run_sync("Go.").run.results
    runner.close()

    assert (answers[2].error_codes, began) == (codes, [1])
    assert "It has finished since then" in answers[2].envelope["warnings"][-1]


def test_a_call_in_another_event_loop_waits_for_the_thread() -> None:
    gate = threading.Event()
    block = blocking_tool(gate, [])
    runner = runner_of(block, calls("block", n=1), tool_timeout_s=0.05)
    first = asyncio.run(runner.run("Go."))
    gate_opener = threading.Timer(0.0, gate.set)
    again = ToolLoopRunner(
        client=ScriptedModel(calls("block", n=1), says("Done.")),
        model="m",
        tools=block,
        config={"tool_timeout_s": PATIENCE_S},
    )
    again._sessions.left_running = runner._sessions.left_running
    gate_opener.start()
    second = asyncio.run(again.run("Go on.", history=first))

    assert second.run.results[0].envelope["data"] == {"value": "late"}


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
    assert runner._sessions.left_running.count(blocking=True) == 1
    gate.set()
    until(lambda: not runner._sessions.left_running.count(blocking=True))


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


def test_foreign_code_is_bound_and_whatever_it_raises_is_typed() -> None:
    def leaving(error: BaseException) -> Callable[[], Any]:
        def leave() -> None:
            raise error

        return leave

    def leaving_later(error: BaseException) -> Callable[[], Any]:
        async def leave() -> None:
            raise error

        return leave

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await call_user_code(0.0, never)
        for error in (SystemExit(3), GeneratorExit(), asyncio.CancelledError(), ValueError()):
            for code in (leaving(error), leaving_later(error)):
                with pytest.raises(UserCodeError) as raised:
                    await call_user_code(1.0, code)
                assert raised.value.error is error or isinstance(raised.value.error, type(error))

    asyncio.run(scenario())


@pytest.mark.usefixtures("virtual")
def test_a_tool_that_ends_with_a_value_just_after_its_limit_has_ended() -> None:
    @tool
    async def pay() -> str:
        """Pay, whatever happens."""
        with suppress(asyncio.CancelledError):
            await never()
        return "receipt 77"

    (answer,) = results(pay, calls("pay"))

    assert answer.envelope["data"] == {"value": "receipt 77"}


@pytest.mark.usefixtures("virtual")
def test_a_tool_that_was_told_to_stop_may_have_taken_effect() -> None:
    @tool
    async def pay() -> str:
        """Pay, behind a shield."""
        return str(await never())

    (answer,) = results(pay, calls("pay"))

    assert "was asked to stop; it may have taken effect" in answer.content


@pytest.mark.usefixtures("virtual")
def test_a_run_that_is_cancelled_waits_two_seconds_for_a_stubborn_tool_and_no_more() -> None:
    async def scenario() -> float:
        stubborn = Stubborn()
        slow = stubborn.tool
        loop = asyncio.get_running_loop()
        began = loop.time()
        runner = runner_of(slow, calls("slow"), tool_timeout_s=60.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await runner.run("Go.")
        took = loop.time() - began
        stubborn.let_go.set()
        return took

    assert asyncio.run(scenario()) == pytest.approx(0.3 + LEAVING_S)


def test_a_run_may_begin_in_a_task_that_was_cancelled_before() -> None:
    @tool
    async def go() -> str:
        """Go."""
        return "gone"

    async def scenario() -> str:
        try:
            await never()
        except asyncio.CancelledError:
            return (await runner_of(go, calls("go")).run("Go.")).assistant_text
        return ""

    async def main() -> str:
        task = asyncio.create_task(scenario())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(main()) == "Done."


def test_what_was_left_running_in_an_event_loop_that_is_closed_is_over() -> None:
    async def stay() -> str:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    slow = {"name": "slow", "handler": stay}
    runner = runner_of([slow], calls("slow"), max_tools_left_running=1)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # a task was destroyed: that is meant
    loop.run_until_complete(runner.run("Go."))
    assert runner._sessions.left_running.count(blocking=False) == 1
    loop.close()

    assert runner._sessions.left_running.count(blocking=False) == 0
