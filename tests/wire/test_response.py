"""Tests of `surecall.wire.response`."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON
from surecall.wire.response import (
    HINTS,
    KIND_STATUS,
    MAX_BODY_EXCERPT,
    MAX_MESSAGE_LENGTH,
    MAX_PROVIDER_NAME,
    STATUS_TABLE,
    classify_error,
    is_tool_support_error,
    parse_choice,
    parse_fault,
    retry_after,
)
from tests.support.spec import proves

# Envelopes: every way in which providers say that something went wrong ends in one typed fault


NOW = 1_700_000_000.0


def wrapped(**error: Any) -> JSON:
    return {"error": error}


def judged(body: Any, status: int | None = None, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return parse_fault(body, status, named, NOW)


@pytest.mark.parametrize(
    ("body", "code", "status", "retryable", "told"),
    [
        pytest.param(
            wrapped(code=429, message="slow down"), "RATE_LIMIT", 429, True, "slow down", id="top"
        ),
        pytest.param(
            [wrapped(code=400, message="bad", status="INVALID_ARGUMENT")],
            *("BAD_REQUEST", 400, False, "bad"),
            id="array",
        ),
        pytest.param(
            {"choices": [{"message": {}, "error": {"code": 502, "message": "gone"}}]},
            *("UPSTREAM_5XX", 502, True, "gone"),
            id="in-the-choice",
        ),
        pytest.param(
            {
                "choices": [
                    {"finish_reason": "error", "error": {"message": "x", "code": "server_error"}}
                ]
            },
            *("UPSTREAM_5XX", None, True, "x"),
            id="in-the-choice-by-kind",
        ),
        pytest.param(
            {"error": "model is loading"},
            "PROVIDER_ERROR",
            None,
            True,
            "model is loading",
            id="text",
        ),
        pytest.param(
            wrapped(code=200, message="odd"), "PROVIDER_ERROR", None, True, "odd", id="200"
        ),
        pytest.param({"error": True, "message": "m"}, "PROVIDER_ERROR", None, True, "m", id="flag"),
        pytest.param(
            {"error": [{"message": "m", "code": "401"}]}, "AUTH", 401, False, "m", id="list"
        ),
        pytest.param(
            {"object": "error", "message": "no such model", "type": "invalid_model", "code": 404},
            *("NOT_FOUND", 404, False, "no such model"),
            id="flat-mistral",
        ),
        pytest.param(
            {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
            *("UPSTREAM_5XX", None, True, "busy"),
            id="anthropic",
        ),
        pytest.param(
            wrapped(error_type="capacity_exhausted", http_status=429, message="full"),
            *("RATE_LIMIT", 429, True, "full"),
            id="http-status",
        ),
        pytest.param(
            wrapped(message="who are you", metadata={"error_type": "authentication"}),
            *("AUTH", 401, False, "who are you"),
            id="kind-alone",
        ),
        pytest.param(
            wrapped(code=404, message="No endpoints found that support tool use."),
            *("NO_TOOL_USE_ENDPOINT", 404, False, "tool use"),
            id="no-tools",
        ),
        pytest.param(
            wrapped(code="none", message=None),
            "PROVIDER_ERROR",
            None,
            True,
            "HTTP error",
            id="mute",
        ),
    ],
)
@proves("I4")
def test_an_error_inside_a_200_is_a_fault(
    body: Any, code: str, status: int | None, told: str, *, retryable: bool
) -> None:
    fault = parse_choice(body)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.status, fault.retryable) == (code, status, retryable)
    assert told in fault.message
    assert fault.body


@pytest.mark.parametrize("error", [None, "", {}, [], False])
def test_an_empty_error_beside_a_choice_is_none(error: object) -> None:
    choice = {"message": {"content": "hi"}, "error": error}
    assert parse_choice({"error": error, "choices": [choice]}) is choice


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": None, "choices": None, "model": None, "object": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": {"message": {}}},
    ],
)
def test_an_answer_without_choices_is_asked_for_again(body: Any) -> None:
    fault = parse_choice(body)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.retryable) == (ErrorCode.EMPTY_RESPONSE, True)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"data": {"choices": []}, "success": True}, "data, success"),
        ([], "list"),
        ("hello", "str"),
        (None, "NoneType"),
        ({"detail": "Not Found"}, "detail"),
    ],
)
def test_what_is_no_completion_is_named_and_not_asked_for_again(body: Any, named: str) -> None:
    fault = parse_choice(body)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.retryable) == (ErrorCode.DECODE_ERROR, False)
    assert f"(it has: {named})" in fault.message
    assert fault.hint == "Check base_url and api_prefix."


@pytest.mark.parametrize(
    ("native", "code"),
    [
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_CALL"),
        ("malformed_function_call", "MALFORMED_CALL"),
        ("OTHER", "PROVIDER_ERROR"),
        (None, "PROVIDER_ERROR"),
    ],
)
def test_a_generation_that_failed_is_tried_again(native: str | None, code: str) -> None:
    choice: JSON = {"finish_reason": "error", "native_finish_reason": native, "message": {}}
    fault = parse_choice({"choices": [choice]})
    assert isinstance(fault, Fault)
    assert (fault.code, fault.retryable) == (code, True)
    assert (native or "no reason given") in fault.message


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("upstream is on fire", "upstream is on fire"),
        ('{"error":{"message":"too hot"}}', "too hot"),
        ('[{"error":{"message":"too hot"}}]', "too hot"),
        ('{"error":"too hot"}', "too hot"),
        ('{"message":"too hot"}', "too hot"),
        ({"error": {"message": "too hot"}}, "too hot"),
        ({"code": 7}, '{"code":7}'),
        ('"quoted"', '"quoted"'),
        ("[" * 9_999, "[[[["),
        ("<html>502</html>", "Provider returned error"),
        ({}, "Provider returned error"),
        (None, "Provider returned error"),
        (7, "Provider returned error"),
    ],
)
def test_upstreams_own_words_are_found_in_whatever_holds_them(raw: Any, told: str) -> None:
    metadata = {"raw": raw, "provider_name": "BaseTen", "remedy_hint": "Bring your own key."}
    fault = judged(wrapped(message="Provider returned error", code=400, metadata=metadata))
    assert told in fault.message
    assert (fault.provider, fault.hint) == ("BaseTen", "Bring your own key.")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"detail": "Method Not Allowed"}, "Method Not Allowed"),
        ({"detail": [{"loc": ["body"], "msg": "required"}]}, '"msg":"required"'),
        ({"message": "no"}, "no"),
        ({"errors": [{"message": "code 7"}], "success": False}, "code 7"),
        ("Bad Gateway", "Bad Gateway"),
        ("<!DOCTYPE html><p>nginx", "an HTML page instead of JSON"),
        ("", "HTTP 418"),
        (None, "HTTP 418"),
        (7, "HTTP 418"),
        ({"error": " "}, "HTTP 418"),
    ],
)
@proves("C111")
def test_a_bad_status_is_a_fault_with_the_bodys_words(body: Any, told: str) -> None:
    fault = judged(body, 418)
    assert told in fault.message
    assert (fault.status, fault.code, fault.retryable) == (418, "PROVIDER_ERROR", False)


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        *((status, row[0], row[1]) for status, row in STATUS_TABLE.items()),
        (307, "NOT_FOUND", False),
        (418, "PROVIDER_ERROR", False),
        (500, "UPSTREAM_5XX", True),
        (503, "UPSTREAM_5XX", True),
        (529, "UPSTREAM_5XX", True),
        (999, "PROVIDER_ERROR", False),
    ],
)
def test_a_status_decides_code_and_retry(status: int, code: str, *, retryable: bool) -> None:
    fault = judged({}, status)
    assert (fault.code, fault.retryable) == (code, retryable)


@pytest.mark.parametrize(
    ("status", "error", "code", "retryable"),
    [
        (429, {"type": "insufficient_quota"}, "PAYMENT_REQUIRED", False),
        (400, {"code": "context_length_exceeded"}, "CONTEXT_TOO_LONG", False),
        (
            400,
            {"message": "This model's maximum context length is 8 tokens"},
            "CONTEXT_TOO_LONG",
            False,
        ),
        (400, {"code": "content_filter"}, "CONTENT_POLICY", False),
        (403, {"metadata": {"reasons": ["violence"]}}, "CONTENT_POLICY", False),
        (403, {"metadata": {"patterns": ["ssn"]}}, "CONTENT_POLICY", False),
        (403, {"message": "SAFETY_CHECK_TYPE_BIO"}, "CONTENT_POLICY", False),
        (403, {"message": "region"}, "FORBIDDEN", False),
        (429, {"metadata": {"reasons": ["busy"]}}, "RATE_LIMIT", True),
        (400, {"code": "tool_use_failed", "failed_generation": "<f>"}, "MALFORMED_CALL", True),
        (500, {"metadata": {"error_type": "timeout"}}, "TIMEOUT", True),
        (
            400,
            {"message": '"auto" tool choice requires --enable-auto-tool-choice'},
            "NO_TOOL_USE_ENDPOINT",
            False,
        ),
        (500, {"message": "tools param requires --jinja flag"}, "UPSTREAM_5XX", True),
    ],
)
def test_what_the_body_calls_it_counts_more_than_the_status(
    status: int, error: JSON, code: str, *, retryable: bool
) -> None:
    fault = judged({"error": error}, status)
    assert (fault.code, fault.retryable, fault.status) == (code, retryable, status)


def test_every_kind_that_stands_for_a_status_is_judged_like_it() -> None:
    for kind, status in KIND_STATUS.items():
        by_kind, by_status = judged(wrapped(type=kind)), judged({}, status)
        assert (by_kind.code, by_kind.retryable) == (by_status.code, by_status.retryable), kind
        assert by_kind.status == status


@pytest.mark.parametrize(
    "kind", ["max_tokens_exceeded", "string_too_long", "precondition_failed", "invalid_prompt"]
)
def test_a_request_that_is_wrong_itself_is_not_sent_again(kind: str) -> None:
    assert not judged(wrapped(metadata={"error_type": kind})).retryable


def test_a_gateway_that_blames_its_upstream_is_asked_again() -> None:
    assert classify_error(400, [], "Upstream request failed")[:2] == (ErrorCode.UPSTREAM_5XX, True)


def test_what_one_can_do_about_it_is_said_however_it_was_found() -> None:
    assert classify_error(429, ["insufficient_quota"], "")[2] == "Add credit to the account."
    assert classify_error(400, [], "context window")[2] == HINTS[ErrorCode.CONTEXT_TOO_LONG]
    assert classify_error(None, ["server_error"], "")[2] is None


def test_what_moderation_flagged_is_not_kept() -> None:
    metadata = {"reasons": ["x"], "flagged_input": "my private words", "provider_name": "OpenAI"}
    fault = judged(wrapped(code=403, message="flagged", metadata=metadata), 403)
    assert "private" not in str(fault) + fault.body
    assert json.loads(fault.body)["error"]["metadata"]["reasons"] == ["x"]


@pytest.mark.parametrize(
    ("message", "about_tools"),
    [
        ("No endpoints found that support tool use", True),
        ("Function calling is not enabled for this model", True),
        ("does not support images", False),
        ("Unsupported parameter: 'parallel_tool_calls' is not supported with this model", False),
        ("messages with role 'tool' must follow a call", False),
    ],
)
def test_a_refusal_of_tools_is_told_from_other_complaints(
    message: str, *, about_tools: bool
) -> None:
    assert is_tool_support_error(message) is about_tools


# The envelope: no header, no JSON value and no hostile one makes it raise


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
        read = parse_choice(body)
        assert isinstance(read, dict | Fault)
        assert bounded(parse_fault(body, status, {}, NOW))


def bounded(fault: Fault) -> bool:
    shown = (fault.message, fault.hint or "", fault.provider or "")
    return len(fault.body) <= MAX_BODY_EXCERPT and all(
        len(text) <= MAX_MESSAGE_LENGTH for text in shown
    )


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
    assert fault.provider is None or len(fault.provider) == MAX_PROVIDER_NAME


def test_what_cannot_be_quoted_is_said_to_be_so() -> None:
    assert judged({"error": {"message": "x", "y": "\ud800"}}).body == "(body cannot be displayed)"
