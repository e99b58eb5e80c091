"""A conversation is the same, whichever API the client speaks and whichever the upstream has."""

import contextlib
import itertools
import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from surecall.proxy import Proxy
from surecall.settings.connection import RetryPolicy
from surecall.simulator.native_apis import SERVED_APIS
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.server import Simulator
from surecall.values.types import JSON
from surecall.wire.apis.adapter import InvalidRequest
from surecall.wire.apis.messages_upstream import MessagesUpstream
from surecall.wire.apis.native_turns import (
    ChatStream,
    NativeApi,
    decode_native_response,
    encode_native_request,
    without_native_turns,
)
from surecall.wire.apis.responses_upstream import ResponsesUpstream
from surecall.wire.assembler import Assembler
from surecall.wire.chat_format import encode
from surecall.wire.sse import SseDecoder
from tests.support.proxy import call, completion, post, result, said
from tests.support.simulator import WEATHER

NATIVE: Final[tuple[NativeApi, ...]] = (ResponsesUpstream(), MessagesUpstream())
APIS: Final = ("chat", "responses", "messages")
WORDS: Final = (
    "Oslo",
    "",
    " ",
    "é\u2028",
    "\U0001f378",
    '"\\',
    "<a>&",
    "null",
    "0.10",
    "long " * 40,
)
VALUES: Final[tuple[Any, ...]] = (*WORDS, 0, -7, 1.5, 12345678901234567890123, True, None, [], {})
SEEDS: Final = 60


def ids(api: NativeApi) -> str:
    return api.name


# The translation alone, for generated conversations.


def text(rng: random.Random) -> str:
    return "Hm. " + rng.choice(WORDS)


def value(rng: random.Random, depth: int = 0) -> Any:
    if depth < 3 and rng.random() < 0.3:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if depth < 3 and rng.random() < 0.3:
        return {rng.choice(WORDS): value(rng, depth + 1) for _ in range(rng.randint(0, 3))}
    return rng.choice(VALUES)


def turn(rng: random.Random, number: int) -> list[JSON]:
    made = [
        call(f"call_{number}_{at}", f"tool_{at}", **{"a b": value(rng), "z": 1, "b": value(rng)})
        for at in range(rng.randint(0, 3))
    ]
    if not made:
        return [said(text=text(rng)), {"role": "user", "content": text(rng)}]
    results = [result(one["id"], rng.choice(WORDS)) for one in made]
    after = [{"role": "user", "content": text(rng)}] if rng.random() < 0.3 else []
    return [said(*made, text=rng.choice((None, text(rng)))), *results, *after]


def conversation(seed: int) -> JSON:
    """Make a chat request that every provider accepts."""
    rng = random.Random(seed)  # noqa: S311  # no secret
    messages: list[JSON] = [{"role": "user", "content": text(rng)}]
    for number in range(rng.randint(0, 4)):
        messages += turn(rng, number)
    if rng.random() < 0.5:
        messages.insert(0, {"role": "system", "content": text(rng)})
    body: JSON = {"model": "m", "messages": messages, "max_tokens": 100, "tools": [WEATHER]}
    choice = rng.choice((None, "auto", "none", "required"))
    body |= {} if choice is None else {"tool_choice": choice}
    body |= {"parallel_tool_calls": False, "tool_choice": "auto"} if rng.random() < 0.3 else {}
    return body | rng.choice(({}, {"temperature": 0.5}, {"top_p": 1}))


def meaning(body: JSON) -> JSON:
    """Return a request without the differences that no model can see."""
    kept = {key: each for key, each in body.items() if key != "messages"}
    tools = [dict(tool["function"]) for tool in body["tools"]]
    for tool in tools:
        tool.pop("strict", None)
    return kept | {"messages": [plain(each) for each in body["messages"]], "tools": tools}


def plain(message: JSON) -> JSON:
    calls = [
        (one["id"], one["function"]["name"], msgspec.json.decode(one["function"]["arguments"]))
        for one in message.get("tool_calls", ())
    ]
    content = message.get("content") or ""
    return {
        "role": message["role"],
        "text": content if isinstance(content, str) else "".join(each["text"] for each in content),
        "calls": calls,
        "of": message.get("tool_call_id"),
    }


def joined(messages: list[JSON]) -> list[JSON]:
    """Join user messages in a row, which the Messages API merges."""
    found: list[JSON] = []
    for message in messages:
        if found and found[-1]["role"] == message["role"] == "user":
            found[-1] = found[-1] | {"text": found[-1]["text"] + message["text"]}
        else:
            found.append(message)
    return found


