"""Bodies and messages in foreign shapes: split turns, deltas, and calls among the content."""

from typing import Any

import pytest

from surecall.core.inbound import inbound
from surecall.tools.registry import ToolRegistry
from surecall.values.types import JSON, Plan, Reply
from surecall.wire.transforms import BODY, RESPONSE
from tests.support.fault_samples import DEFAULT

CALL: JSON = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}
OTHER: JSON = {"id": "c2", "type": "function", "function": {"name": "put", "arguments": "{}"}}
PART: JSON = {"type": "tool_use", "id": "c1", "name": "get", "input": {}}
PARTS = "assistant_content_call_parts_to_tool_calls"


def choice(reason: str | None = "stop", **message: Any) -> JSON:
    return {"message": {"role": "assistant", **message}, "finish_reason": reason}


def joined(*choices: Any) -> list[Any]:
    body = {"choices": list(choices)}
    return list(BODY["choices_of_one_turn_joined"](body)["choices"])


def test_the_halves_of_a_turn_are_put_together() -> None:
    (one,) = joined(choice("tool_calls", content="Wait."), choice("tool_calls", tool_calls=[CALL]))

    assert one["message"] == {"role": "assistant", "content": "Wait.", "tool_calls": [CALL]}


@pytest.mark.parametrize(
    "second",
    [
        {"tool_calls": '[{"name": "get"}]'},
        {"function_call": {"name": "get"}},
        {"content": [PART]},
        {"tool_calls": [CALL], "content": "My own."},
    ],
)
def test_the_other_half_may_have_any_form(second: JSON) -> None:
    (one,) = joined(choice(content="Wait."), choice("tool_calls", **second))

    content = second.get("content", "Wait.")
    assert one["message"] == {"role": "assistant"} | second | {"content": content}


def test_a_half_without_a_message_has_no_words() -> None:
    (one,) = joined({"message": None, "finish_reason": "stop"}, choice(tool_calls=[CALL]))

    assert one["message"]["content"] is None


def test_the_worse_end_of_the_two_is_the_end_of_the_turn() -> None:
    (one,) = joined(choice("length", content="Wait."), choice("tool_calls", tool_calls=[CALL]))

    assert one["finish_reason"] == "length"


def test_calls_in_several_other_choices_are_asked_for_again() -> None:
    (one,) = joined(choice(content="a"), choice(tool_calls=[CALL]), choice(tool_calls=[OTHER]))

    assert one == choice("tool_calls", content="a")


@pytest.mark.parametrize(
    "choices",
    [
        [choice(tool_calls=[CALL]), choice(tool_calls=[OTHER])],
        [choice(content="a"), choice(content="b")],
        [choice(content="a"), choice(tool_calls=[])],
        [choice(content="a"), {"message": "get"}],
        [choice(content="a"), None],
        [],
    ],
)
def test_other_choices_stay_as_they_are(choices: list[Any]) -> None:
    body = {"choices": choices}

    assert BODY["choices_of_one_turn_joined"](body) is body


def test_who_asked_for_several_choices_gets_the_first() -> None:
    body = {"choices": [choice(content="a"), choice(tool_calls=[CALL])]}
    reply = inbound(body, Plan("m", (), options={"n": 2}), DEFAULT, ToolRegistry())

    assert isinstance(reply, Reply)
    assert (reply.text, reply.calls, reply.fired) == ("a", (), ())


@pytest.mark.parametrize("message", [{}, {"message": None}, {"message": {"content": " "}}])
def test_a_delta_is_the_message_where_there_is_none(message: JSON) -> None:
    body = {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"} | message]}
    healed = BODY["choice_delta_to_message"](body)

    assert healed["choices"] == [{"finish_reason": "stop", "message": {"content": "a"}}]


@pytest.mark.parametrize(
    "choices",
    [
        [{"delta": {"content": "a"}, "message": {"content": "b"}}],
        [{"delta": {"role": "assistant", "content": ""}}],
        [{"delta": "a"}],
        None,
    ],
)
def test_a_delta_that_says_nothing_new_stays(choices: Any) -> None:
    body = {"choices": choices}

    assert BODY["choice_delta_to_message"](body) is body


def test_a_part_that_is_in_the_list_as_well_is_one_call() -> None:
    other = {"name": "get", "arguments": '{"a": 1}'}
    for known in (CALL, CALL | {"id": "c9"}, CALL | {"function": other}):
        message = {"content": [PART], "tool_calls": [known]}
        assert RESPONSE[PARTS](message) == {"content": None, "tool_calls": [known]}


def test_a_part_that_is_another_call_is_added() -> None:
    message = {"content": [{"type": "text", "text": "a"}, PART], "tool_calls": [OTHER, "junk"]}
    healed = RESPONSE[PARTS](message)

    assert [call.get("id") for call in healed["tool_calls"] if call != "junk"] == ["c2", "c1"]
    assert healed["content"] == [{"type": "text", "text": "a"}]


def test_long_arguments_are_compared_as_they_are() -> None:
    text = '{"a": "' + "x" * 30_000 + '"}'
    long = {"function": {"name": "get", "arguments": text}}
    message = {"content": [PART | {"id": "c2", "input": text}], "tool_calls": [long]}

    assert RESPONSE[PARTS](message)["tool_calls"] == [long]


def test_a_part_without_a_name_is_a_call_that_cannot_run() -> None:
    healed = RESPONSE[PARTS]({"content": {"type": "tool_use", "input": {}}})

    assert healed["tool_calls"][0]["id"] == "call_unreadable"
    assert healed["tool_calls"][0]["function"]["name"] == ""


def test_content_without_calls_stays() -> None:
    message = {"content": [{"type": "text", "text": "a"}]}

    assert RESPONSE[PARTS](message) is message


@pytest.mark.parametrize(
    ("content", "left"),
    [("<|eos|>", ""), ("\u200b", ""), ("a<|eos|>", None), (" ", None), (None, None), ([], None)],
)
def test_only_what_says_nothing_is_emptied_before_calls_are_looked_for(
    content: Any, left: str | None
) -> None:
    message = {"content": content}
    healed = RESPONSE["assistant_content_edges_trimmed"](message)

    assert healed is message if left is None else healed == {"content": left}
