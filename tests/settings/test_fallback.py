"""A model that goes on where another failed: what it may be given, and what it is there for."""

from typing import Any

import pytest

from surecall import ConfigError, ErrorCode, Fallback
from surecall.settings.fallback import (
    CONVERSATION_CODES,
    DEFAULT_CODES,
    OPT_IN_CODES,
    UNAVAILABLE_CODES,
)


def test_it_is_a_name_and_everything_else_has_a_default() -> None:
    link = Fallback("b")

    assert (link.model, link.provider, link.client) == ("b", "", None)
    assert link.reasons == DEFAULT_CODES


def test_the_failures_of_an_endpoint_and_of_one_conversation_are_apart() -> None:
    assert not UNAVAILABLE_CODES & CONVERSATION_CODES
    assert not DEFAULT_CODES & OPT_IN_CODES


@pytest.mark.parametrize("code", ["CONTENT_POLICY", "BAD_REQUEST", "EMPTY_FINAL"])
def test_some_failures_are_a_reason_only_if_the_application_says_so(code: str) -> None:
    assert ErrorCode[code] not in Fallback("b").reasons
    assert Fallback("b", on=[code]).reasons == {ErrorCode[code]}
    assert Fallback("b", on={ErrorCode[code]}).reasons == {ErrorCode[code]}


@pytest.mark.parametrize(
    "code", ["DEADLINE_EXCEEDED", "CONTRACT_UNMET", "MAX_TURNS_EXCEEDED", "POLICY_ERROR", "GAVE_UP"]
)
def test_what_the_run_itself_forbids_is_no_reason(code: str) -> None:
    with pytest.raises(ConfigError, match=f"{code} cannot trigger a fallback"):
        Fallback("b", on={code})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"model": " "}, "model is blank"),
        ({"model": 7}, "model must be a name or a Fallback, not int"),
        ({"model": "b", "provider": 7}, "provider must be a name"),
        ({"model": "b", "on": "RATE_LIMIT"}, "on must be a set of codes"),
        ({"model": "b", "on": 429}, "on must be a set of codes"),
        ({"model": "b", "on": {"RATE_LIMITS"}}, 'did you mean "RATE_LIMIT"'),
        ({"model": "b", "rest_s": -1}, "rest_s must be a number of seconds"),
        ({"model": "b", "rest_s": "1"}, "rest_s must be a number of seconds"),
        ({"model": "b", "options": {"messages": []}}, "cannot set messages"),
    ],
)
def test_a_mistake_is_found_when_it_is_written(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Fallback(**given)


def test_a_provider_has_one_spelling_and_its_address_is_not_printed() -> None:
    link = Fallback("b", client="http://127.0.0.1:9?key=sk-secret", provider="Mistral AI")

    assert link.provider == "mistral"
    assert repr(link) == "Fallback('b')"
