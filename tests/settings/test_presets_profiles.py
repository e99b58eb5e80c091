"""Wire profiles: what particular endpoints demand of a history, and get."""

import asyncio
from typing import Any

import pytest

from surecall import (
    ConfigError,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    presets,
    replay,
    tool,
)
from surecall.settings.presets import raw
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check_request
from surecall.testing import Item, ScriptedModel, calls, calls_many, says
from surecall.wire.chat_format import short_id


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


def messages_sent(config: ToolCallingConfig, *script: Item, **settings: Any) -> list[Any]:
    """Run a script and return the messages of the last request."""
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model, model="m", registry=ToolRegistry([ping]), config=config, **settings
    )
    result = asyncio.run(runner.run("Go."))
    assert replay(result.trace).run == result.run
    sent: list[Any] = model.requests[-1]["messages"]
    return sent


MISTRAL = presets.provider_defaults("mistral")


def test_mistral_gets_ids_of_nine_letters_and_digits_that_match() -> None:
    _, said, result = messages_sent(MISTRAL, calls("ping", "call_abc-1"), says("ok"))

    (call,) = said["tool_calls"]
    assert len(call["id"]) == 9
    assert call["id"].isalnum()
    assert result["tool_call_id"] == call["id"]
    assert result["name"] == "ping"


def test_an_id_that_mistral_made_itself_stays_and_a_repeated_one_does_not() -> None:
    script = (calls("ping", "Ab3dEf6hI"), calls("ping", "Ab3dEf6hI"), says("ok"))
    sent = messages_sent(MISTRAL, *script)

    ids = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    assert ids[0] == "Ab3dEf6hI"
    assert len(set(ids)) == 2
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ids


def test_mistral_never_sees_a_user_right_after_a_tool() -> None:
    sent = messages_sent(MISTRAL, calls("ping"), says(""), says("ok"))

    roles = [message["role"] for message in sent]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[3]["content"]


def test_others_get_ids_and_order_as_they_are() -> None:
    config = presets.provider_defaults("openai")
    sent = messages_sent(config, calls("ping", "call_abc-1"), says(""), says("ok"))

    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user"]
    assert sent[2]["tool_call_id"] == "call_abc-1"
    assert "name" not in sent[2]


def test_gemini_gets_the_name_of_the_tool_with_its_result() -> None:
    sent = messages_sent(presets.provider_defaults("gemini"), calls("ping"), says("ok"))

    assert sent[2]["name"] == "ping"


def test_mistral_behind_a_router_is_known_by_its_model() -> None:
    config = presets.resolve(provider="openrouter", model="mistralai/mistral-small-3.2")

    assert config.endpoint.short_call_ids


def test_native_ids_of_kimi_are_kept() -> None:
    config = presets.resolve(provider="openrouter", model="moonshotai/kimi-k2.5")
    two = calls_many(calls("ping", "functions.ping:0"), calls("ping", "functions.ping:1"))
    sent = messages_sent(config.replace(max_tool_calls_per_turn=2), two, says("ok"))

    assert [message["tool_call_id"] for message in sent[2:]] == [
        "functions.ping:0",
        "functions.ping:1",
    ]


@pytest.mark.parametrize("given", ["", "x", "call_123", "äöüäöüäöü", "\ud83c", "1234567890"])
def test_a_short_id_is_short_whatever_was_given(given: str) -> None:
    assert len(short_id(given)) == 9
    assert short_id(given).isascii()
    assert short_id(given).isalnum()
    assert short_id(given) == short_id(given)


def test_different_ids_stay_different() -> None:
    assert len({short_id(f"call_{number}") for number in range(2000)}) == 2000


@pytest.mark.parametrize("name", ["mistrall", "openroutr", "Deep-Seek2"])
def test_a_slip_of_the_pen_in_a_provider_is_pointed_out(name: str) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        presets.resolve(provider=name)


