"""A request asks the same of a chat completion, or says what cannot be asked."""

from typing import Any

import pytest

from surecall.proxy.faces.face import Refused
from surecall.proxy.faces.responses.request import chat_request
from surecall.values.types import JSON
from tests.support.responses import ADD

ASKED: JSON = {"model": "m", "input": "Hi"}
MESSAGES = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object"}


def test_a_text_is_the_message_of_the_user() -> None:
    assert chat_request(ASKED) == {"model": "m", "messages": MESSAGES}


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
    assert chat_request(ASKED | given) == {"model": "m", "messages": MESSAGES} | sent


@pytest.mark.parametrize(
    "given",
    [
        *({"store": True}, {"truncation": "auto"}, {"max_tool_calls": 3}, {"background": False}),
        *({"client_metadata": {"a": "b"}}, {"stream_options": {"include_obfuscation": False}}),
        *({"context_management": [{"type": "compaction"}]}, {"previous_response_id": None}),
    ],
)
def test_what_has_no_word_is_left_out(given: JSON) -> None:
    assert chat_request(ASKED | given) == {"model": "m", "messages": MESSAGES}


@pytest.mark.parametrize(
    ("given", "param", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "whole conversation"),
        ({"conversation": "conv_1"}, "conversation", "whole conversation"),
        ({"prompt": {"id": "p"}}, "prompt", "`instructions`"),
        ({"background": True}, "background", "Leave"),
        ({"input": None}, "input", "a text or a list"),
        ({"input": []}, "input", "no item"),
        ({"instructions": [1]}, "instructions", "must be a text"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format", "json_schema"),
    ],
)
def test_what_would_be_another_answer_is_refused(given: JSON, param: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        chat_request(ASKED | given)
    assert (refused.value.param, refused.value.status) == (param, 400)


def test_instructions_alone_can_be_answered() -> None:
    sent: Any = chat_request({"instructions": "a", "input": []})["messages"]

    assert sent == [{"role": "system", "content": "a"}]
