"""Behaviours: what a model does that no reader can cure, and what makes it do otherwise."""

import json
from typing import Any

import pytest

from surecall.simulator.personas.behaviours import CONVERSATION_BEHAVIOURS, REFUSAL, with_behaviour
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.personas.intent import COMPLAINTS, DONE, next_intent
from surecall.simulator.personas.persona import REPLY_BEHAVIOURS, Persona, say
from surecall.values.types import JSON
from surecall.wire.messages import named_choice
from tests.simulator.personas.test_persona import (
    ASKED,
    LONG,
    STATE,
    follow,
    message_of,
    request,
    told,
)

RULES = told("Be kind.")
DENIED = '{"ok":false,"errors":[{"code":"REPEATED_CALL","message":"no"}]}'
SAID: JSON = {"role": "assistant", "content": DONE}
COMPLAINT: JSON = {"role": "user", "content": f"{COMPLAINTS[0]}: no call. Call a tool now."}


@pytest.mark.parametrize("name", CONVERSATION_BEHAVIOURS)
def test_a_behaviour_does_not_show_without_instructions(name: str) -> None:
    for body in (request(ASKED), request(ASKED, tools=STATE)):
        plain = next_intent(body)
        assert with_behaviour(name, plain, body) is plain


def test_a_behaviour_leaves_alone_what_it_is_not_about() -> None:
    chat, work = (request(told("x"), ASKED, tools=tools) for tools in (None, STATE))
    for name in ("apologetic", "premature", "stubborn", "shortcut", "sloppy", "forgetful"):
        assert with_behaviour(name, next_intent(chat), chat) == next_intent(chat)
    for name in ("chatty-final", "talkative", "premature", "stubborn", "mute", "cut-final"):
        assert with_behaviour(name, next_intent(work), work) == next_intent(work)


def test_a_behaviour_holds_for_a_conversation_and_variants_of_it_draw_the_same() -> None:
    persona = Persona(id="sim/x", kind="mixed", summary="", faults=(("chatty-final", 0.5),))

    def faults(variant: str, **options: Any) -> list[str]:
        users = [{"role": "user", "content": f"Go, ws_{n}{variant}"} for n in range(40)]
        return [say(persona, request(told("x"), user, **options), 0).fault for user in users]

    assert 5 < faults("").count("chatty-final") < 35
    assert faults("~a") == faults("~b", temperature=1) == faults("")


def answered(name: str, content: str, at: int = 0, arguments: str = "{}") -> list[JSON]:
    """Return a call with its answer, as they are in a conversation."""
    called = {"name": name, "arguments": arguments}
    call = {"id": f"call_{at}", "type": "function", "function": called}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [turn, {"role": "tool", "tool_call_id": f"call_{at}", "content": content}]


def decided(behaviour: str, *messages: JSON, **options: Any) -> list[str] | str:
    """Return the tools that a persona calls next, or what it says."""
    body = request(RULES, ASKED, *messages, tools=STATE, **options)
    message = message_of(say(PERSONAS[f"sim/{behaviour}"], body, 0))
    calls = message.get("tool_calls", ())
    return [call["function"]["name"] for call in calls] or str(message["content"])


READ, FAILED = answered("state_get", '{"ok":true}'), answered("state_get", '{"ok":false}')
AGAIN = answered("state_get", '{"ok":true}', 1)
REFUSED = answered("state_get", DENIED, 1)


