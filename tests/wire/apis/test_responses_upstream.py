"""OpenAI's Responses API as an upstream: requests, replies, and events."""

from typing import Any

import msgspec
import pytest

from surecall.values.types import JSON
from surecall.wire.apis.adapter import InvalidRequest
from surecall.wire.apis.responses_upstream import ResponseEventReader, ResponsesUpstream
from surecall.wire.chat_format import encode

API = ResponsesUpstream()
USER: JSON = {"role": "user", "content": "Hi."}
SENT: JSON = {"type": "message", "role": "user", "content": "Hi."}
REASONING: JSON = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA==",
}


def encoded(*messages: JSON, **options: Any) -> Any:
    body = {"model": "m", "messages": list(messages) or [USER]} | options
    return msgspec.json.decode(encode(API.encode_request(body)))


def items(*messages: JSON) -> Any:
    return encoded(*messages)["input"]


def call(call_id: str = "c1", arguments: Any = '{"a":1.0}') -> JSON:
    function = {"name": "add", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def said(*calls: JSON, text: Any = None) -> JSON:
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


def output(call_id: str = "c1", content: Any = "2") -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def made(call_id: str = "c1", arguments: Any = '{"a":1.0}', **fields: Any) -> JSON:
    kind = {"type": "function_call", "call_id": call_id, "name": "add", "arguments": arguments}
    return kind | fields


def written(text: str, **fields: Any) -> JSON:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part]} | fields


def plain(text: str) -> JSON:
    return {"type": "message", "role": "assistant", "content": text}


def decoded(*listed: Any, **fields: Any) -> Any:
    head: JSON = {"id": "resp_1", "model": "m", "status": "completed"}
    return API.decode_response(head | {"output": list(listed)} | fields)


def message_of(*listed: Any, **fields: Any) -> Any:
    return decoded(*listed, **fields)["choices"][0]["message"]


# Requests


def test_requests_are_stateless_and_ask_for_encrypted_reasoning() -> None:
    assert encoded() == {
        "model": "m",
        "store": False,
        "input": [SENT],
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize("model", ["gpt-4o", "openai/gpt-4.1", "chatgpt-4o-latest"])
def test_models_without_reasoning_are_not_asked_for_it(model: str) -> None:
    assert "include" not in encoded(model=model)
    assert encoded(model=model, include=["x", 7], logprobs=True)["include"] == [
        "x",
        "message.output_text.logprobs",
    ]


def test_the_first_system_text_becomes_the_instructions() -> None:
    system = {"role": "system", "content": "Be brief."}
    found = encoded(system, USER, {"role": "developer", "content": "Now."})
    assert found["instructions"] == "Be brief."
    assert found["input"] == [SENT, {"type": "message", "role": "developer", "content": "Now."}]
    assert encoded(system)["input"] == [{"type": "message"} | system]


def test_calls_and_results_become_items() -> None:
    found = items(USER, said(call("c1"), call("a.b:1", {"a": 1}), text="So."), output(), USER)
    assert found[1:3] == [plain("So."), made()]
    assert found[3]["arguments"] == '{"a":1}'
    assert found[3]["call_id"] != "a.b:1"
    assert found[4] == {"type": "function_call_output", "call_id": "c1", "output": "2"}
    assert items(USER, said(call(arguments="{")), output("c1", None))[1:] == [
        made(arguments="{"),
        {"type": "function_call_output", "call_id": "c1", "output": ""},
    ]


def test_every_content_part_has_a_counterpart() -> None:
    parts = [
        "plain",
        {"type": "text", "text": "T"},
        {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "u"}},
        {"type": "image_url", "image_url": "u"},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "input_image", "image_url": "u"},
        {"odd": 1},
    ]
    [found] = items(output(content=parts))
    assert found["output"] == [
        {"type": "input_text", "text": "plain"},
        {"type": "input_text", "text": "T"},
        {"type": "input_image", "image_url": "u", "detail": "low"},
        {"type": "input_image", "image_url": "u", "detail": "auto"},
        {"type": "input_image", "image_url": "u", "detail": "auto"},
        {"type": "input_file", "file_id": "f"},
        {"type": "input_image", "image_url": "u"},
        {"type": "input_text", "text": '{"odd":1}'},
    ]


def test_audio_is_an_error() -> None:
    with pytest.raises(InvalidRequest, match="cannot hold"):
        encoded({"role": "user", "content": [{"type": "input_audio"}]})


