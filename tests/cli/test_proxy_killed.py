"""A proxy that is killed takes only its open requests with it; the next one serves on."""

import http.client
import signal
import socket
import subprocess
import sys
import threading

import pytest

from surecall.testing import ScriptedProvider, calls, hangs
from tests.support.patience import PATIENCE_S, until
from tests.support.proxy import asked, post


def started(upstream: str, port: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "surecall", "proxy", "--upstream", upstream]
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("surecall proxy on")
    return process


@pytest.mark.processes
def test_after_a_kill_the_same_address_serves_again_and_nothing_is_asked_twice() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    seen: list[int | str] = []

    def ask() -> None:
        try:
            seen.append(post(url, asked().body).status)
        except (ConnectionError, http.client.HTTPException) as error:
            seen.append(type(error).__name__)

    script = (hangs(PATIENCE_S), calls("get_weather", city="Oslo"))
    with ScriptedProvider(*script) as upstream:
        first = started(upstream.url, port)
        client = threading.Thread(target=ask)
        client.start()
        until(lambda: upstream.requests)
        first.kill()
        client.join()
        first.communicate()
        assert seen == ["RemoteDisconnected"] or "Reset" in str(seen[0])
        assert len(upstream.requests) == 1

        second = started(upstream.url, port)
        got = post(url, asked().body)
        second.send_signal(signal.SIGINT)
        second.communicate()

    assert got.json["choices"][0]["finish_reason"] == "tool_calls"
    assert len(upstream.requests) == 2
    assert second.returncode == 130
