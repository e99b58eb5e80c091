"""What the upstream APIs have in common: bytes, saved turns, and streams."""

from typing import Any

import msgspec
import pytest

from surecall.values.errors import ProviderError
from surecall.values.types import JSON
from surecall.wire.apis.adapter import InvalidRequest
from surecall.wire.apis.messages_upstream import MessagesUpstream
from surecall.wire.apis.native_turns import (
    ChatStream,
    TextPieces,
    decode_native_response,
    encode_native_request,
    refusal_answer,
    without_native_turns,
)
from surecall.wire.apis.responses_upstream import ResponsesUpstream
from surecall.wire.assembler import Assembler
from surecall.wire.chat_format import encode
from surecall.wire.sse import SseDecoder

MESSAGES, RESPONSES = MessagesUpstream(), ResponsesUpstream()
ERROR: JSON = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}
CREATED: JSON = {"type": "response.created", "response": {"id": "r1", "model": "m"}}


def frames(*events: JSON | str) -> bytes:
    texts = [each if isinstance(each, str) else encode(each).decode() for each in events]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def text_delta(text: str, place: int = 0) -> JSON:
    return {"type": "response.output_text.delta", "output_index": place, "delta": text}


def completed(text: str, **response: Any) -> JSON:
    part = {"type": "output_text", "text": text}
    message = {"type": "message", "role": "assistant", "content": [part]}
    body = {"status": "completed", "output": [message]} | response
    return {"type": "response.completed", "response": body}


def streamed(*events: JSON | str, api: Any = RESPONSES) -> Any:
    """Return what becomes of events: the completion, or the fault."""
    stream, assembler, decoder = ChatStream(api), Assembler(), SseDecoder()
    data = stream.feed(frames(*events)) + stream.close()
    for event in [*decoder.feed(data), *decoder.close()]:
        assembler.add(event.data, event.event)
    return assembler.finish()


def text_of(body: Any) -> str:
    return str(body["choices"][0]["message"]["content"])


def test_a_refusal_is_an_answer_in_the_form_of_chat_completions() -> None:
    answer = refusal_answer(InvalidRequest("No.", "messages"))
    assert answer.status == 400
    assert msgspec.json.decode(answer.body)["error"]["param"] == "messages"