def test_tools_are_not_strict_unless_they_say_so() -> None:
    bare = {"type": "function", "function": {"name": "a", "description": None}}
    strict = {"type": "function", "function": {"name": "b", "parameters": {}, "strict": True}}
    custom = {"type": "custom", "custom": {"name": "c"}}
    search = {"type": "web_search"}
    empty = {"type": "object", "properties": {}}

    assert encoded(tools=[bare, strict, custom, search])["tools"] == [
        {"type": "function", "name": "a", "parameters": empty, "strict": False},
        {"type": "function", "name": "b", "parameters": {}, "strict": True},
        {"type": "custom", "name": "c"},
        search,
    ]


def test_options_are_translated_and_unknown_ones_stay() -> None:
    named = {"type": "function", "function": {"name": "a"}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    found = encoded(
        tool_choice=named,
        max_completion_tokens=5,
        reasoning_effort="low",
        reasoning={"summary": "auto"},
        response_format=form,
        verbosity="low",
        stream=True,
        stream_options={},
        n=1,
        seed=4,
        top_p=None,
    )
    assert found.pop("tool_choice") == {"type": "function", "name": "a"}
    assert found.pop("max_output_tokens") == 16
    assert found.pop("reasoning") == {"summary": "auto", "effort": "low"}
    schema = {"type": "json_schema", "name": "n", "schema": {}}
    assert found.pop("text") == {"verbosity": "low", "format": schema}
    assert found.pop("stream") is True
    assert found.pop("seed") == 4
    assert found == encoded()


def test_other_forms_of_options() -> None:
    found = encoded(tool_choice="required", max_tokens=50, response_format={"type": "json_object"})
    assert (found["tool_choice"], found["max_output_tokens"]) == ("required", 50)
    assert found["text"] == {"format": {"type": "json_object"}}
    assert encoded(max_tokens="x")["max_output_tokens"] == "x"


# Saved turns


def test_the_items_of_a_turn_come_back_byte_for_byte() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}
    listed = [
        REASONING,
        search,
        written("Let me see.", id="msg_1", phase="commentary"),
        written("So.", id="msg_2"),
        made(id="fc_1", status="completed"),
    ]
    message = message_of(*listed)

    assert message["content"] == "Let me see.\n\nSo."
    assert message["reasoning_content"] == "Hm."
    assert items(USER, message, output())[1:-1] == listed


def test_a_turn_that_was_changed_keeps_its_state() -> None:
    message = message_of(REASONING, written("A", id="m1"), made("c1", id="f1"), made("c2"))
    message |= {"content": "Longer.", "tool_calls": [message["tool_calls"][0], call("c3")]}

    assert items(USER, message, output("c1"), output("c3"))[1:-2] == [
        REASONING,
        written("Longer.", id="m1"),
        made("c1", id="f1"),
        made("c3"),
    ]


def test_text_that_was_not_saved_goes_before_the_calls() -> None:
    message = message_of(REASONING, made(id="f1")) | {"content": "New."}
    found = items(USER, message, output())[1:-1]
    assert found == [REASONING, plain("New."), made(id="f1")]


def test_reasoning_without_what_it_led_to_is_left_out() -> None:
    message = message_of(REASONING, written("A")) | {"content": ""}
    assert items(USER, message, USER) == [SENT, SENT]


def test_parts_other_than_text_come_back_as_well() -> None:
    parts = [
        {"type": "output_text", "text": "A", "annotations": [{"type": "url_citation", "url": "u"}]},
        {"type": "refusal", "refusal": "No."},
        {"type": "odd"},
    ]
    listed = [REASONING, {"type": "message", "role": "assistant", "content": parts}]
    message = message_of(*listed)
    assert message["refusal"] == "No."
    assert message["annotations"] == [{"type": "url_citation", "url_citation": {"url": "u"}}]
    # The text of the message does not hold the refusal, so the item is written anew.
    assert items(USER, message)[-1]["content"][0]["text"] == "A"
    refused = [REASONING, {"type": "message", "role": "assistant", "content": parts[1:]}]
    assert items(USER, message_of(*refused))[1:] == refused


@pytest.mark.parametrize(
    "saved",
    [
        {"api": "messages", "items": [REASONING]},
        {"api": "responses", "items": ["x", {"type": "message", "content": 7}]},
        {"api": "responses", "items": [{"type": "message", "content": [7, {"type": "odd"}]}]},
    ],
)
def test_the_turn_of_another_api_and_a_malformed_one_do_no_harm(saved: JSON) -> None:
    message = {"role": "assistant", "content": "A", "native_turn": saved}
    assert items(USER, message)[1]["content"] in ("A", written("A")["content"])


