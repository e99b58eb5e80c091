"""Personas: scripted models that follow a conversation, deterministically, and bend by seed."""

from typing import Any

import msgspec
import pytest

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.personas.intent import DONE, GIVEN_UP, next_intent
from surecall.simulator.personas.persona import (
    RETRIED,
    Persona,
    Said,
    say,
)
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check
from surecall.values.types import JSON

CLEAN = PERSONAS["sim/clean"]
ASKED: JSON = {"role": "user", "content": "Please set the draft. workspace_id=ws_7."}


def function(name: str, description: str = "", **properties: Any) -> JSON:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    described = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": described}


TEXT: JSON = {"type": "string"}
STATE = [
    function("state_get", workspace_id=TEXT),
    function("state_patch", workspace_id=TEXT, request_id=TEXT, ops={"type": "array"}),
]
WEATHER = function("get_weather", "Weather for a city.", city=TEXT, days={"type": "integer"})


def request(*messages: JSON, tools: list[JSON] | None = None, **options: Any) -> JSON:
    return (
        {"model": "m", "messages": list(messages)} | ({"tools": tools} if tools else {}) | options
    )


def message_of(said: Said) -> JSON:
    message: JSON = said.body["choices"][0]["message"]
    return message


def follow(persona: Persona, tools: list[JSON], asked: JSON, *contents: str) -> list[JSON]:
    """Play a conversation; each content answers one call. Return what the persona said."""
    messages, said = [asked], []
    for content in (*contents, ""):
        message = message_of(say(persona, request(*messages, tools=tools), 0))
        said.append(message)
        if message.get("tool_calls"):
            (call,) = message["tool_calls"]
            result = {"role": "tool", "tool_call_id": call["id"], "content": content}
            messages += [message, result | {"name": call["function"]["name"]}]
    return said


def made(message: JSON) -> tuple[str, JSON]:
    called = message["tool_calls"][0]["function"]
    return called["name"], msgspec.json.decode(called["arguments"])


def test_two_answers_at_one_place_have_two_ids() -> None:
    asked = {"role": "user", "content": "What is the weather in Paris for 3 days?"}
    call = message_of(say(CLEAN, request(asked, tools=[WEATHER]), 0))
    call_id = call["tool_calls"][0]["id"]

    def answered(content: str) -> Said:
        result = {"role": "tool", "tool_call_id": call_id, "content": content}
        return say(CLEAN, request(asked, call, result, tools=[WEATHER]), 0)

    # The first result is a refusal, which a proxy does not show to its client.
    refused, done, again = answered("error: no such tool"), answered("Clear."), answered("Clear.")

    assert refused.body["id"] != done.body["id"] == again.body["id"]


def test_the_clean_persona_reads_then_patches_then_answers() -> None:
    first, second, last = follow(CLEAN, STATE, ASKED, '{"ok":true}', '{"ok":true}')

    op = {"op": "set", "path": "/draft/foo", "value": "bar"}
    assert made(first) == ("state_get", {"workspace_id": "ws_7"})
    patch = {"workspace_id": "ws_7", "request_id": "r1", "ops": [op]}
    assert made(second) == ("state_patch", patch)
    assert (last["content"], "tool_calls" in last) == (DONE, False)


def test_other_tools_are_called_with_what_the_user_wrote() -> None:
    asked = {"role": "user", "content": "What is the weather in Paris for 3 days?"}
    first, last = follow(CLEAN, [function("ping"), WEATHER], asked, "sunny")

    assert made(first) == ("get_weather", {"city": "Paris", "days": 3})
    assert last["content"] == "Done. get_weather said: sunny"


def test_a_question_that_needs_no_tool_is_answered_without_one() -> None:
    (said,) = follow(CLEAN, [WEATHER], {"role": "user", "content": "Hello!"})
    assert said["content"] == DONE


@pytest.mark.parametrize(
    ("choice", "name"),
    [("required", "get_weather"), ({"type": "function", "function": {"name": "ping"}}, "ping")],
)
def test_a_forced_call_is_made(choice: Any, name: str) -> None:
    asked = {"role": "user", "content": "Hello!"}
    body = request(asked, tools=[WEATHER, function("ping")], tool_choice=choice)
    assert [call.tool for call in next_intent(body).calls] == [name]


def test_without_tools_the_persona_only_talks() -> None:
    assert next_intent(request(ASKED)).text == DONE
    assert next_intent(request(ASKED, tools=STATE, tool_choice="none")).text == DONE
    assert next_intent(request(tools=[function("ping")])).text == DONE


def test_a_persona_gives_up_after_some_failures_and_says_so() -> None:
    *calls, last = follow(CLEAN, STATE, ASKED, *["Error: no"] * 4)
    assert len(calls) == 4
    assert last["content"] == f"{GIVEN_UP} Error: no"


def test_a_failure_without_tools_to_repair_it_is_admitted() -> None:
    said = {"id": "a", "type": "function", "function": {"name": "state_get", "arguments": "{}"}}
    turn = {"role": "assistant", "content": "", "tool_calls": [said]}
    told = {"role": "tool", "tool_call_id": "a", "content": "Error: no"}
    assert next_intent(request(ASKED, turn, told)).text == GIVEN_UP


