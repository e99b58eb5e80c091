"""A raw server on this machine that sends exactly the bytes it is told, or nothing at all."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import Limits
from surecall.values.errors import Fault, ProviderError
from surecall.values.types import Answer
from tests.support.patience import PATIENCE_S

KEY = "sk-canary-4711"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
PATIENT: dict[str, Any] = {
    "connect_s": PATIENCE_S,
    "idle_s": PATIENCE_S,
    "total_s": PATIENCE_S,
    "max_response_bytes": 1_000_000,
}
# A part of a reply: nothing more comes until the client has gone.
SILENCE = None


@dataclass
class Served:
    """What a raw server has seen: one head per request, one talk per connection."""

    url: str = ""
    heads: list[bytes] = field(default_factory=list, repr=False)
    talks: list[asyncio.Future[None]] = field(default_factory=list)


@asynccontextmanager
async def served(*reply: bytes | None, stays: bool = True) -> AsyncIterator[Served]:
    """Serve the same reply to every request; at the end, every client must have gone."""
    wire = Served()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
            while stays or not wire.heads:
                wire.heads.append(await reader.readuntil(b"\r\n\r\n"))
                for part in reply:
                    if part is SILENCE:
                        await reader.read()
                    else:
                        writer.write(part)
                await reader.readexactly(2)
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(
        lambda *streams: wire.talks.append(asyncio.ensure_future(talk(*streams))), "127.0.0.1", 0
    )
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        await asyncio.gather(*wire.talks)
        server.close()


def sent(url: str, body: bytes = b"{}", **options: Any) -> Answer:
    return asyncio.run(OpenAICompatible(url, KEY, **options).send(body))


def fault_of(work: Coroutine[Any, Any, object]) -> Fault:
    """Run something that must fail, and make sure that the failure tells no secret."""
    with pytest.raises(ProviderError) as caught:
        asyncio.run(work)
    error = caught.value
    told = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    assert KEY not in "".join([*told, *traceback.format_exception(error), repr(error)])
    assert error.__context__ is None
    assert error.__cause__ is None
    return error.fault


async def asked(*reply: bytes | None, scheme: str = "http", **limits: float) -> Answer:
    async with served(*reply, stays=False) as wire:
        url = wire.url.replace("http", scheme)
        return await OpenAICompatible(url, KEY, limits=Limits(**PATIENT | limits)).send(b"{}")


async def streamed(*reply: bytes | None, **limits: float) -> bytes:
    async with served(*reply, stays=False) as wire:
        client = OpenAICompatible(wire.url, KEY, limits=Limits(**PATIENT | limits))
        async with client.stream(b"{}") as incoming:
            return b"".join([chunk async for chunk in incoming.chunks])
