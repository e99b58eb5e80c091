"""What guards every test can strike: the network, processes, hangs, and growth of work."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.timing import LINEAR, growth, steps, until, until_soon


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.invalid", 80)])
def test_a_test_cannot_connect_beyond_this_machine(address: tuple[str, int]) -> None:
    with socket.socket() as outgoing:
        for connect in (outgoing.connect, outgoing.connect_ex):
            with pytest.raises(RuntimeError, match="loopback only"):
                connect(address)


def test_a_local_socket_file_is_no_network(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as outgoing, pytest.raises(FileNotFoundError):
        outgoing.connect(str(tmp_path / "none"))


def test_a_test_without_the_mark_starts_no_process() -> None:
    with pytest.raises(RuntimeError, match=r"pytest\.mark\.processes"):
        subprocess.run([sys.executable], check=False)


def test_what_never_happens_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.timing._LOOKS", 2)
    until(lambda: True)
    with pytest.raises(AssertionError, match="never happened"):
        until(lambda: False)
    with pytest.raises(AssertionError, match="never happened"):
        asyncio.run(until_soon(lambda: False))


def test_work_that_grows_faster_than_its_input_is_found() -> None:
    def linear(size: int) -> None:
        for _ in range(size):
            pass

    def quadratic(size: int) -> None:
        for _ in range(size):
            linear(size)

    assert steps(lambda: linear(100)) == steps(lambda: linear(100)) > 100
    assert growth(linear, 200) < LINEAR < growth(quadratic, 200)
