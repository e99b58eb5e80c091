"""Personas: scripted models that follow a conversation, deterministically, and bend by seed."""

from typing import Any

import pytest

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.intent import DONE, FAILURE_ANSWER, next_intent
from surecall.simulator.personas.persona import (
    RETRIED,
    PersonaReply,
    answer_request,
)
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check_request
from tests.support.simulator import (
    ASKED,
    CLEAN,
    STATE,
    TEXT,
    WEATHER,
    call_of,
    follow,
    function,
    message_of,
    request_of,
    system_text,
)


def test_two_answers_at_one_place_have_two_ids() -> None:
    asked = {"role": "user", "content": "What is the weather in Paris for 3 days?"}
    call = message_of(answer_request(CLEAN, request_of(asked, tools=[WEATHER]), 0))
    call_id = call["tool_calls"][0]["id"]

    def answered(content: str) -> PersonaReply:
        result = {"role": "tool", "tool_call_id": call_id, "content": content}
        return answer_request(CLEAN, request_of(asked, call, result, tools=[WEATHER]), 0)

    # The first result is a refusal, which a proxy does not show to its client.
    refused, done, again = answered("error: no such tool"), answered("Clear."), answered("Clear.")

    assert refused.body["id"] != done.body["id"] == again.body["id"]


def test_the_clean_persona_reads_then_patches_then_answers() -> None:
    first, second, last = follow(CLEAN, STATE, ASKED, '{"ok":true}', '{"ok":true}')

    op = {"op": "set", "path": "/draft/foo", "value": "bar"}
    assert call_of(first) == ("state_get", {"workspace_id": "ws_7"})
    patch = {"workspace_id": "ws_7", "request_id": "r1", "ops": [op]}
    assert call_of(second) == ("state_patch", patch)
    assert (last["content"], "tool_calls" in last) == (DONE, False)


def test_other_tools_are_called_with_what_the_user_wrote() -> None:
    asked = {"role": "user", "content": "What is the weather in Paris for 3 days?"}
    first, last = follow(CLEAN, [function("ping"), WEATHER], asked, "sunny")

    assert call_of(first) == ("get_weather", {"city": "Paris", "days": 3})
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
    body = request_of(asked, tools=[WEATHER, function("ping")], tool_choice=choice)
    assert [call.tool for call in next_intent(body).calls] == [name]


def test_without_tools_the_persona_only_talks() -> None:
    assert next_intent(request_of(ASKED)).text == DONE
    assert next_intent(request_of(ASKED, tools=STATE, tool_choice="none")).text == DONE
    assert next_intent(request_of(tools=[function("ping")])).text == DONE


def test_a_persona_gives_up_after_some_failures_and_says_so() -> None:
    *calls, last = follow(CLEAN, STATE, ASKED, *["Error: no"] * 4)
    assert len(calls) == 4
    assert last["content"] == f"{FAILURE_ANSWER} Error: no"


def test_a_failure_without_tools_to_repair_it_is_admitted() -> None:
    said = {"id": "a", "type": "function", "function": {"name": "state_get", "arguments": "{}"}}
    turn = {"role": "assistant", "content": "", "tool_calls": [said]}
    told = {"role": "tool", "tool_call_id": "a", "content": "Error: no"}
    assert next_intent(request_of(ASKED, turn, told)).text == FAILURE_ANSWER


def test_odd_requests_do_not_make_a_persona_raise() -> None:
    turn = {"role": "assistant", "tool_calls": [{"id": 1, "function": None}, None]}
    orphan = {"role": "tool", "content": None}
    odd_tools: list[Any] = [None, {"function": None}, {"function": {"name": "x", "parameters": 1}}]
    body = {"messages": [None, turn, orphan, ASKED], "tools": odd_tools}
    assert answer_request(CLEAN, body, 0).fault == ""


def test_the_same_seed_and_request_give_the_same_reply_and_another_seed_another() -> None:
    body = request_of(ASKED, tools=STATE)
    for persona in PERSONAS.values():
        assert answer_request(persona, body, 7) == answer_request(persona, body, 7)
    assert answer_request(CLEAN, body, 7) != answer_request(CLEAN, body, 8)


def test_a_mixed_persona_changes_some_replies_and_not_others() -> None:
    persona = PERSONAS["sim/like-local-server"]
    body = request_of(ASKED, tools=STATE)
    faults = [answer_request(persona, body, seed).fault for seed in range(200)]
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
    found = [item.rule for item in check_request(request_of(*messages, tools=STATE), rules)]
    assert found == (["content_null"] * 2 if rules.refuses_null else [])


def test_what_a_retry_cures_is_spared_and_what_the_model_was_told_is_repaired() -> None:
    retried = next(fault.id for fault in SHAPE_FAULTS.values() if fault.outcome == RETRIED)
    told = next(fault.id for fault in SHAPE_FAULTS.values() if fault.outcome.startswith("ARGUMENT"))
    body = request_of(ASKED, tools=STATE)
    persona = PERSONAS[f"sim/{retried}"]

    assert answer_request(persona, body, 0).fault == retried
    assert answer_request(persona, body, 0, skip_transient=True) == PersonaReply(
        answer_request(persona, body, 0, skip_transient=True).body
    )
    first, second, *_ = follow(PERSONAS[f"sim/{told}"], STATE, ASKED, '{"ok":false}', "fine")
    assert first != second
    assert call_of(second)[0] == "state_get"


def test_behaviours_and_transport_faults_show_where_they_apply() -> None:
    body = request_of(ASKED, tools=STATE)
    assert message_of(answer_request(PERSONAS["sim/lazy"], body, 0))["content"] == DONE
    assert "<tool_call>" in message_of(answer_request(PERSONAS["sim/tags"], body, 0))["content"]
    assert answer_request(PERSONAS["sim/tags"], request_of(ASKED), 0).fault == ""
    assert answer_request(PERSONAS["sim/lazy"], request_of(ASKED), 0).fault == ""
    refused = answer_request(PERSONAS["sim/failed-generation"], body, 0).body
    assert refused["error"]["failed_generation"].startswith("<function=state_get{")
    assert answer_request(PERSONAS["sim/failed-generation"], request_of(ASKED), 0).fault == ""
    limited = PERSONAS["sim/http-429"]
    assert answer_request(limited, body, 0).fault == "http-429"
    call = {"id": "a", "type": "function", "function": {"name": "state_get", "arguments": "{}"}}
    turn = {"role": "assistant", "content": "", "tool_calls": [call]}
    later = request_of(
        ASKED, turn, {"role": "tool", "tool_call_id": "a", "content": ""}, tools=STATE
    )
    assert answer_request(limited, later, 0).fault == ""


def test_an_optional_parameter_is_left_out_when_the_instructions_say_so() -> None:
    note = function("note", text=TEXT, tag=TEXT)
    note["function"]["parameters"]["required"] = ["text"]
    asked = {"role": "user", "content": "Write a note: text=a tag=b"}
    body = request_of(system_text("Never pass tag."), asked, tools=[note])
    assert [call.arguments for call in next_intent(body).calls] == [{"text": "a"}]


def test_a_route_without_tools_refuses_them_as_a_router_does() -> None:
    error = answer_request(PERSONAS["sim/no-tools"], request_of(ASKED, tools=STATE), 0).body[
        "error"
    ]
    assert (error["code"], "support tool use" in error["message"]) == (404, True)
    assert answer_request(PERSONAS["sim/no-tools"], request_of(ASKED), 0).fault == ""