def test_odd_requests_do_not_make_a_persona_raise() -> None:
    turn = {"role": "assistant", "tool_calls": [{"id": 1, "function": None}, None]}
    orphan = {"role": "tool", "content": None}
    odd_tools: list[Any] = [None, {"function": None}, {"function": {"name": "x", "parameters": 1}}]
    body = {"messages": [None, turn, orphan, ASKED], "tools": odd_tools}
    assert say(CLEAN, body, 0).fault == ""


def test_the_same_seed_and_request_give_the_same_reply_and_another_seed_another() -> None:
    body = request(ASKED, tools=STATE)
    for persona in PERSONAS.values():
        assert say(persona, body, 7) == say(persona, body, 7)
    assert say(CLEAN, body, 7) != say(CLEAN, body, 8)


def test_a_mixed_persona_changes_some_replies_and_not_others() -> None:
    persona = PERSONAS["sim/like-local-server"]
    body = request(ASKED, tools=STATE)
    faults = [say(persona, body, seed).fault for seed in range(200)]
    assert 40 < sum(fault != "" for fault in faults) < 180
    assert len(set(faults)) > 5


@pytest.mark.parametrize("profile", PROVIDER_RULES)
def test_a_persona_is_content_with_its_own_calls(profile: str) -> None:
    persona, rules = PERSONAS[f"sim/strict-{profile}"], PROVIDER_RULES[profile]
    first, second, _ = follow(persona, STATE, ASKED, "fine", "fine")
    messages = [ASKED]
    for message in (first, second):
        call = message["tool_calls"][0]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "fine"}
        named = {} if "name" in rules.refused_fields else {"name": "state_get"}
        messages += [message, result | named]
    found = [item.rule for item in check(request(*messages, tools=STATE), rules)]
    assert found == (["content_null"] * 2 if rules.refuses_null else [])


def test_what_a_retry_cures_is_spared_and_what_the_model_was_told_is_repaired() -> None:
    retried = next(fault.id for fault in SHAPE_FAULTS.values() if fault.outcome == RETRIED)
    told = next(fault.id for fault in SHAPE_FAULTS.values() if fault.outcome.startswith("ARGUMENT"))
    body = request(ASKED, tools=STATE)
    persona = PERSONAS[f"sim/{retried}"]

    assert say(persona, body, 0).fault == retried
    assert say(persona, body, 0, spare=True) == Said(say(persona, body, 0, spare=True).body)
    first, second, *_ = follow(PERSONAS[f"sim/{told}"], STATE, ASKED, '{"ok":false}', "fine")
    assert first != second
    assert made(second)[0] == "state_get"


def test_behaviours_and_transport_faults_show_where_they_apply() -> None:
    body = request(ASKED, tools=STATE)
    assert message_of(say(PERSONAS["sim/lazy"], body, 0))["content"] == DONE
    assert "<tool_call>" in message_of(say(PERSONAS["sim/tags"], body, 0))["content"]
    assert say(PERSONAS["sim/tags"], request(ASKED), 0).fault == ""
    assert say(PERSONAS["sim/lazy"], request(ASKED), 0).fault == ""
    refused = say(PERSONAS["sim/failed-generation"], body, 0).body
    assert refused["error"]["failed_generation"].startswith("<function=state_get{")
    assert say(PERSONAS["sim/failed-generation"], request(ASKED), 0).fault == ""
    limited = PERSONAS["sim/http-429"]
    assert say(limited, body, 0).fault == "http-429"
    call = {"id": "a", "type": "function", "function": {"name": "state_get", "arguments": "{}"}}
    turn = {"role": "assistant", "content": "", "tool_calls": [call]}
    later = request(ASKED, turn, {"role": "tool", "tool_call_id": "a", "content": ""}, tools=STATE)
    assert say(limited, later, 0).fault == ""


def told(*sentences: str) -> JSON:
    return {"role": "system", "content": "\n".join(sentences)}


LONG, BOTH = "Set it to a text of at least 300 characters.", "Make two calls at once."


def wanted(*messages: JSON, **options: Any) -> list[tuple[str, Any]]:
    intent = next_intent(request(*messages, ASKED, tools=STATE, **options))
    return [(call.tool, call.arguments.get("ops")) for call in intent.calls]


def test_an_optional_parameter_is_left_out_when_the_instructions_say_so() -> None:
    note = function("note", text=TEXT, tag=TEXT)
    note["function"]["parameters"]["required"] = ["text"]
    asked = {"role": "user", "content": "Write a note: text=a tag=b"}
    body = request(told("Never pass tag."), asked, tools=[note])
    assert [call.arguments for call in next_intent(body).calls] == [{"text": "a"}]


def test_a_route_without_tools_refuses_them_as_a_router_does() -> None:
    error = say(PERSONAS["sim/no-tools"], request(ASKED, tools=STATE), 0).body["error"]
    assert (error["code"], "support tool use" in error["message"]) == (404, True)
    assert say(PERSONAS["sim/no-tools"], request(ASKED), 0).fault == ""
