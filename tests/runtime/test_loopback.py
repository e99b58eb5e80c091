"""Addresses of this machine."""

import pytest

from surecall.runtime.loopback import is_address, is_loopback, split_host


def test_loopback_is_known_by_every_spelling() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("local host", "192.168.1.5", "::", "example.org", "")))


def test_an_address_is_told_from_a_name() -> None:
    assert is_address("10.0.0.1")
    assert not is_address("10.0.0.1.example.org")


@pytest.mark.parametrize(
    ("host", "name", "port"),
    [
        ("localhost:80", "localhost", 80),
        ("LocalHost", "localhost", 80),
        ("[::1]:8089", "::1", 8089),
        ("[::1]", "::1", 80),
        ("a:", "a", 0),
        ("a:b", "a", 0),
        ("a:٣", "a", 0),
        ("", "", 80),
    ],
)
def test_a_host_is_split_into_name_and_port(host: str, name: str, port: int) -> None:
    assert split_host(host) == (name, port)
