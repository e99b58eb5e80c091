"""Anthropic's own SDK as the client: it reads plain answers, streams and errors."""

import contextlib
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import msgspec
import pytest
from anthropic.types import MessageParam, ToolParam

from surecall.values.types import JSON
from surecall.wire.apis.adapter import ErrorReply
from tests.support.messages_api import FACE, HEAD, call, completion

BODIES = {
    "text": completion("Hello."),
    "thinking": completion("Hello.", reasoning_content="So."),
    "call": completion(None, call("c1"), finish="tool_calls"),
    "calls": completion("Hello.", call("c1"), call("c2", '{"a":[1,"é"]}'), finish="tool_calls"),
    "signed": completion("Hello.", call("c1", sig="s"), reasoning="So.", finish="tool_calls"),
    "cut": completion("Hello.", finish="length"),
    "blank": completion(None),
}
ASKED: list[MessageParam] = [{"role": "user", "content": "Hi."}]
TOOLS: list[ToolParam] = [{"name": "add", "input_schema": {"type": "object"}}]
SPLIT = 3


class Upstream:
    """A proxy in a function: the face before one chat completion, or before a failure."""

    def __init__(self, body: JSON, failure: ErrorReply | None = None) -> None:
        self.body, self.failure = body, failure
        self.requests: list[JSON] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        asked = FACE.parse(request.content)
        self.requests.append(asked.body)
        if asked.stream:
            kind = {"content-type": "text/event-stream"}
            return httpx2.Response(200, headers=kind, content=b"".join(self._events(asked)))
        if self.failure:
            data = msgspec.json.encode(FACE.render_error(self.failure))
            return httpx2.Response(self.failure.status, content=data)
        data = msgspec.json.encode(FACE.render(asked, self.body))
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=data)

    def _events(self, asked: Any) -> Iterator[bytes]:
        events = FACE.event_writer(asked)
        message = self.body["choices"][0]["message"]
        yield events.begin(HEAD)
        for field in ("reasoning_content", "reasoning"):
            yield events.write_reasoning(message.get(field) or "", field)
        yield events.write_text((message["content"] or "")[:SPLIT])
        yield events.fail(self.failure) if self.failure else events.finish(self.body)


@contextlib.contextmanager
def client_of(upstream: Upstream) -> Iterator[anthropic.Anthropic]:
    with (
        httpx2.Client(transport=httpx2.MockTransport(upstream)) as http,
        anthropic.Anthropic(
            api_key="k", base_url="http://upstream", http_client=http, max_retries=0
        ) as client,
    ):
        yield client


def plain(upstream: Upstream, messages: list[MessageParam] = ASKED) -> anthropic.types.Message:
    with client_of(upstream) as client:
        return client.messages.create(model="m", max_tokens=9, messages=messages, tools=TOOLS)


def streamed(upstream: Upstream) -> anthropic.types.Message:
    with (
        client_of(upstream) as client,
        client.messages.stream(model="m", max_tokens=9, messages=ASKED, tools=TOOLS) as stream,
    ):
        return stream.get_final_message()


def blocks(message: anthropic.types.Message) -> list[JSON]:
    return [block.model_dump(exclude_none=True) for block in message.content]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_sdk_reads_a_plain_answer(body: JSON) -> None:
    asked = FACE.parse(msgspec.json.encode({"model": "m", "messages": ASKED}))

    message = plain(Upstream(body))

    assert isinstance(message, anthropic.types.Message)
    assert message.model_dump(exclude_unset=True) == FACE.render(asked, body)


@pytest.mark.parametrize("name", [name for name in BODIES if name != "signed"])
def test_the_sdk_puts_a_stream_together_as_the_plain_answer(name: str) -> None:
    upstream = Upstream(BODIES[name])
    whole, found = plain(upstream), streamed(upstream)

    assert blocks(found) == blocks(whole)
    assert (found.id, found.model, found.role) == (whole.id, whole.model, whole.role)
    assert (found.stop_reason, found.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    assert found.usage.model_dump() == whole.usage.model_dump()


@pytest.mark.parametrize("read", [plain, streamed], ids=["plain", "streamed"])
def test_what_the_sdk_sends_back_is_what_the_upstream_said(read: Any) -> None:
    upstream = Upstream(BODIES["signed"])
    answer = read(upstream)
    result: MessageParam = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3"}],
    }

    plain(upstream, [*ASKED, {"role": "assistant", "content": answer.content}, result])

    assert upstream.requests[-1]["messages"] == [
        {"role": "user", "content": "Hi."},
        BODIES["signed"]["choices"][0]["message"],
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]


def test_the_sdk_iterates_over_raw_events() -> None:
    with client_of(Upstream(BODIES["thinking"])) as client:
        events = list(client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True))

    assert [event.type for event in events] == [
        "message_start",
        *(
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
        ),
        *(
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
        ),
        *("message_delta", "message_stop"),
    ]


def test_the_sdk_gives_text_as_it_comes() -> None:
    with (
        client_of(Upstream(BODIES["thinking"])) as client,
        client.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream,
    ):
        assert list(stream.text_stream) == ["Hel", "lo."]


def test_the_sdk_raises_what_fails_in_the_middle_of_a_stream() -> None:
    upstream = Upstream(BODIES["text"], ErrorReply(529, "Busy.", "busy"))

    with pytest.raises(anthropic.APIStatusError, match=r"Busy\."):
        streamed(upstream)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (404, anthropic.NotFoundError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
    ],
)
def test_the_sdk_raises_an_error_of_its_status(status: int, kind: type[Exception]) -> None:
    upstream = Upstream(BODIES["text"], ErrorReply(status, "It broke.", "broken"))

    with pytest.raises(kind, match=r"It broke\."):
        plain(upstream)
