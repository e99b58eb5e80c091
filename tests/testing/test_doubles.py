"""The public test doubles: what they answer, what they keep, and how they end."""

import asyncio
import gc
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import surecall
from surecall import RetryPolicy, RunResult, ToolLoopRunner, tool
from surecall.runtime.transport import Client, OpenAICompatible
from surecall.testing import (
    Item,
    RecordingObserver,
    Scripted,
    ScriptedModel,
    ScriptedProvider,
    calls,
    calls_many,
    cuts,
    failure,
    hangs,
    hangs_up,
    raw,
    replies_of,
    says,
    streams,
)
from surecall.values.errors import ConfigError, ErrorCode, ProviderError
from surecall.values.types import JSON, HttpResponse
from tests.support.timing import PATIENCE_S, until

POST = b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n"


def exchange(client: Client, *requests: JSON) -> list[HttpResponse]:
    async def main() -> list[HttpResponse]:
        async with client.opened():
            return [await client.send(json.dumps(request).encode()) for request in requests]

    return asyncio.run(main())


def message(body: JSON) -> JSON:
    choice: JSON = body["choices"][0]
    return {**choice["message"], "finish_reason": choice["finish_reason"]}


def called(body: JSON) -> list[tuple[str, str, Any]]:
    return [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in body["choices"][0]["message"]["tool_calls"]
    ]


def test_says_is_a_final_answer() -> None:
    expected = {"role": "assistant", "content": "hi", "finish_reason": "stop"}
    assert message(says("hi")) == expected


def test_extra_fields_land_where_the_api_keeps_them() -> None:
    body = says("", usage={"total_tokens": 9}, finish_reason="length", reasoning="hm")
    assert body["usage"] == {"total_tokens": 9}
    assert message(body)["finish_reason"] == "length"
    assert message(body)["reasoning"] == "hm"
    assert "reasoning" not in body


def test_calls_is_one_call_with_arguments_in_json_text() -> None:
    body = calls("add", a=1, b="ü")
    assert called(body) == [("call_1", "add", {"a": 1, "b": "ü"})]
    assert message(body)["finish_reason"] == "tool_calls"
    assert message(body)["content"] is None


def test_a_tool_may_have_an_argument_called_name() -> None:
    assert called(calls("find", name="x", call_id="c9")) == [("c9", "find", {"name": "x"})]


def test_merged_calls_are_numbered_by_position() -> None:
    merged = calls_many(calls("a"), calls("b", x=1), calls("c"))
    assert called(merged) == [("call_1", "a", {}), ("call_2", "b", {"x": 1}), ("call_3", "c", {})]


def test_merging_keeps_chosen_ids_and_never_makes_a_second_of_one() -> None:
    chosen, other = calls("a", call_id="call_2"), calls("d", call_id="mine")
    merged = calls_many(chosen, calls("b"), calls("c"), other)
    assert [call_id for call_id, _, _ in called(merged)] == ["call_2", "call_3", "call_4", "mine"]


def test_merging_leaves_its_parts_alone() -> None:
    first, second = calls("a"), calls("b")
    calls_many(first, second)
    assert called(second) == [("call_1", "b", {})]


def test_a_script_gives_every_call_of_a_conversation_an_id_of_its_own() -> None:
    @tool(repeatable=True)
    def go() -> str:
        """Go."""
        return "gone"

    both = calls_many(calls("go"), calls("go", call_id="mine"))
    script = (calls("go"), both, streams(calls("go")))
    model = ScriptedModel(*script, streams(says("Done.")))
    runner = ToolLoopRunner(client=model, model="m", tools=go, config={})
    with runner.stream_sync("Go.") as stream:
        assert list(stream)

    ids = [call.id for said in stream.run.replies for call in said.calls]
    assert ids == ["call_1", "call_2", "mine", "call_3"]
    assert called(both)[0][0] == "call_1"


