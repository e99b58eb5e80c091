"""Ids that nobody chose are free ones; whatever else a reply is, it stays as it is."""

import pytest

from surecall.simulator.scripted_replies import assign_call_ids, calls, calls_many, says
from surecall.values.types import JSON


def request(*ids: str) -> JSON:
    made = [{"id": one} for one in ids]
    return {
        "messages": [{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": made}]
    }


def ids_of(reply: JSON) -> list[str]:
    return [call["id"] for call in reply["choices"][0]["message"]["tool_calls"]]


def test_the_next_free_id_is_taken() -> None:
    assert ids_of(assign_call_ids(calls("a"), request("call_1", "call_2"))) == ["call_3"]
    both = assign_call_ids(calls_many(calls("a"), calls("b")), request("call_1"))
    assert ids_of(both) == ["call_2", "call_3"]


def test_an_id_that_was_chosen_stays_also_if_it_is_taken() -> None:
    reply = calls("a", call_id="call_1")
    assert assign_call_ids(reply, request("call_1")) is reply


@pytest.mark.parametrize("reply", [says("hi"), {}, {"choices": []}, {"choices": True}])
def test_a_reply_without_calls_is_left_alone(reply: JSON) -> None:
    assert assign_call_ids(reply, request("call_1")) is reply


def test_a_conversation_without_calls_takes_no_ids() -> None:
    assert ids_of(assign_call_ids(calls("a"), {})) == ["call_1"]
