"""The endpoint of the benchmarks: answers at once, in a process of its own.

The model's name says how many tool turns it wants, e.g. `turns-2`; how many it has had is counted
in the request itself, so the server keeps no state.
"""

import asyncio
import contextlib
import json

CALL = {"name": "get_weather", "arguments": '{"city": "Paris", "days": 3}'}
USAGE = {"prompt_tokens": 120, "completion_tokens": 12, "total_tokens": 132}


def reply(body: bytes) -> bytes:
    """Answer one request: another call, or the final text."""
    done = body.count(b'"tool_call_id"')
    wanted = int(body.split(b"turns-", 1)[1].split(b'"', 1)[0])
    if done < wanted:
        # Different arguments each time: real conversations do not repeat themselves.
        function = CALL | {"arguments": json.dumps({"city": f"City {done}", "days": 3})}
        call = {"id": f"call_{done}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        finish = "tool_calls"
    else:
        message, finish = {"role": "assistant", "content": "It will be clear in Paris."}, "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "bench",
        "choices": [choice],
        "usage": USAGE,
    }
    return json.dumps(answer).encode()


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve requests on one connection until the client hangs up."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            data = reply(await reader.readexactly(length))
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            writer.write(head + str(len(data)).encode() + b"\r\n\r\n" + data)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionResetError):
        writer.close()


async def main() -> None:
    """Listen on a free loopback port and print it."""
    server = await asyncio.start_server(serve_connection, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
