"""A server as a child process: what it is given, how it ends, and that nothing is left of it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from surecall.mcp import MCPServerError, mcp_tools, stdio
from surecall.values.errors import ToolError
from tests.support.mcp_servers import Child, called
from tests.support.project_files import ROOT
from tests.support.timing import PATIENCE_S, until

pytestmark = pytest.mark.processes

INTERRUPTED = """
import asyncio, sys
from surecall.mcp import mcp_tools, stdio

stdio.LEAVING_S = 0.1

async def main():
    async with mcp_tools(sys.argv[1]) as tools:
        (hang,) = [tool for tool in tools if tool.name == "hang"]
        await hang()

asyncio.run(main())
"""
LEFT_OPEN = """
import sys
from surecall.mcp import mcp_tools, stdio

stdio.LEAVING_S = 0.1
tools = mcp_tools(sys.argv[1]).__enter__()
sys.exit(3)
"""


@pytest.fixture(name="child")
def child_fixture(tmp_path: Path) -> Iterator[Child]:
    """Give a server by hand; none of its processes may outlive the test."""
    child = Child(tmp_path)
    yield child
    until(lambda: not child.alive)


@pytest.fixture(name="stubborn")
def stubborn_fixture(tmp_path: Path) -> Iterator[Child]:
    child = Child(tmp_path, "STUBBORN")
    yield child
    assert len(child.processes) >= 2
    until(lambda: not child.alive)


def test_a_server_gets_its_own_variables_and_no_key(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-secret")
    with mcp_tools(child.command, env={"MINE": "1"}) as tools:
        seen = set(json.loads(asyncio.run(called(tools, "env"))))

    assert {"MINE", "PATH"} <= seen
    assert "OPENROUTER_API_KEY" not in seen


def test_a_greeting_is_passed_over_and_a_server_ends_with_its_standard_input(child: Child) -> None:
    with mcp_tools(child.command) as tools:
        assert asyncio.run(called(tools, "echo", text="é\n𝄞")) == "é\n𝄞"
        assert child.alive


def test_a_server_that_ignores_everything_ends_and_so_does_what_it_started(
    stubborn: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "LEAVING_S", 0.1)
    with mcp_tools(stubborn.command):
        assert len(stubborn.alive) == 2


def test_what_a_server_started_ends_also_when_the_server_was_killed(
    stubborn: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "LEAVING_S", 0.1)
    with mcp_tools(stubborn.command) as tools, pytest.raises(ToolError):
        asyncio.run(called(tools, "die"))


def test_a_line_without_end_ends_the_session_and_not_the_program(child: Child) -> None:
    with mcp_tools(child.command) as tools:
        with pytest.raises(ToolError, match="may have taken effect"):
            asyncio.run(called(tools, "flood"))
        assert asyncio.run(called(tools, "echo", text="back")) == "back"

    assert len(child.told("server")) == 2


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-program-at-all", "no such program or working directory"),
        ("/bin/sh -c 'echo it is broken >&2; exit 3'", "Connection closed (it is broken)"),
        ("/", "Permission denied"),
    ],
)
def test_a_server_that_does_not_start_is_told_with_its_last_words(
    command: str, reason: str
) -> None:
    with pytest.raises(MCPServerError) as raised, mcp_tools(command):
        pass

    assert str(raised.value).partition(" cannot be used: ")[2] == reason


def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "LEAVING_S", 0.1)
    with (
        pytest.raises(MCPServerError, match=r"^the MCP server 'sleep' cannot be used: it was not"),
        mcp_tools("sleep 1000", starts_within_s=0.1),
    ):
        pass


@pytest.mark.parametrize("ended_by", ["interrupt", "exit"])
def test_nothing_is_left_when_the_program_ends(stubborn: Child, ended_by: str) -> None:
    code = INTERRUPTED if ended_by == "interrupt" else LEFT_OPEN
    program = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, stubborn.command],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    if ended_by == "interrupt":
        until(lambda: stubborn.told("called"))
        program.send_signal(signal.SIGINT)
    _, shown = program.communicate(timeout=PATIENCE_S)

    if ended_by == "interrupt":
        assert program.returncode == -signal.SIGINT
        assert shown.rstrip().endswith("KeyboardInterrupt")
        assert "cancel scope" not in shown
    else:
        assert (program.returncode, shown) == (3, "")