def test_a_failure_has_an_error_body_unless_given_one() -> None:
    assert json.loads(failure(429).body)["error"]["message"] == "Too Many Requests"
    assert json.loads(failure(599).body)["error"]["message"] == "Status 599"
    assert json.loads(failure(400, {"detail": "no"}).body) == {"detail": "no"}
    assert failure(502, "bad gateway").body == failure(502, b"bad gateway").body == b"bad gateway"
    assert failure(503, headers={"Retry-After": "2"}).headers["retry-after"] == "2"


def test_a_scripted_model_plays_its_script_and_keeps_the_requests() -> None:
    model = ScriptedModel(says("one"), failure(500, "two"), raw(b"three", content_type="text/css"))
    answers = exchange(model, {"n": 1}, {"n": 2}, {"n": 3})
    assert json.loads(answers[0].body) == says("one")
    assert answers[0].headers == {"content-type": "application/json"}
    assert answers[1] == HttpResponse(500, {"content-type": "application/json"}, b"two")
    assert answers[2] == HttpResponse(200, {"content-type": "text/css"}, b"three")
    assert model.requests == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_scripted_model_raises_the_exceptions_of_its_script() -> None:
    with pytest.raises(ConfigError, match="mine"):
        exchange(ScriptedModel(ConfigError("mine")), {})


def test_a_scripted_model_can_react_to_the_request() -> None:
    model = ScriptedModel(lambda request: says(request["question"].upper()))
    (answer,) = exchange(model, {"question": "why"})
    assert message(json.loads(answer.body))["content"] == "WHY"


def test_a_request_beyond_the_script_is_an_assertion_that_counts() -> None:
    model = ScriptedModel(says("one"))
    with pytest.raises(AssertionError, match=r"script has 1 answers, but received request 2"):
        exchange(model, {}, {})


@pytest.mark.parametrize("ended", [hangs_up(), hangs(0.01), cuts(says("hi"), after=9)])
def test_both_doubles_end_a_connection_with_the_same_fault(ended: Scripted) -> None:
    for run in (_faulty_model(ended), _faulty_provider(ended)):
        with pytest.raises(ProviderError) as caught:
            asyncio.run(run)
        assert caught.value.code is ErrorCode.CONNECTION_ERROR
        assert caught.value.fault.retryable


def _faulty_model(item: Item) -> Coroutine[Any, Any, object]:
    return ScriptedModel(item).send(b"{}")


async def _faulty_provider(item: Item) -> object:
    with ScriptedProvider(item) as provider:
        return await OpenAICompatible(provider.url).send(b"{}")


def test_a_scripted_provider_plays_the_same_script_over_http() -> None:
    script = (
        says("one"),
        failure(429, headers={"Retry-After": "1"}),
        lambda request: says(*request),
    )
    with ScriptedProvider(*script) as provider:
        answers = exchange(OpenAICompatible(provider.url), {}, {}, {"three": 3})
    assert [answer.status for answer in answers] == [200, 429, 200]
    assert json.loads(answers[0].body) == says("one")
    assert answers[1].headers["retry-after"] == "1"
    assert message(json.loads(answers[2].body))["content"] == "three"
    assert provider.requests == [{}, {}, {"three": 3}]


def test_a_wrong_key_gets_a_401_and_uses_up_nothing() -> None:
    with ScriptedProvider(says("one"), api_key="right") as provider:
        (refused,) = exchange(OpenAICompatible(provider.url, "wrong"), {})
        (answer,) = exchange(OpenAICompatible(provider.url, "right"), {})
    assert (refused.status, answer.status) == (401, 200)
    assert json.loads(refused.body)["error"]["code"] == "invalid_api_key"
    seen = [headers["authorization"] for headers in provider.headers]
    assert seen == ["Bearer wrong", "Bearer right"]


@pytest.mark.parametrize(("key", "status"), [("right", b"200"), ("wrong", b"401")])
def test_a_scripted_provider_lists_its_models(key: str, status: bytes) -> None:
    with ScriptedProvider(api_key="right") as provider:
        request = f"GET /v1/models HTTP/1.0\r\nAuthorization: Bearer {key}\r\n\r\n"
        head, _, body = _raw_exchange(provider.url, request.encode()).partition(b"\r\n\r\n")
    assert head.split()[1] == status
    assert (status == b"401") or json.loads(body)["data"][0]["id"] == "scripted"


