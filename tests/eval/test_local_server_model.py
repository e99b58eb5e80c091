"""One real model, served here: what it says must be legal, not clever.

    SURECALL_TEST_GGUF=/path/to/model.gguf pytest tests/eval/test_local_server_model.py

A small instruction model of any family will do; the figures of an evaluation are not repeated here.
"""

import asyncio
import importlib.util
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import jsonschema_rs
import pytest

from surecall.core.outcome import RunFailed, RunResult
from surecall.eval.local_server import ENGINE_MODULE, LocalServer
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.config import ToolUseMode
from surecall.settings.connection import Limits
from surecall.settings.presets import raw, resolve
from surecall.tools.registry import tool
from surecall.values.events import LlmRequestEndEvent
from surecall.values.types import JSON, HttpResponse
from surecall.wire.assembler import TextDelta
from surecall.wire.call_styles import CallProtocol
from surecall.wire.history_repair import repair_history
from tests.support.scripted_runs import assert_legal

GGUF = os.environ.get("SURECALL_TEST_GGUF", "")
READY = bool(GGUF) and importlib.util.find_spec(ENGINE_MODULE) is not None
pytestmark = pytest.mark.skipif(
    not READY,
    reason="no GGUF given: set SURECALL_TEST_GGUF=…/model.gguf and install the extra `local`",
)
PATIENCE = Limits(idle_s=300.0, total_s=300.0)
SHORT: JSON = {"max_tokens": 120, "temperature": 0}
ASKED = "What is the weather in Paris? Use the tool, then answer in one sentence."
WEATHER: JSON = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
FORM: JSON = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "sure": {"type": "boolean"}},
    "required": ["mood", "sure"],
    "additionalProperties": False,
}


class Overheard(OpenAICompatible):
    """A client that remembers what was sent and what came back."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__(server.url, limits=PATIENCE)
        self.requests: list[JSON] = []
        self.answers: list[JSON] = []

    async def send(self, body: bytes) -> HttpResponse:
        self.requests.append(json.loads(body))
        answer = await super().send(body)
        self.answers.append(json.loads(answer.body))
        return answer


@pytest.fixture(name="server", scope="module")
def server_fixture() -> Iterator[LocalServer]:
    """Serve the file once for all; afterwards nothing may listen where it did."""
    with LocalServer(Path(GGUF)) as server:
        yield server
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((urlsplit(server.url).hostname, urlsplit(server.url).port))


def asked(server: LocalServer, **options: Any) -> JSON:
    """Send one request with nothing of ours around it; return the first choice."""
    messages = [{"role": "user", "content": ASKED}]
    client = Overheard(server)
    body = {"model": server.model, "messages": messages, **SHORT, **options}
    answer = asyncio.run(client.send(json.dumps(body).encode()))
    assert answer.status == 200, answer.body
    (choice,) = client.answers[0]["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] in {"stop", "length", "tool_calls"}
    return dict(choice)


def test_the_server_says_what_it_is(server: LocalServer) -> None:
    assert server.build.startswith(ENGINE_MODULE)
    assert server.exit_message() == ""


def test_a_native_request_with_a_tool_gets_a_legal_reply(server: LocalServer) -> None:
    message = asked(server, tools=[WEATHER], tool_choice="auto")["message"]
    calls = message.get("tool_calls") or []

    assert calls or isinstance(message["content"], str)
    for call in calls:
        assert call["id"]
        assert call["function"]["name"] == "get_weather"
        assert isinstance(call["function"]["arguments"], str)


def test_an_answer_that_is_bound_to_a_schema_fits_it(server: LocalServer) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "form", "schema": FORM}}
    choice = asked(server, response_format=form)

    assert choice["finish_reason"] == "stop"
    jsonschema_rs.validate(FORM, json.loads(choice["message"]["content"]))


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It is sunny in {city}."


def runner(client: OpenAICompatible, server: LocalServer, **changes: Any) -> ToolLoopRunner:
    own = raw(tool_use_mode=ToolUseMode.RELAXED, max_turns=4, run_deadline_s=240.0)
    return ToolLoopRunner(
        client=client,
        model=server.model,
        registry=[get_weather],
        config=resolve(provider="llama_cpp", config=own).replace(**changes),
        llm_options_defaults=SHORT,
    )


def result_of(server: LocalServer, client: Overheard, **changes: Any) -> RunResult:
    """Run to whatever end; anything but a result, or a failure that carries one, is raised."""
    try:
        return asyncio.run(runner(client, server, **changes).run(ASKED))
    except RunFailed as failure:
        return failure.result


@pytest.mark.parametrize("protocol", get_args(CallProtocol))
def test_in_every_protocol_a_run_ends_with_a_result_and_a_legal_history(
    server: LocalServer, protocol: CallProtocol
) -> None:
    client = Overheard(server)
    result = result_of(server, client, call_protocol=protocol)

    assert repair_history(result.history) == tuple(result.history)
    assert [request["model"] for request in client.requests] == [server.model] * len(client.answers)
    for request in client.requests:
        assert_legal(request)


def test_guided_replies_are_all_calls_or_answers(server: LocalServer) -> None:
    client = Overheard(server)
    result = result_of(server, client, call_protocol="guided")
    replies = [event.reply for event in result.trace if isinstance(event, LlmRequestEndEvent)]

    assert replies
    assert all(reply.calls or reply.text for reply in replies)
    for answer in client.answers:
        (choice,) = answer["choices"]
        if choice["finish_reason"] == "stop":
            assert next(iter(json.loads(choice["message"]["content"]))) in {"tool", "answer"}


def test_what_is_streamed_adds_up_to_the_answer(server: LocalServer) -> None:
    async def watched() -> tuple[str, RunResult]:
        client = OpenAICompatible(server.url, limits=PATIENCE)
        stream = runner(client, server, tool_use_mode=ToolUseMode.DISABLED).stream("Say hello.")
        async with stream:
            pieces = [event.text async for event in stream if isinstance(event, TextDelta)]
            return "".join(pieces), stream.result

    text, result = asyncio.run(watched())
    assert text
    assert text.strip() == result.assistant_text.strip()
