"""The base of the servers: it starts and stops in a thread or in the running event loop."""

import asyncio
import socket
import urllib.request
from contextlib import closing

import pytest
from aiohttp import ClientSession, web

from surecall.runtime.http_server import HttpServer


class Greeter(HttpServer):
    def __init__(self, port: int = 0) -> None:
        super().__init__(port=port)
        self.arrived = asyncio.Event()

    def _add_routes(self, app: web.Application) -> None:
        app.router.add_get("/", self._greet)
        app.router.add_get("/late", self._late)

    def _refusal(self, status: int, message: str) -> web.Response:
        return web.Response(status=status, text=message)

    async def _greet(self, _: web.Request) -> web.Response:
        await self._pause(0)
        return web.Response(text="hello")

    async def _late(self, _: web.Request) -> web.Response:
        self.arrived.set()
        await self._pause(600)
        return web.Response(text="stopped")


async def asked(url: str, **headers: str) -> tuple[int, str]:
    async with ClientSession() as client, client.get(url, headers=headers) as response:
        return response.status, await response.text()


def test_a_with_block_serves_from_a_thread_and_may_be_entered_again() -> None:
    server = Greeter()
    for _ in range(2):
        with server, urllib.request.urlopen(server.url) as response:  # noqa: S310 - our own
            assert response.read() == b"hello"


def test_an_async_with_block_serves_in_the_running_loop() -> None:
    async def scenario() -> tuple[int, str]:
        async with Greeter() as server:
            return await asked(server.url)

    assert asyncio.run(scenario()) == (200, "hello")


def test_a_request_that_means_another_server_is_refused_in_the_words_of_this_one() -> None:
    async def scenario() -> tuple[int, str]:
        async with Greeter() as server:
            return await asked(server.url, Origin="https://evil.example")

    status, message = asyncio.run(scenario())
    assert (status, "only requests from this machine" in message) == (403, True)


def test_a_handler_that_waits_returns_when_the_server_stops() -> None:
    async def scenario() -> tuple[int, str]:
        server = Greeter()
        await server.start()
        waiting = asyncio.create_task(asked(f"{server.url}/late"))
        await server.arrived.wait()
        await server.stop()
        return await waiting

    assert asyncio.run(scenario()) == (200, "stopped")


def test_a_port_in_use_is_an_error_and_stopping_then_does_nothing() -> None:
    async def scenario(server: HttpServer) -> None:
        with pytest.raises(OSError, match="in use"):
            await server.start()
        await server.stop()

    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        server = Greeter(port=other.getsockname()[1])
        asyncio.run(scenario(server))
        with pytest.raises(OSError, match="in use"), server:
            raise AssertionError("it must not be entered")
