"""Tests of `surecall.wire.transforms.response_transforms`."""

import json
import math
from typing import Any

import pytest

from surecall import presets
from surecall.core.reply_parsing import parse_reply
from surecall.settings.endpoint_profile import FAMILIES
from surecall.testing import ScriptedModel, calls, raw, says
from surecall.tools.registry import ToolRegistry
from surecall.values.types import JSON, Plan, Reply
from surecall.wire.transforms import BODY, RESPONSE
from tests.support.replies import DEFAULT
from tests.support.tools import ask, shown
from tests.support.tools import heal as arguments_heal

# Inbound transforms, one by one: what each one heals, and what it leaves alone


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


# Bodies and messages in foreign shapes: split turns, deltas, and calls among the content


CALL: JSON = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}
OTHER: JSON = {"id": "c2", "type": "function", "function": {"name": "put", "arguments": "{}"}}
PART: JSON = {"type": "tool_use", "id": "c1", "name": "get", "input": {}}
SHAPES_PARTS = "assistant_content_call_parts_to_tool_calls"


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
    reply = parse_reply(body, Plan("m", (), options={"n": 2}), DEFAULT, ToolRegistry())

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
        assert RESPONSE[SHAPES_PARTS](message) == {"content": None, "tool_calls": [known]}


def test_a_part_that_is_another_call_is_added() -> None:
    message = {"content": [{"type": "text", "text": "a"}, PART], "tool_calls": [OTHER, "junk"]}
    healed = RESPONSE[SHAPES_PARTS](message)

    assert [call.get("id") for call in healed["tool_calls"] if call != "junk"] == ["c2", "c1"]
    assert healed["content"] == [{"type": "text", "text": "a"}]


def test_long_arguments_are_compared_as_they_are() -> None:
    text = '{"a": "' + "x" * 30_000 + '"}'
    long = {"function": {"name": "get", "arguments": text}}
    message = {"content": [PART | {"id": "c2", "input": text}], "tool_calls": [long]}

    assert RESPONSE[SHAPES_PARTS](message)["tool_calls"] == [long]


def test_a_part_without_a_name_is_a_call_that_cannot_run() -> None:
    healed = RESPONSE[SHAPES_PARTS]({"content": {"type": "tool_use", "input": {}}})

    assert healed["tool_calls"][0]["id"] == "call_unreadable"
    assert healed["tool_calls"][0]["function"]["name"] == ""


def test_content_without_calls_stays() -> None:
    message = {"content": [{"type": "text", "text": "a"}]}

    assert RESPONSE[SHAPES_PARTS](message) is message


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


# Inbound transforms of arguments and of the calls that carry them in an older form


LEGACY = "assistant_function_call_to_tool_calls"
HASH = "assistant_tool_calls_arguments_json_string_if_hash"
ARGUMENTS_BLANK = "assistant_tool_calls_arguments_blank_to_empty_object"


@pytest.mark.parametrize(
    ("legacy", "others", "expected"),
    [
        ({"name": "add", "arguments": {"a": 1}}, {}, '{"a":1}'),
        ({"name": "add", "arguments": "{}"}, {"tool_calls": []}, "{}"),
        ({"name": "add"}, {"tool_calls": None}, None),
    ],
)
def test_a_legacy_call_is_lifted(legacy: JSON, others: JSON, expected: str | None) -> None:
    healed = arguments_heal("response_transforms", LEGACY, {"function_call": legacy} | others)

    function = {"name": "add", "arguments": expected}
    assert healed == {"tool_calls": [{"type": "function", "function": function}]}


@pytest.mark.parametrize(
    "message",
    [
        {"function_call": {"name": " "}},
        {"function_call": None},
        {"function_call": {"name": "add"}, "tool_calls": [{"id": "real"}]},
    ],
)
def test_a_legacy_call_that_is_none_or_one_too_many_is_dropped(message: JSON) -> None:
    rest = {key: value for key, value in message.items() if key != "function_call"}

    assert arguments_heal("response_transforms", LEGACY, message) == rest


@pytest.mark.parametrize(
    ("arguments", "expected"), [("", "{}"), (" \n", "{}"), ("{}", "{}"), ("x", "x"), (None, None)]
)
def test_blank_argument_text_becomes_an_empty_object(arguments: object, expected: object) -> None:
    call = {"id": "c", "function": {"name": "add", "arguments": arguments}}

    healed = arguments_heal("tool_call_transforms", ARGUMENTS_BLANK, call)

    assert healed == {"id": "c", "function": {"name": "add", "arguments": expected}}
    assert (healed is call) == (arguments == expected)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"é": [1, None, True]}, '{"é":[1,null,true]}'),
        ([], "[]"),
        ("{}", "{}"),
        (5, 5),
        ({"a": math.inf}, {"a": math.inf}),
        ({"a": 10**5000}, {"a": 10**5000}),
    ],
)
def test_object_arguments_become_text_unless_json_cannot_carry_them(
    arguments: object, text: object
) -> None:
    message = {"tool_calls": [{"function": {"name": "add", "arguments": arguments}}, None]}

    healed = arguments_heal("response_transforms", HASH, message)

    assert healed["tool_calls"] == [{"function": {"name": "add", "arguments": text}}, None]


def test_arguments_that_json_cannot_carry_are_refused_and_not_turned_into_null() -> None:
    bent = calls("add")
    function = bent["choices"][0]["message"]["tool_calls"][0]["function"]
    function["arguments"] = {"a": "MARK", "b": 2}
    body = json.dumps(bent).replace('"MARK"', "NaN").encode()
    model = ScriptedModel(raw(body), says("sorry"))

    ask(model, presets.default_tool_calling())

    assert shown(model)["errors"][0]["code"] == "ARGUMENTS_JSON_PARSE_ERROR"
