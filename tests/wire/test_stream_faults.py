"""What a stream is instead of an answer, in words that can be shown."""

import json

import pytest

from surecall.values.errors import ErrorCode
from surecall.values.types import JSON
from surecall.wire.stream_faults import broken_off, holds_error, plain_fault, too_much, unreadable


@pytest.mark.parametrize(
    ("holder", "code", "status", "retryable"),
    [
        ({"error": {"code": 429, "message": "slow"}}, ErrorCode.RATE_LIMIT, 429, True),
        ({"error": {"code": "503"}}, ErrorCode.UPSTREAM_5XX, 503, True),
        ({"error": {"code": 408}}, ErrorCode.PROVIDER_ERROR, 408, True),
        ({"error": {"code": 401}}, ErrorCode.PROVIDER_ERROR, 401, False),
        ({"error": {"code": 200}}, ErrorCode.PROVIDER_ERROR, None, True),
        ({"error": "boom"}, ErrorCode.PROVIDER_ERROR, None, True),
        ({"object": "error", "message": "m", "code": 500}, ErrorCode.UPSTREAM_5XX, 500, True),
    ],
)
def test_an_error_is_read_by_its_status(
    holder: JSON,
    code: ErrorCode,
    status: int | None,
    retryable: bool,  # noqa: FBT001
) -> None:
    fault = plain_fault(holder)

    assert (fault.code, fault.status, fault.retryable) == (code, status, retryable)
    assert json.loads(fault.body) == holder


def test_an_error_with_half_a_character_can_be_written_down() -> None:
    fault = plain_fault({"error": {"message": "a\ud83d"}})

    assert fault.message == "a\ufffd"
    assert json.loads(fault.body.encode()) == {"error": {"message": "a\ufffd"}}


def test_only_some_faults_of_a_stream_are_worth_another_try() -> None:
    faults = (too_much("x"), unreadable(3), broken_off(in_call=True), broken_off(in_call=False))

    assert [fault.retryable for fault in faults] == [False, True, True, True]
    assert "3 of its events" in faults[1].message
    assert faults[2].message != faults[3].message


@pytest.mark.parametrize("holder", [{"object": "error"}, {"type": "error"}, {"error": ["x"]}])
def test_an_error_is_one_wherever_it_says_so(holder: JSON) -> None:
    assert holds_error(holder)
    assert not holds_error({"choices": [], "error": None})
