"""Anthropic's Messages API as an upstream: requests, replies, and events."""

from typing import Any

import msgspec
import pytest

from surecall.values.types import JSON
from surecall.wire.apis.adapter import InvalidRequest
from surecall.wire.apis.messages_upstream import (
    DEFAULT_MAX_TOKENS,
    MessageEventReader,
    MessagesUpstream,
)
from surecall.wire.chat_format import encode

API = MessagesUpstream()
USER: JSON = {"role": "user", "content": "Hi."}
MARK: JSON = {"type": "ephemeral"}
TOOL: JSON = {"type": "function", "function": {"name": "add", "description": "Adds."}}
THINKING: JSON = {"type": "thinking", "thinking": "Hm.", "signature": "s1=="}


def encoded(*messages: JSON, **options: Any) -> Any:
    body = {"model": "m", "messages": list(messages) or [USER]} | options
    return msgspec.json.decode(encode(API.encode_request(body)))


def turns(*messages: JSON) -> Any:
    return encoded(*messages)["messages"]


def call(call_id: str = "c1", arguments: Any = '{"a":1}', **fields: Any) -> JSON:
    function = {"name": "add", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function} | fields


def said(*calls: JSON, text: Any = None, **fields: Any) -> JSON:
    return {"role": "assistant", "content": text, "tool_calls": list(calls)} | fields


def output(call_id: str = "c1", content: Any = "2") -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def use(call_id: str = "c1", **given: Any) -> JSON:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": given or {"a": 1}}


def decoded(*content: Any, **fields: Any) -> Any:
    head: JSON = {"id": "msg_1", "type": "message", "model": "m", "stop_reason": "end_turn"}
    body = head | {"content": list(content)} | fields
    return API.decode_response(body, encode(body))


def message_of(*content: Any, **fields: Any) -> Any:
    return decoded(*content, **fields)["choices"][0]["message"]


# Requests


def test_a_request_has_the_required_limit_and_keeps_the_given_one() -> None:
    assert encoded()["max_tokens"] == DEFAULT_MAX_TOKENS
    assert encoded(max_tokens=5)["max_tokens"] == 5
    assert encoded(max_completion_tokens=6)["max_tokens"] == 6


@pytest.mark.parametrize(("budget", "more"), [(1000, 1000), (-1, 0), ("x", 0), (True, 0)])
def test_the_default_limit_leaves_room_for_thinking(budget: Any, more: int) -> None:
    thinking = {"type": "enabled", "budget_tokens": budget}
    found = encoded(thinking=thinking)
    assert found["max_tokens"] == DEFAULT_MAX_TOKENS + more
    assert found["thinking"] == thinking


def test_system_messages_go_to_the_beginning_with_their_cache_markers() -> None:
    marked = {"type": "text", "text": "B", "cache_control": MARK}
    first, late = {"role": "system", "content": "A"}, {"role": "developer", "content": [marked]}

    assert encoded(first, USER)["system"] == "A"
    found = encoded(first, USER, late)
    assert found["system"] == [{"type": "text", "text": "A"}, marked]
    assert found["messages"] == [USER]
    assert "system" not in encoded({"role": "system", "content": None}, USER)


def test_a_history_without_a_user_message_gets_one() -> None:
    assert turns({"role": "assistant", "content": "Hello."})[0]["role"] == "user"
    assert turns({"role": "user", "content": " "})[0]["content"]


def test_results_come_first_in_one_user_message_and_empty_ones_stay() -> None:
    found = turns(USER, said(call("c1"), call("c2")), output("c1"), output("c2", ""), USER)

    assert [each["role"] for each in found] == ["user", "assistant", "user"]
    assert found[1]["content"] == [use("c1"), use("c2")]
    assert found[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "2"},
        {"type": "tool_result", "tool_use_id": "c2"},
        {"type": "text", "text": "Hi."},
    ]


def test_messages_of_one_role_are_merged() -> None:
    one, two = ({"role": "assistant", "content": word} for word in ("A", "B"))
    assert turns(USER, one, two)[1]["content"] == [
        {"type": "text", "text": "A"},
        {"type": "text", "text": "B"},
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"b":1,"a":1.50,"n":123456789012345678901}', None),
        ("", "{}"),
        ("[1]", '{"input":"[1]"}'),
        ('{"a":', '{"input":"{\\"a\\":"}'),
        ({"a": 1}, '{"a":1}'),
        (None, '{"input":"null"}'),
    ],
)
def test_arguments_become_an_object_and_keep_their_bytes(arguments: Any, sent: str | None) -> None:
    body = {"model": "m", "messages": [USER, said(call(arguments=arguments)), output()]}
    wanted = arguments if sent is None else sent
    assert f'"input":{wanted}'.encode() in encode(API.encode_request(body))