@pytest.mark.parametrize("api", NATIVE, ids=ids)
def test_a_clean_request_means_the_same_in_another_api(api: NativeApi) -> None:
    served = SERVED_APIS[f"/v1/{api.path}"]
    for seed in range(SEEDS):
        asked = meaning(conversation(seed))
        data = encode_native_request(api, encode(conversation(seed)))
        assert not list(served.check(msgspec.json.decode(data))), seed
        found = meaning(served.adapter.parse(data).body)
        assert joined(found.pop("messages")) == joined(asked.pop("messages")), seed
        assert found == asked, seed


def reply(seed: int) -> JSON:
    rng = random.Random(seed)  # noqa: S311  # no secret
    message = next(each for each in turn(rng, 0) if each["role"] == "assistant")
    state = rng.choice(({}, {"reasoning_content": text(rng)}, {"encrypted_content": "x=="}))
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    return completion(message | state, reason, usage=usage)


def assembled(data: bytes) -> Any:
    assembler, decoder = Assembler(), SseDecoder()
    for event in [*decoder.feed(data), *decoder.close()]:
        assembler.add(event.data, event.event)
    return assembler.finish()


def essence(body: JSON) -> Any:
    choice = body["choices"][0]
    message = choice["message"]
    thought = message.get("reasoning_content", "")
    usage = body.get("usage", {})
    return plain(message), thought, choice["finish_reason"], usage.get("total_tokens")


@pytest.mark.parametrize("api", NATIVE, ids=ids)
def test_a_clean_reply_means_the_same_in_another_api_plain_and_streamed(api: NativeApi) -> None:
    served = SERVED_APIS[f"/v1/{api.path}"]
    asked = served.adapter.parse(encode_native_request(api, encode(conversation(0))))
    for seed in range(SEEDS):
        sent = reply(seed)
        native = served.adapter.render(asked, sent)
        whole = msgspec.json.decode(decode_native_response(api, encode(native)))
        stream = ChatStream(api)
        frames = b"".join(served.encode_events(native, "", seed))
        size = (1, 7, 64, 100_000)[seed % 4]
        parts = [stream.feed(frames[at : at + size]) for at in range(0, len(frames), size)]
        pieces = assembled(b"".join([*parts, stream.close()]))
        assert essence(whole) == essence(sent), seed
        assert essence(pieces) == essence(whole), seed
        turns = [each["choices"][0]["message"].get("native_turn") for each in (whole, pieces)]
        assert turns[0] == turns[1], seed


@pytest.mark.parametrize("api", NATIVE, ids=ids)
def test_the_state_of_a_turn_comes_back_unchanged(api: NativeApi) -> None:
    served = SERVED_APIS[f"/v1/{api.path}"]
    asked = served.adapter.parse(encode_native_request(api, encode(conversation(0))))
    for seed in range(SEEDS):
        sent = served.adapter.render(asked, reply(seed))
        message = msgspec.json.decode(decode_native_response(api, encode(sent)))["choices"][0][
            "message"
        ]
        user = {"role": "user", "content": "Hm."}
        results = [result(one["id"]) for one in message.get("tool_calls", ())]
        body = {"model": "m", "messages": [user, message, *results, user], "tools": [WEATHER]}
        echoed = msgspec.json.decode(encode_native_request(api, encode(body)))
        if api.name == "responses":
            given, items = sent["output"], echoed["input"][1:]
        else:
            given, items = sent["content"], echoed["messages"][1]["content"]
        if message.get("native_turn"):
            wanted = without_idle_state([each for each in given if not is_blank_text(each)])
            assert items[: len(wanted)] == wanted, seed


def without_idle_state(items: list[JSON]) -> list[JSON]:
    """Drop the reasoning after which nothing comes, which the endpoints reject."""
    while items[-1]["type"] in {"reasoning", "redacted_thinking", "thinking"}:
        items = items[:-1]
    return items


def is_blank_text(item: JSON) -> bool:
    return item["type"] == "text" and not item["text"].strip()


# Hostile requests, replies, and events never make a translator raise anything else.

ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    2**70,
    "",
    "message",
    "text",
    "{",
    [],
    [7],
    {},
    {"type": {}},
)


def damaged(rng: random.Random, given: Any, share: float) -> Any:
    if rng.random() < share:
        return rng.choice(ODD)
    if isinstance(given, dict):
        kept = ((key, each) for key, each in given.items() if rng.random() > share)
        return {key: damaged(rng, each, share) for key, each in kept}
    return [damaged(rng, each, share) for each in given] if isinstance(given, list) else given


