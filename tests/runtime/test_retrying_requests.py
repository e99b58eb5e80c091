"""PromptRunner: one plan in, one reply out; waits and jitter are given, so nothing here sleeps."""

import asyncio
import traceback
from typing import Any

import pytest

from surecall import presets
from surecall.core.outcome import RequestFailed
from surecall.runtime.recording import Recorder
from surecall.runtime.retrying_requests import (
    PromptRunner,
    ReceivedReply,
    decode_body,
    ignore_event,
)
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import Client, OpenAICompatible
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig
from surecall.settings.connection import RetryPolicy
from surecall.testing import (
    Item,
    ScriptedModel,
    ScriptedProvider,
    calls,
    failure,
    hangs_up,
    raw,
    says,
)
from surecall.tools.registry import ToolRegistry, tool
from surecall.values.errors import ConfigError, ErrorCode, ProviderError
from surecall.values.events import (
    Event,
    LlmRequestErrorEvent,
    LlmRequestRetryEvent,
    LlmRequestStartEvent,
)
from surecall.values.types import HttpResponse, Plan, Secret, ToolSpec, Usage, User
from tests.support.spec import proves

KEY = "sk-canary-47114711"
ASKED = Plan("m", (User("hi"),))
LOOK = ToolSpec("look", "Looks.", {"type": "object"})
WITH_TOOLS = Plan("m", (User("hi"),), (LOOK,), "auto")
BUSY = failure(503, {"error": {"message": "busy"}})


class KeyedModel(ScriptedModel):
    """A script behind a key, like a real endpoint."""

    api_key = Secret(KEY)


@tool
def look() -> str:
    """Look around."""
    return "nothing"


