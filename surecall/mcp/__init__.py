"""Tools of MCP servers, for a runner (`pip install 'surecall[mcp]'`).

    async with mcp_tools("npx -y @modelcontextprotocol/server-filesystem /tmp") as tools:
        runner = ToolLoopRunner(client=…, model=…, tools=tools)
        await runner.run("What is in /tmp?")

The MCP SDK is imported when a server is opened, so importing this package is cheap.
"""

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from surecall.mcp.server_connection import MCPServerError
from surecall.mcp.server_tools import Hints, build_selection
from surecall.mcp.targets import parse_target
from surecall.mcp.tools import MCPTools
from surecall.values.errors import ConfigError

__all__ = ["Hints", "MCPServerError", "MCPTools", "mcp_tools"]

NOT_INSTALLED: Final = (
    "mcp_tools needs the package mcp, which is not installed: pip install 'surecall[mcp]'"
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
    """Return the tools of an MCP server; open it with `async with` (or `with`).

    `server` is a command (run without a shell), the URL of a streamable HTTP server, or a server
    object of the official SDK. A command gets `env` and a few variables such as PATH. `headers` are
    sent with every HTTP request. `prefix` is added to every tool name. `allow`, `deny` and `hints`
    use the server's names. `timeout_s` limits each call; the default is the runner's
    `tool_timeout_s`.

    The hints of a server are ignored where they would let a call run twice. `trust_hints` trusts
    them for all tools, `hints={"search": {"read_only": True}}` overrides them for one.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(NOT_INSTALLED)
    if not starts_within_s > 0:
        raise ConfigError(f"starts_within_s must be positive, not {starts_within_s}")
    if timeout_s is not None and not timeout_s > 0:
        raise ConfigError(f"timeout_s must be positive, not {timeout_s}")
    selection = build_selection(
        prefix, allow, deny, hints, trust_hints=trust_hints, timeout_s=timeout_s
    )
    return MCPTools(parse_target(server, env, cwd, headers), selection, starts_within_s)
