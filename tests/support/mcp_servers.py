"""MCP servers for tests: the official SDK's as objects and over HTTP, and one by hand."""

import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations

from surecall.mcp import MCPTools
from tests.support.project_files import TESTS
from tests.support.timing import until, until_soon


def official() -> MCPServer[Any]:
    """Return a server of the official SDK with a few tools."""
    server = MCPServer("official", log_level="CRITICAL")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def erase(path: str) -> str:
        """Erase a file."""
        return f"erased {path}"

    @server.tool(structured_output=False)
    def picture() -> list[Any]:
        """Draw."""
        return ["Here it is.", Image(data=b"\x89PNG" * 1000, format="png")]

    @server.tool()
    async def grow(context: Context[Any]) -> str:
        """Add a tool."""

        def grown(text: str) -> str:
            """Say it again."""
            return text

        server.add_tool(grown)
        await context.notify_tools_changed()
        return "grown"

    return server


class Legacy:
    """An ASGI application that knows no protocol but that of 2025, with sessions.

    It answers with `forgets` where a session is unknown; the protocol wants 404.
    """

    def __init__(self, application: Any, forgets: int) -> None:
        self._application = application
        self._forgets = forgets

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse what is newer, and pass the rest on."""
        headers = dict(scope.get("headers", ()))

        async def sent(message: Any) -> None:
            if message.get("status") == HTTPStatus.NOT_FOUND:
                message = message | {"status": self._forgets, "headers": []}
            await send(message)

        if headers.get(b"mcp-method") == b"server/discover":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._application(scope, receive, sent)


class _HttpServer(uvicorn.Server):
    """Closes what outlasts the grace period: on a busy machine a stream may still be open."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await until_soon(lambda: not (self.server_state.connections or self.server_state.tasks))


@contextmanager
def over_http(server: MCPServer[Any], port: int = 0, forgets: int = 0) -> Iterator[str]:
    """Serve over streamable HTTP in a thread of its own; return the address."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        application = server.streamable_http_app()
        config = uvicorn.Config(
            Legacy(application, forgets) if forgets else application,
            log_level="critical",
            timeout_graceful_shutdown=1,
        )
        http = _HttpServer(config)
        thread = threading.Thread(target=http.run, kwargs={"sockets": [listening]})
        thread.start()
        until(lambda: http.started)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            http.should_exit = True
            thread.join()


class Child:
    """The server by hand, as a command, and what its journal says."""

    def __init__(self, folder: Path, *manner: str) -> None:
        self._journal = folder / "journal"
        script = str(TESTS / "support" / "mcp_child.py")
        self.command = shlex.join([sys.executable, "-I", script, str(self._journal), *manner])

    def told(self, about: str) -> list[str]:
        """Return what the journal says about something."""
        lines = self._journal.read_text("utf-8").splitlines() if self._journal.exists() else []
        return [line.removeprefix(f"{about} ") for line in lines if line.startswith(f"{about} ")]

    @property
    def processes(self) -> list[int]:
        """All processes that there ever were."""
        return [*map(int, self.told("server")), *map(int, self.told("child"))]

    @property
    def alive(self) -> list[int]:
        """The processes that are still at work."""
        return list(filter(is_alive, self.processes))


def is_alive(pid: int) -> bool:
    """Whether a process is at work; one that has only not been reaped is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def called(tools: MCPTools, name: str, **arguments: Any) -> Any:
    """Call a tool by its name, as a run does."""
    (tool,) = [tool for tool in tools if tool.name == name]
    return await tool(**arguments)
