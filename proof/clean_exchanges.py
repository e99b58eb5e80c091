"""D20: what is clean goes through the proxy unchanged, in every face, plain and streamed.

Conversations are made at random: roles, parts, names, opaque fields, options, blanks and order of
the JSON. The upstream keeps the very bytes that it is sent. For chat completions they must be the
client's; for the other faces the request that the face makes of them, and nothing more. What the
client gets must say what the upstream said, and each request must have cost one.
"""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec
from aiohttp import ClientSession, web

from proof.claims import Claim, Outcome, gathered
from surecall.proxy import Proxy
from surecall.simulator.stream_events import build_events, encode_frames
from surecall.values.types import JSON
from surecall.wire.apis.adapter import ApiAdapter
from surecall.wire.apis.chat_api import ChatApi
from surecall.wire.apis.messages_api import MessagesApi
from surecall.wire.apis.responses_api import ResponsesApi
from surecall.wire.assembler import Assembler
from surecall.wire.sse import SseDecoder

_WORDS: Final = ("Oslo", "größer", "a\nb", '"quoted"', "{}", "😀", "\\u00e9", "<b>", "x" * 40, "")
_AT_ONCE: Final = 8
_PATHS: Final[dict[str, tuple[str, ApiAdapter]]] = {
    "chat": ("/v1/chat/completions", ChatApi()),
    "responses": ("/v1/responses", ResponsesApi()),
    "messages": ("/v1/messages", MessagesApi()),
}


class Upstream:
    """An endpoint that answers what it was told to, and keeps the bytes of each request."""

    def __init__(self) -> None:
        self.requests: dict[str, list[bytes]] = {}
        self.answers: dict[str, JSON] = {}

    async def complete(self, request: web.Request) -> web.Response:
        """Answer one request, plain or as a stream."""
        data = await request.read()
        asked = msgspec.json.decode(data)
        name = asked["model"]
        self.requests.setdefault(name, []).append(data)
        body = self.answers[name]
        if not asked.get("stream"):
            return web.json_response(body)
        options = asked.get("stream_options") or {}
        usage = options.get("include_usage") is True
        frames = encode_frames(build_events(body, usage=usage, seed=len(data)))
        return web.Response(body=b"".join(frames), content_type="text/event-stream")


class Maker:
    """Makes clean requests and answers of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self) -> str:
        """Return some text that is not blank."""
        return f"{self._random.choice(_WORDS)} {self._random.randrange(1000)}"

    def maybe(self, value: Any) -> list[Any]:
        """Return a value or nothing."""
        return [value] if self._random.random() < 0.5 else []

    def arguments(self) -> JSON:
        """Return arguments that fit the tools."""
        more = {"note": self.word(), "deep": {"list": [1, None, 2.5, self.word()]}}
        chosen = {key: more[key] for key in more if self._random.random() < 0.5}
        return {"city": self.word()} | chosen

    def written(self, value: Any) -> str:
        """Write JSON in one of the usual ways."""
        separators = self._random.choice([(",", ":"), (", ", ": "), None])
        ascii_only = self._random.random() < 0.5
        indent = self._random.choice([None, None, 1, 3])
        if indent:
            separators = None
        return json.dumps(value, separators=separators, ensure_ascii=ascii_only, indent=indent)

    def completion(self, model: str, ids: list[str]) -> JSON:
        """Return an answer: calls of these ids, or a text if there are none."""
        message: JSON = {"role": "assistant", "content": None if ids else self.word()}
        if ids and self._random.random() < 0.3:
            message["content"] = self.word()
        if self._random.random() < 0.4:
            message["reasoning_content"] = self.word()
        if ids:
            message["tool_calls"] = [self.call(each) for each in ids]
        reason = "tool_calls" if ids else self._random.choice(["stop", "stop", "length"])
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        return {
            "id": f"chatcmpl-{self._random.randrange(10**9)}",
            "object": "chat.completion",
            "created": self._random.randrange(10**9),
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": usage,
        }

    def call(self, call_id: str) -> JSON:
        """Return a call."""
        function = {"name": "get_weather", "arguments": self.written(self.arguments())}
        return {"id": call_id, "type": "function", "function": function}

    def pick(self, *values: Any) -> Any:
        """Return one of some values."""
        return self._random.choice(values)


def _schema(maker: Maker) -> JSON:
    return {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": maker.word()},
            "note": {"type": "string"},
            "deep": {"type": "object"},
        },
        "required": ["city"],
    }


def chat_request(maker: Maker, model: str, answered: JSON | None) -> JSON:
    """Return a chat completion's request; `answered` is the turn that it goes on from."""
    messages: list[JSON] = [
        *maker.maybe({"role": maker.pick("system", "developer"), "content": maker.word()}),
        {"role": "user", "content": maker.pick(maker.word(), [{"type": "text", "text": "Hi."}])},
        *maker.maybe({"role": "assistant", "content": maker.word(), "name": "me"}),
        {"role": "user", "content": [{"type": "text", "text": maker.word(), "cache_control": {}}]},
    ]
    if answered is not None:
        turn = answered["choices"][0]["message"]
        messages.append(turn)
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": maker.pick("12", "é\n", "{}")}
            for call in turn["tool_calls"]
        ]
    function = {"name": "get_weather", "parameters": _schema(maker), "strict": False}
    options = [("temperature", 0.50), ("seed", 7), ("x", {"own": [1e2]}), ("user", maker.word())]
    body = {
        "model": model,
        "messages": messages,
        "tools": [{"type": "function", "function": function}],
    }
    return body | dict(option for each in options for option in maker.maybe(each))


