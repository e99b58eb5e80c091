"""No test leaves this machine."""

import socket
from pathlib import Path

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.invalid", 80)])
def test_a_test_cannot_connect_beyond_this_machine(address: tuple[str, int]) -> None:
    with socket.socket() as outgoing:
        for connect in (outgoing.connect, outgoing.connect_ex):
            with pytest.raises(RuntimeError, match="loopback only"):
                connect(address)


def test_a_local_socket_file_is_no_network(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as outgoing, pytest.raises(FileNotFoundError):
        outgoing.connect(str(tmp_path / "none"))