def test_a_refusal_is_sent_as_text() -> None:
    assert items({"role": "assistant", "content": None, "refusal": "No."}) == [plain("No.")]


# Replies


@pytest.mark.parametrize("arguments", ['{"a":1}', {"a": 1}, None])
def test_arguments_stay_as_they_came(arguments: Any) -> None:
    [found] = message_of(made(arguments=arguments))["tool_calls"]
    assert found["function"]["arguments"] == arguments


def test_a_call_may_lack_anything() -> None:
    [found] = message_of({"type": "function_call"})["tool_calls"]
    assert found == {"type": "function", "function": {"name": None}}
    [found] = message_of({"type": "function_call", "id": "f1"})["tool_calls"]
    assert found["id"] == "f1"


def test_custom_calls_go_both_ways() -> None:
    item = {"type": "custom_tool_call", "call_id": "c1", "name": "c", "input": "x"}
    message = message_of(item)
    assert message["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "c", "input": "x"}}
    ]
    assert items(USER, message)[1] == item


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "stop"),
        ({"status": None}, "stop"),
        ({"status": "in_progress"}, None),
        ({"status": "incomplete"}, "length"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"incomplete_details": {"reason": "odd"}}, "odd"),
    ],
)
def test_the_status_becomes_a_finish_reason(fields: JSON, reason: str | None) -> None:
    assert decoded(written("A"), **fields)["choices"][0]["finish_reason"] == reason
    assert decoded(made())["choices"][0]["finish_reason"] == "tool_calls"


def test_a_failed_response_is_an_error() -> None:
    error = {"code": "server_error", "message": "x"}
    assert decoded(status="failed", error=error) == {"error": error}
    assert "cancelled" in decoded(status="cancelled")["error"]["message"]
    assert API.decode_response({"error": error}) == {"error": error}
    assert API.decode_response({"detail": "x"}) == {"detail": "x"}


def test_content_of_any_type_is_read() -> None:
    listed = [
        {"content": "A"},
        {"type": "message", "content": 7},
        {"type": "message", "content": None},
        {"type": "reasoning", "summary": None, "content": [{"text": "Ah."}, 7, {"text": ""}]},
        "x",
    ]
    message = message_of(*listed[:1], *listed[2:])
    assert (message["content"], message["reasoning_content"]) == ("A", "Ah.")


def test_usage_and_logprobs_are_translated() -> None:
    usage = {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 2},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    part = {"type": "output_text", "text": "A", "logprobs": [{"token": "A"}], "annotations": ["x"]}
    body = decoded({"type": "message", "content": [part]}, usage=usage)
    assert body["usage"]["total_tokens"] == 8
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 2
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": 1}
    assert body["choices"][0]["logprobs"] == {"content": [{"token": "A"}]}


# Events


def events(*given: tuple[str, JSON]) -> tuple[str, Any]:
    reader = ResponseEventReader()
    shown = [
        delta.text for kind, event in given for delta in reader.read(f"response.{kind}", event)
    ]
    return "|".join(shown), reader.completion(is_end=True)


def numbered(*given: tuple[str, JSON]) -> list[tuple[str, JSON]]:
    return [(kind, event | {"sequence_number": at}) for at, (kind, event) in enumerate(given)]


CREATED = ("created", {"response": {"id": "resp_1", "model": "m"}})
DONE = ("completed", {"response": {"status": "completed"}})


def added(index: int | None, **item: Any) -> tuple[str, JSON]:
    return "output_item.added", {"output_index": index, "item": item}


def delta(kind: str, index: int, text: Any, **fields: Any) -> tuple[str, JSON]:
    return f"{kind}.delta", {"output_index": index, "delta": text} | fields


def test_the_last_event_holds_the_whole_reply() -> None:
    last = ("completed", {"response": {"status": "completed", "output": [written("AB")]}})
    shown, body = events(
        CREATED,
        added(0, type="message", id="m1", content=[]),
        delta("output_text", 0, "A"),
        last,
    )
    assert shown == "A"
    assert body["choices"][0]["message"]["content"] == "AB"
    assert body["id"] == "resp_1"


