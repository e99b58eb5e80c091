"""What the proxy itself refuses is refused for good, and clients are told so."""

import asyncio

import aiohttp
import pytest

from surecall.proxy import Proxy

TOKEN = "let-me-in"
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens")
NOWHERE = "http://127.0.0.1:9"


async def refused(path: str, key: str) -> tuple[int, str | None]:
    """Send something that is no request; return the status, and what is told about retries."""
    async with (
        Proxy(NOWHERE, token=TOKEN) as proxy,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session,
        session.post(proxy.url + path, data=b"{") as response,
    ):
        return response.status, response.headers.get("x-should-retry")


@pytest.mark.parametrize("path", PATHS)
def test_a_client_without_the_token_is_told_not_to_try_again(path: str) -> None:
    assert asyncio.run(refused(path, "wrong")) == (401, "false")


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_sends_no_request_is_told_not_to_try_again(path: str) -> None:
    assert asyncio.run(refused(path, TOKEN)) == (400, "false")
