"""Laws of the envelope: no header, no JSON value and no hostile one makes it raise."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.errors import Fault
from surecall.values.types import JSON
from surecall.wire.response import MAX_BODY, MAX_NAME, MAX_QUOTE, fault_of, read_choice, retry_after
from tests.support.spec import proves

NOW = 1_700_000_000.0
WORDS = st.text(st.characters(exclude_categories=()), max_size=8)
KEYS = WORDS | st.sampled_from(
    (
        *("error", "errors", "choices", "code", "message", "metadata", "raw", "availability"),
        *("detail", "object", "type", "finish_reason", "retry_after", "status", "error_type"),
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.just("error"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)


def wrapped(**error: Any) -> JSON:
    return {"error": error}


def judged(body: Any, status: int | None = None, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return fault_of(body, status, named, NOW)


@pytest.mark.parametrize(
    ("availability", "headers", "retryable", "wait"),
    [
        ({"retryable": True, "retry_after": 7}, {}, True, 7.0),
        ({"retryable": True, "retry_after": 10**400}, {}, True, 1e30),
        ({"retryable": True, "retry_after": -(10**400)}, {}, True, 0.0),
        ({"retryable": False}, {}, False, None),
        ({"retryable": "yes", "retry_after": True}, {}, True, None),
        ({"retryable": True, "retry_after": 7}, {"retry_after": "9"}, True, 9.0),
        ({"retryable": True}, {"x_should_retry": "false"}, False, None),
        ({}, {"x_should_retry": "maybe"}, True, None),
        ("soon", {}, True, None),
    ],
)
def test_the_advice_of_whoever_answered_is_taken(
    availability: Any, headers: dict[str, str], wait: float | None, *, retryable: bool
) -> None:
    fault = judged(wrapped(http_status=503, availability=availability), None, **headers)
    assert (fault.retryable, fault.retry_after) == (retryable, wait)


def test_a_server_may_ask_to_be_tried_again_or_not() -> None:
    assert judged({}, 400, x_should_retry="true").retryable
    assert not judged({}, 500, x_should_retry="false").retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-10"}, 0.0),
        ({"retry-after": "9" * 30}, 1e30),
        ({"retry-after": "9" * 400}, 1e30),
        ({"retry-after": "1e999"}, 1e30),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "7, 7"}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:10 GMT"}, 0.0),
        ({"retry-after": "Tue, 14 Nov 2023 99:13:10 GMT"}, None),
        ({"retry-after": "Tue, 14 Nov 99999 22:13:10 GMT"}, None),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"}, 0.0),
    ],
)
@proves("G11")
def test_retry_after_is_read_in_three_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_a_date_without_a_zone_is_in_gmt_wherever_the_machine_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert retry_after({"retry-after": "Tue, 14 Nov 2023 22:13:50"}, NOW) == 30.0
    time.tzset()


@given(st.text(), st.text())
@proves("G8")
def test_no_header_makes_the_reader_raise(given: str, milliseconds: str) -> None:
    seconds = retry_after({"retry-after": given, "retry-after-ms": milliseconds}, NOW)
    assert seconds is None or 0 <= seconds < float("inf")


@given(VALUES, st.none() | st.integers(100, 599))
@proves("G8")
def test_no_json_value_makes_the_envelope_raise(value: Any, status: int | None) -> None:
    for body in (
        value,
        {"error": value},
        {"choices": [{"error": value}]},
        {"error": {"code": value}},
    ):
        read = read_choice(body)
        assert isinstance(read, dict | Fault)
        assert bounded(fault_of(body, status, {}, NOW))


def bounded(fault: Fault) -> bool:
    shown = (fault.message, fault.hint or "", fault.provider or "")
    return len(fault.body) <= MAX_BODY and all(len(text) <= MAX_QUOTE for text in shown)


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"error": [value], "metadata": value}
    return value


@pytest.mark.parametrize(
    "hostile",
    [
        "x" * 1_000_000,
        " " * 1_000_000,
        nested(5_000),
        "\ud800" * 10,
        10**5_000,
        -1,
        True,
        429.0,
        float("nan"),
        {"raw": "[" * 100_000, "provider_name": "p" * 9_999, "remedy_hint": "h" * 9_999},
        ["x"] * 100_000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_hostile_values_stay_bounded_and_harmless(hostile: Any) -> None:
    keys = ("code", "message", "type", "metadata", "availability", "status")
    for body in ({"error": hostile}, [hostile], hostile, {"choices": [hostile]}, {"x": hostile}):
        assert bounded(judged(body, 500))
    fault = judged({"error": dict.fromkeys(keys, hostile)})
    assert bounded(fault)
    assert fault.status is None
    assert fault.provider is None or len(fault.provider) == MAX_NAME


def test_what_cannot_be_quoted_is_said_to_be_so() -> None:
    assert (
        judged({"error": {"message": "x", "y": "\ud800"}}).body == "(a body that cannot be shown)"
    )