def full_reply(api: NativeApi) -> Any:
    calls = [call("c1", a=1), call("c2")]
    message = said(
        *calls, text="abc", refusal="No.", reasoning_content="Hm.", encrypted_content="x"
    )
    served = SERVED_APIS[f"/v1/{api.path}"]
    asked = served.adapter.parse(encode_native_request(api, encode(conversation(0))))
    usage = {"prompt_tokens": 5, "completion_tokens": 3}
    return served.adapter.render(asked, completion(message, "tool_calls", usage=usage))


@pytest.mark.parametrize("api", NATIVE, ids=ids)
def test_no_request_makes_a_translator_raise_anything_but_a_refusal(api: NativeApi) -> None:
    answer = msgspec.json.decode(decode_native_response(api, encode(full_reply(api))))
    turn = answer["choices"][0]["message"]
    results = [result(one["id"]) for one in turn["tool_calls"]]
    for seed in range(400):
        rng = random.Random(seed)  # noqa: S311  # no secret
        asked = conversation(seed)
        body = asked | {
            "messages": [*asked["messages"], turn, *results],
            "thinking": {},
            "stop": "x",
        }
        data = encode(damaged(rng, body, rng.choice((0.02, 0.1, 0.2))))
        with contextlib.suppress(InvalidRequest):
            encode_native_request(api, data)
        without_native_turns(data)


@pytest.mark.parametrize("api", NATIVE, ids=ids)
def test_no_reply_and_no_event_makes_a_translator_raise(api: NativeApi) -> None:
    clean = full_reply(api)
    events = SERVED_APIS[f"/v1/{api.path}"].events(clean, 0)
    for seed in range(400):
        rng = random.Random(seed)  # noqa: S311  # no secret
        share = rng.choice((0.01, 0.05, 0.2))
        decode_native_response(api, encode(damaged(rng, clean, share)))
        sent = [damaged(rng, event, share) for event in events]
        if seed % 3 == 0:
            rng.shuffle(sent)
        stream = ChatStream(api)
        data = stream.feed(b"".join(b"data: " + encode(each) + b"\n\n" for each in sent))
        assembled(data + stream.close())


# Through the proxy, with clients that echo only what their API documents.


class Agent:
    """A client of the proxy in one API, which runs the calls that it gets."""

    def __init__(self, url: str, api: str, model: str, *, stream: bool) -> None:
        self.url, self.api, self.model, self.stream = url, api, model, stream
        self.ran: list[Any] = []

    def run(self) -> str:
        words: Any = [{"role": "user", "content": "What is the weather in Paris for 3 days?"}]
        for _ in range(6):
            answer, calls, echo = getattr(self, f"_ask_{self.api}")(words)
            if not calls:
                return str(answer)
            words = [*words, *echo, *self._results(calls)]
        raise AssertionError("no answer")

    def _results(self, calls: list[tuple[str, str, Any]]) -> list[JSON]:
        outputs = []
        for call_id, name, given in calls:
            self.ran.append((name, given))
            outputs.append((call_id, f"{given['city']}: clear for {given['days']} days"))
        if self.api == "chat":
            return [result(call_id, words) for call_id, words in outputs]
        if self.api == "responses":
            kind = "function_call_output"
            return [{"type": kind, "call_id": one, "output": words} for one, words in outputs]
        blocks = [{"type": "tool_result", "tool_use_id": a, "content": b} for a, b in outputs]
        return [{"role": "user", "content": blocks}]

    def _post(self, path: str, **body: Any) -> Any:
        got = post(self.url, {"model": self.model, "stream": self.stream} | body, path)
        assert got.status == 200, got.body
        return got.events if self.stream else got.json

    def _ask_chat(self, words: list[JSON]) -> Any:
        got = self._post("/v1/chat/completions", messages=words, tools=[WEATHER])
        if self.stream:
            assert "error" not in got[-1], got[-1]
            got = assembled(b"".join(b"data: " + encode(each) + b"\n\n" for each in got))
        message = got["choices"][0]["message"]
        echo = {key: message[key] for key in ("role", "content", "tool_calls") if key in message}
        calls = [
            (one["id"], one["function"]["name"], msgspec.json.decode(one["function"]["arguments"]))
            for one in message.get("tool_calls") or ()
        ]
        return message.get("content"), calls, [echo]

    def _ask_responses(self, words: list[JSON]) -> Any:
        tool = {"type": "function", "strict": False} | WEATHER["function"]
        got = self._post("/v1/responses", input=words, tools=[tool])
        if self.stream:
            assert got[-1]["type"] == "response.completed", got[-1]
            got = got[-1]["response"]
        items = got["output"]
        calls = [
            (item["call_id"], item["name"], msgspec.json.decode(item["arguments"]))
            for item in items
            if item["type"] == "function_call"
        ]
        texts = [part["text"] for item in items for part in item.get("content", ())]
        return "".join(texts), calls, items

    def _ask_messages(self, words: list[JSON]) -> Any:
        function = WEATHER["function"]
        tool = {"name": function["name"], "input_schema": function["parameters"]}
        got = self._post("/v1/messages", messages=words, tools=[tool], max_tokens=500)
        if self.stream:
            assert got[-1]["type"] == "message_stop", got[-1]
            stream = ChatStream(MessagesUpstream())
            data = b"".join(b"data: " + encode(each) + b"\n\n" for each in got)
            blocks = list(stream_blocks(got))
            assert stream.feed(data).endswith(b"data: [DONE]\n\n")
        else:
            blocks = got["content"]
        calls = [
            (each["id"], each["name"], each["input"])
            for each in blocks
            if each["type"] == "tool_use"
        ]
        texts = [each["text"] for each in blocks if each["type"] == "text"]
        return "".join(texts), calls, [{"role": "assistant", "content": blocks}]


