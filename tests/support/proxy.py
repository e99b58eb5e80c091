"""Requests and turns for the tests of the proxy."""

import http.client
import http.server
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from surecall.proxy.faces.chat import Chat
from surecall.proxy.faces.face import Asked
from surecall.proxy.healing.history import Entry, entries
from surecall.proxy.healing.memory import Conversation, Memory
from surecall.values.types import JSON
from surecall.wire.messages import encode

_NONE: Final[Mapping[str, str]] = {}
WEATHER: JSON = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Return the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
USER: JSON = {"role": "user", "content": "Weather in Oslo?"}


def tool(name: str, **function: Any) -> JSON:
    return {"type": "function", "function": {"name": name} | function}


def call(call_id: str, name: str = "get_weather", **arguments: Any) -> JSON:
    written = encode(arguments).decode()
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}


def said(*calls: JSON, text: str | None = None, **fields: Any) -> JSON:
    message: JSON = {"role": "assistant", "content": text} | fields
    return message | {"tool_calls": list(calls)} if calls else message


def result(call_id: str, text: str = "12 degrees") -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def asked(*messages: JSON, tools: Any = (WEATHER,), **options: Any) -> Asked:
    body = {"model": "m", "messages": [USER, *messages], "tools": list(tools)} | options
    return Chat().parse(encode(body))


def completion(message: JSON, reason: str = "stop", **body: Any) -> JSON:
    choice = {"index": 0, "message": message, "finish_reason": reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "m"}
    return head | {"choices": [choice]} | body


def known(*messages: JSON, memory: Memory | None = None, whose: str = "me") -> Conversation:
    return Conversation(Memory() if memory is None else memory, whose, [USER, *messages])


def history(
    *messages: JSON, of: Conversation | None = None, renamed: Mapping[str, str] = _NONE
) -> tuple[Entry, ...]:
    return entries([USER, *messages], of or known(), renamed)


class Got(NamedTuple):
    """An answer of the proxy; its header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of its events, without the end mark."""
        lines = [line[6:] for line in self.body.split(b"\n") if line.startswith(b"data: ")]
        return [msgspec.json.decode(line) for line in lines if line != b"[DONE]"]


def post(url: str, body: JSON | bytes, path: str = "/v1/chat/completions", **headers: str) -> Got:
    data = body if isinstance(body, bytes) else encode(body)
    return send(url, "POST", path, data, {"Content-Type": "application/json"} | headers)


def send(
    url: str, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = _NONE
) -> Got:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        said = {name.lower(): value for name, value in response.getheaders()}
        return Got(response.status, said, response.read())
    finally:
        connection.close()


class RawUpstream:
    """An upstream that keeps the very bytes of its requests and answers with given ones."""

    def __init__(self, *answers: tuple[int, dict[str, str], bytes]) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self._answers = list(answers)
        kept = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or a body would wait for its head, 40 ms

            def _serve(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                said = {name.lower(): value for name, value in self.headers.items()}
                kept.requests.append((self.command, self.path, said, data))
                number = min(len(kept.requests), len(kept._answers)) - 1
                status, headers, body = kept._answers[number]
                self.send_response(status)
                for name, value in (headers | {"Content-Length": str(len(body))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = _serve  # noqa: N815  # the server's names

            def log_message(self, *_: Any) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