def responses_request(maker: Maker, model: str, answered: JSON | None) -> JSON:
    """Return a request of the Responses API."""
    items: list[JSON] = [{"role": "user", "content": maker.word()}]
    if answered is not None:
        for call in answered["choices"][0]["message"]["tool_calls"]:
            function = call["function"]
            made = {"type": "function_call", "call_id": call["id"], **function}
            items += [made, {"type": "function_call_output", "call_id": call["id"], "output": "é"}]
    tool = {
        "type": "function",
        "name": "get_weather",
        "parameters": _schema(maker),
        "strict": False,
    }
    return {"model": model, "input": items, "tools": [tool], "instructions": maker.word()}


def messages_request(maker: Maker, model: str, answered: JSON | None) -> JSON:
    """Return a request of Anthropic's API."""
    messages: list[JSON] = [{"role": "user", "content": maker.word()}]
    if answered is not None:
        calls = answered["choices"][0]["message"]["tool_calls"]
        used = [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": json.loads(call["function"]["arguments"]),
            }
            for call in calls
        ]
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "é"} for call in calls
        ]
        messages += [{"role": "assistant", "content": used}, {"role": "user", "content": results}]
    tool = {"name": "get_weather", "input_schema": _schema(maker)}
    return {"model": model, "max_tokens": 99, "messages": messages, "tools": [tool]}


_REQUESTS: Final[dict[str, Callable[[Maker, str, JSON | None], JSON]]] = {
    "chat": chat_request,
    "responses": responses_request,
    "messages": messages_request,
}


