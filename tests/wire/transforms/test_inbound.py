"""Inbound transforms, one by one: what each one heals, and what it leaves alone."""

from typing import Any

import pytest

from surecall.settings.endpoint_profile import FAMILIES
from surecall.values.types import JSON

TEXT = "assistant_tool_calls_json_text_to_array"
FLAT = "assistant_tool_calls_flat_to_function"
TAGS = "assistant_tool_calls_name_tags_to_arguments"
PARALLEL = "assistant_tool_calls_parallel_expanded"
BLANK = "assistant_tool_calls_blank_dropped"
PARTS = "assistant_content_parts_to_text"


def heal(name: str, message: JSON) -> JSON:
    return FAMILIES["response_transforms"][name](message)


def called(name: object, arguments: object = "{}", **rest: object) -> JSON:
    return rest | {"function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("text", "calls"), [("[]", []), ("null", None), ('{"id":"x"}', {"id": "x"}), (" [1] ", [1])]
)
def test_calls_as_json_text_are_decoded(text: str, calls: object) -> None:
    assert heal(TEXT, {"tool_calls": text}) == {"tool_calls": calls}


@pytest.mark.parametrize("text", ["add(1)", "7", '"add"', "[" * 100_000])
def test_calls_as_other_text_become_a_call_that_cannot_run(text: str) -> None:
    (call,) = heal(TEXT, {"tool_calls": text})["tool_calls"]

    assert call == called("", text, id="call_unreadable")


@pytest.mark.parametrize("calls", ["", " ", None, [], {}])
def test_no_calls_are_left_as_they_are(calls: object) -> None:
    message = {"tool_calls": calls}

    assert heal(TEXT, message) is message


@pytest.mark.parametrize("key", ["arguments", "parameters", "input"])
def test_a_flat_call_is_put_under_its_function(key: str) -> None:
    flat = {"id": "x", "name": "add", key: {"a": 1}, "signature": "s"}

    healed = heal(FLAT, {"tool_calls": [flat, None]})

    assert healed["tool_calls"] == [called("add", {"a": 1}, id="x", signature="s"), None]


@pytest.mark.parametrize(
    "call", [{"name": " "}, {"name": 3}, {"id": "x"}, called("add") | {"name": "b"}, "add"]
)
def test_a_call_that_is_not_flat_stays(call: object) -> None:
    message = {"tool_calls": [call]}

    assert heal(FLAT, message) is message


@pytest.mark.parametrize(
    "name",
    [
        "<arg_key>a</arg_key><arg_value>1</arg_value>",
        "f<arg_key>a</arg_key><arg_value>1",
        "f<arg_key>a<arg_value>1</arg_value>",
        "f<arg_key>a</arg_key> b <arg_value>1</arg_value>",
        "f<arg_key>a</arg_key><arg_value>1</arg_value> and more",
        "f<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>a</arg_key><arg_value>2</arg_value>",
    ],
)
def test_tags_in_a_name_that_are_not_whole_stay(name: str) -> None:
    message = {"tool_calls": [called(name, "")]}

    assert heal(TAGS, message) is message


def test_tags_in_a_name_do_not_overrule_real_arguments() -> None:
    name = "f<arg_key>a</arg_key><arg_value>1</arg_value>"
    message = {"tool_calls": [called(name, '{"a":2}')]}

    assert heal(TAGS, message) is message
    split = heal(TAGS, {"tool_calls": [called(f"{name}</tool_call>", "{}")]})
    assert split["tool_calls"] == [called("f", {"a": "1"})]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{",
        {"tool_uses": []},
        {"tool_uses": {}},
        {"tool_uses": [{"recipient_name": "functions.f"}, {"parameters": {}}]},
        {"tool_uses": [{"recipient_name": "multi_tool_use.parallel"}]},
    ],
)
def test_a_parallel_call_that_cannot_be_read_whole_stays(arguments: object) -> None:
    message = {"tool_calls": [called("multi_tool_use.parallel", arguments)]}

    assert heal(PARALLEL, message) is message


def test_parallel_calls_take_the_place_of_their_wrapper() -> None:
    uses = [{"recipient_name": "functions.f", "parameters": {"a": 1}}, {"recipient_name": "g"}]
    wrapper = called("functions.multi_tool_use.parallel", {"tool_uses": uses}, id="p")

    healed = heal(PARALLEL, {"tool_calls": [called("e"), wrapper, "junk"]})

    first = called("functions.f", {"a": 1}, type="function")
    inner = [first, called("g", None, type="function")]
    assert healed["tool_calls"] == [called("e"), *inner, "junk"]


@pytest.mark.parametrize(
    ("calls", "kept"),
    [
        ([called("f"), called("", '{"a":1}')], 1),
        ([called(""), called(None, None, id="")], 0),
        ([called("", '{"a":1}')], 1),
        ([called("", id="x")], 1),
        ([None, {}], 1),
    ],
)
def test_blank_calls_are_dropped_unless_they_say_something_and_stand_alone(
    calls: list[Any], kept: int
) -> None:
    message = {"tool_calls": calls}
    healed = heal(BLANK, message)

    assert len(healed["tool_calls"]) == kept
    assert (healed is message) == (kept == len(calls))


@pytest.mark.parametrize(
    ("content", "text", "thought"),
    [
        ([], "", None),
        ([{"type": "thinking", "thinking": "a"}, {"type": "reasoning", "text": "b"}], "", "ab"),
        ([{"type": "thinking", "thinking": 7}, "x", {"text": "y"}], "xy", None),
    ],
)
def test_parts_are_sorted_into_text_and_thought(
    content: list[Any], text: str, thought: str | None
) -> None:
    healed = heal(PARTS, {"content": content})

    assert (healed["content"], healed.get("reasoning_content")) == (text, thought)


def test_a_thought_that_has_its_own_field_already_is_not_written_twice() -> None:
    parts = [{"type": "thinking", "thinking": "again"}]

    healed = heal(PARTS, {"content": parts, "reasoning_content": "once"})

    assert healed == {"content": "", "reasoning_content": "once"}


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [], "data": {"choices": [1]}},
        {"error": "x", "data": {"choices": [1]}},
        {"data": {"choices": None}},
        {"data": [{"choices": [1]}]},
        {"other": {"choices": [1]}},
    ],
)
def test_an_envelope_is_opened_only_where_nothing_else_is_said(body: JSON) -> None:
    assert FAMILIES["body_transforms"]["response_body_unwrapped"](body) is body
