"""Digests are those that everybody else computes."""

from surecall.values.digests import sha256

# From FIPS 180-2, appendix B.1.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_digest_is_that_of_the_standard() -> None:
    assert sha256(b"abc").hex() == ABC
