"""Addresses of this machine, as a server and its clients write them."""

import ipaddress
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_HTTP_PORT: Final = 80


def split_host(host: str) -> tuple[str, int]:
    """Split what a `Host` header says into name and port."""
    name, colon, digits = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, digits = host, str(_HTTP_PORT)
    port = int(digits) if digits.isascii() and digits.isdigit() else 0
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name.lower(), port


def is_address(name: str) -> bool:
    """Whether this is an address, not a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach a server on this host."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