def stream_blocks(events: list[JSON]) -> Iterator[JSON]:
    """Yield the blocks of a streamed message, as Anthropic's clients assemble them."""
    arguments = ""
    block: JSON = {}
    for event in events:
        if event["type"] == "content_block_start":
            block, arguments = dict(event["content_block"]), ""
        elif event["type"] == "content_block_delta":
            for key, piece in event["delta"].items():
                if key == "partial_json":
                    arguments += piece
                elif key != "type":
                    block[key] = block.get(key, "") + piece
        elif event["type"] == "content_block_stop":
            yield block | ({"input": msgspec.json.decode(arguments)} if arguments else {})


COMBINATIONS: Final = tuple(itertools.product(APIS, APIS, (False, True)))
QUICK: Final = RetryPolicy(first_wait_s=0.0, longest_wait_s=0.0)


def run_agents(simulator: Simulator, plan: list[tuple[str, str, str, bool]]) -> None:
    for upstream in APIS:
        with Proxy(simulator.url, api=upstream, retry=QUICK) as proxy:
            for model, client, wanted, stream in plan:
                if wanted != upstream:
                    continue
                agent = Agent(proxy.url, client, model, stream=stream)
                where = f"{model}: {client} over {upstream}, stream={stream}"
                answer = agent.run()
                assert agent.ran == [("get_weather", {"city": "Paris", "days": 3})], where
                assert "clear for 3 days" in answer, where
                assert not simulator.violations, (where, list(simulator.violations))


@pytest.mark.parametrize("model", ["sim/clean", "sim/strict-sealed", "sim/strict-deepseek"])
def test_all_combinations_deliver_the_same_conversation_and_lose_no_state(model: str) -> None:
    with Simulator(seed=3) as simulator:
        run_agents(simulator, [(model, *each) for each in COMBINATIONS])


def test_a_model_that_reasons_keeps_its_reasoning_from_every_client() -> None:
    plan = [each for each in COMBINATIONS if each[1] != "chat"]
    with Simulator(seed=3) as simulator:
        run_agents(simulator, [("sim/like-gpt-5.6", *each) for each in plan])


NATIVE_PERSONAS: Final = [name for name, each in PERSONAS.items() if each.native_fault]


def test_the_faults_of_both_apis_are_repaired_for_every_client() -> None:
    plan = [each for each in COMBINATIONS if each[1] != "chat"]
    with Simulator(seed=3) as simulator:
        run_agents(simulator, [(model, *each) for model in NATIVE_PERSONAS for each in plan])


REPAIRED: Final = [
    name for name, each in PERSONAS.items() if each.kind == "drift" and each.outcome == "repaired"
]


def test_the_drift_corpus_is_repaired_over_every_combination() -> None:
    """Each fault takes four of the combinations, and each combination many faults."""
    plan = [
        (model, *COMBINATIONS[(at + shift) % len(COMBINATIONS)])
        for at, model in enumerate(REPAIRED)
        for shift in (0, 5, 10, 13)
    ]
    with Simulator(seed=3) as simulator:
        run_agents(simulator, plan)