def _raw_exchange(url: str, request: bytes) -> bytes:
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as stream:
            return stream.read()


def test_a_request_that_is_not_json_gets_a_400() -> None:
    with ScriptedProvider() as provider:
        assert b" 400 " in _raw_exchange(provider.url, POST + b"{,")
    assert provider.requests == []


def test_a_cut_answer_announces_its_whole_length() -> None:
    with ScriptedProvider(cuts(b"0123456789", after=3)) as provider:
        head, _, body = _raw_exchange(provider.url, POST + b"{}").partition(b"\r\n\r\n")
    assert b"content-length: 10" in head.lower()
    assert body == b"012"


def test_a_repeated_script_starts_over() -> None:
    with ScriptedProvider(says("a"), says("b"), repeat=True) as provider:
        answers = exchange(OpenAICompatible(provider.url), *[{}] * 5)
    assert [message(json.loads(answer.body))["content"] for answer in answers] == list("ababa")


@pytest.mark.parametrize("repeat", [False, True])
def test_a_request_beyond_the_script_fails_the_block(*, repeat: bool) -> None:
    def block() -> None:
        with ScriptedProvider(repeat=repeat) as provider:
            (answer,) = exchange(OpenAICompatible(provider.url), {})
            assert answer.status == 500

    with pytest.raises(AssertionError, match="0 answers, but received request 1"):
        block()


def test_a_failing_block_keeps_its_own_exception() -> None:
    def block() -> None:
        with ScriptedProvider(ConfigError("mine")) as provider:
            exchange(OpenAICompatible(provider.url), {})
            raise KeyError

    with pytest.raises(KeyError):
        block()


def test_a_scripted_provider_stops_at_once_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with ScriptedProvider(hangs(3600)) as provider:
        port = int(provider.url.rpartition(":")[2])
        hanging = socket.create_connection(("127.0.0.1", port))
        hanging.sendall(POST + b"{}")
        until(lambda: provider.requests)
    hanging.close()
    gc.collect()
    assert set(threading.enumerate()) <= before


def test_a_scripted_provider_works_inside_a_running_loop() -> None:
    async def main() -> int:
        with ScriptedProvider(says("hi")) as provider:
            return (await OpenAICompatible(provider.url).send(b"{}")).status

    assert asyncio.run(main()) == 200


@pytest.mark.parametrize("streamed", [True, False])
def test_a_recorded_run_is_a_script_that_says_the_same_again(streamed: bool) -> None:  # noqa: FBT001
    def added(a: int, b: int) -> int:
        """Add."""
        return a + b

    def run_of(*script: Item) -> RunResult:
        runner = ToolLoopRunner(
            client=ScriptedModel(*script),
            model="m",
            tools=[added],
            retry=RetryPolicy(first_wait_s=0),
        )
        if not streamed:
            return asyncio.run(runner.run("1 + 2?"))
        stream = runner.stream_sync("1 + 2?")
        assert list(stream)
        runner.close()
        return stream.result

    fenced = calls("add")
    function = fenced["choices"][0]["message"]["tool_calls"][0]["function"]
    function["arguments"] = '```json\n{"a": 1, "b": 2}\n```'
    shape = streams if streamed else dict
    first = run_of(shape(fenced), failure(503), shape(says("3")))
    again = run_of(*replies_of(first.trace))

    assert again.assistant_text == "3"
    assert [item.content for item in again.run.results] == [
        item.content for item in first.run.results
    ]
    assert again.repairs == first.repairs != ()


def test_a_recording_observer_keeps_events_and_names_their_types() -> None:
    observer = RecordingObserver()
    observer("text")
    observer(4)
    assert (observer.events, observer.types) == (["text", 4], ["str", "int"])


@pytest.mark.processes
def test_importing_the_doubles_does_not_load_aiohttp() -> None:
    code = (
        "import sys, surecall.testing, surecall.runtime.transport;"
        "sys.exit('aiohttp' in sys.modules)"
    )
    root = str(Path(surecall.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": root}, check=True)
