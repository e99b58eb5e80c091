"""`mcp_tools`: the official SDK's servers in a run, in this process and over HTTP."""

import asyncio
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from surecall import JsonlSink, RunResult, ToolLoopRunner
from surecall.mcp import MCPServerError, MCPTools, mcp_tools
from surecall.testing import ScriptedModel, calls, says
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ToolError
from tests.support.mcp_servers import called, official, over_http
from tests.support.timing import until, until_soon

WITHOUT_THE_EXTRA = """
import sys
sys.modules["mcp"] = None
from surecall import load_trace, replay
from surecall.mcp import mcp_tools
try:
    mcp_tools("npx some-server")
except Exception as error:
    print(type(error).__name__, error, sep=": ")
print(replay(load_trace(sys.argv[1])).assistant_text)
"""
LOADED = """
import sys
import surecall.mcp
surecall.mcp.mcp_tools("npx some-server")
print("mcp" in sys.modules, "asyncio" in sys.modules)
"""


def runner(tools: MCPTools, *script: object, **given: object) -> ToolLoopRunner:
    return ToolLoopRunner(
        client=ScriptedModel(*script),  # type: ignore[arg-type]  # items of a script
        model="m",
        tools=tools,
        **given,  # type: ignore[arg-type]  # settings of a runner
    )


def data(result: RunResult) -> list[object]:
    return [each.envelope["data"] for each in result.run.results]


