"""Servers that others wrote, each in a process of its own, bound to loopback.

`make foreign` installs them in an environment of their own. Without it the tests that need them are
skipped; where SURECALL_TEST_FOREIGN is set, they fail.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import pytest

from tests.support.paths import ROOT
from tests.support.patience import until

DEMANDED: Final = "SURECALL_TEST_FOREIGN"
INSTALLED: Final = ROOT / ".venv" / "foreign"
FILES: Final = ROOT / "tests" / "foreign"
NONE_FOUND: Final = ".venv/foreign is not there"
_SKIPPED: Final = "no servers of others were tested: {}; `make foreign` installs them"
_SHOWN: Final = 2000
# Nothing listens there: whatever a server would tell its authors ends at this address.
_NOWHERE: Final = "http://127.0.0.1:9"
_QUIET: Final = {
    "DO_NOT_TRACK": "1",
    "HTTP_PROXY": _NOWHERE,
    "HTTPS_PROXY": _NOWHERE,
    "NO_PROXY": "127.0.0.1",
}


class Foreign(NamedTuple):
    """Where a server listens, and how it is asked."""

    url: str
    model: str = "gpt-4o"
    prefix: str = "/v1"
    key: str = "sk-none"


def missing(reason: str) -> NoReturn:
    """Skip what needs servers of others; where they are demanded, fail."""
    if os.environ.get(DEMANDED):
        pytest.fail(reason)
    pytest.skip(_SKIPPED.format(reason))


def program(name: str) -> str:
    """Find a command of the environment."""
    return str(_installed() / "bin" / name)


def script(name: str) -> tuple[str, str]:
    """Find node, and a script of a package for it."""
    found, node = _installed() / "node_modules" / name, shutil.which("node")
    if node is None:
        missing("node is not on the PATH")
    return node, str(found)


def _installed() -> Path:
    if not (INSTALLED / ".ready").exists():
        missing(NONE_FOUND)
    return INSTALLED


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    folder: Path, port: int, *command: str, variables: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Start a server, wait until it listens, and end it; what it prints is kept in the folder."""
    known = {"PATH": os.environ["PATH"], "HOME": str(folder)} | _QUIET | dict(variables or {})
    printed = folder / "printed.txt"
    with (
        printed.open("wb") as output,
        subprocess.Popen(
            command, cwd=folder, env=known, stdout=output, stderr=subprocess.STDOUT
        ) as server,
    ):
        try:
            until(lambda: _listens(port) or server.poll() is not None)
            if server.poll() is not None:
                pytest.fail(f"{command[0]} ended: {printed.read_text('utf-8')[-_SHOWN:]}")
            yield f"http://127.0.0.1:{port}"
        finally:
            # They keep nothing, and some would first finish what they are asked to delay.
            server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
