"""Tests of `surecall.wire.apis.responses_request`."""

from typing import Any

import pytest

from surecall.values.types import JSON
from surecall.wire.apis.adapter import InvalidRequest, ProviderState, encode_state
from surecall.wire.apis.responses_request import (
    assistant_text,
    chat_content,
    chat_messages,
    chat_request,
)
from tests.support.responses_api import ADD, call

# Input items become chat messages: one per turn of the assistant, one per other voice


ASKED: JSON = {"role": "user", "content": "a"}
SAID: JSON = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hm.", "annotations": []}],
}
CALLED: JSON = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'}
OUTPUT: JSON = {"type": "function_call_output", "call_id": "c1", "output": "2"}
RESULT: JSON = {"role": "tool", "tool_call_id": "c1", "content": "2"}


def reasoning(state: ProviderState) -> JSON:
    return {"type": "reasoning", "summary": [], "encrypted_content": encode_state(state)}


def assistant(text: str | None, *calls: JSON, **extra: Any) -> JSON:
    message = {"role": "assistant", "content": text} | extra
    return message | {"tool_calls": list(calls)} if calls else message


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_a_message_keeps_its_role(role: str) -> None:
    parts = [{"type": "input_text", "text": "a"}]

    assert chat_messages([{"type": "message", "role": role, "content": parts}]) == [
        {"role": role, "content": "a"}
    ]


def test_text_and_calls_of_one_turn_become_one_message() -> None:
    second = CALLED | {"call_id": "c2"}
    items = [ASKED, SAID, CALLED, second, OUTPUT, OUTPUT | {"call_id": "c2"}]

    assert chat_messages(items) == [
        ASKED,
        assistant("Hm.", call(), call("c2")),
        RESULT,
        RESULT | {"tool_call_id": "c2"},
    ]


def test_turns_are_told_apart_by_what_stands_between_them() -> None:
    items = [CALLED, OUTPUT, CALLED | {"call_id": "c2"}, SAID]

    assert chat_messages(items) == [assistant(None, call()), RESULT, assistant("Hm.", call("c2"))]


def test_calls_without_a_text_have_none_instead_of_an_empty_one() -> None:
    silent = SAID | {"content": []}

    assert chat_messages([silent, CALLED, OUTPUT]) == [assistant(None, call()), RESULT]
    assert chat_messages([CALLED, OUTPUT]) == [assistant(None, call()), RESULT]


def test_two_messages_of_the_assistant_stay_two() -> None:
    assert chat_messages([SAID, SAID]) == [assistant("Hm."), assistant("Hm.")]


def test_nothing_comes_between_calls_and_their_outputs() -> None:
    assert chat_messages([SAID, CALLED, SAID, OUTPUT]) == [assistant("Hm.\nHm.", call()), RESULT]


def test_a_custom_call_is_a_call_with_one_text() -> None:
    items = [
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": '*** "a"\n'},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "2"},
    ]

    assert chat_messages(items) == [
        assistant(None, call("c1", "apply_patch", '{"input":"*** \\"a\\"\\n"}')),
        RESULT,
    ]


def test_a_call_in_a_namespace_has_the_name_that_the_model_sees() -> None:
    (message,) = chat_messages([CALLED | {"namespace": "mcp__crate"}])

    assert message["tool_calls"] == [call("c1", "mcp__crate__add")]


