"""The answer as a whole: what it repeats, what it cost, why it failed."""

from typing import Any

import pytest

from surecall.proxy.faces.face import Failure
from surecall.proxy.faces.responses.answer import answer, ended, error, failed
from surecall.values.types import JSON
from tests.support.responses import ADD, HEAD, ask

START = answer(ask(temperature=0, tools=[ADD], metadata=None), HEAD, "in_progress", [])


def test_an_answer_repeats_its_request() -> None:
    assert (START["id"], START["model"], START["created_at"]) == (
        *("resp_chatcmpl-7", "m", 1_700_000_000),
    )
    assert (START["temperature"], START["top_p"], START["metadata"]) == (0, None, {})
    assert (START["tools"], START["tool_choice"], START["parallel_tool_calls"]) == (
        *([ADD], "auto", True),
    )


def test_an_answer_without_a_model_has_that_of_the_request() -> None:
    assert answer(ask(), {"id": "7"}, "failed", [])["model"] == "m"
    assert answer(ask(model=None), {"id": "7"}, "failed", [])["model"] == ""


def test_usage_is_counted_in_the_words_of_the_api() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }

    assert ended(START, {"usage": usage}, None)["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 9,
    }


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "prompt_tokens_details": 1}])
def test_what_was_not_counted_is_zero(usage: Any) -> None:
    found = ended(START, {"usage": usage}, None)["usage"]

    assert (found["input_tokens"], found["output_tokens"], found["total_tokens"]) == (0, 0, 0)
    assert found["input_tokens_details"]["cached_tokens"] == 0


def test_a_total_that_is_missing_is_added_up() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 3}

    assert ended(START, {"usage": usage}, None)["usage"]["total_tokens"] == 8


def test_an_answer_says_how_it_ended() -> None:
    whole = ended(START, {"service_tier": "flex"}, None)
    cut = ended(START, {}, "max_output_tokens")

    assert (whole["status"], whole["incomplete_details"]) == ("completed", None)
    assert whole["service_tier"] == "flex"
    assert (cut["status"], cut["incomplete_details"]) == (
        *("incomplete", {"reason": "max_output_tokens"}),
    )


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure(400, "m", "BAD_REQUEST"), "invalid_prompt"),
        (Failure(400, "m", "CONTEXT_TOO_LONG"), "context_length_exceeded"),
        (Failure(402, "m", "PAYMENT_REQUIRED"), "insufficient_quota"),
        (Failure(408, "m", "TIMEOUT"), "server_error"),
        (Failure(429, "m", "slow_down"), "rate_limit_exceeded"),
        (Failure(502, "m", "UPSTREAM_5XX"), "server_error"),
    ],
)
def test_a_failure_has_a_code_that_clients_act_upon(failure: Failure, code: str) -> None:
    found = failed(START, failure)

    assert found["status"] == "failed"
    assert found["error"] == {"code": code, "message": "m", "param": None, "type": failure.code}


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (
            Failure(400, "m", "unsupported", "input[0]"),
            {"type": "invalid_request_error", "param": "input[0]", "code": "unsupported"},
        ),
        (
            Failure(429, "m", "RATE_LIMIT"),
            {"type": "invalid_request_error", "param": None, "code": "rate_limit_exceeded"},
        ),
        (
            Failure(502, "m", "UPSTREAM_5XX"),
            {"type": "server_error", "param": None, "code": "UPSTREAM_5XX"},
        ),
    ],
)
def test_an_error_is_the_whole_answer(failure: Failure, expected: JSON) -> None:
    assert error(failure) == {"error": {"message": "m"} | expected}
