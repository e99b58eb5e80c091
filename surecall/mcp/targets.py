"""Where a server is: a command that becomes one, an address, or an object in this process.

A command and an address may hold secrets, so messages name no more of them than is needed to know
which server is meant: the program, or the host.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from surecall.values.errors import ConfigError


class Command(msgspec.Struct, frozen=True):
    """A server that is started as a process, and spoken to over its standard streams."""

    arguments: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None

    def __str__(self) -> str:
        return f"the MCP server {Path(self.arguments[0]).name!r}"


class Address(msgspec.Struct, frozen=True):
    """A server that is reached over streamable HTTP."""

    url: str
    headers: dict[str, str] = {}

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"the MCP server at {parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class InProcess(msgspec.Struct, frozen=True):
    """A server of the official SDK in this process."""

    server: Any

    def __str__(self) -> str:
        return f"the MCP server {getattr(self.server, 'name', '')!r:.80}"


Target: TypeAlias = Command | Address | InProcess


def target_of(
    server: Any,
    env: Mapping[str, str] | None,
    cwd: Any,
    headers: Mapping[str, str] | None,
) -> Target:
    """Tell what kind of server is meant, and refuse settings of another kind."""
    target = _target(server, dict(env or {}), cwd, dict(headers or {}))
    if not isinstance(target, Command) and (env is not None or cwd is not None):
        raise ConfigError("env and cwd are for a server that is started by a command")
    if not isinstance(target, Address) and headers is not None:
        raise ConfigError("headers are for a server that has an address")
    return target


def _target(server: Any, env: dict[str, str], cwd: Any, headers: dict[str, str]) -> Target:
    where = None if cwd is None else str(cwd)
    if isinstance(server, str):
        scheme, mark, _ = server.lstrip().partition("://")
        if mark and scheme.isalnum():
            return Address(_checked_url(server.strip()), headers)
        return Command(_split(server), env, where)
    if isinstance(server, Sequence) and all(isinstance(part, str) for part in server) and server:
        return Command(tuple(server), env, where)
    if server is None or isinstance(server, bytes | Sequence | Mapping):
        raise ConfigError(
            'an MCP server is a command such as "npx -y some-server", an address such as '
            f'"http://127.0.0.1:9000/mcp", or a server object, not {server!r:.80}'
        )
    return InProcess(server)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise ConfigError("the address of an MCP server must be http://host/… or https://host/…")
    return url


def _split(command: str) -> tuple[str, ...]:
    """Split a command as a shell would; no shell ever sees it."""
    try:
        arguments = tuple(shlex.split(command))
    except ValueError as problem:
        raise ConfigError(f"the command of an MCP server cannot be read: {problem}") from None
    if not arguments or not arguments[0]:
        raise ConfigError("the command of an MCP server is blank")
    return arguments