def test_an_output_may_have_parts() -> None:
    image = {"type": "input_image", "image_url": "data:,"}
    (message,) = chat_messages([OUTPUT | {"output": [{"type": "input_text", "text": "2"}, image]}])

    assert message["content"] == [
        {"type": "text", "text": "2"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
    ]


def test_state_goes_back_to_where_it_came_from() -> None:
    inner = {"extra_content": {"g": 1}, "function": {"signature": "s"}}
    state = ProviderState("7", message={"reasoning_content": "r"}, calls={"c1": inner})
    signed = call("c1", extra_content={"g": 1})
    signed["function"] = signed["function"] | {"signature": "s"}

    assert chat_messages([reasoning(state), CALLED, CALLED | {"call_id": "c2"}]) == [
        assistant(None, signed, call("c2"), reasoning_content="r")
    ]


def test_the_last_state_of_a_turn_counts() -> None:
    first = ProviderState("7", opens=True, message={"reasoning": "r"})
    last = ProviderState("7", message={"reasoning": "rs", "x": 1})

    assert chat_messages([reasoning(first), SAID, reasoning(last), CALLED]) == [
        assistant("Hm.", call(), reasoning="rs", x=1)
    ]


def test_state_may_follow_the_text_that_it_belongs_to() -> None:
    assert chat_messages([SAID, reasoning(ProviderState("7", message={"x": 1}))]) == [
        assistant("Hm.", x=1)
    ]


@pytest.mark.parametrize(
    "second", [ProviderState("8", opens=True), ProviderState("8", message={"x": 2})]
)
def test_the_state_of_another_turn_begins_that_turn(second: ProviderState) -> None:
    first = ProviderState("7", opens=True, message={"x": 1})

    assert chat_messages([reasoning(first), SAID, reasoning(second), CALLED]) == [
        assistant("Hm.", x=1),
        assistant(None, call(), **second.message),
    ]


def test_parts_that_were_said_go_back_as_they_came() -> None:
    parts = [{"type": "thinking", "thinking": "?"}, {"type": "text", "text": "Hm."}]
    (message,) = chat_messages([SAID, reasoning(ProviderState("7", message={"content": parts}))])

    assert message == {"role": "assistant", "content": parts}


def test_state_never_overwrites_what_the_items_say() -> None:
    forged = {"role": "system", "tool_calls": [], "x": 1}
    of_call = {"id": "c9", "function": {"name": "rm", "arguments": "", "y": 2}}
    state = ProviderState("7", message=forged, calls={"c1": of_call, "c2": {"function": "rm"}})
    (message,) = chat_messages([reasoning(state), CALLED, CALLED | {"call_id": "c2"}])

    first, second = message["tool_calls"]
    assert (message["role"], message["x"]) == ("assistant", 1)
    assert first == call() | {"function": call()["function"] | {"y": 2}}
    assert second == call("c2")


@pytest.mark.parametrize("content", ["gAAAAA", None, "surecall1:?", 3])
def test_reasoning_that_is_not_ours_is_left_out(content: Any) -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": content}

    assert chat_messages([ASKED, item]) == [ASKED]


def test_a_thought_without_words_is_left_out() -> None:
    assert chat_messages([reasoning(ProviderState("7", message={"x": 1})), ASKED]) == [ASKED]


@pytest.mark.parametrize(
    ("given", "sent"), [(None, ""), (7, "7"), (["c1"], ""), ("c9", "c9"), ({}, "")]
)
def test_ids_that_are_missing_or_no_texts_are_left_to_the_history(given: Any, sent: str) -> None:
    called, output = CALLED | {"call_id": given}, OUTPUT | {"call_id": given}
    if given is None:
        del called["call_id"], output["call_id"]

    assert chat_messages([called, output]) == [
        assistant(None, call(sent)),
        RESULT | {"tool_call_id": sent},
    ]


def test_an_output_may_name_its_tool() -> None:
    (message,) = chat_messages([OUTPUT | {"name": "add", "namespace": "crate"}])

    assert message == RESULT | {"name": "crate__add"}


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ({"a": "é"}, '{"a":"é"}'),
        (7, "7"),
        ([{"type": "x", "y": 1}], '{"type":"x","y":1}'),
        ([{"type": "input_image"}], '{"type":"input_image"}'),
    ],
)
def test_an_output_of_an_unknown_form_is_kept_as_json(output: Any, content: str) -> None:
    (message,) = chat_messages([OUTPUT | {"output": output}])

    assert message["content"] == content


