"""The rules of providers: what each wants, refuses and says."""

from typing import Any

import pytest

from surecall.simulator.request_checks import SIGNATURE_PLACEHOLDER
from surecall.simulator.seals import signature
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


def taking(schema: JSON) -> JSON:
    parameters = {"type": "object", "properties": {"a": schema}}
    return {"type": "function", "function": {"name": "ping", "parameters": parameters}}


UNTYPED = taking({})
NAMED: JSON = {"type": "function", "function": {"name": "ping"}}
OBJECT: JSON = {"type": "json_object"}
PARTS: JSON = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
NULL = request(USER, turn(call(), content=None), result())
THOUGHT = request(USER, turn(call(), reasoning_content=" "), result())
LONG = "x" * 41


def in_style(call_id: str, **extra: Any) -> JSON:
    """Build a conversation with one call, with everything that some provider asks for."""
    said = turn(call(call_id, **extra), reasoning_content="")
    return request(USER, said, result(call_id, name="ping"))


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("anthropic", request(USER, turn(call("toolu_01-A"), content=None), result("toolu_01-A"))),
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
        ("cerebras", request(USER, turn(call(), reasoning="So."), result())),
        ("azure", request(USER, turn(call("x" * 40)), result("x" * 40))),
        ("xai", LEGAL),
        ("sambanova", request(USER, tool_choice=NAMED)),
        ("nebius", LEGAL),
        ("deepinfra", request(USER, tool_choice="required")),
        ("moonshot", THOUGHT),
        ("moonshot", request(USER, tools=[taking({"anyOf": [{"type": "null"}]})])),
        ("zai", NULL),
        ("minimax", NULL),
        ("dashscope", request({"role": "user", "content": "As JSON."}, response_format=OBJECT)),
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
        ("anthropic", LEGAL, "content_blank"),
        ("bedrock", in_style("functions.ping:0"), "id_form"),
        ("bedrock", in_style("x" * 65), "id_long"),
        ("cerebras", in_style("call_1"), "field_unknown"),
        ("cerebras", request(USER, tool_choice=NAMED), "choice_refused"),
        ("azure", request(USER, turn(call(LONG)), result(LONG)), "id_long"),
        ("azure", in_style("call_1"), "field_unknown"),
        ("xai", NULL, "content_null"),
        ("xai", request(USER, presence_penalty=0), "option_refused"),
        ("sambanova", request(PARTS), "content_parts"),
        ("nebius", request({"role": "developer", "content": "x"}, USER), "role_unknown"),
        ("deepinfra", request(USER, tool_choice=NAMED), "choice_refused"),
        ("moonshot", in_style("functions.ping:0"), "reasoning_missing"),
        ("moonshot", NULL, "reasoning_missing"),
        ("moonshot", request(USER, tool_choice="required"), "choice_refused"),
        ("moonshot", request(USER, tools=[UNTYPED]), "tool_untyped"),
        (
            "moonshot",
            request(USER, tools=[taking({"type": "string", "anyOf": [{}]})]),
            "tool_any_of",
        ),
        ("zai", LEGAL, "content_blank"),
        ("zai", request({"role": "system", "content": "x"}), "user_missing"),
        ("zai", request(USER, tool_choice="required"), "choice_refused"),
        ("zai", request(USER, turn(call()), result(name="ping")), "field_unknown"),
        ("minimax", LEGAL, "content_blank"),
        ("minimax", request(USER, tools=[NAMED]), "tool_parameters"),
        ("dashscope", request(USER, tool_choice=NAMED), "choice_refused"),
        ("dashscope", request(USER, response_format=OBJECT), "format_word"),
        ("dashscope", request({"role": "developer", "content": "x"}, USER), "role_unknown"),
    ],
)
def test_a_provider_refuses_what_breaks_its_rules(provider: str, body: JSON, rule: str) -> None:
    assert rule in rules(body, provider)
