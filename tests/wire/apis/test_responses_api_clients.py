"""OpenAI's own SDK reads what the face writes, plain and streamed."""

from typing import Any

import httpx2
import openai
import pydantic
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from surecall.values.types import JSON
from surecall.wire.apis.adapter import ErrorReply
from tests.support.responses_api import ADD, FACE, HEAD, PATCH, ask, call, completion, heard

R = "reasoning_content"
FAILURE = ErrorReply(502, "gone", "UPSTREAM_5XX")
CUSTOM = call("c3", "apply_patch", '{"input": "*"}')
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
BODIES = {
    "text": completion("Hm."),
    "thought": completion("Hm.", reasoning_content="r"),
    "call": completion(None, call()),
    "calls": completion("Hm.", call(), call("c2", extra_content={"s": 1})),
    "custom": completion(None, CUSTOM),
    "refusal": completion(None, refusal="No."),
}
EVENT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ResponseStreamEvent)


def served(body: JSON | None, asked: bytes) -> httpx2.Response:
    request = FACE.parse(asked)
    if not request.stream:
        whole = FACE.render_error(FAILURE) if body is None else FACE.render(request, body)
        return httpx2.Response(502 if body is None else 200, json=whole)
    events = FACE.event_writer(request)
    data = events.begin(HEAD)
    if body is None:
        data += events.write_text("H") + events.fail(FAILURE)
    else:
        message = body["choices"][0]["message"]
        data += events.write_reasoning((message.get(R) or "")[:1], R)
        data += events.write_text((message["content"] or "")[:1]) + events.finish(body)
    return httpx2.Response(200, content=data, headers={"content-type": "text/event-stream"})


def client(body: JSON | None) -> openai.OpenAI:
    transport = httpx2.MockTransport(lambda request: served(body, request.read()))
    return openai.OpenAI(
        base_url="http://proxy/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx2.Client(transport=transport),
    )


ASKED: Any = {"model": "m", "input": "Hi", "tools": [ADD, PATCH]}


def named(item: Any) -> tuple[str, str]:
    return (item.type, item.id)


def checked(response: Response) -> Response:
    """Read it once more, strictly: the SDK itself believes whatever it gets."""
    return Response.model_validate(response.to_dict(), strict=False)


@pytest.mark.parametrize("name", BODIES)
def test_the_sdk_reads_a_plain_answer(name: str) -> None:
    body = BODIES[name] | {"usage": USAGE}
    response = client(body).responses.create(**ASKED)

    plain = FACE.render(ask(tools=[ADD, PATCH]), body)
    assert [item.to_dict() for item in checked(response).output] == plain["output"]
    assert response.output_text == (body["choices"][0]["message"]["content"] or "")
    assert response.usage is not None
    assert response.usage.total_tokens == 8


@pytest.mark.parametrize("name", BODIES)
def test_the_sdk_puts_a_stream_together_to_the_plain_answer(name: str) -> None:
    with client(BODIES[name]).responses.stream(**ASKED) as stream:
        final = stream.get_final_response()
    plain = client(BODIES[name]).responses.create(**ASKED)

    assert [named(item) for item in final.output] == [named(item) for item in plain.output]
    assert final.output_text == plain.output_text
    assert final.status == "completed"


@pytest.mark.parametrize("name", BODIES)
def test_every_event_is_one_that_the_sdk_knows(name: str) -> None:
    events = list(client(BODIES[name]).responses.create(**ASKED, stream=True))
    raw = heard(served(BODIES[name], b'{"input": "Hi", "stream": true}').content)

    assert len(events) == len(raw)
    for event in events:
        EVENT.validate_python(event.to_dict())


def test_the_sdk_reads_a_custom_call() -> None:
    (item,) = client(BODIES["custom"]).responses.create(**ASKED).output

    assert item.type == "custom_tool_call"
    assert (item.call_id, item.name, item.input) == ("c3", "apply_patch", "*")


def test_the_sdk_reads_an_answer_that_was_cut() -> None:
    body = completion("Hm", finish="length")
    plain = client(body).responses.create(**ASKED)
    *_, end = client(body).responses.create(**ASKED, stream=True)

    assert (plain.status, end.type) == ("incomplete", "response.incomplete")
    assert checked(plain).incomplete_details is not None
    with (
        client(body).responses.stream(**ASKED) as stream,
        pytest.raises(RuntimeError, match=r"response\.completed"),
    ):
        stream.get_final_response()


def test_the_sdk_reads_a_failure() -> None:
    with pytest.raises(openai.InternalServerError, match="gone") as raised:
        client(None).responses.create(**ASKED)
    *_, end = client(None).responses.create(**ASKED, stream=True)

    assert raised.value.code == "UPSTREAM_5XX"
    assert end.type == "response.failed"
    assert end.response.error is not None
    assert (end.response.error.code, end.response.error.message) == ("server_error", "gone")


def test_what_the_sdk_sends_back_is_the_message_that_it_got() -> None:
    signed = call("c2", extra_content={"google": {"thought_signature": "s"}})
    body = completion("Hm.", call(), signed, reasoning_content="r", reasoning_details=[{"a": 1}])
    seen: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(FACE.parse(request.read()).body["messages"])
        return served(body, request.read())

    transport = httpx2.MockTransport(answer)
    http = httpx2.Client(transport=transport)
    sdk = openai.OpenAI(base_url="http://proxy/v1", api_key="none", http_client=http)
    first: Any = sdk.responses.create(**ASKED)
    outputs = [
        {"type": "function_call_output", "call_id": call_id, "output": "2"}
        for call_id in ("c1", "c2")
    ]
    again: Any = [{"role": "user", "content": "Hi"}, *first.output, *outputs]
    sdk.responses.create(model="m", input=again, tools=[ADD])  # type: ignore[list-item]

    assert seen[1] == [
        {"role": "user", "content": "Hi"},
        body["choices"][0]["message"],
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
    ]