def test_an_item_of_an_unknown_type_is_sent_with_a_label() -> None:
    item = {"type": "mcp_call", "name": "roll", "output": "4"}
    label = 'Item of type "mcp_call" in this conversation:'

    assert chat_messages([ASKED, item]) == [
        ASKED,
        {
            "role": "user",
            "content": f'{label}\n{{"type":"mcp_call","name":"roll","output":"4"}}',
        },
    ]


@pytest.mark.parametrize("result", ["AAAA", "data:image/png;base64,AAAA"])
def test_an_image_that_a_service_made_is_shown(result: str) -> None:
    (message,) = chat_messages([{"type": "image_generation_call", "result": result}])
    label, image = message["content"]

    assert "image_generation_call" in label["text"]
    assert image["image_url"] == {"url": "data:image/png;base64,AAAA"}


@pytest.mark.parametrize(
    "kind", ["web_search_call", "mcp_list_tools", "additional_tools", "tool_search_output"]
)
def test_what_a_service_did_is_left_out(kind: str) -> None:
    assert chat_messages([ASKED, {"type": kind, "id": "x"}]) == [ASKED]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"type": "item_reference", "id": "msg_1"}, "Send all items"),
        ({"id": "msg_1"}, "Send all items"),
        ({"type": "compaction", "encrypted_content": "x"}, "Send all items"),
        ({"type": "compaction_trigger"}, "Shorten the input"),
        ({"type": "mcp_approval_response"}, "MCP"),
        ({"type": "local_shell_call_output", "output": "x"}, "'local_shell_call_output'"),
        ({"role": "critic", "content": "a"}, "role"),
        ({"role": ["user"], "content": "a"}, "role"),
        ({"type": "function_call", "call_id": "c1", "name": "add"}, "`arguments`"),
        ({"type": "custom_tool_call", "call_id": "c1", "name": "add"}, "`input`"),
        ({"type": "function_call_output", "call_id": "c1"}, "list of parts"),
        ({"type": 1}, "no `type`"),
        ("a", "no `type`"),
    ],
)
def test_an_item_that_cannot_be_said_is_refused(item: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        chat_messages([ASKED, item])
    assert refused.value.param == "input[1]"


# A request asks the same of a chat completion, or says what cannot be asked


REQUEST_ASKED: JSON = {"model": "m", "input": "Hi"}
MESSAGES = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object"}


def test_a_text_is_the_message_of_the_user() -> None:
    assert chat_request(REQUEST_ASKED) == {"model": "m", "messages": MESSAGES}


def test_instructions_come_first() -> None:
    items = [{"role": "developer", "content": "b"}, {"role": "user", "content": "c"}]

    assert chat_request({"instructions": "a", "input": items})["messages"] == [
        {"role": "system", "content": "a"},
        *items,
    ]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}),
        ({"max_output_tokens": 9}, {"max_tokens": 9}),
        ({"metadata": {"a": "b"}, "user": "u"}, {"metadata": {"a": "b"}, "user": "u"}),
        ({"metadata": {}, "temperature": None}, {}),
        ({"safety_identifier": "s", "prompt_cache_key": "k", "service_tier": "flex"},
         {"safety_identifier": "s", "prompt_cache_key": "k", "service_tier": "flex"}),
        ({"seed": 7, "top_k": 5}, {"seed": 7, "top_k": 5}),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        ({"reasoning": {"effort": None}}, {}),
        ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"include": ["reasoning.encrypted_content"], "top_logprobs": 0}, {}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "text"}}}, {}),
        ({"text": {"format": {"type": "json_object"}}},
         {"response_format": {"type": "json_object"}}),
        ({"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA,
                              "strict": True, "description": None}}},
         {"response_format": {"type": "json_schema",
                              "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False}, {}),
        ({"tools": [ADD], "tool_choice": "auto"},
         {"tools": [{"type": "function",
                     "function": {"name": "add", "parameters": {"type": "object"}}}],
          "tool_choice": "auto"}),
    ],
)  # fmt: skip
def test_a_field_is_said_in_the_words_of_a_chat_completion(given: JSON, sent: JSON) -> None:
    assert chat_request(REQUEST_ASKED | given) == {"model": "m", "messages": MESSAGES} | sent


