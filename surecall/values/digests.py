"""Digests: a few bytes that stand for many. What computes them loads OpenSSL, so it is late."""


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 of some bytes."""
    import hashlib  # noqa: PLC0415 - see the module's first line

    return hashlib.sha256(data).digest()
