"""Earlier turns are written as an endpoint takes them, and lose nothing that it can use."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.types import JSON, Assistant, Message, System, User
from surecall.wire.history_rewrites import (
    CONTENT_ABSENT,
    CONTENT_NULL,
    CONTENT_TEXT,
    PLAIN_IDS,
    SHORT_IDS,
    SYSTEM_IN_USER,
    id_codec,
    is_history_lesson,
    merge_system_into_user,
    rewrite_message,
    rewrite_tool,
)

IDS = st.text(min_size=1, max_size=120)
CONTENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
PLAIN_CHARACTERS = set(string.ascii_letters + string.digits + "_-")
FUNCTION = {"name": "f", "arguments": "{}"}
CALL: JSON = {"id": "a.b:0", "type": "function", "function": FUNCTION, "mark": 1}
TURN: JSON = {"role": "assistant", "content": "", "tool_calls": [CALL], "opaque": "o"}
RESULT: JSON = {"role": "tool", "tool_call_id": "a.b:0", "content": "{}", "name": "f"}


@given(IDS)
def test_an_id_is_mapped_alike_in_a_call_and_in_its_result(given_id: str) -> None:
    call = TURN | {"tool_calls": [CALL | {"id": given_id}]}
    for lesson in (SHORT_IDS, PLAIN_IDS, "ids:fc_"):
        called = rewrite_message(call, [lesson])["tool_calls"][0]["id"]
        answered = rewrite_message(RESULT | {"tool_call_id": given_id}, [lesson])["tool_call_id"]
        assert called == answered == id_codec(lesson)(called)
        assert PLAIN_CHARACTERS.issuperset(called)
        assert len(called) <= 40


@given(st.lists(IDS, unique=True, max_size=20), st.sampled_from([SHORT_IDS, PLAIN_IDS, "ids:call"]))
def test_different_ids_stay_different(ids: list[str], lesson: str) -> None:
    assert len(set(map(id_codec(lesson), ids))) == len(ids)


def test_an_id_that_fits_stays_as_it_is() -> None:
    assert id_codec(PLAIN_IDS)("call_1") == "call_1"
    assert id_codec(SHORT_IDS)("abcDEF123") == "abcDEF123"
    assert id_codec("ids:call")("call_1") == "call_1"
    assert id_codec("ids:fc_")("call_1").startswith("fc_")


def test_a_refused_field_is_left_out_of_message_call_and_function() -> None:
    signed = TURN | {"tool_calls": [CALL | {"function": FUNCTION | {"mark": 2}}]}
    bare = {"id": "a.b:0", "type": "function", "function": FUNCTION}

    assert rewrite_message(signed, ["without:mark"]) == TURN | {"tool_calls": [bare]}
    assert "opaque" not in rewrite_message(TURN, ["without:opaque"])
    assert rewrite_message(RESULT, ["without:name"]) == {
        key: RESULT[key] for key in RESULT if key != "name"
    }
    assert rewrite_message(TURN, ["without:name"]) == TURN


def test_a_refused_part_is_left_out_and_content_is_never_an_empty_list() -> None:
    thought, text = {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "a"}

    assert rewrite_message(
        {"role": "assistant", "content": [thought, text, "b"]}, ["without:thinking"]
    ) == {
        "role": "assistant",
        "content": [text, "b"],
    }
    assert rewrite_message(TURN | {"content": [thought]}, ["without:thinking"])["content"] == ""


def test_blank_content_takes_the_form_that_was_learned_last() -> None:
    assert rewrite_message(TURN, [CONTENT_NULL])["content"] is None
    assert rewrite_message(TURN | {"content": None}, [CONTENT_TEXT])["content"] == ""
    assert "content" not in rewrite_message(TURN, [CONTENT_NULL, CONTENT_ABSENT])
    assert rewrite_message(TURN, [CONTENT_NULL, CONTENT_ABSENT, CONTENT_TEXT])["content"] == ""


@pytest.mark.parametrize("message", [TURN | {"content": "words"}, RESULT, {"role": "user"}])
def test_content_that_says_something_is_left_alone(message: JSON) -> None:
    for lesson in (CONTENT_NULL, CONTENT_TEXT, CONTENT_ABSENT):
        assert rewrite_message(message, [lesson]) is message


@given(CONTENTS)
def test_no_content_keeps_a_message_from_being_written(content: Any) -> None:
    lessons = [
        "without:text",
        "without:name",
        CONTENT_NULL,
        CONTENT_ABSENT,
        CONTENT_TEXT,
        SHORT_IDS,
        PLAIN_IDS,
        "schema:x",
    ]
    for message in (TURN | {"content": content}, RESULT | {"content": content}):
        assert json.dumps(rewrite_message(message, lessons))


def test_what_the_system_says_can_be_said_by_the_user() -> None:
    system = System("Be kind.")
    parts = [{"type": "text", "text": "Hi."}]
    kind = {"type": "text", "text": "Be kind."}

    assert merge_system_into_user([system, User("Hi.")]) == (User("Be kind.\n\nHi."),)
    assert merge_system_into_user([system, User(parts)]) == (User([kind, *parts]),)
    assert merge_system_into_user([system]) == (User("Be kind."),)
    told = Assistant("Hello.")
    assert merge_system_into_user([system, told, User("Hi.")]) == (told, User("Be kind.\n\nHi."))
    assert merge_system_into_user([system, told]) == (User("Be kind."), told)


@pytest.mark.parametrize("messages", [(), (User("Hi."),)])
def test_where_there_is_no_system_text_nothing_changes(messages: tuple[Message, ...]) -> None:
    assert merge_system_into_user(messages) == messages


def test_a_refused_keyword_leaves_every_schema_and_the_definition() -> None:
    inner = {"type": "object", "strict": True}
    schema = {"type": "object", "properties": {"a": inner}, "strict": True}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    bare = {"type": "object", "properties": {"a": {"type": "object"}}}

    assert rewrite_tool(tool, ["schema:strict", "ids:nine"])["function"] == {
        "name": "f",
        "parameters": bare,
    }
    assert rewrite_tool(tool, ["ids:nine"]) is tool


def test_lessons_about_history_are_told_from_those_about_options() -> None:
    assert all(map(is_history_lesson, [SHORT_IDS, CONTENT_NULL, "without:x", SYSTEM_IN_USER]))
    assert not is_history_lesson("parallel_tool_calls")


def test_calls_without_a_signature_get_a_word_in_its_place() -> None:
    bare, signed = {"id": "a"}, {"id": "b", "signature": "s"}
    message: JSON = {"role": "assistant", "tool_calls": [bare, signed]}
    marked, same = rewrite_message(message, ["signature:skip"])["tool_calls"]

    assert marked["extra_content"]["google"]["thought_signature"] == marked["signature"]
    assert same is signed
    alone: JSON = {"role": "assistant", "tool_calls": [signed]}
    assert rewrite_message(alone, ["signature:skip"]) is alone
    plain: JSON = {"role": "user", "content": "Hi."}
    assert rewrite_message(plain, ["signature:skip", "name:tool"]) is plain
