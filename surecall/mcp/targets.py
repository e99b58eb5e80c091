"""The ways to reach an MCP server: a command, a URL, or an object in this process.

Commands and URLs may hold secrets, so messages only name the program or the host.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from surecall.values.errors import ConfigError


class CommandTarget(msgspec.Struct, frozen=True):
    """A server that is started as a process and uses its standard streams."""

    arguments: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None

    def __str__(self) -> str:
        return f"the MCP server {Path(self.arguments[0]).name!r}"


class HttpTarget(msgspec.Struct, frozen=True):
    """A server that uses streamable HTTP."""

    url: str
    headers: dict[str, str] = {}

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"the MCP server at {parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class InProcessTarget(msgspec.Struct, frozen=True):
    """A server of the official SDK in this process."""

    server: Any

    def __str__(self) -> str:
        return f"the MCP server {getattr(self.server, 'name', '')!r:.80}"


Target: TypeAlias = CommandTarget | HttpTarget | InProcessTarget


def parse_target(
    server: Any,
    env: Mapping[str, str] | None,
    cwd: Any,
    headers: Mapping[str, str] | None,
) -> Target:
    """Return the target for a server; raise for settings that do not apply to its kind."""
    target = _parse_server(server, dict(env or {}), cwd, dict(headers or {}))
    if not isinstance(target, CommandTarget) and (env is not None or cwd is not None):
        raise ConfigError("env and cwd only apply to a server that is started by a command")
    if not isinstance(target, HttpTarget) and headers is not None:
        raise ConfigError("headers only apply to a server that has a URL")
    return target


def _parse_server(
    server: Any, env: dict[str, str], working_directory: Any, headers: dict[str, str]
) -> Target:
    """Return the target for a command, a URL, or a server object."""
    where = None if working_directory is None else str(working_directory)
    if isinstance(server, str):
        scheme, mark, _ = server.lstrip().partition("://")
        if mark and scheme.isalnum():
            return HttpTarget(_checked_url(server.strip()), headers)
        return CommandTarget(_split_command(server), env, where)
    if isinstance(server, Sequence) and all(isinstance(part, str) for part in server) and server:
        return CommandTarget(tuple(server), env, where)
    if server is None or isinstance(server, bytes | Sequence | Mapping):
        raise ConfigError(
            'server must be a command such as "npx -y some-server", a URL such as '
            f'"http://127.0.0.1:9000/mcp", or a server object, not {server!r:.80}'
        )
    return InProcessTarget(server)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise ConfigError("the URL of an MCP server must be http://host/… or https://host/…")
    return url


def _split_command(command: str) -> tuple[str, ...]:
    """Split a command as a shell would."""
    try:
        arguments = tuple(shlex.split(command))
    except ValueError as problem:
        raise ConfigError(f"the command of an MCP server cannot be parsed: {problem}") from None
    if not arguments or not arguments[0]:
        raise ConfigError("the command of an MCP server is blank")
    return arguments