class Asked:
    """What became of one plan: the waits, the events, and the reply or the error."""

    def __init__(self, client: Client, plan: Plan = ASKED, **settings: Any) -> None:
        self.waits: list[float] = []
        self.recorder = Recorder("run", ())
        self.error: ProviderError | None = None
        runner = PromptRunner(client, sleep=self._sleep, jitter=lambda: 1.0, **settings)
        try:
            requests = runner.requests(emit=self.recorder.emit)
            self.exchange: ReceivedReply = asyncio.run(requests.ask(plan, 4))
        except ProviderError as error:
            self.error = error

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of one kind."""
        return [event for event in self.recorder.events if isinstance(event, kind)]


def limited(**headers: str) -> Item:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure(429, {"error": {"message": "slow down"}}, named)


def test_a_plan_becomes_a_request_and_an_answer_a_reply() -> None:
    model = ScriptedModel(says("hello", model="served", provider="P", id="r1"))
    exchange = asyncio.run(PromptRunner(model).ask(ASKED))
    assert model.requests == [{"model": "m", "messages": [{"role": "user", "content": "hi"}]}]
    assert (exchange.reply.text, exchange.reply.finish_reason) == ("hello", "stop")
    assert (exchange.reply.model, exchange.reply.provider) == ("served", "P")
    assert exchange.body["id"] == exchange.reply.response_id == "r1"
    assert (exchange.attempt, exchange.response_bytes > 100) == (1, True)


@pytest.mark.parametrize(
    ("base", "prefix"),
    [("", "/v1"), ("/", "/v1"), ("/v1", "/v1"), ("/v1/", "v1/"), ("/v1", ""), ("/v1/", None)],
)
@proves("C110")
def test_an_address_is_joined_without_doubling_v1(base: str, prefix: str | None) -> None:
    with ScriptedProvider(says("here")) as provider:
        client = OpenAICompatible(provider.url + base, api_prefix=prefix)
        assert client.url("chat/completions") == f"{provider.url}/v1/chat/completions"
        assert Asked(client).exchange.reply.text == "here"


@proves("C113")
def test_parts_are_joined_and_tokens_counted() -> None:
    parts = [{"type": "text", "text": "Good "}, {"type": "text", "text": "day"}]
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    body = says("", usage=usage)
    body["choices"][0]["message"]["content"] = parts
    reply = asyncio.run(PromptRunner(ScriptedModel(body)).ask(ASKED)).reply
    assert (reply.text, reply.usage) == ("Good day", Usage(7, 2, 9))


@pytest.mark.parametrize(
    ("status", "body", "code", "told"),
    [
        (401, {"error": {"message": "who are you"}}, "AUTH", "who are you"),
        (404, "no such page", "NOT_FOUND", "no such page"),
        (404, "<html>nginx</html>", "NOT_FOUND", "an HTML page instead of JSON"),
        (400, {"error": "plain"}, "BAD_REQUEST", "plain"),
        (422, {"detail": "wrong"}, "UNPROCESSABLE", "wrong"),
        (402, b"", "PAYMENT_REQUIRED", "HTTP 402"),
        (403, b"null", "FORBIDDEN", "null"),
        (413, b'"too much"', "REQUEST_TOO_LARGE", "too much"),
    ],
)
@proves("C111")
def test_a_bad_status_is_an_error_with_status_message_and_body(
    status: int, body: Any, code: str, told: str
) -> None:
    with ScriptedProvider(failure(status, body)) as provider:
        asked = Asked(OpenAICompatible(provider.url, KEY))
    assert asked.error is not None
    assert (asked.error.code, asked.error.status) == (code, status)
    assert told in str(asked.error)
    assert (asked.error.fault.body != "") is (body != b"")
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("answer", "code", "waits"),
    [
        (raw(b""), "EMPTY_RESPONSE", 2),
        (raw(b" \n"), "EMPTY_RESPONSE", 2),
        (raw(b"null"), "EMPTY_RESPONSE", 2),
        (raw(b'{"choices":null}'), "EMPTY_RESPONSE", 2),
        (raw(b'{"choices":[{"messa'), "DECODE_ERROR", 2),
        (raw(b"<!doctype html>"), "DECODE_ERROR", 0),
        (raw(b'{"models":[]}'), "DECODE_ERROR", 0),
        (raw(b"[" * 9_999), "DECODE_ERROR", 2),
        (hangs_up(), "CONNECTION_ERROR", 2),
        (raw(b'{"error":{"code":401,"message":"x"}}'), "AUTH", 0),
    ],
)
@proves("I4")
def test_an_answer_that_is_none_is_a_fault(answer: Item, code: str, waits: int) -> None:
    asked = Asked(ScriptedModel(answer, answer, answer))
    assert asked.error is not None
    assert asked.error.code == code
    assert len(asked.waits) == waits


@proves("I4")
def test_an_error_inside_a_200_is_not_taken_for_a_lack_of_calls() -> None:
    body = {"error": {"code": 402, "message": "out of credit"}, "user_id": "u"}
    config = ToolCallingConfig.from_mapping({"tool_use_mode": "enforced"})
    runner = ToolLoopRunner(
        client=ScriptedModel(body), model="m", registry=ToolRegistry([look]), config=config
    )
    with pytest.raises(RequestFailed) as caught:
        asyncio.run(runner.run("hi"))
    assert (caught.value.code, caught.value.status) == (ErrorCode.PAYMENT_REQUIRED, 402)
    assert caught.value.hint == "Add credit to the account."


@pytest.mark.parametrize(
    ("script", "waits", "answered"),
    [
        ([BUSY, BUSY, says("ok")], [0.5, 1.0], True),
        ([BUSY, BUSY, BUSY], [0.5, 1.0], False),
        ([limited(retry_after="7"), says("ok")], [7.0], True),
        ([limited(retry_after="0.25"), says("ok")], [0.25], True),
        ([limited(retry_after_ms="1500"), says("ok")], [1.5], True),
        ([limited(retry_after="120"), says("ok")], [120.0], True),
        ([limited(retry_after="121")], [], False),
        ([limited(retry_after="-5"), says("ok")], [0.5], True),
        ([limited(retry_after="nan"), says("ok")], [0.5], True),
        ([limited(retry_after="soon"), says("ok")], [0.5], True),
        ([limited(retry_after="Mon, 01 Jan 2001 00:00:00 GMT"), says("ok")], [0.5], True),
        ([limited(retry_after="Mon, 01 Jan 2091 00:00:00 GMT")], [], False),
        ([limited(x_should_retry="false")], [], False),
        ([failure(400, None, {"x-should-retry": "true"}), says("ok")], [0.5], True),
        ([failure(401)], [], False),
        ([failure(402)], [], False),
        ([hangs_up(), raw(b"{}"), says("ok")], [0.5, 1.0], True),
    ],
)
@proves("G11", "I8")
def test_passing_faults_are_tried_again(
    script: list[Item], waits: list[float], *, answered: bool
) -> None:
    asked = Asked(ScriptedModel(*script))
    assert asked.waits == waits
    assert (asked.error is None) is answered


@proves("G11")
def test_the_policy_is_the_callers() -> None:
    policy = RetryPolicy(attempts=5, first_wait_s=2.0, longest_wait_s=3.0)
    asked = Asked(ScriptedModel(BUSY, BUSY, BUSY, BUSY, BUSY), retry=policy)
    assert asked.waits == [2.0, 3.0, 3.0, 3.0]


def test_every_attempt_fault_and_wait_is_told() -> None:
    asked = Asked(ScriptedModel(BUSY, says("ok")), WITH_TOOLS)
    assert [type(event) for event in asked.recorder.events] == [
        LlmRequestStartEvent,
        LlmRequestErrorEvent,
        LlmRequestRetryEvent,
        LlmRequestStartEvent,
    ]
    first, second = asked.of(LlmRequestStartEvent)
    assert (first.attempt, second.attempt, first.turn) == (1, 2, 4)
    assert first.request_hash == second.request_hash == asked.exchange.request_hash
    assert (first.tools_count, first.tools_enabled, first.messages_count) == (1, True, 1)
    assert asked.of(LlmRequestErrorEvent)[0].fault.message == "busy"
    (retried,) = asked.of(LlmRequestRetryEvent)
    assert (retried.attempt, retried.wait_s, retried.tools_enabled) == (1, 0.5, True)
    assert asked.exchange.attempt == 2


@pytest.mark.parametrize(
    ("answer", "code"), [(failure(401), "AUTH"), (failure(402), "PAYMENT_REQUIRED")]
)
@proves("I8")
def test_a_bad_key_or_an_empty_account_is_asked_once(answer: Item, code: str) -> None:
    model = ScriptedModel(answer)
    config = presets.raw(fallback_retry_count=3)
    runner = ToolLoopRunner(client=model, model="m", registry=ToolRegistry([look]), config=config)
    with pytest.raises(RequestFailed) as caught:
        asyncio.run(runner.run("hi"))
    assert (caught.value.code, len(model.requests)) == (code, 1)


@proves("I8")
def test_a_rate_limit_is_waited_out_and_the_tools_are_kept() -> None:
    model = ScriptedModel(limited(retry_after="0.01"), calls("look"), says("done"))
    runner = ToolLoopRunner(client=model, model="m", registry=ToolRegistry([look]))
    result = asyncio.run(runner.run("hi"))
    assert result.assistant_text == "done"
    assert model.requests[0] == model.requests[1]
    assert model.requests[1]["tools"][0]["function"]["name"] == "look"
    assert [event.wait_s for event in result.trace if isinstance(event, LlmRequestRetryEvent)] == [
        0.01
    ]


@proves("C115")
def test_a_prompt_beyond_the_window_is_not_sent() -> None:
    model = ScriptedModel()
    narrow = Capabilities(context_window_tokens=10)
    asked = Asked(model, Plan("m", (User("x" * 200),)), capabilities=narrow)
    assert asked.error is not None
    assert asked.error.code is ErrorCode.CONTEXT_TOO_LONG
    assert "only 10 fit" in str(asked.error)
    assert model.requests == []
    assert asked.recorder.events == []


@proves("C115")
def test_a_prompt_that_fits_is_sent() -> None:
    wide = Capabilities(context_window_tokens=1_000)
    assert Asked(ScriptedModel(says("ok")), capabilities=wide).exchange.reply.text == "ok"


def test_tools_against_the_capabilities_are_refused_before_any_request() -> None:
    runner = PromptRunner(ScriptedModel(), capabilities=Capabilities(tools=False))
    with pytest.raises(ConfigError, match="does not support tools"):
        asyncio.run(runner.ask(WITH_TOOLS))


ECHOES = [
    failure(401, {"error": {"message": f"Incorrect API key provided: {KEY}."}}),
    failure(400, {"error": {"message": "x", "metadata": {"raw": f"Authorization: Bearer {KEY}"}}}),
    failure(502, f"<html>{KEY}</html>"),
    failure(403, {"error": {"message": "x" * 390 + KEY}}),
    failure(
        403, {"error": {"message": "x", "metadata": {"provider_name": KEY, "remedy_hint": KEY}}}
    ),
    raw(b'{"error":{"message":"' + KEY.encode().replace(b"-", b"\\u002d") + b'"}}'),
    raw(f"not JSON: {KEY}".encode()),
    raw(f'{{"{KEY}": 1}}'.encode()),
    failure(404, {"detail": "Bearer eyJhbGciOiJIUzI1NiJ9.e30 and sk-other-0123456789abcdef"}),
]


@pytest.mark.parametrize("echo", ECHOES)
@proves("G5")
def test_a_key_that_an_endpoint_echoes_is_in_no_error_and_no_event(echo: Item) -> None:
    asked = Asked(KeyedModel(echo), retry=RetryPolicy(attempts=1))
    assert asked.error is not None
    told = traceback.format_exception(asked.error)
    shown = "".join([*told, repr(asked.error.fault), repr(asked.recorder.events)])
    assert "canary-4" not in shown
    assert "eyJhbGci" not in shown
    assert "0123456789abcdef" not in shown
    assert "[redacted]" in shown


@proves("G5")
def test_a_key_that_a_model_repeats_is_in_no_event_and_no_history() -> None:
    model = KeyedModel(calls("look", note=KEY), says(f"it is {KEY}"))
    registry = ToolRegistry([look])
    config = presets.raw(validate_arguments=False)
    runner = ToolLoopRunner(client=model, model="m", registry=registry, config=config)
    result = asyncio.run(runner.run("hi"))
    assert result.assistant_text == "it is [redacted]"
    assert KEY not in repr(result.run) + repr(result.trace.events) + repr(model.requests)


def test_what_a_model_says_is_left_alone_otherwise() -> None:
    text = "A key looks like sk-proj-abcdefgh12345678; send it as Bearer sk-canar…"
    assert Asked(KeyedModel(says(text))).exchange.reply.text == text


def test_nothing_is_recorded_unless_asked_for() -> None:
    assert ignore_event(LlmRequestStartEvent, 0, attempt=1) is None  # type: ignore[func-returns-value]  # that is the point


def test_an_answer_that_is_not_json_is_quoted_in_short() -> None:
    fault = decode_body(HttpResponse(200, {}, b"\xff \n oops" * 1_000))
    assert fault.message.startswith("the answer is not JSON: '\ufffd oops")
    assert len(fault.body) <= 400
