"""Personas: scripted models that follow a conversation, deterministically, and bend by seed."""

from typing import Any

import msgspec
import pytest

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.behaviours import CONVERSATION_BEHAVIOURS
from surecall.simulator.personas.catalogue import PERSONAS, find, no_persona, preset_wanted
from surecall.simulator.personas.clues import Clues, Orders, arguments_for, orders_of
from surecall.simulator.personas.intent import DONE, GIVEN_UP, next_intent
from surecall.simulator.personas.persona import (
    CURED,
    REPLY_BEHAVIOURS,
    RETRIED,
    Persona,
    Said,
    outcome_of,
    say,
)
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.request_checks import check
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
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


@pytest.mark.parametrize(
    "told",
    [
        '{"ok":false,"errors":[{"code":"ARGUMENT_ERROR","message":"no"}]}',
        '{"error":"no"}',
        '{"isError":true}',
        "Error: no such workspace",
        "1 validation error. Fix the errors and try again.",
    ],
)
def test_a_failed_call_is_made_again(told: str) -> None:
    first, second, third = follow(CLEAN, STATE, ASKED, told, "fine")
    assert [made(message)[0] for message in (first, second, third)] == [
        "state_get",
        "state_get",
        "state_patch",
    ]


def test_an_error_that_names_a_better_value_is_followed() -> None:
    asked = {"role": "user", "content": "What is the weather in Paris for 3 days?"}
    _, second = follow(CLEAN, [WEATHER], asked, "Error: not known. Try city=Lutetia instead")
    assert made(second) == ("get_weather", {"city": "Lutetia", "days": 3})


def test_a_persona_gives_up_after_some_failures_and_says_so() -> None:
    *calls, last = follow(CLEAN, STATE, ASKED, *["Error: no"] * 4)
    assert len(calls) == 4
    assert last["content"] == f"{GIVEN_UP} Error: no"


def test_a_failure_without_tools_to_repair_it_is_admitted() -> None:
    said = {"id": "a", "type": "function", "function": {"name": "state_get", "arguments": "{}"}}
    turn = {"role": "assistant", "content": "", "tool_calls": [said]}
    told = {"role": "tool", "tool_call_id": "a", "content": "Error: no"}
    assert next_intent(request(ASKED, turn, told)).text == GIVEN_UP


def test_a_note_is_no_new_task_but_a_question_after_an_answer_is_one() -> None:
    messages = [ASKED]
    for message in follow(CLEAN, STATE, ASKED, "fine", "fine")[:2]:
        call_id = message["tool_calls"][0]["id"]
        messages += [message, {"role": "tool", "tool_call_id": call_id, "content": "fine"}]
    note = {"role": "user", "content": "Please give your final answer now."}
    bridge = {"role": "assistant", "content": "(waiting)"}
    answer = {"role": "assistant", "content": DONE}

    assert next_intent(request(*messages, note, tools=STATE)).text == DONE
    assert next_intent(request(*messages, bridge, note, tools=STATE)).text == DONE
    again = next_intent(request(*messages, answer, ASKED, tools=STATE))
    assert [call.tool for call in again.calls] == ["state_get"]


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
    persona = PERSONAS[f"sim/strict-{profile}"]
    first, second, _ = follow(persona, STATE, ASKED, "fine", "fine")
    messages = [ASKED]
    for message in (first, second):
        call = message["tool_calls"][0]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "fine"}
        messages += [message, result | {"name": "state_get"}]
    found = [item.rule for item in check(request(*messages, tools=STATE), PROVIDER_RULES[profile])]
    assert found == (["content_null"] * 2 if profile == "ollama" else [])


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


def test_there_is_a_persona_for_every_fault_behaviour_and_provider() -> None:
    wanted = [
        *SHAPE_FAULTS,
        *TRANSPORT_FAULTS,
        *REPLY_BEHAVIOURS,
        *CONVERSATION_BEHAVIOURS,
        *(f"strict-{name}" for name in PROVIDER_RULES),
    ]
    wanted.append("premature-no-required")
    assert {f"sim/{name}" for name in wanted} | {"sim/clean"} == {
        name for name in PERSONAS if not name.startswith("sim/like-")
    }
    assert all(
        outcome_of(name)
        for name in (*SHAPE_FAULTS, *TRANSPORT_FAULTS, *REPLY_BEHAVIOURS, *CONVERSATION_BEHAVIOURS)
    )
    with pytest.raises(KeyError):
        outcome_of("unheard-of")


def test_likenesses_say_that_they_are_simulations_and_leave_room_for_clean_replies() -> None:
    likenesses = [persona for persona in PERSONAS.values() if persona.kind == "mixed"]
    assert len(likenesses) >= 12
    for persona in likenesses:
        assert "simulation" in persona.summary
        assert persona.faults
        # Manners are drawn for themselves; all other faults share one draw.
        assert (
            sum(rate for fault, rate in persona.faults if fault not in CONVERSATION_BEHAVIOURS) < 1
        )