def test_ids_that_the_api_rejects_are_replaced_in_the_call_and_its_result() -> None:
    found = turns(USER, said(call("a.b:1")), output("a.b:1"))
    [made], [got] = found[1]["content"], found[2]["content"]
    assert made["id"] == got["tool_use_id"] != "a.b:1"


def test_every_content_part_has_a_block() -> None:
    parts = [
        "plain",
        {"type": "text", "text": "T", "cache_control": MARK},
        {"type": "text", "text": " "},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        {"type": "image_url", "image_url": "http://host/i.png"},
        {"type": "file", "file": {"file_data": "data:;base64,AA", "filename": "f"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA"}},
        {"type": "search_result", "source": "s"},
        {"odd": 1},
    ]
    [message] = turns({"role": "user", "content": parts})
    kinds = [block["type"] for block in message["content"]]
    assert kinds == [
        "text",
        "text",
        "image",
        "image",
        "document",
        "document",
        "search_result",
        "text",
    ]
    assert message["content"][1]["cache_control"] == MARK
    sources = [block["source"] for block in message["content"][2:6]]
    assert sources[0] == {"type": "base64", "media_type": "image/png", "data": "AA"}
    assert sources[1] == {"type": "url", "url": "http://host/i.png"}
    assert sources[2]["media_type"] == "application/octet-stream"
    assert message["content"][4]["title"] == "f"


@pytest.mark.parametrize(
    "part",
    [{"type": "input_audio", "input_audio": {}}, {"type": "file", "file": {"file_id": "f"}}],
)
def test_a_part_that_the_api_cannot_hold_is_an_error(part: JSON) -> None:
    with pytest.raises(InvalidRequest, match="cannot hold"):
        encoded({"role": "user", "content": [part]})


@pytest.mark.parametrize("messages", [None, "x", ["x"]])
def test_malformed_messages_are_an_error(messages: Any) -> None:
    with pytest.raises(InvalidRequest):
        API.encode_request({"model": "m", "messages": messages})


def test_tools_have_a_schema_and_keep_their_marker() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    full = {"type": "function", "function": {"name": "b", "parameters": schema, "strict": True}}
    search = {"type": "web_search_20250305", "name": "web_search"}
    found = encoded(tools=[TOOL, full | {"cache_control": MARK}, search])["tools"]

    empty = {"type": "object", "properties": {}}
    assert found[0] == {"name": "add", "description": "Adds.", "input_schema": empty}
    assert found[1] == {"name": "b", "input_schema": schema, "cache_control": MARK}
    assert found[2] == search
    assert "tools" not in encoded(tools=[], tool_choice="auto")


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ({"type": "function", "function": {"name": "add"}}, {"type": "tool", "name": "add"}),
        ({"odd": 1}, {"type": "auto"}),
    ],
)
def test_tool_choices_are_translated(choice: Any, sent: JSON) -> None:
    assert encoded(tools=[TOOL], tool_choice=choice)["tool_choice"] == sent
    one = encoded(tools=[TOOL], tool_choice=choice, parallel_tool_calls=False)["tool_choice"]
    limit = {} if choice == "none" else {"disable_parallel_tool_use": True}
    assert one == sent | limit


def test_one_call_per_turn_needs_a_tool_choice() -> None:
    found = encoded(tools=[TOOL], parallel_tool_calls=False)
    assert found["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "tool_choice" not in encoded(tools=[TOOL])


def test_options_are_translated_and_unknown_ones_stay() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    found = encoded(
        stop="x",
        stream=True,
        stream_options={"include_usage": True},
        user="me",
        store=False,
        n=1,
        logprobs=False,
        seed=4,
        top_k=None,
        reasoning_effort="low",
        response_format=form,
    )
    known = {"stop_sequences": ["x"], "stream": True, "metadata": {"user_id": "me"}, "seed": 4}
    output = {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}
    rest = {"model": "m", "messages": [USER], "max_tokens": DEFAULT_MAX_TOKENS}
    assert found == known | rest | {"output_config": output}


def test_other_forms_of_options() -> None:
    found = encoded(stop=["x"], metadata={"user_id": "u"}, reasoning_effort="none", n=2)
    assert found["stop_sequences"] == ["x"]
    assert found["metadata"] == {"user_id": "u"}
    assert found["n"] == 2
    assert "output_config" not in found
    assert encoded(response_format={"type": "json_object"})["response_format"]
    assert "response_format" not in encoded(response_format={"type": "text"})


# Saved turns


def test_the_blocks_of_a_turn_come_back_byte_for_byte() -> None:
    content = [
        THINKING,
        {"type": "text", "text": "Let me see."},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1.0}},
        {"type": "text", "text": " So.", "citations": [{"cited_text": "x"}]},
        use("c1") | {"caller": {"type": "direct"}},
    ]
    message = message_of(*content)

    assert message["content"] == "Let me see. So."
    assert message["reasoning_content"] == "Hm."
    assert turns(USER, message, output())[1]["content"] == content


