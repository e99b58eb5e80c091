"""Requests, turns, and damaged histories for the tests of the proxy."""

import http.client
import http.server
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit

import msgspec

from surecall.proxy.repair.request_history import (
    ConversationMemory,
    HistoryEntry,
    TurnMemory,
    build_entries,
)
from surecall.values.types import JSON
from surecall.wire.apis.adapter import ClientRequest
from surecall.wire.apis.chat_api import ChatApi
from surecall.wire.chat_format import encode

# Requests and turns for the tests of the proxy


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


def asked(*messages: JSON, tools: Any = (WEATHER,), **options: Any) -> ClientRequest:
    body = {"model": "m", "messages": [USER, *messages], "tools": list(tools)} | options
    return ChatApi().parse(encode(body))


def completion(message: JSON, reason: str = "stop", **body: Any) -> JSON:
    choice = {"index": 0, "message": message, "finish_reason": reason}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "m"}
    return head | {"choices": [choice]} | body


def known(
    *messages: JSON, memory: TurnMemory | None = None, whose: str = "me"
) -> ConversationMemory:
    return ConversationMemory(TurnMemory() if memory is None else memory, whose, [USER, *messages])


def history(
    *messages: JSON, of: ConversationMemory | None = None, renamed: Mapping[str, str] = _NONE
) -> tuple[HistoryEntry, ...]:
    return build_entries([USER, *messages], of or known(), renamed)


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


# Histories with tool calls whose ids and order are damaged, written for each API of the proxy.
# A history is a list of events that no API owns. Every piece of tool output holds a marker, `⟦7⟧`,
# that occurs nowhere else. `render` writes a history as the body of a request.


ABSENT: Final = object()
TOOLS: Final = ("look", "add")
PATHS: Final = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
_ODD_IDS: Final[tuple[Any, ...]] = (ABSENT, ABSENT, None, "", " ", 7, 1.5, True, [], {}, "unknown")
_SCHEMA: Final = {"type": "object"}


class Call(msgspec.Struct):
    """A call of a tool."""

    id: Any
    name: str


class Said(msgspec.Struct):
    """Words of the user or the assistant, or (`calls`) a turn of the assistant with calls."""

    role: str
    text: str
    calls: list[Call] = []


class Output(msgspec.Struct):
    """The output of a tool: `kind` is its form, `numbers` are its markers."""

    id: Any
    kind: str
    numbers: list[int]
    name: str = ""


Event: TypeAlias = Said | Output


class History:
    """One damaged history. `outputs` are the numbers of all markers that the upstream must get."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._count = 0
        self.events: list[Event] = [Said("user", "Go on.")]
        for turn in range(rng.randint(0, 4)):
            self._add_turn(turn)
        for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
            rng.choice(_DAMAGES)(self, rng)
        for _ in range(rng.choice((0, 0, 1, 2))):
            repeat_output(self, rng)
        self.events = self.events or [Said("user", "Go on.")]

    @property
    def outputs(self) -> list[Output]:
        """The tool outputs, in their order."""
        return [event for event in self.events if isinstance(event, Output)]

    @property
    def turns(self) -> list[Said]:
        """The assistant's turns with calls."""
        return [event for event in self.events if isinstance(event, Said) and event.calls]

    @property
    def markers(self) -> set[int]:
        """The numbers of all markers."""
        return {number for output in self.outputs for number in output.numbers}

    def _add_turn(self, turn: int) -> None:
        rng = self._rng
        style = rng.choice(("call_{turn}_{at}", "call_{at}", "call_{turn}_{at}"))
        calls = [
            Call(style.format(turn=turn, at=at), rng.choice(TOOLS))
            for at in range(rng.choice((0, 1, 1, 2, 3)))
        ]
        self.events.append(Said("assistant", rng.choice(("", "Hm.")) if calls else "Hm.", calls))
        self.events += [self.new_output(call.id, call.name) for call in calls]
        if rng.random() < 0.4:
            self.events.append(Said("user", "And then?"))

    def new_output(self, call_id: Any, name: str = "") -> Output:
        """Make an output with markers of its own."""
        kind = self._rng.choice(("text", "text", "text", "parts", "image", "object"))
        count = self._rng.choice((1, 2)) if kind == "parts" else 1
        self._count += count
        numbers = list(range(self._count - count, self._count))
        return Output(call_id, kind, numbers, name if self._rng.random() < 0.3 else "")


Damage: TypeAlias = Callable[[History, random.Random], None]


def _damage_id(history: History, rng: random.Random) -> None:
    for output in history.outputs[:: rng.choice((1, 2))] or ():
        if rng.random() < 0.6:
            output.id = rng.choice(_ODD_IDS)


def _damage_call_id(history: History, rng: random.Random) -> None:
    for turn in history.turns:
        call = rng.choice(turn.calls)
        call.id = rng.choice((*_ODD_IDS, "call_0", turn.calls[0].id))


def _swap_ids(history: History, rng: random.Random) -> None:
    if history.outputs:
        first, second = rng.choice(history.outputs), rng.choice(history.outputs)
        first.id, second.id = second.id, first.id


def _share_id(history: History, rng: random.Random) -> None:
    if history.outputs:
        rng.choice(history.outputs).id = rng.choice(history.outputs).id


def _rename(history: History, rng: random.Random) -> None:
    for output in history.outputs:
        output.name = rng.choice((*TOOLS, "", "", "nope"))


def _drop_call(history: History, rng: random.Random) -> None:
    if history.turns:
        turn = rng.choice(history.turns)
        turn.calls.remove(rng.choice(turn.calls))
        turn.text = turn.text or "Hm."


def _drop_turn(history: History, rng: random.Random) -> None:
    if history.turns:
        history.events.remove(rng.choice(history.turns))


