"""The upstream of the soak: what it does to a request follows from the request's number."""

import asyncio
import hashlib
import multiprocessing
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from proof.recording_upstream import parsed

FAULTS: Final = ("busy", "reset", "cut", "garbage", "silent")
KINDS: Final = ("text", "call", "bent")
THINKS_S: Final = 0.01
SILENT_S: Final = 5.0
_HEAD: Final = b"HTTP/1.1 %d X\r\nContent-Type: %s\r\n"
_ROLE: Final[dict[str, Any]] = {"role": "assistant"}


class Plan(msgspec.Struct, frozen=True):
    """What one request asks for, and what becomes of it. `fault` is blank for most."""

    number: int
    streams: bool
    fault: str
    aborts: bool
    kind: str

    @property
    def city(self) -> str:
        """What the answer must be about."""
        return f"City {self.number}"


def plan_of(seed: int, number: int) -> Plan:
    """Return what happens to a request: half are streams, 10 % meet a fault, 5 % are given up."""
    digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
    chance = random.Random(digest)
    return Plan(
        number,
        chance.random() < 0.5,
        chance.choice(FAULTS) if chance.random() < 0.1 else "",
        chance.random() < 0.05,
        chance.choice(KINDS),
    )


def message_of(plan: Plan) -> dict[str, Any]:
    """Write the answer of the model: words, a call, or a call that it wrote as words."""
    arguments = msgspec.json.encode({"city": plan.city}).decode()
    if plan.kind == "call":
        function = {"name": "get_weather", "arguments": arguments}
        call = {"id": f"call_{plan.number}", "type": "function", "function": function}
        return {**_ROLE, "content": None, "tool_calls": [call]}
    if plan.kind == "bent":
        written = f'{{"name": "get_weather", "arguments": {arguments}}}'
        return {**_ROLE, "content": f"<tool_call>{written}</tool_call>"}
    return {**_ROLE, "content": f"It is sunny in {plan.city}. " * 4}


def pieces_of(plan: Plan) -> list[bytes]:
    """Write the body of the answer in pieces: one, or the events of a stream."""
    message = message_of(plan)
    reason = "tool_calls" if plan.kind == "call" else "stop"
    if not plan.streams:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return [msgspec.json.encode({"id": "1", "model": "m", "choices": [choice]})]
    deltas: list[dict[str, Any]] = [_ROLE]
    if plan.kind == "call":
        deltas += [{"tool_calls": [{"index": 0, **call}]} for call in message["tool_calls"]]
    else:
        text = message["content"]
        deltas += [{"content": text[at : at + 8]} for at in range(0, len(text), 8)]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    events = [msgspec.json.encode({"id": "1", "model": "m", "choices": [one]}) for one in choices]
    return [b"data: %s\n\n" % event for event in (*events, b"[DONE]")]


class SoakUpstream:
    """Does to each request what the plan says."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until one side hangs up."""
        gone = (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError)
        with suppress(*gone):
            while True:
                head = parsed(await reader.readuntil(b"\r\n\r\n"), b"")
                body = await reader.readexactly(int(head.said(b"content-length")[0]))
                number = int(msgspec.json.decode(body)["user"])
                await asyncio.sleep(THINKS_S)
                if not await self._answer(plan_of(self._seed, number), writer):
                    break
        writer.close()

    async def _answer(self, plan: Plan, writer: asyncio.StreamWriter) -> bool:
        """Answer; return whether the connection can be used again."""
        match plan.fault:
            case "reset":
                return False
            case "silent":
                await asyncio.sleep(SILENT_S)
                return False
            case "busy":
                self._whole(writer, 503, b'{"error":{"message":"busy","type":"x","code":"busy"}}')
            case "garbage":
                self._whole(writer, 200, b"<html>")
            case _ if plan.streams:
                return await self._stream(plan, writer)
            case fault:
                (body,) = pieces_of(plan)
                self._whole(writer, 200, body, cut=fault == "cut")
        await writer.drain()
        return plan.fault != "cut"

    @staticmethod
    def _whole(
        writer: asyncio.StreamWriter, status: int, body: bytes, *, cut: bool = False
    ) -> None:
        writer.write(_HEAD % (status, b"application/json"))
        writer.write(b"Content-Length: %d\r\n\r\n" % len(body))
        writer.write(body[: len(body) // 2] if cut else body)

    @staticmethod
    async def _stream(plan: Plan, writer: asyncio.StreamWriter) -> bool:
        writer.write(_HEAD % (200, b"text/event-stream") + b"Transfer-Encoding: chunked\r\n\r\n")
        pieces = pieces_of(plan)
        for piece in pieces[: len(pieces) // 2] if plan.fault == "cut" else pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
        if plan.fault == "cut":
            return False
        writer.write(b"0\r\n\r\n")
        return True


@contextmanager
def upstream_process(seed: int) -> Iterator[str]:
    """Run the upstream in another process."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_main, args=(there, seed), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.kill()
        process.join()


def _main(line: Connection, seed: int) -> None:
    asyncio.run(_serve(line, SoakUpstream(seed)))


async def _serve(line: Connection, upstream: SoakUpstream) -> None:
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    line.send(server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()
