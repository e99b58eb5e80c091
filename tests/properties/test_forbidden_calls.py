"""Calls that the client asked the proxy not to get: `tool_choice: none`, and one call per turn.

Every API of the proxy, plain and streamed: no forbidden call reaches the client, no text is lost,
what was withheld is reported, and the history stays legal.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.repaired_reply import StreamedReply, is_passthrough
from surecall.proxy.repair.request_history import ConversationMemory, TurnMemory
from surecall.proxy.repair.upstream_request import build_tools
from surecall.proxy.serving.proxy_exchange import IGNORED_CALLS, ExchangeResult, ProxyExchange
from surecall.proxy.serving.request_handler import StreamQueue
from surecall.settings.connection import RetryPolicy
from surecall.testing import ScriptedModel, streams
from surecall.values.types import JSON
from surecall.wire.apis.adapter import ApiAdapter
from surecall.wire.apis.chat_api import ChatApi
from surecall.wire.apis.messages_api import MessagesApi
from surecall.wire.apis.responses_api import ResponsesApi
from surecall.wire.chat_format import encode
from tests.support.generated import Broken, check, dice, many
from tests.support.proxy import completion

pytestmark = pytest.mark.slow

CASES = many(2400)
APIS: dict[str, ApiAdapter] = {
    "chat": ChatApi(),
    "responses": ResponsesApi(),
    "messages": MessagesApi(),
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMES = ("get_weather", "get_time")
TEXTS = ("", "  \n", "Let me look.", "The answer is 42.\n\nBye.", "Grüße 🌍")
AS_TEXT = '<tool_call>{"name": "get_weather", "arguments": {"city": "written"}}</tool_call>'
SECOND = "This is the answer."


class Case(NamedTuple):
    """A request and the first reply to it; the second one is a text."""

    api: str
    streamed: bool
    choice: str
    tools: bool
    parallel: bool | None
    calls: tuple[str, ...]
    text: str
    piece: int
    form: bool = False

    @property
    def forbids(self) -> bool:
        return self.choice == "none" or not self.tools

    @property
    def kind(self) -> str:
        wanted = "forbidden" if self.forbids else f"parallel={self.parallel}"
        return f"{self.api}, {'streamed' if self.streamed else 'plain'}, {wanted}"


def cases(*, form: bool = False) -> Iterator[Case]:
    """Make cases of every API; with a `form` the client of a chat wants JSON, and fewer calls."""
    rng = dice("forbidden calls", form) if form else dice("forbidden calls")
    for number in range(CASES):
        streamed = rng.random() < 0.5  # half of them
        # In a stream, pieces with one id are one call.
        shapes = SHAPES if streamed else (*SHAPES, "same id")
        api = "chat" if form else ("chat", "responses", "messages")[number % 3]
        tools = api == "chat" or rng.random() < 0.85  # most have tools
        choice = rng.choice(("none", "none", "auto", "required", "named")) if tools else "auto"
        parallel = rng.choice((None, True, False, False)) if tools else None
        yield Case(
            api,
            streamed,
            choice,
            tools,
            False if form and choice != "none" else parallel,
            tuple(rng.choice(shapes) for _ in range(rng.choice((0, 1, 1, 2, 3, 3)))),
            _text(rng),
            rng.choice((7, 40, 4000)),
            form,
        )


def _text(rng: random.Random) -> str:
    text = rng.choice(TEXTS)
    return f"{text}\n{AS_TEXT}" if rng.random() < 0.2 else text  # a few


SHAPES = ("exact", "object", "no id", "no type")


def _call(shape: str, number: int) -> JSON:
    arguments: Any = {"city": f"city-{number}"}
    function = {
        "name": NAMES[0],
        "arguments": arguments if shape == "object" else encode(arguments).decode(),
    }
    call: JSON = {"id": f"call_{number}", "type": "function", "function": function}
    if shape == "same id":
        call["id"] = "call_0"
    left_out = {"no id": "id", "no type": "type"}.get(shape)
    return {key: value for key, value in call.items() if key != left_out}


def first_reply(case: Case) -> JSON:
    message: JSON = {"role": "assistant", "content": case.text or None}
    if not case.calls:
        return completion(message)
    calls = [_call(shape, number) for number, shape in enumerate(case.calls)]
    return completion(message | {"tool_calls": calls}, "tool_calls")


def request(case: Case) -> JSON:
    user = {"role": "user", "content": "What is the weather?"}
    body: JSON = {"model": "m", "stream": case.streamed}
    match case.api:
        case "messages":
            body |= {"max_tokens": 99, "messages": [user]} | _for_messages(case)
        case "responses":
            functions = [_function(name, type="function") for name in NAMES]
            named: JSON = {"type": "function", "name": NAMES[0]}
            body |= {"input": [user], **_options(case, functions, named)}
        case _:
            functions = [{"type": "function", "function": _function(name)} for name in NAMES]
            named = {"type": "function", "function": {"name": NAMES[0]}}
            body |= {"messages": [user], **_options(case, functions, named)}
    return body


def _function(name: str, **beside: str) -> JSON:
    return {"name": name, "parameters": SCHEMA} | beside


def _options(case: Case, functions: list[JSON], named: JSON) -> JSON:
    if not case.tools:
        return {}
    choice = named if case.choice == "named" else case.choice
    flag: JSON = {} if case.parallel is None else {"parallel_tool_calls": case.parallel}
    if case.form:
        flag["response_format"] = {"type": "json_object"}
    return {"tools": functions, "tool_choice": choice} | flag


def _for_messages(case: Case) -> JSON:
    if not case.tools:
        return {}
    kind = {"required": "any", "named": "tool"}.get(case.choice, case.choice)
    choice: JSON = {"type": kind} | ({"name": NAMES[0]} if kind == "tool" else {})
    if case.parallel is not None:
        choice["disable_parallel_tool_use"] = not case.parallel
    tools = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    return {"tools": tools, "tool_choice": choice}


class Outcome(NamedTuple):
    """What the client got, and what the upstream was asked."""

    data: bytes
    settled: ExchangeResult
    requests: list[JSON]


async def play(case: Case) -> Outcome:
    """Send one request through the proxy's code, from the client's bytes to the client's bytes."""
    face = APIS[case.api]
    asked = face.parse(encode(request(case)))
    assert not (asked.client_bytes and is_passthrough(asked.body))
    replies = (first_reply(case), completion({"role": "assistant", "content": SECOND}))
    script = [streams(reply, case.piece) for reply in replies] if case.streamed else replies
    model: Any = ScriptedModel(*script)
    memory = ConversationMemory(TurnMemory(), "me", asked.body["messages"])
    offer = build_tools(asked.body.get("tools") or ())
    exchange = ProxyExchange(asked, ProxySettings(), memory, offer)
    data = bytearray()
    live = StreamedReply(face.event_writer(asked), exchange.default_head, buffered=False)
    exchange.observers.append(StreamQueue(live).on_event)
    show = (lambda shown: data.extend(live.show(shown))) if case.streamed else None
    settled = await exchange.run(model, RetryPolicy(attempts=1), show)
    if settled.body is None:
        assert settled.failure is not None
        data += encode(face.render_error(settled.failure))
    else:
        body = settled.body
        data += live.finish(body) if case.streamed else encode(face.render(asked, body))
    return Outcome(bytes(data), settled, model.requests)