@pytest.mark.parametrize("name", ["custom", "acme", "my-own-server", ""])
def test_a_provider_nobody_knows_gets_the_safe_defaults(name: str) -> None:
    assert presets.resolve(provider=name).endpoint.coerce_arguments


def test_a_garbled_id_of_kimi_is_kept_and_does_no_harm() -> None:
    config = presets.resolve(provider="openrouter", model="moonshotai/kimi-k2.5")
    sent = messages_sent(config, calls("ping", "functionsexec5"), says("ok"))

    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == "functionsexec5"


def test_a_thought_signature_goes_back_on_its_call() -> None:
    signed = calls("ping")
    extra = {"google": {"thought_signature": "A+/=\u00e9"}}
    signed["choices"][0]["message"]["tool_calls"][0]["extra_content"] = extra
    sent = messages_sent(presets.provider_defaults("gemini"), signed, says("ok"))

    assert sent[1]["tool_calls"][0]["extra_content"] == extra


def test_who_served_a_reply_is_recorded() -> None:
    served = says("ok") | {"provider": "Google AI Studio", "model": "gemini-x", "id": "gen-1"}
    runner = ToolLoopRunner(client=ScriptedModel(served), model="m")
    (turn,) = asyncio.run(runner.run("Go.")).trace.turns

    assert turn.response is not None
    reply = turn.response.reply
    assert (reply.provider, reply.model, reply.response_id) == (
        "Google AI Studio",
        "gemini-x",
        "gen-1",
    )


def test_openrouter_gets_null_beside_calls() -> None:
    sent = messages_sent(presets.provider_defaults("openrouter"), calls("ping"), says("ok"))

    assert sent[1]["content"] is None


def test_a_router_can_be_held_to_the_parameters() -> None:
    config = presets.openrouter_routing(presets.raw(), require_parameters=True)

    assert config.request_overrides == {"provider": {"require_parameters": True}}


def test_a_tool_that_returns_nothing_is_answered() -> None:
    async def void() -> None:
        """Do something."""

    model = ScriptedModel(calls("void"), says("ok"))
    runner = ToolLoopRunner(client=model, model="m", registry=[void])
    (answer,) = asyncio.run(runner.run("Go.")).run.results

    assert (answer.ok, answer.envelope["data"]) == (True, {})


def test_a_call_without_a_signature_is_marked_where_routers_and_google_look() -> None:
    sent = messages_sent(presets.provider_defaults("gemini"), calls("ping"), says("ok"))

    (call,) = sent[1]["tool_calls"]
    mark = "skip_thought_signature_validator"
    assert call["signature"] == call["extra_content"]["google"]["thought_signature"] == mark


@tool
def remember(key: str, value: Any) -> str:
    """Remember a value of any kind.

    Args:
        key: what it is called.
        value: what it is.

    """
    return f"{key}: {value}"


def test_a_property_without_a_type_gets_all_of_them_for_llama_cpp() -> None:
    config = presets.provider_defaults("llama_cpp")
    plain, typed = (ScriptedModel(says("ok")) for _ in range(2))
    for model, settings in ((plain, raw()), (typed, config)):
        runner = ToolLoopRunner(client=model, model="m", registry=[remember], config=settings)
        asyncio.run(runner.run("Go."))

    rules = PROVIDER_RULES["llama_cpp"]
    assert [each.rule for each in check_request(plain.requests[0], rules)] == ["tool_untyped"]
    assert check_request(typed.requests[0], rules) == []
    value = typed.requests[0]["tools"][0]["function"]["parameters"]["properties"]["value"]
    assert set(value["type"]) == {"string", "number", "boolean", "object", "array", "null"}
    assert value["description"] == "what it is."


@pytest.mark.parametrize("provider", ["bedrock", "AWS Bedrock", "amazon-bedrock", "openrouter"])
def test_bedrock_gets_no_blank_text_beside_calls(provider: str) -> None:
    config = presets.resolve(provider=provider)
    _, said, _ = messages_sent(config, calls("ping", "a"), says("ok"))

    assert said["content"] is None