def test_without_it_the_items_are_put_together() -> None:
    shown, body = events(
        delta("reasoning_summary_text", 0, "Hm.", summary_index=0),
        ("output_item.done", {"output_index": 0, "item": REASONING}),
        added(1, type="message", id="m1", content=[]),
        delta("output_text", 1, "A"),
        delta("refusal", 1, "No."),
        added(2, type="function_call", id="f1", call_id="c1", name="add", arguments=""),
        delta("function_call_arguments", 2, '{"a"'),
        delta("function_call_arguments", 2, ":1}"),
        delta("function_call_arguments", 2, 7),
        added(3, type="function_call", call_id="c2", name="add"),
        ("function_call_arguments.done", {"output_index": 3, "arguments": {"a": 1}}),
        ("function_call_arguments.done", {"output_index": 3}),
        delta("odd", 3, "x"),
        delta("output_text", 3, ""),
        ("output_item.added", {"output_index": 9, "item": 7}),
        DONE,
    )
    message = body["choices"][0]["message"]
    assert shown == "Hm.|A"
    assert (message["content"], message["refusal"]) == ("A", "No.")
    assert [one["function"]["arguments"] for one in message["tool_calls"]] == ['{"a":1}', {"a": 1}]
    assert message["native_turn"]["items"][0] == REASONING


def test_items_that_never_began_are_guessed() -> None:
    _, body = events(
        delta("output_text", 0, "A"),
        delta("function_call_arguments", 1, "{}"),
        delta("custom_tool_call_input", 2, "x"),
        DONE,
    )
    message = body["choices"][0]["message"]
    assert message["content"] == "A"
    assert [one["type"] for one in message["tool_calls"]] == ["function", "custom"]


def test_events_without_an_index_belong_to_the_item_with_their_id_or_to_the_last_one() -> None:
    _, body = events(
        ("output_item.added", {"item": {"type": "function_call", "id": "f1", "call_id": "c1"}}),
        ("output_item.added", {"item": {"type": "function_call", "id": "f2", "call_id": "c2"}}),
        ("function_call_arguments.delta", {"item_id": "f1", "delta": "1"}),
        ("function_call_arguments.delta", {"delta": "2"}),
        DONE,
    )
    calls = body["choices"][0]["message"]["tool_calls"]
    assert [one["function"]["arguments"] for one in calls] == ["1", "2"]


def test_events_are_read_in_the_order_of_their_numbers() -> None:
    given = numbered(
        CREATED, delta("output_text", 0, "A"), delta("output_text", 0, "B"), delta("x", 0, ""), DONE
    )
    given[1], given[2] = given[2], given[1]
    shown, body = events(*given)
    assert shown == "A|B"
    assert body["choices"][0]["message"]["content"] == "AB"


def test_a_gap_in_the_numbers_is_not_waited_for_forever() -> None:
    texts = [delta("output_text", 0, "A") for _ in range(40)]
    given = numbered(CREATED, *texts, DONE)
    del given[1]
    reader = ResponseEventReader()
    shown = [len(list(reader.read(f"response.{kind}", event))) for kind, event in given]
    assert sum(shown[:16]) == 0
    assert shown[17] == 17
    body = reader.completion(is_end=False)
    assert body is not None
    assert body["choices"][0]["message"]["content"] == 39 * "A"


def test_an_event_that_comes_late_is_still_read() -> None:
    given = numbered(CREATED, delta("output_text", 0, "A"), delta("output_text", 0, "B"), DONE)
    shown, _ = events(given[0], given[2], given[1], given[1], given[3])
    assert shown == "A|B|A"
    shown, _ = events(given[2], given[3])
    assert shown == "B"


def test_a_stream_without_its_last_event_is_not_complete() -> None:
    assert events(CREATED, delta("output_text", 0, "A"))[1] is None


@pytest.mark.parametrize("kind", ["completed", "incomplete", "failed", "cancelled"])
def test_the_kind_of_the_last_event_is_the_status(kind: str) -> None:
    body = events((kind, {"response": {"output": [written("A")]}}))[1]
    reasons = {"completed": "stop", "incomplete": "length"}
    if kind in reasons:
        assert body["choices"][0]["finish_reason"] == reasons[kind]
    else:
        assert body["error"]


def test_the_head_is_known_after_the_first_event() -> None:
    reader = API.event_reader()
    assert reader.head is None
    list(reader.read("response.created", CREATED[1]))
    assert reader.head == {"id": "resp_1", "model": "m"}
