"""Tests of `surecall.simulator.violations`."""

import pytest

from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.violations import (
    VIOLATION_MESSAGES,
    ProviderRules,
    Violation,
    refusal_response,
)
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON
from surecall.wire.response import parse_fault

# The words of refusals: every rule has some, and a provider may have its own


def test_every_provider_words_only_rules_that_exist() -> None:
    for each in PROVIDER_RULES.values():
        assert each.messages.keys() <= VIOLATION_MESSAGES.keys()


@pytest.mark.parametrize("rules", PROVIDER_RULES.values(), ids=lambda rules: rules.name)
def test_every_refusal_can_be_worded(rules: ProviderRules) -> None:
    for rule in VIOLATION_MESSAGES:
        said = rules.violation(rule, "messages[1]", "it")
        assert (said.rule, said.where) == (rule, "messages[1]")
        assert said.message
        assert "{" not in said.message.replace("{}", "")


def test_a_provider_speaks_for_itself_where_it_has_words() -> None:
    own, other = PROVIDER_RULES["zai"], PROVIDER_RULES["common"]

    assert own.violation("choice_refused", "x", "required").message == "Tool choice must be auto"
    assert "required" in other.violation("choice_refused", "x", "required").message


# The bodies of errors: each provider's own, and all of them are understood


def test_a_violation_is_refused_in_the_form_of_its_provider() -> None:
    form = Violation("id_form", "messages[1]", "bad id")
    order = Violation("user_after_tool", "messages[1]", "bad order")
    field = Violation("field_unknown", "messages[1]", "bad field")

    assert refusal_response(PROVIDER_RULES["openai"], form)[1]["error"]["message"] == "bad id"  # type: ignore[call-overload]  # an object here
    status, body = refusal_response(PROVIDER_RULES["gemini"], form)
    assert (status, body[0]["error"]["status"]) == (400, "INVALID_ARGUMENT")  # type: ignore[index]  # a list here
    assert refusal_response(PROVIDER_RULES["mistral"], form)[1]["code"] == "1000"  # type: ignore[call-overload]  # an object here
    assert refusal_response(PROVIDER_RULES["mistral"], order)[1]["code"] == "3230"  # type: ignore[call-overload]  # an object here
    assert refusal_response(PROVIDER_RULES["mistral"], field)[0] == 422


@pytest.mark.parametrize(
    ("provider", "rule", "body"),
    [
        (
            "cerebras",
            "field_unknown",
            {
                "message": "m",
                "type": "invalid_request_error",
                "param": "validation_error",
                "code": "wrong_api_format",
            },
        ),
        ("xai", "content_null", {"code": "Client specified an invalid argument", "error": "m"}),
        ("moonshot", "choice", {"error": {"message": "m", "type": "invalid_request_error"}}),
        ("zai", "user_missing", {"error": {"code": "1214", "message": "m"}}),
        ("zai", "content_blank", {"error": {"code": "1213", "message": "m"}}),
        ("zai", "choice_refused", {"error": {"code": "1210", "message": "m"}}),
        (
            "minimax",
            "content_blank",
            {
                "type": "error",
                "error": {"type": "bad_request_error", "message": "m (2013)", "http_code": "400"},
                "request_id": "060ddc5b11062bd3139dfc01ab8b68bd",
            },
        ),
        (
            "dashscope",
            "choice_refused",
            {
                "error": {
                    "message": "<400> InternalError.Algo.InvalidParameter: m",
                    "type": "invalid_request_error",
                    "param": None,
                    "code": "invalid_parameter_error",
                },
                "request_id": "060ddc5b11062bd3139dfc01ab8b68bd",
            },
        ),
    ],
)
def test_a_refusal_comes_in_its_providers_body_and_its_words_are_found(
    provider: str, rule: str, body: JSON
) -> None:
    refused = refusal_response(PROVIDER_RULES[provider], Violation(rule, "messages[1]", "m"))
    fault = parse_fault(body, 400, {}, 0.0)

    assert refused == (400, body)
    assert fault.message in {"m", "m (2013)", "<400> InternalError.Algo.InvalidParameter: m"}
    assert (fault.code, fault.retryable) == (ErrorCode.BAD_REQUEST, False)
