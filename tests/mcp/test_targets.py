"""Where a server is: commands, addresses, objects, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from surecall.mcp.targets import CommandTarget, HttpTarget, InProcessTarget, parse_target
from surecall.values.errors import ConfigError


def target(server: Any, **given: Any) -> Any:
    return parse_target(server, given.get("env"), given.get("cwd"), given.get("headers"))


def test_a_command_is_split_and_no_shell_sees_it() -> None:
    made = target("npx -y 'a server' $HOME; rm", env={"A": "1"}, cwd=Path("/tmp"))  # noqa: S108

    assert made == CommandTarget(("npx", "-y", "a server", "$HOME;", "rm"), {"A": "1"}, "/tmp")  # noqa: S108
    assert target(["a b", "c"]) == CommandTarget(("a b", "c"))


def test_an_address_is_known_by_its_scheme() -> None:
    made = target(" https://host/mcp", headers={"Authorization": "Bearer x"})

    assert made == HttpTarget("https://host/mcp", {"Authorization": "Bearer x"})


def test_an_object_is_a_server_in_this_process() -> None:
    server = object()

    assert target(server) == InProcessTarget(server)


def test_a_message_names_a_server_without_its_secrets() -> None:
    assert str(target("/usr/bin/npx server --token hunter2")) == "the MCP server 'npx'"
    made = target("https://u:hunter2@host:81/hunter2?key=hunter2")
    assert str(made) == "the MCP server at https://host:81"
    assert str(target(object())) == "the MCP server ''"


@pytest.mark.parametrize(
    ("server", "given"),
    [
        ("", {}),
        ("  ", {}),
        ("'' x", {}),
        ("npx 'open", {}),
        ("ftp://host/mcp", {}),
        ("http://", {}),
        ("http://[::1", {}),
        (None, {}),
        (b"npx", {}),
        ([], {}),
        ([1], {}),
        ({}, {}),
        ("npx server", {"headers": {"a": "b"}}),
        ("http://host/mcp", {"env": {"a": "b"}}),
        ("http://host/mcp", {"cwd": "."}),
        (object(), {"env": {}}),
    ],
)
def test_what_is_no_server_is_refused_in_one_sentence(server: Any, given: Any) -> None:
    with pytest.raises(ConfigError):
        target(server, **given)
