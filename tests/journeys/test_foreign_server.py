"""An evaluation against a server that other people wrote, over a wire that both claim to speak."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S, until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(name="url", scope="module")
def url_fixture() -> Iterator[str]:
    """Run llmock, a mock of several providers, in a process of its own."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("llmock")), "serve", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        until(lambda: is_open(port))
        yield f"http://127.0.0.1:{port}"
        server.terminate()


@pytest.mark.processes
def test_any_server_that_speaks_the_protocol_can_be_measured(url: str, tmp_path: Path) -> None:
    ours = ("SURECALL_", "OPENROUTER_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    asked = ["eval", "--base-url", url, "-m", "gpt-4o", "-n", "2", "--json", "-q"]
    ran = subprocess.run(
        [sys.executable, "-m", "surecall", *asked],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    document = json.loads(ran.stdout)

    assert (ran.returncode, "simulated" in ran.stderr) == (0, False)
    # It calls tools with made-up arguments and never says "Done.": heard, judged, and failed.
    assert document["recommendations"][0]["tool"] == {
        "k": 0,
        "n": 10,
        "rate": 0.0,
        "low": 0.0,
        "high": pytest.approx(0.278, abs=0.001),
    }