def test_a_turn_that_was_changed_keeps_its_state() -> None:
    message = message_of(THINKING, {"type": "text", "text": "A"}, use("c1"), use("c2"))
    message |= {"content": "Longer.", "tool_calls": [message["tool_calls"][0], call("c3")]}

    assert turns(USER, message, output("c1"), output("c3"))[1]["content"] == [
        THINKING,
        {"type": "text", "text": "Longer."},
        use("c1"),
        use("c3"),
    ]


def test_text_that_was_not_saved_goes_before_the_calls() -> None:
    message = message_of(THINKING, use("c1")) | {"content": "New."}
    assert turns(USER, message, output())[1]["content"] == [
        THINKING,
        {"type": "text", "text": "New."},
        use("c1"),
    ]


def test_text_that_was_left_out_stays_out() -> None:
    message = message_of(THINKING, {"type": "text", "text": "A"}, use("c1")) | {"content": ""}
    assert turns(USER, message, output())[1]["content"] == [THINKING, use("c1")]


def test_a_turn_never_ends_with_thinking() -> None:
    message = message_of(THINKING)
    assert message["content"] == ""
    assert [each["role"] for each in turns(USER, message, USER)] == ["user"]


def test_a_cache_marker_on_a_saved_turn_stays() -> None:
    message = message_of(THINKING, {"type": "text", "text": "A"})
    marked = {"type": "text", "text": "A", "cache_control": MARK}
    found = turns(USER, message | {"content": ["", marked]}, USER)[1]["content"]
    assert found == [THINKING, marked]
    unsaved = turns(USER, {"role": "assistant", "content": [marked]}, USER)[1]["content"]
    assert unsaved == [marked]


def test_the_turn_of_another_api_and_a_malformed_one_are_left_out() -> None:
    for saved in ({"api": "responses", "items": [THINKING]}, {"api": "messages"}, 7):
        message = {"role": "assistant", "content": "A", "native_turn": saved}
        assert turns(USER, message)[1]["content"] == "A"
    odd = {"api": "messages", "items": ["x", {"type": "text", "text": "no length"}]}
    message = {"role": "assistant", "content": "A", "native_turn": odd}
    assert turns(USER, message)[1]["content"] == "A"


def test_a_refusal_is_sent_as_text() -> None:
    message = {"role": "assistant", "content": None, "refusal": "No."}
    assert turns(USER, message)[1]["content"] == "No."


# Replies


def test_arguments_keep_their_bytes() -> None:
    data = (
        b'{"id":"m1","content":[{"type":"tool_use","id":"c1","name":"add",'
        b'"input":{"b": 1.50, "a": 123456789012345678901}}],"stop_reason":"tool_use"}'
    )
    body = msgspec.json.decode(data)
    [made] = API.decode_response(body, data)["choices"][0]["message"]["tool_calls"]
    assert made["function"]["arguments"] == '{"b": 1.50, "a": 123456789012345678901}'


@pytest.mark.parametrize("given", ['{"a":1}', [1], None, 7])
def test_input_that_is_no_object_stays_as_it_came(given: Any) -> None:
    block = {"type": "tool_use", "id": "c1", "name": "add", "input": given}
    [made] = message_of(block)["tool_calls"]
    assert made["function"]["arguments"] == given


def test_a_call_may_lack_anything() -> None:
    [made] = message_of({"type": "tool_use"})["tool_calls"]
    assert made == {"type": "function", "function": {"name": None}}


def test_without_the_bytes_arguments_are_encoded() -> None:
    body = {"content": [use("c1")]}
    [made] = API.decode_response(body)["choices"][0]["message"]["tool_calls"]
    assert made["function"]["arguments"] == '{"a":1}'


def test_content_of_any_type_is_read() -> None:
    assert API.decode_response({"content": "Hi."})["choices"][0]["message"]["content"] == "Hi."
    assert message_of("Hi.", {"text": " You."}, 7)["content"] == "Hi. You."
    assert API.decode_response({"detail": "x"}) == {"detail": "x"}


def test_a_call_in_another_form_is_a_call() -> None:
    block = {"type": "tool_call", "id": "c1", "name": "add", "args": {"a": 1}}
    message = message_of(block)
    assert message["tool_calls"][0]["function"]["name"] == "add"
    assert "native_turn" not in message


@pytest.mark.parametrize(
    ("reason", "sent"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        (None, None),
        (7, None),
    ],
)
def test_stop_reasons_are_translated(reason: Any, sent: str | None) -> None:
    assert decoded(stop_reason=reason)["choices"][0]["finish_reason"] == sent


