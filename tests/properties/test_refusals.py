"""Whatever a provider refuses in a legal request, one extra request teaches it, for good."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from surecall import OpenAICompatible, ToolDefinition, ToolLoopRunner, replay
from surecall import tool as tool_function
from surecall.proxy import Proxy
from surecall.simulator import Simulator
from surecall.simulator.personas.persona_catalog import REFUSING_PERSONAS
from surecall.testing import ScriptedProvider, failure, says
from surecall.values.types import JSON

OBJECT: JSON = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
IMAGE: JSON = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
USER: JSON = {"role": "user", "content": "Go."}
CALL: JSON = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"a": "x"}'}}
CALLED: JSON = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: JSON = {"role": "tool", "tool_call_id": "c1", "content": '{"ok": true}'}


def tool(parameters: JSON = OBJECT, name: str = "t", **beside: Any) -> JSON:
    return {"type": "function", "function": {"name": name, "parameters": parameters} | beside}


def schema(**keywords: Any) -> list[JSON]:
    """Return a tool whose argument has these keywords."""
    return [tool({"type": "object", "properties": {"a": {"type": "string"} | keywords}})]


def chat(*messages: JSON, **options: Any) -> JSON:
    return {"messages": list(messages or (USER,)), "tools": [tool()]} | options


def text(*words: str) -> list[JSON]:
    return [{"type": "text", "text": word} for word in words]


def deep(levels: int) -> JSON:
    inner: JSON = {"type": "string"}
    for _ in range(levels):
        inner = {"type": "object", "properties": {"a": inner}}
    return inner


POINT = {"$defs": {"P": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
REQUESTS: dict[str, JSON] = {
    "max-tokens": chat(max_tokens=100),
    "many-tokens": chat(max_tokens=100_000),
    "both-samplers": chat(temperature=0.2, top_p=0.9),
    "temperature": chat(temperature=0.2),
    "top-p": chat(top_p=0.9),
    "stream-options": chat(stream=True, stream_options={"include_usage": True}),
    "chat-template-kwargs": chat(chat_template_kwargs={"enable_thinking": False}),
    "empty-tools": chat(tools=[]),
    "empty-calls": chat(USER, {"role": "assistant", "content": "Hi.", "tool_calls": []}, USER),
    "many-tools": chat(tools=[tool(name=f"t{number}") for number in range(200)]),
    "duplicate-tools": chat(tools=[tool(), tool(), tool(deep(2))]),
    "type-lists": chat(tools=schema(type=["string", "null"])),
    "any-of-siblings": chat(tools=schema(anyOf=[{"type": "string"}, {"minLength": 2}])),
    "root-alternatives": chat(
        tools=[tool(OBJECT | {"oneOf": [{"required": ["a"]}, {"properties": {"b": {}}}]})]
    ),
    "untyped-schemas": chat(tools=[tool({"type": "object", "properties": {"a": {}}})]),
    "references": chat(
        tools=[tool({"type": "object", "properties": {"a": {"$ref": "#/$defs/P"}}} | POINT)]
    ),
    "deep-schemas": chat(tools=[tool(deep(14))]),
    "references-in-results": chat(
        USER, CALLED, RESULT | {"content": '{"$ref": "#/$defs/__schema0", "n": 1}'}
    ),
    "developer-role": chat({"role": "developer", "content": "Be kind."}, USER),
    "late-system": chat(USER, {"role": "system", "content": "Be kind."}, USER),
    "system-role": chat({"role": "system", "content": "Be kind."}, USER),
    "user-after-tool": chat(USER, CALLED, RESULT, USER),
    "repeated-role": chat(USER, USER | {"content": text("And", " now.")}),
    "tool-images": chat(USER, CALLED, RESULT | {"content": [*text("A shot."), IMAGE]}),
    "images": chat(USER, CALLED, RESULT | {"content": [*text("A shot."), IMAGE]}),
    "text-parts": chat(USER | {"content": text("Go", " on.")}, CALLED, RESULT),
    "tools-with-reasoning": chat(reasoning_effort="high"),
    "empty-content": chat(USER, CALLED, RESULT | {"content": ""}),
    "names": chat(USER | {"name": "alice"}),
    "schema-const": chat(tools=schema(const="x")),
    "schema-oneof": chat(tools=schema(oneOf=[{"type": "string"}])),
    "schema-allof": chat(tools=schema(allOf=[{"minLength": 1}, {"maxLength": 5}])),
    "schema-format": chat(tools=schema(format="date")),
    "schema-additionalproperties": chat(tools=[tool(OBJECT | {"additionalProperties": False})]),
    "schema-default": chat(tools=schema(default="x")),
    "schema-nullable": chat(tools=schema(nullable=True)),
}
EVERY = [
    pytest.param(persona.id, REQUESTS[persona.refuses], id=persona.id.partition("-")[2])
    for persona in REFUSING_PERSONAS.values()
]


async def exchange(url: str, body: JSON, path: str = "chat/completions") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/{path}", json=body) as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(("model", "body"), EVERY)
def test_the_proxy_learns_a_refusal_with_one_extra_request(
    model: str,
    body: JSON,
    stream: bool,  # noqa: FBT001
) -> None:
    if "stream_options" in body and not stream:
        return

    async def work(url: str) -> list[tuple[int, str]]:
        async with Proxy(url) as proxy:
            request = body | {"model": model} | ({"stream": True} if stream else {})
            return [await exchange(proxy.url, request) for _ in range(2)]

    with Simulator() as simulator:
        answers = asyncio.run(work(simulator.url))
        requests = [dict(request) for request in simulator.requests]

    assert [status for status, _ in answers] == [200, 200], answers
    assert not simulator.violations
    extra = 0 if "duplicate-tools" in model else 1
    assert len(requests) == 2 + extra
    # The second request goes out adapted at once.
    assert json.dumps(requests[-1]) == json.dumps(requests[-2])


# The other APIs of the proxy: the same requests, as far as these APIs can express them.

OTHER_APIS = (
    *("many-tokens", "both-samplers", "temperature", "top-p", "many-tools", "type-lists"),
    *("any-of-siblings", "untyped-schemas", "references", "deep-schemas", "references-in-results"),
    *("system-role", "user-after-tool", "tool-images", "schema-const", "schema-format"),
)


def as_responses(body: JSON) -> JSON:
    items: list[JSON] = []
    for message in body["messages"]:
        content = message["content"]
        if message["role"] == "tool":
            parts = content if isinstance(content, str) else [*map(_input_part, content)]
            items.append({"type": "function_call_output", "call_id": "c1", "output": parts})
        elif "tool_calls" in message:
            items.append({"type": "function_call", "call_id": "c1"} | CALL["function"])
        else:
            items.append({"role": message["role"], "content": content})
    tools = [{"type": "function"} | each["function"] for each in body["tools"]]
    limits = {"max_output_tokens": body["max_tokens"]} if "max_tokens" in body else {}
    return {"input": items, "tools": tools} | limits | _samplers(body)


def _input_part(part: JSON) -> JSON:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"]}


def as_messages(body: JSON) -> JSON:
    turns: list[JSON] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            content = message["content"]
            blocks = content if isinstance(content, str) else [*map(_block, content)]
            result = {"type": "tool_result", "tool_use_id": "c1", "content": blocks}
            turns.append({"role": "user", "content": [result]})
        elif "tool_calls" in message:
            call = {"type": "tool_use", "id": "c1", "name": "t", "input": {"a": "x"}}
            turns.append({"role": "assistant", "content": [call]})
        elif message["role"] == "user":
            turns.append(message)
    system = [each["content"] for each in body["messages"] if each["role"] == "system"]
    tools = [
        {"name": each["function"]["name"], "input_schema": each["function"]["parameters"]}
        for each in body["tools"]
    ]
    asked = {"messages": turns, "tools": tools, "max_tokens": body.get("max_tokens", 100)}
    return asked | ({"system": system[0]} if system else {}) | _samplers(body)


def _block(part: JSON) -> JSON:
    if part["type"] == "text":
        return part
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    return {"type": "image", "source": source}


def _samplers(body: JSON) -> JSON:
    return {key: body[key] for key in ("temperature", "top_p") if key in body}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("feature", OTHER_APIS)
@pytest.mark.parametrize(
    ("path", "convert"), [("responses", as_responses), ("messages", as_messages)]
)
def test_the_other_apis_learn_as_well(
    path: str,
    convert: Callable[[JSON], JSON],
    feature: str,
    stream: bool,  # noqa: FBT001
) -> None:
    async def work(url: str) -> list[tuple[int, str]]:
        async with Proxy(url) as proxy:
            asked = {"model": f"sim/refuses-{feature}", "stream": stream}
            body = convert(REQUESTS[feature]) | asked
            return [await exchange(proxy.url, body, path) for _ in range(2)]

    with Simulator() as simulator:
        answers = asyncio.run(work(simulator.url))
        count = len(simulator.requests)

    assert [status for status, _ in answers] == [200, 200], answers
    assert not any('"error"' in text and '"error":null' not in text for _, text in answers)
    assert not simulator.violations
    # The adapter of the Messages API moves images of results by itself.
    assert count == (2 if (path, feature) == ("messages", "tool-images") else 3)


# Runs


RUNS: dict[str, JSON] = {
    "max-tokens": {"max_tokens": 100},
    "many-tokens": {"max_tokens": 100_000},
    "both-samplers": {"llm_options_defaults": {"temperature": 0.2, "top_p": 0.9}},
    "temperature": {"temperature": 0.2},
    "top-p": {"llm_options_defaults": {"top_p": 0.9}},
    "tools-with-reasoning": {"llm_options_defaults": {"reasoning_effort": "high"}},
    "system-role": {"system": "Be kind."},
}


@pytest.mark.parametrize("wording", ["", "-2"])
@pytest.mark.parametrize("feature", [*RUNS, *(name for name in REQUESTS if "schema" in name)])
def test_a_run_learns_a_refusal_with_one_extra_request(feature: str, wording: str) -> None:
    parameters = REQUESTS[feature]["tools"][0]["function"]["parameters"]
    with Simulator() as simulator:
        client = OpenAICompatible(simulator.url)
        runner = ToolLoopRunner(
            client,
            f"sim/refuses-{feature}{wording}",
            [ToolDefinition("t", "Look.", parameters=parameters, handler=lambda **_: "ok")],
            **RUNS.get(feature, {}),
        )
        first = runner.run_sync("Look at x.")
        count = len(simulator.requests)
        second = runner.run_sync("Look at x.")

    assert (first.stop_reason, second.stop_reason) == ("final", "final")
    assert not simulator.violations
    assert count == len(simulator.requests) - count + 1
    assert replay(first.trace).run == first.run


@tool_function
def ping(city: str) -> str:
    """Look at a city."""
    return f"{city} is fine"


def test_a_model_that_refuses_tools_on_chat_is_called_through_the_api_that_it_names() -> None:
    with Simulator() as simulator:
        client = OpenAICompatible(simulator.url)
        runner = ToolLoopRunner(
            client, "sim/like-gpt-5.6", [ping], llm_options_defaults={"reasoning_effort": "high"}
        )
        results = [runner.run_sync("Look at x.") for _ in range(2)]
        requests = list(simulator.requests)

    assert [result.stop_reason for result in results] == ["final", "final"]
    assert not simulator.violations
    assert client.lessons["sim/like-gpt-5.6"] == ("api:responses",)
    assert ["messages" in request for request in requests][:2] == [True, False]
    assert not any("messages" in request for request in requests[1:])
    # Its reasoning came back unchanged: the persona would have refused the next request.
    assert len(results[0].tool_calls) > 0


def test_an_option_whose_name_contains_stream_is_not_streaming() -> None:
    refused = failure(400, {"error": {"message": "Unsupported parameter(s): `tool_stream`"}})
    with ScriptedProvider(refused, says("ok")) as provider:
        runner = ToolLoopRunner(
            OpenAICompatible(provider.url),
            "m",
            [ping],
            llm_options_defaults={"tool_stream": True},
        )

        async def stream() -> None:
            async with runner.stream("Go.") as events:
                async for _ in events:
                    pass

        asyncio.run(stream())

    assert [request.get("stream") for request in provider.requests] == [True, True]


def test_every_feature_has_a_request() -> None:
    assert {persona.refuses for persona in REFUSING_PERSONAS.values()} == REQUESTS.keys()
