"""The table of hostile requests."""

import zlib

from proof.hostile_requests import MIB, all_cases


def test_there_are_many_and_each_has_an_answer() -> None:
    cases = all_cases()
    assert len(cases) >= 60
    assert all(case.statuses for case in cases.values())
    assert {status for case in cases.values() for status in case.statuses} == {
        *(200, 400, 401, 403, 404, 405, 413, 415, 431, 501)
    }


def test_only_what_is_served_goes_on() -> None:
    assert all(case.sent == (case.statuses == (200,)) for case in all_cases().values())


def test_the_bomb_is_one() -> None:
    _, _, packed = all_cases()["packed: a bomb"].data.partition(b"\r\n\r\n")
    unpacked = zlib.decompressobj(31)
    assert len(unpacked.decompress(packed, 3 * MIB)) == 3 * MIB
    assert len(packed) < 2 * MIB