def printed(code: str, *arguments: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


# Runs


def test_a_run_calls_the_tools_of_a_server_in_this_process() -> None:
    async def run() -> RunResult:
        async with mcp_tools(official(), prefix="o_", allow=["add", "picture"]) as tools:
            assert [tool.name for tool in tools] == ["o_add", "o_picture"]
            script = [calls("o_add", a=1, b=2), calls("o_picture"), says("Three.")]
            return await runner(tools, *script).run("Add, and draw.")

    result = asyncio.run(run())

    assert result.assistant_text == "Three."
    words = "Here it is.\n[image, image/png, 4000 bytes, not shown]"
    assert data(result) == [{"result": 3}, {"value": words}]


def test_arguments_are_checked_against_the_schema_of_the_server_before_anything_is_sent() -> None:
    with mcp_tools(official()) as tools:
        script = [calls("add", a="x"), calls("add", a=1, b=1), says("Two.")]
        result = runner(tools, *script).run_sync("Add.")

    first, second = result.run.results
    assert (first.executed, first.ok) == (False, False)
    assert second.ok


@pytest.mark.parametrize("inside", ["with", "async with"])
def test_a_blocking_run_works_wherever_the_server_was_opened(inside: str) -> None:
    script = [calls("add", a=1, b=2), says("Three.")]

    async def run() -> str:
        async with mcp_tools(official()) as tools:  # this event loop is blocked meanwhile
            return runner(tools, *script).run_sync("Add.").assistant_text

    if inside == "with":
        with mcp_tools(official()) as tools:
            assert runner(tools, *script).run_sync("Add.").assistant_text == "Three."
    else:
        assert asyncio.run(run()) == "Three."


def test_several_servers_are_several_lists_and_names_must_differ() -> None:
    with mcp_tools(official(), prefix="a_") as first, mcp_tools(official(), prefix="b_") as second:
        names = ToolRegistry([*first, *second]).names
        assert {"a_add", "b_add"} <= set(names)
        with pytest.raises(ConfigError, match="conflicting tool names"):
            ToolRegistry([*first, *first])


def test_hints_of_a_server_reach_the_model_only_as_far_as_they_are_believed() -> None:
    with mcp_tools(official()) as tools:
        said = {tool.name: tool.spec for tool in tools}
    with mcp_tools(official(), trust_hints=True, timeout_s=7) as tools:
        trusted = {tool.name: tool.spec for tool in tools}
        assert {tool.timeout_s for tool in tools} == {7}

    assert (said["add"].read_only, trusted["add"].read_only) == (False, True)
    assert (said["erase"].destructive, trusted["erase"].destructive) == (True, True)


# Changes


def test_a_new_runner_has_the_new_list_and_an_old_one_its_own() -> None:
    with mcp_tools(official()) as tools:
        old = runner(tools, calls("grow"), calls("grown", text="a"), says("No."))
        result = old.run_sync("Grow.")
        until(lambda: "grown" in [tool.name for tool in tools])
        new = runner(tools, calls("grown", text="hello"), says("Yes."))
        assert data(new.run_sync("Say hello.")) == [{"result": "hello"}]

    assert [each.ok for each in result.run.results] == [True, False]
    assert result.run.results[1].error_codes == ("TOOL_NOT_ALLOWED",)


def test_a_list_that_can_no_longer_be_offered_is_told_to_the_next_who_asks() -> None:
    server = official()
    with mcp_tools(server) as tools:
        (add,) = [tool for tool in tools if tool.name == "add"]
        server.add_tool(lambda: "x", name="a" * 65, description="Too long.")
        runner(tools, calls("grow"), says("Grown.")).run_sync("Grow.")

        def problem() -> str:
            try:
                return str(len(tools) * "")
            except ConfigError as error:
                return str(error)

        until(problem)
        assert "has a name of 65 characters" in problem()
        assert asyncio.run(add(a=1, b=2)) == {"result": 3}


# Over HTTP


def test_a_server_over_http_is_called_with_headers_and_tells_of_changes() -> None:
    async def run(url: str) -> list[object]:
        async with mcp_tools(url, headers={"X-Test": "1"}) as tools:
            both = await asyncio.gather(*(called(tools, "add", a=n, b=1) for n in range(8)))
            await called(tools, "grow")
            await until_soon(lambda: len(tools) == 5)
            return [*both, await called(tools, "grown", text="hello")]

    with over_http(official()) as url:
        *sums, grown = asyncio.run(run(url))

    assert sums == [{"result": n + 1} for n in range(8)]
    assert grown == {"result": "hello"}


def test_a_server_that_comes_back_is_reached_by_the_next_call() -> None:
    async def run() -> None:
        with over_http(official()) as url:
            tools = await mcp_tools(url).__aenter__()
        (add,) = [tool for tool in tools if tool.name == "add"]
        with pytest.raises(ToolError):
            await add(a=1, b=1)
        with pytest.raises(ToolError, match="cannot be reached again"):
            await add(a=1, b=1)
        with over_http(official(), port_of(url)):
            assert await add(a=1, b=1) == {"result": 2}
            await tools.__aexit__()

    asyncio.run(run())


@pytest.mark.parametrize("status", [404, 400])
def test_a_server_that_has_forgotten_the_session_gets_a_new_one(status: int) -> None:
    async def run() -> None:
        with over_http(official(), forgets=status) as url:
            tools = await mcp_tools(url).__aenter__()
            assert await called(tools, "add", a=1, b=1) == {"result": 2}
        with over_http(official(), port_of(url), forgets=status):
            with pytest.raises(ToolError, match="no longer knows this session"):
                await called(tools, "add", a=1, b=1)
            assert await called(tools, "add", a=1, b=1) == {"result": 2}
            await tools.__aexit__()

    asyncio.run(run())


def test_an_address_where_nobody_listens_is_told_in_one_sentence_without_its_secrets() -> None:
    url = "http://u:hunter2@127.0.0.1:9/hunter2?key=hunter2"
    with pytest.raises(MCPServerError) as raised, mcp_tools(url):
        pass

    assert str(raised.value) == (
        "the MCP server at http://127.0.0.1:9 cannot be used: All connection attempts failed"
    )


# Misuse


def test_tools_that_are_not_open_are_no_list() -> None:
    tools = mcp_tools(official())
    with pytest.raises(ConfigError, match="not open"):
        ToolLoopRunner(client="http://127.0.0.1:9", model="m", tools=tools)
    with tools, pytest.raises(ConfigError, match="open already"), tools:
        pass
    with pytest.raises(ConfigError, match="not open"):
        list(tools)


def test_a_call_after_the_block_is_a_tool_error() -> None:
    with mcp_tools(official()) as tools:
        first = tools[0]
        assert repr(tools) == "<MCPTools of the MCP server 'official': add, erase, picture, grow>"

    with pytest.raises(ToolError, match="was closed"):
        asyncio.run(first(a=1, b=2))


def test_a_mistyped_name_closes_the_server_again() -> None:
    with (
        pytest.raises(ConfigError, match='unknown tool in deny "ad"'),
        mcp_tools(official(), deny=["ad"]),
    ):
        pass


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"starts_within_s": 0}])
def test_limits_are_positive(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        mcp_tools("npx", **wrong)  # type: ignore[arg-type]  # one of them


def test_an_object_that_is_no_server_is_refused() -> None:
    with pytest.raises(ConfigError, match="not object"), mcp_tools(object()):
        pass


# Without it


@pytest.mark.processes
def test_a_recorded_run_is_replayed_without_the_server_and_without_the_extra(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.jsonl"
    with mcp_tools(official()) as tools:
        script = [calls("add", a=1, b=2), says("Three.")]
        runner(tools, *script, observers=[JsonlSink(path)]).run_sync("Add.")

    told, answer = printed(WITHOUT_THE_EXTRA, str(path))

    assert told == (
        "ConfigError: mcp_tools needs the package mcp, which is not installed: "
        "pip install 'surecall[mcp]'"
    )
    assert answer == "Three."


@pytest.mark.processes
def test_naming_a_server_loads_nothing_of_the_sdk() -> None:
    assert printed(LOADED)[0].split()[0] == "False"
