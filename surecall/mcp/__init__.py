"""Tools of MCP servers, for a runner (`pip install 'surecall[mcp]'`).

    async with mcp_tools("npx -y @modelcontextprotocol/server-filesystem /tmp") as tools:
        runner = ToolLoopRunner(client=…, model=…, tools=tools)
        await runner.run("What is in /tmp?")

The SDK is imported when a server is opened; naming it here costs nothing.
"""

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from surecall.mcp.connection import MCPServerError
from surecall.mcp.server_tools import Hints, selection_of
from surecall.mcp.targets import target_of
from surecall.mcp.tools import MCPTools
from surecall.values.errors import ConfigError

__all__ = ["Hints", "MCPServerError", "MCPTools", "mcp_tools"]

NOT_INSTALLED: Final = (
    "to use the tools of MCP servers, mcp must be installed: pip install 'surecall[mcp]'"
)


def mcp_tools(  # noqa: PLR0913  # settings, all but one by keyword
    server: Any,
    *,
    prefix: str = "",
    allow: Iterable[str] | None = None,
    deny: Iterable[str] = (),
    hints: Mapping[str, Hints] | None = None,
    trust_hints: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    starts_within_s: float = 60.0,
) -> MCPTools:
    """Open a server with `async with` (or `with`), and offer its tools.

    `server` is a command, which no shell sees; an address of streamable HTTP; or a server object of
    the official SDK. A command gets a few variables such as PATH, and `env`. `headers` go with
    every HTTP request. `prefix` is put before every name. `allow`, `deny` and `hints` use the
    server's own names. `timeout_s` limits each call (else the runner's `tool_timeout_s` does).

    What a server says of its tools is not believed where it makes a call run twice: `trust_hints`
    changes that for all of them, `hints={"search": {"read_only": True}}` for one.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(NOT_INSTALLED)
    if not starts_within_s > 0:
        raise ConfigError("starts_within_s must be positive")
    if timeout_s is not None and not timeout_s > 0:
        raise ConfigError("timeout_s must be positive")
    selection = selection_of(
        prefix, allow, deny, hints, trust_hints=trust_hints, timeout_s=timeout_s
    )
    return MCPTools(target_of(server, env, cwd, headers), selection, starts_within_s)
