"""The face of chat completions: the client's own bytes in, chunks out."""

from typing import Any

import msgspec
import pytest

from surecall.wire.apis.adapter import ErrorReply, InvalidRequest
from surecall.wire.apis.chat_api import ChatApi
from tests.support.proxy import asked, call, completion, said


def chunks(data: bytes) -> list[Any]:
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n\n") if line]
    assert lines[-1] == b"[DONE]"
    return [msgspec.json.decode(line) for line in lines[:-1]]


def test_a_request_is_itself() -> None:
    request = asked(stream=True)
    assert request.stream
    assert request.body is request.client_body
    body = completion(said(text="Hi."))
    assert ChatApi().render(request, body) is body


def test_a_completion_is_written_in_chunks() -> None:
    events = ChatApi().event_writer(asked(stream=True, stream_options={"include_usage": True}))
    data = events.begin({"id": "x", "created": 1, "model": "m"})
    data += events.write_reasoning("Hm", "reasoning") + events.write_text("It ")
    message = said(call("c1", city="Oslo"), text="It is", reasoning="Hm.", refusal=None)
    data += events.finish(completion(message, "tool_calls", usage={"total_tokens": 3}))
    first, *middle, end, usage = chunks(data)

    assert first["choices"][0]["delta"] == {"role": "assistant"}
    assert {key: first[key] for key in ("id", "object", "model")} == {
        "id": "x",
        "object": "chat.completion.chunk",
        "model": "m",
    }
    assert [item["choices"][0]["delta"] for item in middle] == [
        {"reasoning": "Hm"},
        {"content": "It "},
        {"reasoning": "."},
        {"content": "is"},
        {"tool_calls": [{"index": 0} | call("c1", city="Oslo")]},
    ]
    assert end["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    assert (usage["choices"], usage["usage"]) == ([], {"total_tokens": 3})


def test_usage_is_told_to_those_who_ask() -> None:
    events = ChatApi().event_writer(asked(stream=True))
    data = events.begin({"id": "x"}) + events.finish(completion(said(text="Hi.")))
    assert all(item["choices"] for item in chunks(data))


@pytest.mark.parametrize(("status", "kind"), [(404, "invalid_request_error"), (502, "api_error")])
def test_an_error_has_openais_form(status: int, kind: str) -> None:
    failure = ErrorReply(status, "no", "CODE", "model")
    body = ChatApi().render_error(failure)
    assert body == {"error": {"message": "no", "type": kind, "param": "model", "code": "CODE"}}
    assert (
        ChatApi().event_writer(asked()).fail(failure)
        == b"data: " + msgspec.json.encode(body) + b"\n\n"
    )


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"[" * 100_000, b'{"a":\xff}'])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ChatApi().parse(data)
    assert refused.value.status == 400