@pytest.mark.parametrize(
    "given",
    [
        *({"store": True}, {"truncation": "auto"}, {"max_tool_calls": 3}, {"background": False}),
        *({"client_metadata": {"a": "b"}}, {"stream_options": {"include_obfuscation": False}}),
        *({"context_management": [{"type": "compaction"}]}, {"previous_response_id": None}),
    ],
)
def test_what_has_no_word_is_left_out(given: JSON) -> None:
    assert chat_request(REQUEST_ASKED | given) == {"model": "m", "messages": MESSAGES}


@pytest.mark.parametrize(
    ("given", "param", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "whole conversation"),
        ({"conversation": "conv_1"}, "conversation", "whole conversation"),
        ({"prompt": {"id": "p"}}, "prompt", "`instructions`"),
        ({"background": True}, "background", "Leave"),
        ({"input": None}, "input", "a string or a list"),
        ({"input": []}, "input", "no item"),
        ({"instructions": [1]}, "instructions", "must be a string"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format", "json_schema"),
    ],
)
def test_what_would_be_another_answer_is_refused(given: JSON, param: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        chat_request(REQUEST_ASKED | given)
    assert (refused.value.param, refused.value.status) == (param, 400)


def test_instructions_alone_can_be_answered() -> None:
    sent: Any = chat_request({"instructions": "a", "input": []})["messages"]

    assert sent == [{"role": "system", "content": "a"}]


# Content parts become those of a chat message, with every text as it came


URL = "data:image/png;base64,AA=="
TEXT = {"type": "text", "text": "a"}


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("a", "a"),
        ([], ""),
        ([{"type": "input_text", "text": "a"}], "a"),
        (["a"], "a"),
        (
            [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
            [TEXT, {"type": "text", "text": "b"}],
        ),
        (
            [{"type": "input_text", "text": "a", "cache_control": {"type": "ephemeral"}}],
            [TEXT | {"cache_control": {"type": "ephemeral"}}],
        ),
        (
            [{"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}],
            "a",
        ),
        (
            [{"type": "input_image", "image_url": URL, "detail": "low"}],
            [{"type": "image_url", "image_url": {"url": URL, "detail": "low"}}],
        ),
        (
            [{"type": "input_image", "image_url": {"url": URL}, "detail": "original"}],
            [{"type": "image_url", "image_url": {"url": URL}}],
        ),
        (
            [{"type": "input_file", "filename": "a.pdf", "file_data": URL, "file_url": None}],
            [{"type": "file", "file": {"filename": "a.pdf", "file_data": URL}}],
        ),
        (
            [{"type": "input_audio", "input_audio": {"data": "A", "format": "wav"}}],
            [{"type": "input_audio", "input_audio": {"data": "A", "format": "wav"}}],
        ),
    ],
)
def test_parts_are_those_of_a_chat_message(given: Any, content: Any) -> None:
    assert chat_content(given, "input[0]") == content


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "a string or a list"),
        ([1], "without a known type"),
        ([{"type": "input_video"}], "'input_video'"),
        ([{"type": "input_image", "file_id": "f"}], "image_url"),
        ([{"type": "input_file", "file_url": "http://x"}], "file_data"),
    ],
)
def test_a_part_that_has_no_place_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        chat_content(given, "input[0]")
    assert (refused.value.param, refused.value.status) == ("input[0]", 400)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("a", "a"),
        ([{"type": "output_text", "text": "a", "annotations": []}, "b"], "ab"),
        ([{"type": "refusal", "refusal": "No."}], "No."),
    ],
)
def test_what_the_assistant_said_is_one_text(given: Any, text: str) -> None:
    assert assistant_text(given, "input[0]") == text


@pytest.mark.parametrize("given", [None, [{"type": "input_image"}]])
def test_what_the_assistant_cannot_have_said_is_refused(given: Any) -> None:
    with pytest.raises(InvalidRequest):
        assistant_text(given, "input[0]")
