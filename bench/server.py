"""The endpoint of the benchmarks: answers at once, in a process of its own.

The model's name says how many tool turns it wants, e.g. `turns-2`; how many it has had is counted
in the request itself, so the server keeps no state. A word after the command is the final text.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CALL = {"name": "get_weather", "arguments": '{"city": "Paris", "days": 3}'}
WEATHER = "It will be clear in Paris for three days, with a light wind from the west. " * 4
ANSWER = sys.argv[1] if __name__ == "__main__" and sys.argv[1:] else WEATHER
USAGE = {"prompt_tokens": 120, "completion_tokens": 12, "total_tokens": 132}
HEAD = {"id": "chatcmpl-1", "created": 0, "model": "bench", "system_fingerprint": "fp_1"}

# What a hostile upstream answers to its accomplice: arguments that are slow to validate.
ATTACKS = {
    b"alternatives": json.dumps({"items": [{"kind": "none", "k1": "a"}] * 800}),
    b"identifiers": json.dumps({"items": [10**20 + number for number in range(4_000)]}),
    b"fan": json.dumps({f"k{number}": [number] for number in range(300)}),
    b"brackets": json.dumps({"a": "b"}),
    b"fractions": json.dumps({"items": list(range(3_000))}),
    b"enum": json.dumps({"items": [f"w{number}" for number in range(4_000)]}),
    b"unevaluated": json.dumps({"a": "x"}),
    b"patterns": json.dumps({"items": ["a" * 2_000] * 8}),
}


def reply(body: bytes) -> tuple[dict[str, object], str]:
    """Answer one request: another call, or the final text; and why it stops there."""
    if b'"attack-' in body:
        kind = body.split(b'"attack-', 1)[1].split(b'"', 1)[0]
        function = {"name": "act", "arguments": ATTACKS[kind]}
        call = {"id": "call_0", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    done = body.count(b'"tool_call_id"')
    wanted = int(body.split(b"turns-", 1)[1].split(b'"', 1)[0])
    if done >= wanted:
        return {"role": "assistant", "content": ANSWER}, "stop"
    # Different arguments each time: real conversations do not repeat themselves.
    function = CALL | {"arguments": json.dumps({"city": f"City {done}", "days": 3})}
    call = {"id": f"call_{done}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


def plain(message: dict[str, object], finish: str) -> bytes:
    """Write an answer in one piece."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    answer = HEAD | {"object": "chat.completion", "choices": [choice], "usage": USAGE}
    data = json.dumps(answer).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
    return head + str(len(data)).encode() + b"\r\n\r\n" + data


def streamed(message: dict[str, object], finish: str) -> list[bytes]:
    """Write an answer as events of about a token each, the way OpenAI does."""
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}]
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        function = calls[0]["function"]
        first = calls[0] | {"index": 0, "function": function | {"arguments": ""}}
        deltas.append({"tool_calls": [first]})
        rest = [{"index": 0, "function": {"arguments": x}} for x in pieces(function["arguments"])]
        deltas += ({"tool_calls": [fragment]} for fragment in rest)
    else:
        deltas += ({"content": piece} for piece in pieces(str(message["content"])))
    choices: list[dict[str, object]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    head = HEAD | {"object": "chat.completion.chunk"}
    events = [head | {"choices": [choice]} for choice in choices]
    events.append(head | {"choices": [], "usage": USAGE})
    blocks = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    chunks = [chunk(block) for block in (*blocks, b"data: [DONE]\n\n", b"")]
    kind = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [b"HTTP/1.1 200 OK\r\n" + kind, *chunks]


def pieces(text: str) -> list[str]:
    """Cut a text into pieces of four characters."""
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def chunk(block: bytes) -> bytes:
    """Frame one chunk of HTTP/1.1."""
    return f"{len(block):x}\r\n".encode() + block + b"\r\n"


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve requests on one connection until the client hangs up."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not head.startswith(b"post "):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                continue
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            body = await reader.readexactly(length)
            message, finish = reply(body)
            if b'"stream"' not in body:
                writer.write(plain(message, finish))
                await writer.drain()
                continue
            for part in streamed(message, finish):
                writer.write(part)
                await asyncio.sleep(0)  # each event leaves on its own
    except (asyncio.IncompleteReadError, ConnectionResetError):
        writer.close()


async def main() -> None:
    """Listen on a free loopback port and print it."""
    server = await asyncio.start_server(serve_connection, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def served_by(script: Path, *words: str) -> Iterator[str]:
    """Run a script that prints its port, in a process of its own; return its address."""
    process = subprocess.Popen(  # noqa: S603  # our own interpreter and script
        [sys.executable, str(script), *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None  # noqa: S101  # a pipe was asked for
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
