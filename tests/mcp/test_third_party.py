"""A server of others, the real program: `npm install -g @modelcontextprotocol/server-everything`.

It is looked for on the PATH, or where SURECALL_TEST_MCP says.
"""

import asyncio
import json
import os
import shutil
from typing import Any

import pytest

from surecall.mcp import mcp_tools
from tests.support.mcp_servers import called
from tests.support.timing import until_soon

pytestmark = pytest.mark.processes

PROGRAM, VARIABLE = "mcp-server-everything", "SURECALL_TEST_MCP"


@pytest.fixture(name="program")
def program_fixture() -> str:
    found = os.environ.get(VARIABLE) or shutil.which(PROGRAM)
    if not found:
        pytest.skip(f"{PROGRAM} is not installed: put it on the PATH, or name it in {VARIABLE}")
    return found


def test_its_tools_can_be_called_cancelled_and_called_again(program: str) -> None:
    async def run() -> list[Any]:
        async with mcp_tools([program], prefix="every_") as tools:
            slow = called(tools, "every_trigger-long-running-operation", duration=1000, steps=1)
            long = asyncio.create_task(slow)
            said = [
                await called(tools, "every_echo", message="hello"),
                await called(tools, "every_get-structured-content", location="New York"),
                await called(tools, "every_get-tiny-image"),
                json.loads(await called(tools, "every_get-env")),
            ]
            long.cancel()
            await until_soon(long.done)
            return [*said, await called(tools, "every_echo", message="still here")]

    echo, weather, image, variables, again = asyncio.run(run())

    assert (echo, again) == ("Echo: hello", "Echo: still here")
    assert {"temperature", "conditions", "humidity"} == weather.keys()
    assert "[image, image/png, " in image
    assert variables.keys() <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
