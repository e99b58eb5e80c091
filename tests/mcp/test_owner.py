"""The owner of a session: calls from anywhere, cancelled or not, and servers that die."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from surecall import ToolLoopRunner, presets
from surecall.mcp import mcp_tools
from surecall.testing import ScriptedModel, calls, says
from surecall.values.errors import ToolError
from tests.support.mcp_servers import Child, called
from tests.support.timing import until, until_soon

pytestmark = pytest.mark.processes


@pytest.fixture(name="child")
def child_fixture(tmp_path: Path) -> Iterator[Child]:
    """Give a server by hand; none of its processes may outlive the test."""
    child = Child(tmp_path)
    yield child
    until(lambda: not child.alive)


def test_a_call_that_is_cancelled_is_cancelled_at_the_server_and_breaks_nothing(
    child: Child,
) -> None:
    async def run() -> str:
        async with mcp_tools(child.command) as tools:
            work = asyncio.create_task(called(tools, "hang"))
            await until_soon(lambda: child.told("called"))
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await until_soon(lambda: "notifications/cancelled" in child.told("heard"))
            said: str = await called(tools, "echo", text="still here")
            return said

    assert asyncio.run(run()) == "still here"
    assert len(child.told("server")) == 1


def test_a_call_that_takes_too_long_is_a_tool_error_and_the_run_goes_on(child: Child) -> None:
    with mcp_tools(child.command, timeout_s=0.05) as tools:
        script = ScriptedModel(calls("hang"), says("It hangs."))
        runner = ToolLoopRunner(client=script, model="m", tools=tools)
        result = runner.run_sync("Hang.")
        runner.close()

    assert result.run.results[0].error_codes == ("TOOL_TIMEOUT",)
    assert result.assistant_text == "It hangs."


def test_a_block_that_is_cancelled_again_and_again_is_still_closed(child: Child) -> None:
    async def run() -> None:
        async with mcp_tools(child.command):
            await asyncio.Event().wait()

    async def cancelled() -> None:
        work = asyncio.create_task(run())
        await until_soon(lambda: child.told("heard"))
        while not work.done():
            work.cancel()
            await asyncio.sleep(0)

    asyncio.run(cancelled())
    assert child.alive == []


def test_opening_may_be_cancelled(tmp_path: Path) -> None:
    child = Child(tmp_path, "MUTE")

    async def run() -> None:
        opening = asyncio.create_task(mcp_tools(child.command).__aenter__())
        await until_soon(lambda: child.told("heard"))
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(run())
    assert child.alive == []


def test_calls_come_from_many_threads_and_loops_at_once(child: Child) -> None:
    with mcp_tools(child.command) as tools, ThreadPoolExecutor(8) as pool:
        barrier = threading.Barrier(8)

        def work(number: int) -> str:
            barrier.wait()
            said: str = asyncio.run(called(tools, "echo", text=str(number)))
            return said

        assert list(pool.map(work, range(8))) == list(map(str, range(8)))


# A server that dies


def test_a_call_that_was_under_way_is_not_made_again_and_the_next_one_reconnects(
    child: Child,
) -> None:
    with mcp_tools(child.command) as tools:
        script = ScriptedModel(calls("die"), calls("echo", text="back"), says("Back."))
        runner = ToolLoopRunner(
            client=script, model="m", tools=tools, config=presets.default_tool_calling()
        )
        result = runner.run_sync("Die, and come back.")
        runner.close()

    first, second = result.run.results
    assert first.error_codes == ("CALL_OUTCOME_UNKNOWN",)
    assert second.envelope["data"] == {"value": "back"}
    assert child.told("called") == ["die ", "echo back"]
    assert len(child.told("server")) == 2


def test_every_call_under_way_is_told_and_one_session_serves_all_that_follow(child: Child) -> None:
    async def run() -> list[object]:
        async with mcp_tools(child.command) as tools:
            waiting = [asyncio.create_task(called(tools, "hang")) for _ in range(3)]
            await until_soon(lambda: len(child.told("called")) == 3)
            told = await asyncio.gather(called(tools, "die"), *waiting, return_exceptions=True)
            assert [type(each) for each in told] == [ToolError] * 4
            said = await asyncio.gather(*(called(tools, "echo", text=str(n)) for n in range(4)))
            return list(said)

    assert asyncio.run(run()) == ["0", "1", "2", "3"]
    assert len(child.told("server")) == 2


@pytest.mark.parametrize("trust", [True, False])
def test_only_a_tool_that_may_run_twice_is_called_again(child: Child, *, trust: bool) -> None:
    async def run() -> str:
        async with mcp_tools(child.command, trust_hints=trust) as tools:
            said: str = await called(tools, "note", text="die once")
            return said

    if trust:
        assert asyncio.run(run()) == "die once"
        assert child.told("called") == ["note die once"] * 2
    else:
        with pytest.raises(ToolError, match="may have taken effect"):
            asyncio.run(run())
        assert child.told("called") == ["note die once"]


def test_a_server_that_dies_every_time_is_started_once_for_a_call(child: Child) -> None:
    async def run() -> None:
        hints = {"die": {"idempotent": True}}
        async with mcp_tools(child.command, hints=hints) as tools:  # type: ignore[arg-type]
            with pytest.raises(ToolError, match="may have taken effect"):
                await called(tools, "die")

    asyncio.run(run())
    assert len(child.told("server")) == len(child.told("called")) == 2


def test_a_server_that_cannot_be_started_again_is_a_tool_error(
    child: Child, tmp_path: Path
) -> None:
    shared = tmp_path / "program"
    shared.symlink_to("/bin/sh")
    with mcp_tools(f"{shared} -c 'exec {child.command}'") as tools:
        (echo,) = [tool for tool in tools if tool.name == "echo"]
        (die,) = [tool for tool in tools if tool.name == "die"]
        shared.unlink()
        with pytest.raises(ToolError, match="may have taken effect"):
            asyncio.run(die())
        with pytest.raises(ToolError, match="cannot be reached again") as raised:
            asyncio.run(echo())

    assert not raised.value.retry


def test_a_result_that_is_none_is_a_tool_error(child: Child) -> None:
    with mcp_tools(child.command) as tools:
        with pytest.raises(ToolError, match="not a valid tool result"):
            asyncio.run(called(tools, "crooked"))
        assert asyncio.run(called(tools, "echo", text="on")) == "on"


# A server that changes


def test_a_tool_that_vanished_or_changed_is_not_called(child: Child) -> None:
    with mcp_tools(child.command) as tools:
        echo, hang = (
            next(tool for tool in tools if tool.name == name) for name in ("echo", "hang")
        )
        asyncio.run(called(tools, "shrink", text="hang"))
        until(lambda: "hang" not in [tool.name for tool in tools])
        with pytest.raises(ToolError, match="no longer has this tool"):
            asyncio.run(hang())
        asyncio.run(called(tools, "change"))
        until(lambda: "more" in str([tool.spec.parameters for tool in tools]))
        with pytest.raises(ToolError, match="has changed this tool's parameters"):
            asyncio.run(echo(text="a"))
        assert asyncio.run(called(tools, "echo", text="a", more="b")) == "a"

    assert child.told("called") == ["shrink hang", "change ", "echo a"]