@pytest.mark.parametrize(
    ("behaviour", "messages", "move"),
    [
        ("hasty", [], DONE),
        ("hasty", [SAID, COMPLAINT], ["state_get"]),
        ("hasty", READ, ["state_patch"]),
        ("premature", [], ["state_get"]),
        ("premature", READ, DONE),
        ("premature", [*READ, SAID, COMPLAINT], DONE),
        ("premature", [*READ, SAID, COMPLAINT, SAID, COMPLAINT], ["state_patch"]),
        ("heedless", READ, ["state_patch"]),
        ("heedless", FAILED, DONE),
        ("heedless", [*FAILED, SAID, COMPLAINT], ["state_get"]),
        ("circling", [], ["state_get"]),
        ("circling", READ, ["state_get"]),
        ("circling", FAILED, ["state_get"]),
        ("circling", [*READ, *REFUSED], ["state_patch"]),
        ("circling", [*READ, *AGAIN, *answered("state_get", DENIED, 2)], ["state_get"]),
        ("circling", [*READ, *answered("state_patch", '{"ok":true}', 1)], DONE),
        ("unmoved", [*READ, SAID, COMPLAINT, SAID, COMPLAINT], DONE),
        ("unwilling", [], REFUSAL),
    ],
)
def test_what_a_behaviour_does_and_what_it_is_moved_by(
    behaviour: str, messages: list[JSON], move: list[str] | str
) -> None:
    assert decided(behaviour, *messages) == move


WRITTEN = answered("state_patch", '{"ok":true}', 1)


@pytest.mark.parametrize(
    ("behaviour", "messages", "value"),
    [
        ("stubborn", [], "x" * 300),
        ("stubborn", WRITTEN, "x" * 300),
        ("shortcut", [], "x" * 100),
        ("shortcut", WRITTEN, DONE),
        ("sloppy", [], "Bar"),
    ],
)
def test_what_a_behaviour_writes_where_a_long_text_is_asked_for(
    behaviour: str, messages: list[JSON], value: str
) -> None:
    body = request(told(LONG), ASKED, *READ, *messages, tools=STATE)
    message = message_of(say(PERSONAS[f"sim/{behaviour}"], body, 0))
    calls = message.get("tool_calls", ())
    written = [json.loads(call["function"]["arguments"])["ops"][0]["value"] for call in calls]

    assert (written or [message["content"]]) == [value]


@pytest.mark.parametrize("choice", ["required", named_choice("state_get")])
def test_a_call_that_is_demanded_is_made_unless_the_model_is_deaf(choice: Any) -> None:
    deaf = {name for name, behaviour in CONVERSATION_BEHAVIOURS.items() if behaviour.deaf}
    answers = {
        name
        for name in (*CONVERSATION_BEHAVIOURS, "lazy")
        if decided(name, tool_choice=choice) == DONE
    }
    refusals = {
        name for name in CONVERSATION_BEHAVIOURS if decided(name, tool_choice=choice) == REFUSAL
    }

    assert answers | refusals == deaf | {"lazy"}
    assert refusals == {"unwilling"}


def test_a_demand_is_met_also_when_everything_is_done_or_was_given_up() -> None:
    done = [*READ, *answered("state_patch", '{"ok":true}', 1)]
    lost = [part for at in range(4) for part in answered("state_get", '{"ok":false}', at)]
    assert decided("clean", *done) == DONE
    assert decided("clean", *done, tool_choice="required") == ["state_patch"]
    assert str(decided("clean", *lost)).startswith("I could not")
    assert decided("clean", *lost, tool_choice="required") == ["state_get"]


def test_an_objection_that_names_nothing_gets_the_same_answer_again() -> None:
    objection = {"role": "user", "content": f"{COMPLAINTS[1]}: too short. Correct it."}
    done = [*READ, *answered("state_patch", '{"ok":true}', 1), SAID, objection]
    assert decided("clean", *done) == DONE
    assert follow(PERSONAS["sim/hasty"], STATE, ASKED)[0]["tool_calls"]


@pytest.mark.parametrize("name", REPLY_BEHAVIOURS)
def test_the_behaviour_of_a_single_reply_leaves_the_intent_alone(name: str) -> None:
    body = request(RULES, ASKED, tools=STATE)
    meant = next_intent(body)

    assert REPLY_BEHAVIOURS[name].change(meant, body) is meant
