"""An upstream that answers every request, and keeps what reached it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec

MIB: Final = 1024 * 1024
LARGE: Final = b"a large stream"
ENDLESS: Final = b"an endless stream"
PIECES: Final = 3000
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: "
_PLAIN: Final = msgspec.json.encode(
    {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Hello."},
            }
        ],
    }
)
_WORDS: Final = b"some words " * 93
_PIECE: Final = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % _WORDS
_LAST: Final = (
    b'data: {"choices":[{"index":0,"finish_reason":"stop","delta":{}}]}\n\ndata: [DONE]\n\n'
)


class Request(msgspec.Struct, frozen=True):
    """What reached the upstream. Names of headers are in lower case."""

    line: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def said(self, name: bytes) -> list[bytes]:
        """Return the values of a header."""
        return [value for key, value in self.headers if key == name]

    @property
    def id(self) -> str:
        """Whose request it is."""
        return b",".join(self.said(b"x-request-id")).decode("latin-1")


def parsed(head: bytes, body: bytes) -> Request:
    """Split a head into its lines."""
    line, *rest = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    pairs = (one.partition(b":")[::2] for one in rest)
    return Request(line, tuple((name.lower(), value.strip()) for name, value in pairs), body)


class RecordingUpstream:
    """Answers in one event loop with whoever looks at what it kept.

    `streaming` counts the streams that somebody still listens to.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.streaming = 0
        self.port = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[str]:
        """Listen on loopback."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MIB)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # A server that ends cancels what it still waits for.
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while True:
                    await self._answer(await _read(reader), writer)
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        if LARGE in request.body or ENDLESS in request.body:
            await self._stream(writer, None if ENDLESS in request.body else PIECES)
            raise ConnectionError("a stream ends with its connection")
        writer.write(b"%sapplication/json\r\nContent-Length: %d\r\n\r\n" % (_HEAD, len(_PLAIN)))
        writer.write(_PLAIN)
        await writer.drain()

    async def _stream(self, writer: asyncio.StreamWriter, pieces: int | None) -> None:
        writer.write(_HEAD + b"text/event-stream\r\nConnection: close\r\n\r\n")
        self.streaming += 1
        try:
            if pieces is None:
                while True:
                    await self._more(writer, 1)
                    await asyncio.sleep(0.01)
            for _ in range(0, pieces, 100):
                await self._more(writer, 100)
            writer.write(_LAST)
            await writer.drain()
        finally:
            self.streaming -= 1

    async def _more(self, writer: asyncio.StreamWriter, pieces: int) -> None:
        writer.write(_PIECE * pieces)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    request = parsed(head, b"")
    lengths = request.said(b"content-length")
    body = await reader.readexactly(int(lengths[0]) if lengths else 0)
    return msgspec.structs.replace(request, body=body)
