"""What a good model would do next."""

import msgspec
import pytest

from surecall.simulator.personas.intent import COMPLAINTS, DONE, next_intent
from surecall.simulator.personas.persona import (
    answer_request,
)
from surecall.values.types import JSON
from surecall.wire.chat_format import tool_choice_for
from tests.support.simulator import (
    ASKED,
    CLEAN,
    LONG,
    READ,
    STATE,
    TWO_CALLS,
    WEATHER,
    answered,
    call_of,
    follow,
    function,
    message_of,
    request_of,
    system_text,
    wanted,
)


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
    assert [call_of(message)[0] for message in (first, second, third)] == [
        "state_get",
        "state_get",
        "state_patch",
    ]


def test_an_error_that_names_a_better_value_is_followed() -> None:
    asked = {"role": "user", "content": "What is the weather in Paris for 3 days?"}
    _, second = follow(CLEAN, [WEATHER], asked, "Error: not known. Try city=Lutetia instead")
    assert call_of(second) == ("get_weather", {"city": "Lutetia", "days": 3})


def test_a_note_is_no_new_task_but_a_question_after_an_answer_is_one() -> None:
    messages = [ASKED]
    for message in follow(CLEAN, STATE, ASKED, "fine", "fine")[:2]:
        call_id = message["tool_calls"][0]["id"]
        messages += [message, {"role": "tool", "tool_call_id": call_id, "content": "fine"}]
    note = {"role": "user", "content": "Please give your final answer now."}
    bridge = {"role": "assistant", "content": "(waiting)"}
    answer = {"role": "assistant", "content": DONE}

    assert next_intent(request_of(*messages, note, tools=STATE)).text == DONE
    assert next_intent(request_of(*messages, bridge, note, tools=STATE)).text == DONE
    again = next_intent(request_of(*messages, answer, ASKED, tools=STATE))
    assert [call.tool for call in again.calls] == ["state_get"]


def test_two_calls_go_out_at_once_where_they_may() -> None:
    op = {"op": "set", "path": "/draft/foo", "value": "bar"}
    assert wanted(system_text(TWO_CALLS)) == [("state_get", None), ("state_patch", [op])]
    assert wanted(system_text(TWO_CALLS), parallel_tool_calls=False) == [("state_get", None)]
    failing = system_text(TWO_CALLS, "It fails on purpose: /a/b")
    assert wanted(failing)[1] == ("state_patch", [op | {"path": "/a/b"}])


def test_a_long_value_comes_first_and_a_short_one_when_it_is_too_large() -> None:
    def sizes(*contents: str) -> list[int]:
        messages, found = [system_text(LONG), ASKED], []
        for content in ('{"ok":true}', *contents, "-"):
            message = message_of(answer_request(CLEAN, request_of(*messages, tools=STATE), 0))
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


def test_a_demanded_call_is_the_own_next_step_where_that_is_allowed() -> None:
    long = system_text("Set it to a text of at least 300 characters.")
    body = request_of(
        long, ASKED, *READ, tools=STATE[1:], tool_choice=tool_choice_for("state_patch")
    )
    (call,) = next_intent(body).calls
    assert len(call.arguments["ops"][0]["value"]) == 300
    back = request_of(long, ASKED, *READ, tools=STATE, tool_choice=tool_choice_for("state_get"))
    assert [call.tool for call in next_intent(back).calls] == ["state_get"]


def test_a_complaint_is_no_new_task_and_the_tool_that_it_names_is_called() -> None:
    asked = {"role": "user", "content": "What is the weather in Paris for 3 days?"}
    tools = [WEATHER, function("log_visit")]
    called = answered("get_weather", "sunny")
    complaint = {"role": "user", "content": f"{COMPLAINTS[0]}: log_visit. Call log_visit now."}
    said = {"role": "assistant", "content": f"{DONE} get_weather said: sunny"}

    def tools_called(*messages: JSON) -> list[str]:
        body = request_of(asked, *called, said, *messages, tools=tools)
        return [call.tool for call in next_intent(body).calls]

    assert tools_called(complaint) == ["log_visit"]
    assert tools_called(complaint, *answered("log_visit", "fine", 1)) == []
    assert tools_called(asked) == ["get_weather"]
