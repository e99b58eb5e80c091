"""What a client is told about trying again: not to, where the proxy did or where it is in vain."""

import asyncio

import aiohttp
import pytest

from surecall.proxy import Proxy
from surecall.settings.connection import RetryPolicy
from surecall.testing import ScriptedProvider, calls, failure
from surecall.values.types import JSON

HEADER = "x-should-retry"
FUNCTION: JSON = {"name": "add", "parameters": {"type": "object"}}
TOOL: JSON = {"type": "function", "function": FUNCTION}
ASKED: JSON = {"role": "user", "content": "Hi."}
CHAT: JSON = {"model": "m", "messages": [ASKED], "tools": [TOOL]}
REQUESTS: dict[str, JSON] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"model": "m", "input": "Hi.", "tools": [FUNCTION | {"type": "function"}]},
    "/v1/messages": {
        "model": "m",
        "max_tokens": 9,
        "messages": [ASKED],
        "tools": [{"name": "add", "input_schema": {"type": "object"}}],
    },
}


def told(status: int, path: str, attempts: int, *, stream: bool) -> tuple[int, str | None]:
    """Return the status that a client gets, and what it is told about trying again."""
    return asyncio.run(answered(status, path, attempts, stream=stream))


async def answered(
    status: int, path: str, attempts: int, *, stream: bool
) -> tuple[int, str | None]:
    retry = RetryPolicy(attempts=attempts, first_wait_s=0.0)
    with ScriptedProvider(failure(status), repeat=True) as provider:
        async with (
            Proxy(provider.url, retry=retry) as proxy,
            aiohttp.ClientSession() as session,
            session.post(proxy.url + path, json=REQUESTS[path] | {"stream": stream}) as response,
        ):
            return response.status, response.headers.get(HEADER)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
def test_a_client_does_not_try_again_what_is_in_vain(
    status: int, path: str, *, stream: bool
) -> None:
    assert told(status, path, 1, stream=stream) == (status, "false")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_client_may_try_again_what_was_tried_once(status: int) -> None:
    assert told(status, "/v1/messages", 1, stream=True) == (status, None)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_client_does_not_try_again_what_the_proxy_did(status: int) -> None:
    assert told(status, "/v1/messages", 2, stream=True) == (status, "false")


@pytest.mark.parametrize("guard", ["turns", "calls"])
def test_a_client_does_not_try_again_what_a_guard_forbids(guard: str) -> None:
    async def asked() -> tuple[int, str | None]:
        turn = calls("add")["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": "call_1", "content": "1"}
        chat = CHAT | {"messages": [ASKED, turn, result]}
        with ScriptedProvider(calls("add"), repeat=True) as provider:
            async with (
                Proxy(provider.url, guards={guard: 1}) as proxy,
                aiohttp.ClientSession() as session,
                session.post(f"{proxy.url}/v1/chat/completions", json=chat) as response,
            ):
                return response.status, response.headers.get(HEADER)

    assert asyncio.run(asked()) == (502, "false")