def wrong(case: Case, outcome: Outcome) -> str:
    """Say what is wrong with an outcome; blank if nothing is."""
    data, settled = outcome.data, outcome.settled
    if settled.body is None:
        return f"there is no answer: {settled.failure}"
    handed = [number for number in range(len(case.calls)) if b"city-%d" % number in data]
    wanted = _wanted(case)
    if handed != wanted:
        return f"the client got the calls {handed}, not {wanted}"
    withheld = len(wanted) < len(case.calls)
    if withheld != (IGNORED_CALLS in settled.repairs):
        return f"withheld: {withheld}, but reported: {settled.repairs}"
    if case.forbids:
        return _wrong_without_calls(case, outcome)
    return ""


def _wanted(case: Case) -> list[int]:
    if case.forbids:
        return []
    return list(range(len(case.calls)))[: 1 if case.parallel is False else None]


def _wrong_without_calls(case: Case, outcome: Outcome) -> str:
    for mark in (b'"tool_use"', b'"finish_reason":"tool_calls"', b'"function_call"'):
        if mark in outcome.data:
            return f"the client is told of a call: {mark!r}"
    text = _said(case, outcome.data)
    if case.text.strip() and case.text.strip() not in text:
        return f"the text is lost: {text!r}"
    if not case.text.strip() and SECOND not in text:
        return f"the model was not re-prompted: {text!r}"
    return ""


def _said(case: Case, data: bytes) -> str:
    """Return the text of an answer, of any API."""
    if not case.streamed:
        return "".join(_strings(msgspec.json.decode(data)))
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    events = [msgspec.json.decode(line) for line in lines if line != b"[DONE]"]
    return "".join("".join(_strings(each.get("delta", each))) for each in map(_delta, events))


def _delta(event: JSON) -> JSON:
    match event:
        case {"choices": [{"delta": dict(delta)}, *_]}:
            return delta
        case {"type": "response.output_text.delta", "delta": str(text)}:
            return {"text": text}
        case {"type": "content_block_delta", "delta": dict(delta)}:
            return {"text": delta.get("text", "")}
        case _:
            return {}


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
        case _:
            pass


@pytest.mark.parametrize("form", [False, True])
def test_no_forbidden_call_reaches_the_client_and_no_text_is_lost(*, form: bool) -> None:
    async def broken() -> list[Broken]:
        found = []
        for case in cases(form=form):
            outcome = await play(case)
            if why := wrong(case, outcome):
                found.append(Broken(case.kind, repr(case), f"{why}\n{outcome.data!r}"))
        return found

    check(asyncio.run(broken()), CASES)
