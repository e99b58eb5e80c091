"""Earlier turns are written as an endpoint takes them, and lose nothing that it can use."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.types import JSON
from surecall.wire.chat_format import encode
from surecall.wire.request_adaptations import (
    CONTENT_ABSENT,
    CONTENT_NULL,
    CONTENT_TEXT,
    PLAIN_IDS,
    SHORT_IDS,
    SYSTEM_IN_USER,
    adapt_body,
    adapt_request,
    describe_lesson,
    id_codec,
    is_adaptable,
    is_known_lesson,
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


def test_what_every_call_needs_stays_when_a_message_field_is_refused() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "t", "input": "x"}}
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    message = {"role": "assistant", "id": "m", "name": "n", "tool_calls": [call, custom]}

    for field in ("id", "name"):
        left = rewrite_message(message, (f"without:{field}",))
        assert left == {key: message[key] for key in message if key != field}


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


def message(role: str, content: Any, **beside: Any) -> JSON:
    return {"role": role, "content": content} | beside


def adapted(lesson: str, *messages: JSON) -> list[JSON]:
    found: list[JSON] = adapt_request({"messages": list(messages)}, [lesson])["messages"]
    return found


HI, KIND = message("user", "Hi."), message("system", "Be kind.")
HELLO = message("assistant", "Hello.")
PART, IMAGE = {"type": "text", "text": "Hi."}, {"type": "image_url", "image_url": {"url": "u"}}


def test_what_the_system_says_can_be_said_by_the_user() -> None:
    kind = {"type": "text", "text": "Be kind."}

    assert adapted(SYSTEM_IN_USER, KIND, HI) == [message("user", "Be kind.\n\nHi.")]
    assert adapted(SYSTEM_IN_USER, KIND, message("user", [PART])) == [message("user", [kind, PART])]
    assert adapted(SYSTEM_IN_USER, KIND) == [message("user", "Be kind.")]
    assert adapted(SYSTEM_IN_USER, KIND, HELLO, HI, KIND) == [
        HELLO,
        message("user", "Be kind.\n\nBe kind.\n\nHi."),
    ]
    assert adapted(SYSTEM_IN_USER, HI) == [HI]


def test_system_text_is_joined_at_the_start() -> None:
    assert adapted("system:first", HI, KIND, HELLO) == [KIND, HI, HELLO]
    assert adapted("system:first", KIND, HI, message("developer", "Be brief.")) == [
        message("system", "Be kind.\n\nBe brief."),
        HI,
    ]
    assert adapted("system:first", KIND, HI) == [KIND, HI]
    assert adapted("system:first", HI) == [HI]


def test_a_developer_speaks_as_the_system() -> None:
    assert adapted("role:system", message("developer", "Be kind."), HI) == [KIND, HI]


def test_adjacent_messages_of_a_role_are_merged_but_never_calls_and_results() -> None:
    assert adapted("roles:merged", HI, HI, HELLO, HELLO) == [
        message("user", "Hi.\n\nHi."),
        message("assistant", "Hello.\n\nHello."),
    ]
    assert adapted("roles:merged", HI, message("user", [PART])) == [message("user", [PART, PART])]
    assert adapted("roles:merged", TURN, TURN, RESULT, RESULT) == [TURN, TURN, RESULT, RESULT]


def test_a_short_turn_stands_between_a_result_and_the_user() -> None:
    bridged = adapted("bridge:user", HI, TURN, RESULT, HI)

    assert [each["role"] for each in bridged] == ["user", "assistant", "tool", "assistant", "user"]
    assert adapted("bridge:user", HI, HELLO) == [HI, HELLO]


def test_parts_of_text_are_joined_and_other_parts_stay() -> None:
    assert adapted("parts:text", message("tool", [PART, PART])) == [message("tool", "Hi.Hi.")]
    mixed = message("user", [PART, IMAGE])
    assert adapted("parts:text", mixed, HI) == [mixed, HI]


def test_images_of_results_follow_in_a_user_message() -> None:
    shot = RESULT | {"content": [PART, IMAGE]}
    alone = RESULT | {"content": [IMAGE], "tool_call_id": "b"}
    sent = adapted("images:user", TURN, shot, alone, HELLO, alone)

    assert [each["role"] for each in sent] == [
        *("assistant", "tool", "tool", "user", "assistant", "tool", "user"),
    ]
    assert sent[1]["content"] == [PART]
    assert isinstance(sent[2]["content"], str)
    assert [part["type"] for part in sent[3]["content"]] == ["text", "image_url"] * 2
    assert adapted("images:user", message("user", [IMAGE])) == [message("user", [IMAGE])]


def test_an_image_that_cannot_be_sent_is_replaced_by_a_sentence() -> None:
    shot, kept = RESULT | {"content": [PART, IMAGE]}, message("user", [IMAGE])
    sent = adapted("images:omitted", shot, kept)

    assert [part["type"] for part in sent[0]["content"]] == ["text", "text"]
    assert sent[1] is kept


def test_a_result_with_references_is_text_in_an_object_and_loses_nothing() -> None:
    text = '{"$ref": "#/$defs/A", "n": 1}'
    for content in (text, [{"type": "text", "text": text}, PART]):
        (sent,) = adapted("results:text", RESULT | {"content": content})
        whole = sent["content"] if isinstance(content, str) else sent["content"][0]["text"]
        assert "$ref" not in whole
        assert json.loads(whole) == {"result": text}
    assert adapted("results:text", HI, RESULT) == [HI, RESULT]


def test_empty_content_is_filled_except_beside_calls() -> None:
    empty = [message("user", ""), message("tool", None), message("assistant", [])]
    blank = message("user", [{"type": "text", "text": " "}])

    assert all(each["content"] == "(empty)" for each in adapted("content:filled", *empty, blank))
    assert adapted("content:filled", TURN, HI) == [TURN, HI]
    both = message("user", [{"type": "text", "text": ""}, PART])
    assert adapted("content:filled", both) == [message("user", [PART])]
    assert adapted("content:filled", message("user", [PART])) == [message("user", [PART])]


def test_empty_lists_are_left_out() -> None:
    body: JSON = {"messages": [HELLO | {"tool_calls": []}], "tools": [], "tool_choice": "auto"}

    assert adapt_request(body, ["empty:tools", "empty:tool_calls"]) == {"messages": [HELLO]}
    assert adapt_request({"messages": [HI], "tools": [{}]}, ["empty:tools"])["tools"] == [{}]


def test_results_are_named_after_their_calls() -> None:
    bare = {key: RESULT[key] for key in RESULT if key != "name"}

    assert adapted("name:tool", TURN, bare, bare | {"tool_call_id": "x"}) == [
        TURN,
        RESULT,
        bare | {"tool_call_id": "x"},
    ]


def test_options_are_renamed_capped_set_and_left_out() -> None:
    body: JSON = {"messages": [], "max_tokens": 9_000, "temperature": 0.5}

    assert adapt_request(body, ["rename:max_tokens:max_completion_tokens"]) == {
        "messages": [],
        "max_completion_tokens": 9_000,
        "temperature": 0.5,
    }
    both = body | {"max_completion_tokens": 1}
    assert adapt_request(both, ["rename:max_tokens:max_completion_tokens"]) == both
    assert adapt_request(body, ["at-most:max_tokens:4096"])["max_tokens"] == 4096
    assert adapt_request(body, ["at-most:max_tokens:9999"]) == body
    assert adapt_request(body, ["set:reasoning_effort:none"])["reasoning_effort"] == "none"
    assert adapt_request(body, ["temperature", "seed"]) == {"messages": [], "max_tokens": 9_000}
    assert adapt_request(body, ["api:responses", "max-tools:3", "schema:format"]) == body


def test_lessons_change_a_request_alike_in_any_order() -> None:
    body = {"messages": [HI, message("developer", "Be kind."), HI, TURN, RESULT, HI]}
    lessons = ["bridge:user", "roles:merged", "system:first", "role:system", "parts:text"]

    assert adapt_request(body, lessons) == adapt_request(body, lessons[::-1])


def test_thinking_is_turned_off_only_where_the_reply_is_not_streamed() -> None:
    lessons = ("set:enable_thinking:false",)

    assert adapt_request({"enable_thinking": True}, lessons) == {"enable_thinking": False}
    assert adapt_request({"stream": True}, lessons) == {"stream": True}


def test_a_tool_without_parameters_gets_an_empty_object() -> None:
    body = {"messages": [], "tools": [{"type": "function", "function": {"name": "t"}}]}

    function = adapt_request(body, ("schema:complete",))["tools"][0]["function"]
    assert function["parameters"] == {"type": "object", "properties": {}}
    assert adapt_request(body, ("schema:kinds",)) == body


def test_the_result_of_a_custom_tool_has_no_name() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "t", "input": "x"}}
    result = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    body = {"messages": [{"role": "assistant", "tool_calls": [custom]}, result]}

    assert is_adaptable(body)
    assert adapt_request(body, ("name:tool",)) == body


@pytest.mark.parametrize(
    "damaged",
    [
        {"messages": 5},
        {"messages": [5]},
        {"messages": [{"role": []}]},
        {"messages": [{"role": "tool", "tool_call_id": 5}]},
        {"messages": [{"role": "user", "content": [{"type": []}]}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
        {"messages": [], "tools": [5]},
        {"messages": [], "tools": True},
    ],
)
def test_a_request_of_another_form_is_left_alone(damaged: JSON) -> None:
    data = encode(damaged)

    assert not is_adaptable(damaged)
    assert adapt_body(data, ("without:x", "name:tool")) is data


def test_a_body_without_lessons_keeps_its_bytes() -> None:
    body = b'{"messages" : [ ], "n": 1.0}'

    assert adapt_body(body, ()) is body
    assert adapt_body(body, ("temperature",)) is body
    assert adapt_body(body, ("n",)) == b'{"messages":[]}'


@pytest.mark.parametrize(
    "lesson",
    [
        *("temperature", "rename:max_tokens:max_completion_tokens", "at-most:max_tokens:4096"),
        *("set:reasoning_effort:none", "without:reasoning", "ids:nine", "ids:fc_", "schema:const"),
        *("schema:depth:5", "content:filled", "max-tools:128", "api:responses", "roles:merged"),
    ],
)
def test_stored_lessons_are_recognized(lesson: str) -> None:
    assert is_known_lesson(lesson)


@pytest.mark.parametrize(
    "lesson",
    [
        *("", "model", "messages", "without:content", "without:tool_calls", "rename:a:b"),
        *("set:model:x", "at-most:n:1", "at-most:max_tokens:x", "schema:properties", "a,b", "é"),
        *("schema:depth:x", "ids:no good", "max-tools:", "api:other", "nonsense:1", "x" * 201),
    ],
)
def test_a_stored_name_that_could_lose_content_is_no_lesson(lesson: str) -> None:
    assert not is_known_lesson(lesson)


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


@pytest.mark.parametrize(
    ("lesson", "words"),
    [
        ("temperature", "omits temperature"),
        ("rename:max_tokens:max_completion_tokens", "renames max_tokens to max_completion_tokens"),
        ("at-most:max_tokens:4096", "limits max_tokens to 4096"),
        ("set:reasoning_effort:none", "sets reasoning_effort to none"),
        ("without:reasoning", "omits reasoning from messages"),
        ("ids:nine", "rewrites call ids (nine)"),
        ("schema:const", "rewrites tool schemas (const)"),
        ("api:responses", "uses the responses API"),
        ("max-tools:128", "sends at most 128 tools"),
        ("role:system", "sends the developer role as system"),
    ],
)
def test_a_lesson_is_described_in_words(lesson: str, words: str) -> None:
    assert describe_lesson(lesson) == words


KNOWN_LESSONS = (
    *("without:name", "without:reasoning", "ids:nine", "ids:plain", "content:text"),
    *("content:filled", "parts:text", "images:user", "images:omitted", "results:text"),
    *("name:tool", "signature:skip", "role:system", "system:first", "system:user"),
    *("roles:merged", "bridge:user"),
)


def grown_conversation(turns: int) -> list[JSON]:
    """Return a conversation of so many turns with calls, results with images, and questions."""
    messages: list[JSON] = [{"role": "system", "content": "Be kind."}]
    for turn in range(turns):
        call = {"id": f"call {turn}", "type": "function", "function": {"name": "t"}}
        text = {"type": "text", "text": '{"$ref": "#/x"}'}
        messages += [
            {"role": "user", "content": [{"type": "text", "text": "Go."}], "name": "ann"},
            {"role": "user", "content": ""},
            {"role": "assistant", "content": None, "reasoning": "r", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call {turn}", "content": [text, IMAGE]},
        ]
    return messages


@pytest.mark.parametrize("lessons", [(each,) for each in KNOWN_LESSONS] + [KNOWN_LESSONS])
def test_an_adapted_request_begins_with_the_adapted_request_before(lessons: Any) -> None:
    for turns in range(1, 4):
        now = adapt_request({"messages": grown_conversation(turns)}, lessons)["messages"]
        later = adapt_request({"messages": grown_conversation(turns + 1)}, lessons)["messages"]

        assert later[: len(now)] == now
