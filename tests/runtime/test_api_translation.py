"""Requests and answers are translated alike on the event loop and in a thread."""

import asyncio
import json

import pytest

from surecall.runtime.api_translation import NATIVE_APIS, decode_answer, encode_request
from surecall.values.types import JSON, HttpResponse

MANY = "word " * 40_000


def request(content: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()


@pytest.mark.parametrize("content", ["Hi.", MANY], ids=["small", "large"])
@pytest.mark.parametrize("name", NATIVE_APIS)
def test_a_request_of_any_size_is_translated(name: str, content: str) -> None:
    sent = asyncio.run(encode_request(NATIVE_APIS[name], request(content)))

    assert isinstance(sent, bytes)
    assert content.strip() in sent.decode()


@pytest.mark.parametrize("text", ["Hi.", MANY], ids=["small", "large"])
def test_an_answer_of_any_size_becomes_a_chat_completion(text: str) -> None:
    body: JSON = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
    }
    answer = HttpResponse(200, {}, json.dumps(body).encode())
    decoded = asyncio.run(decode_answer(NATIVE_APIS["messages"], answer))

    assert json.loads(decoded.body)["choices"][0]["message"]["content"] == text


def test_a_request_that_an_api_cannot_express_is_answered_at_once() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [audio]}]}).encode()
    answer = asyncio.run(encode_request(NATIVE_APIS["messages"], body))

    assert isinstance(answer, HttpResponse)
    assert answer.status == 400
