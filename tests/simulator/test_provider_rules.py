"""The rules of providers: what each wants, refuses and says."""

from typing import Any

import pytest

from surecall.simulator.request_checks import SIGNATURE_PLACEHOLDER, signature
from surecall.values.types import JSON
from tests.support.simulator import (
    LEGAL,
    OWN_ID,
    USER,
    broken_rules,
    checked_request,
    ping_call,
    ping_turn,
    pong,
    signed,
)


def taking(schema: JSON) -> JSON:
    parameters = {"type": "object", "properties": {"a": schema}}
    return {"type": "function", "function": {"name": "ping", "parameters": parameters}}


UNTYPED = taking({})
NAMED: JSON = {"type": "function", "function": {"name": "ping"}}
OBJECT: JSON = {"type": "json_object"}
PARTS: JSON = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
NULL = checked_request(USER, ping_turn(ping_call(), content=None), pong())
THOUGHT = checked_request(USER, ping_turn(ping_call(), reasoning_content=" "), pong())
LONG = "x" * 41


def in_style(call_id: str, **extra: Any) -> JSON:
    """Build a conversation with one call, with everything that some provider asks for."""
    said = ping_turn(ping_call(call_id, **extra), reasoning_content="")
    return checked_request(USER, said, pong(call_id, name="ping"))


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        (
            "anthropic",
            checked_request(
                USER, ping_turn(ping_call("toolu_01-A"), content=None), pong("toolu_01-A")
            ),
        ),
        ("deepseek", in_style("call_1")),
        ("gemini", in_style(OWN_ID, **signed(signature("abc")))),
        ("gemini", in_style("call_1", **signed(SIGNATURE_PLACEHOLDER))),
        ("kimi", in_style("functions.ping:0")),
        ("mistral", checked_request(USER, ping_turn(ping_call("Ab3dEf6hI")), pong("Ab3dEf6hI"))),
        ("openai", LEGAL),
        ("ollama", LEGAL),
        ("bedrock", checked_request(USER, ping_turn(ping_call(), content=None), pong())),
        ("groq", LEGAL),
        ("cerebras", LEGAL),
        ("cerebras", checked_request(USER, ping_turn(ping_call(), reasoning="So."), pong())),
        ("azure", checked_request(USER, ping_turn(ping_call("x" * 40)), pong("x" * 40))),
        ("xai", LEGAL),
        ("sambanova", checked_request(USER, tool_choice=NAMED)),
        ("nebius", LEGAL),
        ("deepinfra", checked_request(USER, tool_choice="required")),
        ("moonshot", THOUGHT),
        ("moonshot", checked_request(USER, tools=[taking({"anyOf": [{"type": "null"}]})])),
        ("zai", NULL),
        ("minimax", NULL),
        (
            "dashscope",
            checked_request({"role": "user", "content": "As JSON."}, response_format=OBJECT),
        ),
        ("no-required", checked_request(USER, tool_choice="auto")),
    ],
)
def test_a_provider_accepts_what_it_wants(provider: str, body: JSON) -> None:
    assert broken_rules(body, provider) == []


@pytest.mark.parametrize(
    ("provider", "body", "rule"),
    [
        ("anthropic", in_style("functions.ping:0"), "id_form"),
        ("mistral", checked_request(USER, ping_turn(ping_call()), pong()), "id_form"),
        ("mistral", LEGAL, "user_after_tool"),
        (
            "mistral",
            checked_request(USER, ping_turn(ping_call(), reasoning="x"), pong()),
            "field_unknown",
        ),
        (
            "openai",
            checked_request(USER, ping_turn(ping_call(), reasoning_content=""), pong()),
            "field_unknown",
        ),
        ("groq", checked_request(USER, ping_turn(ping_call()), pong(extra=1)), "field_unknown"),
        ("deepseek", LEGAL, "reasoning_missing"),
        ("deepseek", checked_request(USER, tool_choice="required"), "choice_refused"),
        ("no-required", checked_request(USER, tool_choice="required"), "choice_refused"),
        ("gemini", in_style(OWN_ID), "signature_missing"),
        ("gemini", in_style(OWN_ID, **signed("abc.def")), "signature_corrupt"),
        ("gemini", checked_request(USER, ping_turn(ping_call()), pong()), "result_name"),
        ("gemini", checked_request(USER, parallel_tool_calls=False), "option_refused"),
        ("kimi", in_style("functions.pong:0"), "id_form"),
        ("kimi", in_style("call_1"), "id_form"),
        (
            "ollama",
            checked_request(USER, ping_turn(ping_call(), content=None), pong()),
            "content_null",
        ),
        ("bedrock", LEGAL, "content_blank"),
        ("cerebras", checked_request(USER, parallel_tool_calls=False), "option_refused"),
        ("llama_cpp", checked_request(USER, tools=[UNTYPED]), "tool_untyped"),
        ("anthropic", LEGAL, "content_blank"),
        ("bedrock", in_style("functions.ping:0"), "id_form"),
        ("bedrock", in_style("x" * 65), "id_long"),
        ("cerebras", in_style("call_1"), "field_unknown"),
        ("cerebras", checked_request(USER, tool_choice=NAMED), "choice_refused"),
        ("azure", checked_request(USER, ping_turn(ping_call(LONG)), pong(LONG)), "id_long"),
        ("azure", in_style("call_1"), "field_unknown"),
        ("xai", NULL, "content_null"),
        ("xai", checked_request(USER, presence_penalty=0), "option_refused"),
        ("sambanova", checked_request(PARTS), "content_parts"),
        ("nebius", checked_request({"role": "developer", "content": "x"}, USER), "role_unknown"),
        ("deepinfra", checked_request(USER, tool_choice=NAMED), "choice_refused"),
        ("moonshot", in_style("functions.ping:0"), "reasoning_missing"),
        ("moonshot", NULL, "reasoning_missing"),
        ("moonshot", checked_request(USER, tool_choice="required"), "choice_refused"),
        ("moonshot", checked_request(USER, tools=[UNTYPED]), "tool_untyped"),
        (
            "moonshot",
            checked_request(USER, tools=[taking({"type": "string", "anyOf": [{}]})]),
            "tool_any_of",
        ),
        ("zai", LEGAL, "content_blank"),
        ("zai", checked_request({"role": "system", "content": "x"}), "user_missing"),
        ("zai", checked_request(USER, tool_choice="required"), "choice_refused"),
        ("zai", checked_request(USER, ping_turn(ping_call()), pong(name="ping")), "field_unknown"),
        ("minimax", LEGAL, "content_blank"),
        ("minimax", checked_request(USER, tools=[NAMED]), "tool_parameters"),
        ("dashscope", checked_request(USER, tool_choice=NAMED), "choice_refused"),
        ("dashscope", checked_request(USER, response_format=OBJECT), "format_word"),
        ("dashscope", checked_request({"role": "developer", "content": "x"}, USER), "role_unknown"),
    ],
)
def test_a_provider_refuses_what_breaks_its_rules(provider: str, body: JSON, rule: str) -> None:
    assert rule in broken_rules(body, provider)
