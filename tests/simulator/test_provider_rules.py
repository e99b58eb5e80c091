"""The rules of providers: what each wants, refuses and says."""

from typing import Any

import pytest

from surecall.simulator.error_bodies import refusal
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import (
    SIGNATURE_PLACEHOLDER,
    signature,
)
from surecall.simulator.violations import WORDING, Violation
from surecall.values.types import JSON
from tests.simulator.test_request_checks import (
    LEGAL,
    OWN,
    USER,
    call,
    request,
    result,
    rules,
    signed,
    turn,
)

UNTYPED: JSON = {
    "type": "function",
    "function": {"name": "ping", "parameters": {"type": "object", "properties": {"a": {}}}},
}


def in_style(call_id: str, **extra: Any) -> JSON:
    """Build a conversation with one call, with everything that some provider asks for."""
    said = turn(call(call_id, **extra), reasoning_content="")
    return request(USER, said, result(call_id, name="ping"))


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("anthropic", in_style("toolu_01-A")),
        ("deepseek", in_style("call_1")),
        ("gemini", in_style(OWN, **signed(signature("abc")))),
        ("gemini", in_style("call_1", **signed(SIGNATURE_PLACEHOLDER))),
        ("kimi", in_style("functions.ping:0")),
        ("mistral", request(USER, turn(call("Ab3dEf6hI")), result("Ab3dEf6hI"))),
        ("openai", LEGAL),
        ("ollama", LEGAL),
        ("bedrock", request(USER, turn(call(), content=None), result())),
        ("groq", LEGAL),
        ("cerebras", LEGAL),
        ("no-required", request(USER, tool_choice="auto")),
    ],
)
def test_a_provider_accepts_what_it_wants(provider: str, body: JSON) -> None:
    assert rules(body, provider) == []


@pytest.mark.parametrize(
    ("provider", "body", "rule"),
    [
        ("anthropic", in_style("functions.ping:0"), "id_form"),
        ("mistral", request(USER, turn(call()), result()), "id_form"),
        ("mistral", LEGAL, "user_after_tool"),
        ("mistral", request(USER, turn(call(), reasoning="x"), result()), "field_unknown"),
        ("openai", request(USER, turn(call(), reasoning_content=""), result()), "field_unknown"),
        ("groq", request(USER, turn(call()), result(extra=1)), "field_unknown"),
        ("deepseek", LEGAL, "reasoning_missing"),
        ("deepseek", request(USER, tool_choice="required"), "choice_refused"),
        ("no-required", request(USER, tool_choice="required"), "choice_refused"),
        ("gemini", in_style(OWN), "signature_missing"),
        ("gemini", in_style(OWN, **signed("abc.def")), "signature_corrupt"),
        ("gemini", request(USER, turn(call()), result()), "result_name"),
        ("gemini", request(USER, parallel_tool_calls=False), "option_refused"),
        ("kimi", in_style("functions.pong:0"), "id_form"),
        ("kimi", in_style("call_1"), "id_form"),
        ("ollama", request(USER, turn(call(), content=None), result()), "content_null"),
        ("bedrock", LEGAL, "content_blank"),
        ("cerebras", request(USER, parallel_tool_calls=False), "option_refused"),
        ("llama_cpp", request(USER, tools=[UNTYPED]), "tool_untyped"),
    ],
)
def test_a_provider_refuses_what_breaks_its_rules(provider: str, body: JSON, rule: str) -> None:
    assert rule in rules(body, provider)


def test_a_violation_is_refused_in_the_form_of_its_provider() -> None:
    form = Violation("id_form", "messages[1]", "bad id")
    order = Violation("user_after_tool", "messages[1]", "bad order")
    field = Violation("field_unknown", "messages[1]", "bad field")

    assert refusal(PROVIDER_RULES["openai"], form)[1]["error"]["message"] == "bad id"  # type: ignore[call-overload]  # an object here
    status, body = refusal(PROVIDER_RULES["gemini"], form)
    assert (status, body[0]["error"]["status"]) == (400, "INVALID_ARGUMENT")  # type: ignore[index]  # a list here
    assert refusal(PROVIDER_RULES["mistral"], form)[1]["code"] == "1000"  # type: ignore[call-overload]  # an object here
    assert refusal(PROVIDER_RULES["mistral"], order)[1]["code"] == "3230"  # type: ignore[call-overload]  # an object here
    assert refusal(PROVIDER_RULES["mistral"], field)[0] == 422


def test_every_provider_words_only_rules_that_exist() -> None:
    for each in PROVIDER_RULES.values():
        assert each.words.keys() <= WORDING.keys()