class Trial:
    """One conversation of two turns with one face."""

    def __init__(self, upstream: Upstream, url: str, face: str, *, stream: bool, seed: int) -> None:
        self._upstream = upstream
        self._path, self._face = _PATHS[face]
        self._url = url + self._path
        self._request = _REQUESTS[face]
        self._stream = stream
        self._maker = Maker(seed)
        self._model = f"{face}-{stream}-{seed}"

    async def failures(self, session: ClientSession) -> list[str]:
        """Hold the conversation; return what was changed on the way."""
        ids = [f"call_{number}" for number in range(self._maker.pick(1, 1, 2))]
        first = self._maker.completion(self._model, ids)
        found = await self._turn(session, None, first)
        return found + await self._turn(session, first, self._maker.completion(self._model, []))

    async def _turn(self, session: ClientSession, before: JSON | None, answer: JSON) -> list[str]:
        request = self._request(self._maker, self._model, before)
        if self._stream:
            request |= {"stream": True}
            if self._path == _PATHS["chat"][0]:
                request["stream_options"] = {"include_usage": True}
        data = self._maker.written(request).encode()
        self._upstream.answers[self._model] = answer
        count = len(self._upstream.requests.get(self._model, ()))
        async with session.post(self._url, data=data) as response:
            got = await response.read()
        sent = self._upstream.requests[self._model][count:]
        return self._compared(data, sent, answer, got)

    def _compared(self, data: bytes, sent: list[bytes], answer: JSON, got: bytes) -> list[str]:
        asked = self._face.parse(data)
        where = f"{self._model}: "
        if len(sent) != 1:
            return [f"{where}{len(sent)} requests"]
        same = sent[0] == data if asked.client_bytes else msgspec.json.decode(sent[0]) == asked.body
        found = [] if same else [f"{where}another request was sent"]
        expected = self._face.render(asked, answer)
        said = _assembled(self._face, got) if self._stream else msgspec.json.decode(got)
        if _told(said) != _told(expected):
            found.append(f"{where}another answer came: {said!r:.300} and not {expected!r:.300}")
        return found


def _told(answer: JSON) -> Any:
    """Return what an answer says; the order of a stream's items is that of the stream."""
    if "output" in answer:
        return [item for item in answer["output"] if item["type"] != "reasoning"]
    if "content" in answer:
        return [block for block in answer["content"] if "thinking" not in block["type"]]
    return answer


def _assembled(face: ApiAdapter, data: bytes) -> JSON:
    decoder = SseDecoder()
    events = [*decoder.feed(data), *decoder.close()]
    if face.name == "chat":
        assembler = Assembler()
        for event in events:
            assembler.add(event.data, event.event)
        body = assembler.finish()
        assert isinstance(body, dict), body
        return body
    payloads = [msgspec.json.decode(event.data) for event in events]
    if face.name == "responses":
        response: JSON = payloads[-1]["response"]
        return response
    return {"content": _blocks(payloads)}


def _blocks(payloads: list[JSON]) -> list[JSON]:
    """Put the blocks of a streamed message together."""
    blocks: list[JSON] = []
    written = ""
    for payload in payloads:
        match payload:
            case {"type": "content_block_start", "content_block": block}:
                blocks.append(dict(block))
                written = ""
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}:
                blocks[-1]["text"] += text
            case {"type": "content_block_delta", "delta": {"partial_json": part}}:
                written += part
                blocks[-1]["input"] = json.loads(written)
            case _:
                pass
    return blocks


async def _tried(size: int, seed: int) -> list[str]:
    upstream = Upstream()
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", upstream.complete)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    gate = asyncio.Semaphore(_AT_ONCE)
    try:
        async with Proxy(address) as proxy, ClientSession() as session:

            async def one(trial: Trial) -> list[str]:
                async with gate:
                    return await trial.failures(session)

            trials = [
                Trial(upstream, proxy.url, face, stream=stream, seed=seed * 1_000_000 + number)
                for face in _PATHS
                for number in range(size)
                for stream in (False, True)
            ]
            found = await asyncio.gather(*map(one, trials))
    finally:
        await runner.cleanup()
    return [failure for each in found for failure in each]


def attempt(size: int, seed: int) -> Outcome:
    """Hold so many conversations with each face, plain and streamed."""
    failures = asyncio.run(_tried(size, seed))
    ran = f"{size} conversations of two turns over each of three APIs, plain and streamed"
    cases = size * 2 * 2 * len(_PATHS)
    figures = (
        "the upstream received the client's bytes, the client received the upstream's content; "
        "no extra requests"
    )
    return Outcome(ran, cases, gathered(failures), figures=figures)


CLAIM = Claim(
    "D20", "Well-formed traffic passes through the proxy unchanged.", attempt, (250, 1_000, 5_000)
)
