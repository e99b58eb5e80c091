"""The simulator's other APIs, also driven by the official SDKs."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import anthropic
import msgspec
import openai
import pytest

from surecall import OpenAICompatible, ToolLoopRunner
from surecall.simulator.native_apis import (
    NATIVE_FAULTS,
    SERVED_APIS,
    check_messages_request,
    check_responses_request,
    faulty_reply,
    messages_events,
    native_reply,
    responses_events,
    seal_reply,
)
from surecall.simulator.server import Simulator
from surecall.values.types import JSON
from surecall.wire.chat_format import encode
from tests.support.proxy import call, completion, post, said
from tests.support.simulator import WEATHER

QUESTION: Final = "What is the weather in Paris for 3 days?"
FUNCTION: Final = WEATHER["function"]
WANTED: Final = [("get_weather", {"city": "Paris", "days": 3})]
Ran = list[tuple[str, Any]]


def weather(given: Any) -> str:
    return f"{given['city']}: clear for {given['days']} days"


# The official SDKs hold a conversation


def chat(url: str, model: str, *, stream: bool) -> tuple[str, Ran]:
    ran: Ran = []
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    asked: Any = {"model": model, "tools": [WEATHER]}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        while True:
            if stream:
                with client.chat.completions.stream(messages=messages, **asked) as events:
                    list(events)
                    message: Any = events.get_final_completion().choices[0].message
            else:
                got = client.chat.completions.create(messages=messages, **asked)
                message = got.choices[0].message
            if not message.tool_calls:
                return message.content or "", ran
            messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            for one in message.tool_calls:
                given = msgspec.json.decode(one.function.arguments)
                ran.append((one.function.name, given))
                result = {"role": "tool", "tool_call_id": one.id, "content": weather(given)}
                messages.append(result)


def responses(url: str, model: str, *, stream: bool) -> tuple[str, Ran]:
    ran: Ran = []
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    tool = {"type": "function", "strict": False} | FUNCTION
    asked: Any = {"model": model, "tools": [tool], "store": False}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        while True:
            if stream:
                with client.responses.stream(input=items, **asked) as events:
                    list(events)
                    response: Any = events.get_final_response()
            else:
                response = client.responses.create(input=items, **asked)
            items += [each.model_dump(exclude_none=True) for each in response.output]
            calls = [each for each in response.output if each.type == "function_call"]
            if not calls:
                return response.output_text, ran
            for each in calls:
                given = msgspec.json.decode(each.arguments)
                ran.append((each.name, given))
                kind = {"type": "function_call_output", "call_id": each.call_id}
                items.append(kind | {"output": weather(given)})


def messages(url: str, model: str, *, stream: bool) -> tuple[str, Ran]:
    ran: Ran = []
    turns: list[Any] = [{"role": "user", "content": QUESTION}]
    tool = {"name": "get_weather", "input_schema": FUNCTION["parameters"]}
    asked: Any = {"model": model, "tools": [tool], "max_tokens": 500}
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        while True:
            if stream:
                with client.messages.stream(messages=turns, **asked) as events:
                    message: Any = events.get_final_message()
            else:
                message = client.messages.create(messages=turns, **asked)
            blocks = [block.model_dump(exclude_none=True) for block in message.content]
            turns.append({"role": "assistant", "content": blocks})
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in message.content if block.type == "text"), ran
            ran += [(one.name, one.input) for one in calls]
            results = [
                {"type": "tool_result", "tool_use_id": one.id, "content": weather(one.input)}
                for one in calls
            ]
            turns.append({"role": "user", "content": results})


Talk = Callable[..., tuple[str, Ran]]
SDKS: Final[dict[str, Talk]] = {"chat": chat, "responses": responses, "messages": messages}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("api", SDKS)
def test_an_official_sdk_holds_a_conversation(api: str, *, stream: bool) -> None:
    with Simulator(seed=7) as simulator:
        for model in ("sim/clean", "sim/strict-deepseek"):
            if (api, model) == ("chat", "sim/strict-deepseek"):
                continue  # its SDK does not send the reasoning back
            answer, ran = SDKS[api](simulator.url, model, stream=stream)
            assert ran == WANTED
            assert "clear for 3 days" in answer
        assert not simulator.violations


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_model_that_reasons_works_with_the_responses_sdk_only(*, stream: bool) -> None:
    with Simulator(seed=7) as simulator:
        answer, ran = responses(simulator.url, "sim/like-gpt-5.6", stream=stream)
        assert ran == WANTED
        assert "clear for 3 days" in answer
        with pytest.raises(openai.BadRequestError, match="use /v1/responses"):
            chat(simulator.url, "sim/like-gpt-5.6", stream=stream)
        assert not simulator.violations


def test_without_tools_or_reasoning_chat_is_enough() -> None:
    with Simulator(seed=7) as simulator:
        body: JSON = {"model": "sim/like-gpt-5.6", "messages": [{"role": "user", "content": "Hi."}]}
        assert post(simulator.url, body).status == 200
        body |= {"tools": [WEATHER], "reasoning_effort": "none"}
        assert post(simulator.url, body).status == 200


# Refusals


def test_reasoning_that_does_not_come_back_is_refused() -> None:
    tool = {"type": "function"} | FUNCTION
    made = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    items = [{"role": "user", "content": "Hi."}, made, output]
    with Simulator() as simulator:
        body = {"model": "sim/like-gpt-5.6", "input": items, "tools": [tool]}
        got = post(simulator.url, body, "/v1/responses")
        assert (got.status, len(simulator.violations) > 0) == (400, True)
    assert "could not be verified" in got.json["error"]["message"]


@pytest.mark.parametrize("path", SERVED_APIS)
def test_malformed_requests_and_unknown_models_are_refused_in_the_form_of_the_api(
    path: str,
) -> None:
    known = {"input": "Hi.", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 9}
    with Simulator() as simulator:
        assert "message" in post(simulator.url, b"{", path).json["error"]
        got = post(simulator.url, {"model": "sim/none"} | known, path)
        assert got.status == 404
        assert "sim/none" in got.json["error"]["message"]


USER: Final[JSON] = {"role": "user", "content": "Hi."}
USE: Final[JSON] = {"type": "tool_use", "id": "c1", "name": "a", "input": {}}
RESULT: Final[JSON] = {"type": "tool_result", "tool_use_id": "c1"}
TEXT: Final[JSON] = {"type": "text", "text": "A"}
TOOLS: Final[list[JSON]] = [{"name": "a", "input_schema": {"type": "object"}}]


def turn(role: str, *blocks: JSON) -> JSON:
    return {"role": role, "content": list(blocks)}


@pytest.mark.parametrize(
    ("turns", "rule"),
    [
        ([USER, turn("assistant", USE), turn("user", RESULT, TEXT)], ""),
        (None, "field_missing"),
        ([USER, USER], "roles"),
        ([turn("assistant", TEXT)], "roles"),
        ([turn("user", {"type": "text", "text": " "})], "text_blank"),
        ([USER, turn("assistant", {"type": "thinking"})], "thinking_last"),
        ([USER, turn("assistant", USE | {"input": "{}"}), turn("user", RESULT)], "input_type"),
        ([USER, turn("assistant", USE)], "unanswered"),
        ([USER, turn("assistant", USE), turn("user", TEXT)], "unanswered"),
        ([turn("user", RESULT)], "orphan"),
        ([USER, turn("assistant", USE), turn("user", RESULT, RESULT)], "orphan"),
        ([USER, turn("assistant", USE), turn("user", TEXT, RESULT)], "results_first"),
    ],
)
def test_requests_of_the_messages_api_are_checked(turns: Any, rule: str) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": turns, "tools": TOOLS}
    found = [violation.rule for violation in check_messages_request(body)]
    assert found[:1] == ([rule] if rule else [])


def test_tools_of_the_messages_api_are_checked() -> None:
    history = [USER, turn("assistant", USE), turn("user", RESULT)]
    body: JSON = {"model": "m", "max_tokens": 9, "messages": history}
    assert [each.rule for each in check_messages_request(body)] == ["tools_missing"]
    rules = [each.rule for each in check_messages_request(body | {"tools": [{"name": "a"}, 7]})]
    assert rules == ["tool_schema", "tool_schema"]


MADE: Final[JSON] = {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"}
OUTPUT: Final[JSON] = {"type": "function_call_output", "call_id": "c1", "output": "x"}
REASONING: Final[JSON] = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ([USER, REASONING, MADE, OUTPUT], ""),
        (None, "field_missing"),
        ([MADE | {"arguments": {}}, OUTPUT], "field_missing"),
        ([MADE, OUTPUT | {"output": 7}], "field_missing"),
        ([MADE], "unanswered"),
        ([OUTPUT], "orphan"),
        ([USER, REASONING, USER], "reasoning_alone"),
    ],
)
def test_requests_of_the_responses_api_are_checked(items: Any, rule: str) -> None:
    tools = [{"type": "function", "parameters": {}}, {"type": "web_search"}]
    body = {"model": "m", "input": items, "tools": tools}
    found = [violation.rule for violation in check_responses_request(body)]
    assert found[:1] == ([rule] if rule else [])
    bare = body | {"input": "Hi.", "tools": [{"type": "function"}]}
    assert [each.rule for each in check_responses_request(bare)] == ["tool_schema"]


# Replies and events

MESSAGES, RESPONSES = SERVED_APIS["/v1/messages"], SERVED_APIS["/v1/responses"]


def rendered(api: Any, body: Any) -> Any:
    asked: JSON = {"model": "m", "max_tokens": 9, "messages": [USER], "input": "Hi."}
    return native_reply(api.adapter, api.adapter.parse(encode(asked)), body)


@pytest.mark.parametrize("arguments", ['{"a":1}', "{", "[1]", {"a": 1}, None])
def test_malformed_arguments_stay_malformed(arguments: Any) -> None:
    made = call("c1") | {"function": {"name": "a", "arguments": arguments}}
    body = completion(said(made), "tool_calls")
    assert rendered(RESPONSES, body)["output"][0]["arguments"] == arguments
    wanted = {"a": 1} if arguments == '{"a":1}' else arguments
    assert rendered(MESSAGES, body)["content"][0]["input"] == wanted


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "function_call": {"name": "a"}},
        {"content": None, "tool_calls": "[]"},
        {"content": [{"type": "tool_use", "name": "a", "input": {}}]},
        {"content": None, "tool_calls": [{"id": "c1"}]},
    ],
)
def test_what_cannot_be_rendered_is_sent_as_a_chat_completion(message: JSON) -> None:
    body = completion(message)
    assert rendered(MESSAGES, body) is body
    assert rendered(RESPONSES, {"error": "x"}) == {"error": "x"}


def test_answers_have_no_seal() -> None:
    body = completion(said(text="Hi."))
    assert seal_reply(body, "x") is body


def test_every_kind_of_block_and_item_has_events() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": ""},
        {"type": "redacted_thinking", "data": "x"},
        USE | {"input": "{"},
    ]
    reply = {"content": content, "stop_reason": "tool_use", "stop_sequence": None}
    kinds = [event["type"] for event in messages_events(reply, 0)]
    assert kinds.count("content_block_start") == 4
    output = [
        {"type": "odd"},
        REASONING | {"summary": [{"type": "summary_text", "text": ""}]},
        {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},
        MADE | {"arguments": {}},
    ]
    names = [event["type"] for event in responses_events({"output": output}, 0)]
    assert names.count("response.output_item.done") == 4
    assert "response.refusal.delta" in names
    assert "response.function_call_arguments.delta" not in names


# Faults


@pytest.mark.parametrize("fault", NATIVE_FAULTS)
@pytest.mark.parametrize("path", SERVED_APIS)
def test_a_fault_changes_the_reply_or_its_events_and_nothing_else(path: str, fault: str) -> None:
    api = SERVED_APIS[path]
    made = call("c1", "get_weather", city="Paris is a long name", days=3)
    reply = rendered(api, completion(said(made, text="Let me see what I can do."), "tool_calls"))
    before = encode(reply)

    changed = faulty_reply(reply, fault)
    events = api.encode_events(changed, fault, 1)

    assert encode(reply) == before
    assert changed != reply or events != api.encode_events(reply, "", 1)
    assert faulty_reply(reply, "") is reply


def test_content_that_is_text_has_no_fields_to_leave_out() -> None:
    assert faulty_reply({"id": "x", "content": "A"}, "missing-fields") == {"content": "A"}


def test_arguments_that_are_no_object_are_not_retyped() -> None:
    for key, item in (("content", USE | {"input": "{"}), ("output", MADE | {"arguments": "{"})):
        reply = {key: [TEXT, item]}
        assert faulty_reply(reply, "retyped-arguments") == reply


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", SERVED_APIS)
def test_transport_faults_occur_in_every_api(path: str, *, stream: bool) -> None:
    known = {"input": "Hi.", "messages": [USER], "max_tokens": 9, "stream": stream}
    with Simulator() as simulator:
        got = post(simulator.url, {"model": "sim/http-503"} | known, path)
        assert got.status == 503
        again = post(simulator.url, {"model": "sim/http-503"} | known, path)
        assert again.status == 200


def test_a_fault_that_a_retry_fixes_occurs_once_per_position() -> None:
    body = {"model": "sim/native-no-ending", "max_tokens": 9, "messages": [USER], "stream": True}
    with Simulator() as simulator:
        ends = [post(simulator.url, body, "/v1/messages").events[-1]["type"] for _ in range(3)]
        assert simulator.faults["no-ending"] == 2
    assert ends == ["content_block_stop", "message_stop", "content_block_stop"]


# The runner, whose client speaks all three


def get_weather(city: str, days: int) -> str:
    """Weather for a city."""
    return f"{city}: clear for {days} days"


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_a_run_is_the_same_over_every_api(api: str) -> None:
    with Simulator(seed=7) as simulator:
        client = OpenAICompatible(f"{simulator.url}/v1", api=api, lessons=False)
        runner = ToolLoopRunner(client=client, model="sim/strict-sealed", tools=[get_weather])
        result = asyncio.run(runner.run(QUESTION))
        assert not simulator.violations
    assert "clear for 3 days" in result.text
    assert result.run.turn_count == 2


def test_a_lesson_about_the_api_lets_a_model_reason_with_tools() -> None:
    model = "sim/like-gpt-5.6"
    with Simulator(seed=7) as simulator:
        client = OpenAICompatible(simulator.url, lessons=False)
        client.lessons[model] = ("api:responses",)
        runner = ToolLoopRunner(client=client, model=model, tools=[get_weather])
        result = asyncio.run(runner.run(QUESTION))
        assert [request["store"] for request in simulator.requests] == [False, False]
    assert "clear for 3 days" in result.text


@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_item_is_in_the_reply_and_in_its_events(*, stream: bool) -> None:
    body: JSON = {"model": "sim/native-unknown-items", "max_tokens": 9, "messages": [USER]}
    with Simulator() as simulator:
        got = post(simulator.url, body | {"stream": stream}, "/v1/messages")
        assert simulator.faults["unknown-items"] == 1
    assert b"oracle_call" in got.body
