"""Answers that no honest endpoint gives, and an endpoint that plays them on loopback."""

import asyncio
import itertools
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Final

import msgspec

KEY: Final = "sk-canary-0123456789abcdef"
MIB: Final = 1024 * 1024
MODES: Final = ("plain", "streamed")
OK: Final = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
GZIP: Final = b"Content-Encoding: gzip\r\n"
BEGIN: Final = b'{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"'
END: Final = b'"}}]}'


def event(text: bytes, finish: bytes = b"null") -> bytes:
    """Write one event of a stream."""
    choice = b'{"index":0,"finish_reason":' + finish + b',"delta":{"content":"' + text + b'"}}'
    return b'data: {"choices":[' + choice + b"]}\n\n"


DONE: Final = event(b"", b'"stop"') + b"data: [DONE]\n\n"


class Case(msgspec.Struct, frozen=True):
    """An answer: its head, what comes once, what is repeated, and what comes at the end.

    `times` None repeats for ever; `pause_s` lies between the repetitions. `answered` names the
    modes in which it can be read, and in others it must fail; None leaves it open.
    """

    head: bytes = OK + b"\r\n"
    first: bytes = b""
    again: bytes = b""
    times: int | None = 0
    last: bytes = b""
    pause_s: float = 0.0
    answered: tuple[str, ...] | None = ()

    def pieces(self) -> Iterator[bytes]:
        """Go through the answer."""
        yield self.head
        yield self.first
        yield from itertools.repeat(self.again, *(() if self.times is None else (self.times,)))
        yield self.last


def _bomb(unit: bytes) -> bytes:
    """Pack something so that it can be sent again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)


def _again(unit: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)


HEADERS: Final = b"".join(b"X-Filler-%d: %s\r\n" % (at, b"h" * 1000) for at in range(10_000))
WORDS: Final = b"word " * 13_000
CASES: Final[dict[str, Case]] = {
    "endless stream": Case(again=event(b"la " * 4000), times=None),
    "endless small deltas": Case(again=event(b".") * 500, times=None),
    "endless comments": Case(again=b": keep-alive\n\n" * 4000, times=None),
    "endless blank lines": Case(again=b"\n" * 64_000, times=None),
    "endless line": Case(first=b"data: ", again=b"la" * 32_000, times=None),
    "endless body": Case(first=BEGIN, again=WORDS, times=None),
    "drip of a body": Case(first=BEGIN, again=b"w", times=None, pause_s=1.0),
    "drip of a stream": Case(first=event(b"a"), again=b":", times=None, pause_s=1.0),
    "drip of a head": Case(head=OK, again=b"X", times=None, pause_s=1.0),
    "drip of comments": Case(again=b": x\n\n", times=None, pause_s=0.2),
    "gigabyte of content": Case(first=BEGIN, again=WORDS, times=16_600, last=END),
    "million deltas": Case(again=event(b".") * 500, times=2000, last=DONE),
    "gzip bomb": Case(OK + GZIP + b"\r\n", _bomb(BEGIN), _again(b"la" * 512 * 1024), times=1024),
    "gzip bomb in a stream": Case(
        OK + GZIP + b"\r\n", _bomb(event(b"a")), _again(b": x\n\n" * 200_000), times=1024
    ),
    "ten megabytes of headers": Case(OK + HEADERS + b"\r\n", BEGIN, last=b"Hello." + END),
    "endless headers": Case(OK, again=b"X-Filler: " + b"h" * 1000 + b"\r\n", times=None),
    "endless status line": Case(b"HTTP/1.1 200 ", again=b"OK" * 4000, times=None),
    "invalid UTF-8": Case(first=BEGIN + b"\xff\xfe Hello." + END, answered=None),
    "invalid UTF-8 in a stream": Case(first=event(b"\xff\xfe Hello.") + DONE, answered=None),
    "byte order mark": Case(first=b"\xef\xbb\xbf" + BEGIN + b"Hello." + END, answered=MODES),
    "byte order mark in a stream": Case(
        first=b"\xef\xbb\xbf" + event(b"Hello.") + DONE, answered=("streamed",)
    ),
    "no last blank line": Case(first=event(b"Hello.") + DONE.rstrip(), answered=("streamed",)),
}
REDIRECTS: Final = (301, 302, 303, 307, 308)


class Listener:
    """An endpoint that plays cases, and another host that nobody should come to."""

    def __init__(self) -> None:
        self.strangers: list[bytes] = []
        self.heads: list[bytes] = []
        self._elsewhere = b""

    async def __aenter__(self) -> str:
        other = await asyncio.start_server(self._stranger, "127.0.0.1", 0)
        self._elsewhere = b"http://localhost:%d/v1" % other.sockets[0].getsockname()[1]
        here = await asyncio.start_server(self._play, "127.0.0.1", 0)
        self._servers = (other, here)
        return f"http://127.0.0.1:{here.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    async def _stranger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.strangers.append(await reader.read(MIB))
        writer.close()

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            async for piece in self._answer(_named(head)):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            while await reader.read(MIB):
                pass
        writer.close()

    async def _answer(self, name: str) -> AsyncIterator[bytes]:
        if name.isdigit():
            yield b"HTTP/1.1 %s Moved\r\nConnection: close\r\n" % name.encode()
            yield b"Location: %s/chat/completions\r\nContent-Length: 0\r\n\r\n" % self._elsewhere
            return
        case = CASES[name.replace("+", " ")]
        for piece in case.pieces():
            yield piece
            await asyncio.sleep(case.pause_s)


def _named(head: bytes) -> str:
    """Return the case that a request asks for: its path begins with it, or its id is it."""
    if (mark := b"\r\nx-request-id: ") in head.lower():
        return head[head.lower().index(mark) + len(mark) :].partition(b"\r\n")[0].decode()
    return head.split(b" ")[1].split(b"/")[1].decode()