def test_a_persona_is_found_with_and_without_its_prefix_and_a_typo_is_answered() -> None:
    assert find("clean") is find("sim/clean") is CLEAN
    assert find("gpt-9") is None
    assert no_persona("cleanx").startswith('unknown persona "sim/cleanx"; did you mean "sim/clean"')
    assert preset_wanted(PERSONAS["sim/tags"]) is None
    assert preset_wanted(PERSONAS["sim/dialect-a17"]) == "content_tag_tool_call_fallback"
    assert (CLEAN.outcome, preset_wanted(CLEAN)) == (CURED, None)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": 5}, 5),
        ({"enum": ["low", "high"]}, "high"),
        ({"enum": [1, 2]}, 1),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 42),
        ({"type": ["null", "boolean"]}, True),
        ({"type": []}, "Ada Lovelace"),
        ({"type": "null"}, None),
        ({"type": "number", "minimum": 0.5}, 42),
        ({"type": "string", "maxLength": 3}, "Ada"),
        ({"type": "string", "maxLength": "x", "minLength": 14}, "Ada Lovelacexx"),
        ({"$ref": "#/$defs/loop"}, "Ada Lovelace"),
        ({"$ref": "#/nowhere/at/all"}, "Ada Lovelace"),
        ({"type": "array", "minItems": 2, "items": {"type": "integer"}}, [42, 1]),
        ({"type": "array", "minItems": "x"}, ["Ada Lovelace"]),
        (
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            {"n": 42},
        ),
        ({"type": "object", "properties": 7, "required": 7}, {}),
    ],
)
def test_arguments_fit_their_schema(schema: JSON, value: Any) -> None:
    loop = {"loop": {"$ref": "#/$defs/loop"}}
    root = {"properties": {"key": schema}, "required": ["key"], "$defs": loop}
    assert arguments_for(root, Clues('Ask "Ada Lovelace" about 42 at high speed')) == {"key": value}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "key=7", 7),
        ({"type": "integer"}, "key=many", 1),
        ({"type": "integer", "minimum": "x"}, "key=many", 1),
        ({"type": "number"}, "key=2.5", 2.5),
        ({"type": "boolean"}, "key=no", False),
        ({"type": "array", "items": {"type": "integer"}}, "key=7", [7]),
        ({"enum": ["a", "b"]}, "key=b", "b"),
        ({"type": "string"}, "key=`x`", "x"),
    ],
)
def test_a_named_value_wins_over_everything_else(schema: JSON, text: str, value: Any) -> None:
    assert arguments_for({"properties": {"key": schema}}, Clues(text)) == {"key": value}


def test_optional_parameters_that_nobody_named_and_schemas_that_are_none_stay_empty() -> None:
    assert arguments_for({"properties": {"key": {"type": "string"}}}, Clues("key=")) == {}
    assert arguments_for(None, Clues("hello")) == {}


def test_a_schema_that_never_ends_is_cut_off() -> None:
    deep: JSON = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert msgspec.json.encode(arguments_for(deep, Clues(""))).count(b"{") < 12


def told(*sentences: str) -> JSON:
    return {"role": "system", "content": "\n".join(sentences)}


LONG, BOTH = "Set it to a text of at least 300 characters.", "Make two calls at once."


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        ("Be kind.", Orders(given=True)),
        (LONG, Orders(given=True, length=300)),
        ("At least 3 words, at least 5 characters more.", Orders(given=True, length=5)),
        ("It has at least 300", Orders(given=True)),
        (BOTH, Orders(given=True, at_once=True)),
        ("One fails on purpose: `/a/b`.", Orders(given=True, wrong_path="/a/b")),
        ("Be kind. Omit x.", Orders(given=True, omitted=frozenset({"Omit", "x"}))),
    ],
)
def test_orders_are_read_from_the_instructions(text: str, orders: Orders) -> None:
    assert (orders_of([told(text), ASKED]), orders_of([ASKED])) == (orders, Orders())


def wanted(*messages: JSON, **options: Any) -> list[tuple[str, Any]]:
    intent = next_intent(request(*messages, ASKED, tools=STATE, **options))
    return [(call.tool, call.arguments.get("ops")) for call in intent.calls]


def test_two_calls_go_out_at_once_where_they_may() -> None:
    op = {"op": "set", "path": "/draft/foo", "value": "bar"}
    assert wanted(told(BOTH)) == [("state_get", None), ("state_patch", [op])]
    assert wanted(told(BOTH), parallel_tool_calls=False) == [("state_get", None)]
    failing = told(BOTH, "It fails on purpose: /a/b")
    assert wanted(failing)[1] == ("state_patch", [op | {"path": "/a/b"}])


def test_a_long_value_comes_first_and_a_short_one_when_it_is_too_large() -> None:
    def sizes(*contents: str) -> list[int]:
        messages, found = [told(LONG), ASKED], []
        for content in ('{"ok":true}', *contents, "-"):
            message = message_of(say(CLEAN, request(*messages, tools=STATE), 0))
            for call in message.get("tool_calls", ()):
                values = msgspec.json.decode(call["function"]["arguments"])
                found += [len(op["value"]) for op in values.get("ops", ())]
                answer = {"role": "tool", "tool_call_id": call["id"], "content": content}
                messages += [message, answer]
        return found

    large = '{"ok":false,"errors":[{"code":"ARGUMENTS_TOO_LARGE"}]}'
    assert sizes(large, '{"ok":true}') == [300, 3]
    assert sizes('{"ok":true}', '{"ok":true}') == [300, 3]
    assert sizes("Error: no", large, '{"ok":true}') == [300, 300, 3]


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
