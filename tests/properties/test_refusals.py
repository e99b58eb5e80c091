"""Whatever a provider refuses in a legal request, one extra request teaches it, for good."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from surecall.proxy import Proxy
from surecall.simulator import Simulator
from surecall.simulator.personas.persona_catalog import REFUSING_PERSONAS
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


async def exchange(url: str, body: JSON) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json=body) as response,
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


def test_every_feature_has_a_request() -> None:
    assert {persona.refuses for persona in REFUSING_PERSONAS.values()} == REQUESTS.keys()