@pytest.mark.parametrize("data", [b"{", b"[]", b"7", b"[" * 1000 + b"]" * 1000])
def test_a_request_that_is_no_object_is_an_error(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        encode_native_request(MESSAGES, data)


def test_a_request_is_translated_as_bytes() -> None:
    data = encode_native_request(MESSAGES, b'{"model":"m","messages":[{"content":"A"}]}')
    assert msgspec.json.decode(data)["messages"] == [{"role": "user", "content": "A"}]


def test_a_stream_may_begin_with_blank_lines_and_come_in_pieces() -> None:
    stream = ChatStream(RESPONSES)
    assert stream.feed(b"\n" * 100) == b""
    assert b"resp" not in stream.feed(frames(CREATED))
    assert stream.feed(frames(completed("A"))).endswith(b"[DONE]\n\n")
    assert stream.close() == b""


@pytest.mark.parametrize(
    "data", [b"<html>", b"[]", b'{"choices":[]}', encode(ERROR), b'{"error":"x"}']
)
def test_errors_and_other_bodies_pass_unchanged(data: bytes) -> None:
    assert decode_native_response(MESSAGES, data) == data


def test_saved_turns_are_removed_from_chat_requests_and_the_rest_keeps_its_bytes() -> None:
    saved = b'{"role":"assistant","content":"A","native_turn":{"api":"messages","items":[]}}'
    data = b'{"model": "m", "messages":[{"role": "user"},' + saved + b"]}"

    assert without_native_turns(data) == (
        b'{"model":"m","messages":[{"role": "user"},{"role":"assistant","content":"A"}]}'
    )
    mention = b'{"messages":[{"content":"\\"native_turn\\""}]}'
    assert without_native_turns(mention) == mention
    for odd in (b'"native_turn"', b'{"native_turn":1}', b'{"messages":"native_turn"}'):
        assert without_native_turns(odd) == odd


@pytest.mark.parametrize(
    ("text", "lengths", "separator", "pieces"),
    [
        ("abcd", [1, 3], "", ["a", "bcd"]),
        ("a\n\nb", [1, 1], "\n\n", ["a", "b"]),
        ("abcde", [1, 3], "", ["abcde", ""]),
        ("ab", [1, None], "", ["ab", ""]),
        ("ab", [-1, 3], "", ["ab", ""]),
    ],
)
def test_texts_are_split_as_they_came_or_stay_whole(
    text: str, lengths: list[Any], separator: str, pieces: list[str]
) -> None:
    found = TextPieces(text, lengths, separator)
    assert [found.take(length) for length in lengths] == pieces
    assert not found.rest


def test_a_stream_becomes_chunks() -> None:
    body = streamed(CREATED, text_delta("A"), text_delta("B"), completed("AB"))
    assert (text_of(body), body["id"], body["model"]) == ("AB", "r1", "m")


def test_text_that_was_not_streamed_follows_at_the_end() -> None:
    assert text_of(streamed(text_delta("A"), completed("AB"))) == "AB"
    thinking = {
        "type": "reasoning",
        "id": "x",
        "summary": [{"type": "summary_text", "text": "Hm."}],
    }
    body = streamed(CREATED, completed("", output=[thinking]))
    assert body["choices"][0]["message"]["reasoning_content"] == "Hm."


def test_texts_of_several_items_are_separated() -> None:
    body = streamed(text_delta("A", 0), text_delta("B", 1), {**completed(""), "response": {}})
    assert text_of(body) == "A\n\nB"


def test_a_text_that_differs_at_the_end_is_a_fault() -> None:
    fault = streamed(text_delta("A"), completed("B"))
    assert fault.retryable


def test_errors_in_a_stream_are_faults() -> None:
    flat = {"type": "error", "code": "server_error", "message": "Busy."}
    failed = {"type": "response.failed", "response": {"error": {"message": "Busy."}}}
    for event in (ERROR, flat, {"error": {"message": "Busy."}}, failed):
        assert streamed(CREATED, event, text_delta("A")).message == "Busy."


def test_a_last_event_without_a_reply_is_a_fault() -> None:
    fault = streamed(CREATED, completed("A", output={"odd": 1}))
    assert fault.retryable


def test_a_stream_without_its_end_broke_off() -> None:
    assert "broke off" in streamed(CREATED, text_delta("A")).message


def test_an_end_without_its_blank_line_counts() -> None:
    stream = ChatStream(RESPONSES)
    assert stream.feed(frames(CREATED, completed("A")).rstrip()).count(b"data:") == 1
    assert stream.close().endswith(b"data: [DONE]\n\n")


def test_what_is_no_event_is_left_to_the_assembler() -> None:
    body = streamed("[DONE]", "hello", "[1,", CREATED, completed("A"))
    assert text_of(body) == "A" if isinstance(body, dict) else body.retryable
    chunk = {"choices": [{"index": 0, "delta": {"content": "A"}, "finish_reason": "stop"}]}
    assert text_of(streamed(chunk, "[DONE]")) == "A"
    assert streamed("[" * 200 + "]" * 200).retryable
    assert streamed("[" + "1," * 250_000 + "1]").code == "RESPONSE_TOO_LARGE"


def test_numbers_that_json_does_not_have_are_kept_as_text() -> None:
    item = '{"type":"function_call","call_id":"c","name":"n","arguments":{"a":NaN}}'
    event = f'{{"type":"response.completed","response":{{"output":[{item}]}}}}'
    [call] = streamed(event)["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"a": NaN}'


def test_halves_of_a_character_are_joined() -> None:
    first = '{"type":"response.output_text.delta","output_index":0,"delta":"\\ud83c"}'
    second = '{"type":"response.output_text.delta","output_index":0,"delta":"\\udf78"}'
    assert text_of(streamed(first, second, completed("\U0001f378"))) == "\U0001f378"


def test_the_name_of_an_event_replaces_its_type() -> None:
    stream = ChatStream(MESSAGES)
    data = stream.feed(b'event: message_stop\ndata: {"usage":{}}\n\n')
    assert data.endswith(b"data: [DONE]\n\n")


def test_a_plain_body_is_translated_at_the_end() -> None:
    body = {"content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn"}
    stream = ChatStream(MESSAGES)
    assert stream.feed(b"\n ") == b""
    assert stream.feed(encode(body)) == b""
    assert text_of(msgspec.json.decode(stream.close())) == "A"
    assert ChatStream(MESSAGES).close() == b""


def test_a_plain_body_and_a_stream_are_limited() -> None:
    with pytest.raises(ProviderError):
        ChatStream(MESSAGES, 10).feed(b"{" + 10 * b" ")
    with pytest.raises(ProviderError):
        ChatStream(MESSAGES, 10).feed(b":" + 100 * b" ")