def test_a_matched_stop_sequence_is_named() -> None:
    choice = decoded(stop_reason="stop_sequence", stop_sequence="x")["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "x")


def test_usage_includes_the_cached_tokens() -> None:
    usage = {"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 4}
    found = decoded(usage=usage | {"output_tokens": 8})["usage"]
    assert (found["prompt_tokens"], found["completion_tokens"], found["total_tokens"]) == (7, 8, 15)
    assert found["prompt_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 4}


def test_the_head_of_a_reply_is_kept() -> None:
    found = decoded(created_at=7.5)
    assert (found["id"], found["model"], found["created"]) == ("msg_1", "m", 7)
    assert "created" not in decoded(created_at=True)


# Events


def events(*given: tuple[str, JSON], is_end: bool = False) -> tuple[str, Any]:
    reader = MessageEventReader()
    shown = [delta.text for kind, event in given for delta in reader.read(kind, event)]
    return "|".join(shown), reader.completion(is_end=is_end)


START = ("message_start", {"message": {"id": "m1", "model": "m", "usage": {"input_tokens": 3}}})
STOPPED = ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}})
END: tuple[str, JSON] = ("message_stop", {})


def begin(index: int, **block: Any) -> tuple[str, JSON]:
    return "content_block_start", {"index": index, "content_block": block}


def delta(index: int | None, **fields: Any) -> tuple[str, JSON]:
    return "content_block_delta", {"index": index, "delta": fields}


def close(index: int) -> tuple[str, JSON]:
    return "content_block_stop", {"index": index}


def test_events_become_text_reasoning_and_calls() -> None:
    shown, body = events(
        START,
        ("ping", {}),
        begin(0, type="thinking", thinking=""),
        delta(0, type="thinking_delta", thinking="Hm."),
        delta(0, type="signature_delta", signature="s1=="),
        close(0),
        begin(1, type="text", text="A"),
        delta(1, type="text_delta", text="B"),
        delta(1, type="citations_delta", citation={"x": 1}),
        close(1),
        begin(2, type="tool_use", id="c1", name="add", input={}),
        delta(2, type="input_json_delta", partial_json='{"a"'),
        delta(2, type="input_json_delta", partial_json=": 1.50}"),
        close(2),
        STOPPED,
        END,
    )
    assert shown == "Hm.|A|B"
    message = body["choices"][0]["message"]
    assert message["content"] == "AB"
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a": 1.50}'
    assert body["usage"]["total_tokens"] == 5
    saved = message["native_turn"]["items"]
    assert saved[0] == THINKING
    assert saved[1] == {"type": "text", "text": 2, "citations": [{"x": 1}]}


def test_events_in_the_wrong_order_are_put_in_place() -> None:
    _, body = events(
        START,
        delta(1, type="input_json_delta", partial_json="{}"),
        delta(0, type="text_delta", text="A"),
        STOPPED,
        begin(1, type="tool_use", id="c1", name="add"),
        close(1),
        begin(0, type="text"),
        close(0),
        END,
    )
    message = body["choices"][0]["message"]
    assert (message["content"], message["tool_calls"][0]["id"]) == ("A", "c1")


def test_blocks_without_their_start_are_guessed() -> None:
    _, body = events(
        delta(0, type="text_delta", text="A"),
        delta(1, type="input_json_delta", partial_json="{}"),
        delta(2, type="thinking_delta", thinking="Hm.", odd=1),
        delta(None, type="thinking_delta", thinking="Ah."),
        END,
    )
    message = body["choices"][0]["message"]
    assert message["content"] == "A"
    assert message["tool_calls"][0]["function"] == {"name": None, "arguments": "{}"}
    assert message["native_turn"]["items"][2] == {
        "type": "thinking",
        "thinking": "Hm.Ah.",
        "odd": 1,
    }


def test_citations_follow_those_of_the_start() -> None:
    _, body = events(
        begin(0, type="text", text="A", citations=[{"x": 0}]),
        delta(0, type="citations_delta", citation={"x": 1}),
        END,
    )
    [saved] = body["choices"][0]["message"]["native_turn"]["items"]
    assert saved["citations"] == [{"x": 0}, {"x": 1}]


def test_a_stream_is_complete_with_its_last_event_or_a_reason_and_no_open_block() -> None:
    closed = (START, begin(0, type="text", text="A"), close(0))
    assert events(*closed, is_end=True)[1] is None
    assert events(*closed, STOPPED)[1] is None
    assert events(*closed, STOPPED, is_end=True)[1] is not None
    assert events(START, begin(0, type="text", text="A"), STOPPED, is_end=True)[1] is None


def test_the_head_is_known_after_the_first_event() -> None:
    reader = API.event_reader()
    assert reader.head is None
    list(reader.read(*START))
    assert reader.head == {"id": "m1", "model": "m"}