def _drop_output(history: History, rng: random.Random) -> None:
    if history.outputs:
        history.events.remove(rng.choice(history.outputs))


def _move_output(history: History, rng: random.Random) -> None:
    if history.outputs:
        output = rng.choice(history.outputs)
        history.events.remove(output)
        history.events.insert(rng.randint(0, len(history.events)), output)


def _delay_output(history: History, rng: random.Random) -> None:
    if history.outputs:
        output = rng.choice(history.outputs)
        place = history.events.index(output)
        history.events[place] = Said(rng.choice(("user", "assistant")), "Wait.")
        history.events.insert(place + rng.randint(1, 4), output)


def _add_output(history: History, rng: random.Random) -> None:
    ids = [output.id for output in history.outputs] + ["unknown", ABSENT]
    place = rng.randint(0, len(history.events))
    history.events.insert(place, history.new_output(rng.choice(ids)))


def _drop_words(history: History, rng: random.Random) -> None:
    kept = [item for item in history.events if isinstance(item, Output) or item.calls]
    history.events = kept if kept and rng.random() < 0.5 else history.events


def repeat_output(history: History, rng: random.Random) -> None:
    """Insert the same output once more, if its id can mean one call at most."""
    ids = [str(call.id).strip() for turn in history.turns for call in turn.calls]
    single = [
        each
        for each in history.outputs
        if isinstance(each.id, str) and each.id.strip() and ids.count(each.id.strip()) <= 1
    ]
    if single:
        output = rng.choice(single)
        history.events.insert(rng.randint(0, len(history.events)), output)


_DAMAGES: Final[tuple[Damage, ...]] = (
    *(_damage_id, _damage_id, _damage_call_id, _swap_ids, _share_id, _rename, _drop_call),
    *(_drop_turn, _drop_output, _move_output, _delay_output, _add_output, _drop_words),
)


def marker(number: int) -> str:
    """Return the text that stands for one piece of output."""
    return f"⟦{number}⟧"


def text_of_output(number: int) -> str:
    """Return output with characters that JSON must escape."""
    return f'{marker(number)} "é" \\ \n\t</tool> {{"ok": true}}'


def render(api: str, history: History) -> JSON:
    """Write a history as the body of a request."""
    return {"chat": _chat, "responses": _responses, "messages": _messages}[api](history.events)


def _with_id(fields: JSON, key: str, value: Any) -> JSON:
    return fields if value is ABSENT else fields | {key: value}


def _chat(events: Sequence[Event]) -> JSON:
    tools = [
        {"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in TOOLS
    ]
    return {"model": "m", "messages": list(map(_chat_message, events)), "tools": tools}


def _chat_message(event: Event) -> JSON:
    if isinstance(event, Output):
        message = {"role": "tool", "content": _content(event, "text", _chat_image)}
        message |= {"name": event.name} if event.name else {}
        return _with_id(message, "tool_call_id", event.id)
    message = {"role": event.role, "content": event.text}
    if event.calls:
        message["tool_calls"] = [
            _with_id(
                {"type": "function", "function": {"name": call.name, "arguments": "{}"}},
                "id",
                call.id,
            )
            for call in event.calls
        ]
    return message


def _content(output: Output, kind: str, image: Callable[[str], JSON]) -> Any:
    first = output.numbers[0]
    match output.kind:
        case "text":
            return text_of_output(first)
        case "object":
            return {"found": marker(first)}
        case "image":
            return [image(f"data:image/png;base64,{marker(first)}")]
        case _:
            return [{"type": kind, "text": text_of_output(number)} for number in output.numbers]


def _chat_image(url: str) -> JSON:
    return {"type": "image_url", "image_url": {"url": url}}


def _responses(events: Sequence[Event]) -> JSON:
    items = [item for event in events for item in _items(event)]
    tools = [{"type": "function", "name": name, "parameters": _SCHEMA} for name in TOOLS]
    return {"model": "m", "input": items, "tools": tools}


def _items(event: Event) -> list[JSON]:
    if isinstance(event, Output):
        content = _content(
            event, "input_text", lambda url: {"type": "input_image", "image_url": url}
        )
        item = {"type": "function_call_output", "output": content}
        item |= {"name": event.name} if event.name else {}
        return [_with_id(item, "call_id", event.id)]
    said = {"type": "message", "role": event.role, "content": event.text}
    called = [
        _with_id(
            {"type": "function_call", "name": call.name, "arguments": "{}"}, "call_id", call.id
        )
        for call in event.calls
    ]
    return [said, *called] if event.text else called


def _item(name: str) -> JSON:
    return {"type": "function_call", "name": name, "arguments": "{}"}


def _messages(events: Sequence[Event]) -> JSON:
    messages: list[JSON] = []
    for event in events:
        role = "assistant" if isinstance(event, Said) and event.role == "assistant" else "user"
        if messages and messages[-1]["role"] == role == "user":
            messages[-1]["content"] += _blocks(event)
        else:
            messages.append({"role": role, "content": _blocks(event)})
    tools = [{"name": name, "input_schema": _SCHEMA} for name in TOOLS]
    return {"model": "m", "max_tokens": 9, "messages": messages, "tools": tools}


def _blocks(event: Event) -> list[JSON]:
    if isinstance(event, Output):
        content = _content(event, "text", _image_block)
        if isinstance(content, dict):
            content = [{"type": "json"} | content]
        return [_with_id({"type": "tool_result", "content": content}, "tool_use_id", event.id)]
    texts = [{"type": "text", "text": event.text}] if event.text else []
    return texts + [
        _with_id({"type": "tool_use", "name": call.name, "input": {}}, "id", call.id)
        for call in event.calls
    ]


def _image_block(url: str) -> JSON:
    return {"type": "image", "source": {"type": "url", "url": url}}
