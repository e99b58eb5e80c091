"""Records: whatever comes, what is kept can be written, read again, and is the same."""

import asyncio
import datetime as dt
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall import (
    RetryPolicy,
    Run,
    RunFailed,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    presets,
    replay,
)
from surecall.runtime.recording import dump_trace, parse_trace
from surecall.testing import ScriptedModel, raw, says
from surecall.values.errors import ConfigError
from surecall.values.nesting import MAX_DEPTH
from surecall.values.types import Assistant, System, ToolCall, User
from tests.support.costly_inputs import DEPTHS, nested
from tests.support.scripted_runs import REGISTRY, result_of

ODD = st.sampled_from(
    [
        math.nan,
        math.inf,
        -math.inf,
        10**40,
        -(2**63),
        2**64,
        "\ud800",
        "a\udfffb",
        "😀",
        1e308,
        -0.0,
    ]
)
ANYTHING = st.recursive(
    ODD | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "arguments", "\ud800", "text"]), inner)
    ),
    max_leaves=8,
)
CALL = st.fixed_dictionaries(
    {"id": st.sampled_from(["c1", "", "\ud800"]) | ANYTHING},
    optional={
        "function": st.fixed_dictionaries({"name": st.just("add"), "arguments": ANYTHING}),
        "name": st.just("add"),
        "input": ANYTHING,
        "parameters": ANYTHING,
        "signature": ANYTHING,
    },
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.text(max_size=5) | ANYTHING},
    optional={
        "tool_calls": st.lists(CALL, max_size=3) | ANYTHING,
        "function_call": ANYTHING,
        "reasoning_details": ANYTHING,
        "logprobs": ANYTHING,
    },
)
BODY = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"message": MESSAGE}), min_size=1, max_size=1)},
    optional={"usage": ANYTHING, "id": ANYTHING, "extra": ANYTHING},
)
# A key that comes twice, and a number that is too large for Python to read.
TWISTS = st.sampled_from([("", ""), ('"a": ', '"a": 1, "a": '), ("1e+308", "1e999")])
CONFIGS = st.sampled_from([presets.raw(), presets.default_tool_calling()])


def written(body: Any, twist: tuple[str, str]) -> bytes:
    return json.dumps(body).replace(*twist).encode() if twist[0] else json.dumps(body).encode()


def assert_kept(result: RunResult) -> None:
    read = parse_trace(dump_trace(result.trace))
    again = replay(read)

    assert read == result.trace
    assert replay(result.trace).run == result.run == again.run
    assert again.assistant_text == result.assistant_text
    assert Run.from_json(result.run.to_json()) == result.run


@given(st.lists(st.tuples(BODY, TWISTS), max_size=2), CONFIGS)
@settings(max_examples=200)
def test_any_reply_replays_from_its_record(
    replies: list[tuple[Any, tuple[str, str]]], config: ToolCallingConfig
) -> None:
    bodies = [raw(written(body, twist)) for body, twist in replies]

    assert_kept(result_of(bodies, config)[0])


@given(st.lists(st.tuples(BODY, TWISTS), max_size=2), CONFIGS)
@settings(max_examples=100)
def test_any_stream_replays_from_its_record(
    replies: list[tuple[Any, tuple[str, str]]], config: ToolCallingConfig
) -> None:
    chunks = [raw(_events(body, twist), content_type=SSE) for body, twist in replies]
    model = ScriptedModel(*chunks, *[says("The end.")] * 8)
    once = RetryPolicy(attempts=1)
    runner = ToolLoopRunner(client=model, model="m", registry=REGISTRY, config=config, retry=once)
    stream = runner.stream_sync("Go on.")
    try:
        list(stream)
        assert_kept(stream.result)
    except RunFailed as error:
        assert_kept(error.result)
    finally:
        runner.close()


SSE = "text/event-stream"


def _events(body: Any, twist: tuple[str, str]) -> bytes:
    return b"data: " + written(_chunk(body), twist) + b"\n\ndata: [DONE]\n\n"


def _chunk(body: Any) -> Any:
    (choice,) = body["choices"]
    return body | {"choices": [{"delta": choice["message"], "finish_reason": "stop"}]}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("key", ["arguments", "parameters", "input"])
def test_a_number_that_json_does_not_know_is_refused_as_an_argument_and_replays(
    number: str, key: str
) -> None:
    call = {"id": "c", "type": "function", "name": "add", key: {"a": "MARK", "b": 2}}
    if key == "arguments":
        call = {"id": "c", "function": {"name": "add", "arguments": call[key]}}
    body = json.dumps({"choices": [{"message": {"content": "", "tool_calls": [call]}}]})
    replies = [raw(body.replace('"MARK"', number).encode())]
    result, model = result_of(replies, presets.default_tool_calling())

    assert not any(answer.executed for answer in result.run.results)
    assert "finite number" in str(model.requests[-1]["messages"])
    assert_kept(result)


OUR_OWN = [
    System("half \ud800"),
    User([{"type": "text", "text": "half \ud800"}]),
    User([{"type": "image", "data": b"bytes", "at": dt.date(2000, 1, 1), "list": (1, 2)}]),
    Assistant("said", extra={"score": math.nan, "list": (1, b"2"), "half": "\ud800"}),
    Assistant("", (ToolCall("c", "add", {"a": 10**40, "b": [{}] * 3}),)),
]


@pytest.mark.parametrize("message", OUR_OWN, ids=lambda message: type(message).__name__)
def test_a_run_with_any_history_is_the_same_after_it_was_written(message: Any) -> None:
    for history in ([message], [{"role": "user", "content": [{"score": math.inf, "b": b"2"}]}]):
        runner = ToolLoopRunner(
            client=ScriptedModel(says("ok")),
            model="m",
            registry=REGISTRY,
            llm_options_defaults={"stop": ("a", "b"), "seed": 10**40},
        )
        assert_kept(
            asyncio.run(
                runner.run([{"type": "text", "text": "hi", "score": math.nan}], history=history)
            )
        )


def test_what_is_no_json_at_all_is_refused_before_anything_is_sent() -> None:
    runner = ToolLoopRunner(client=ScriptedModel(), model="m")
    for content in ([object()], [{1j: 2}]):
        for item in ({"role": "user", "content": content}, User(content)):
            with pytest.raises(ConfigError, match="JSON"):
                asyncio.run(runner.run("hi", history=[item]))
    with pytest.raises(ConfigError, match="cannot be written as JSON"):
        ToolLoopRunner(client=ScriptedModel(), model="m", llm_options_defaults={"top_p": math.nan})


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_is_nested_too_deeply_is_refused_before_anything_is_sent(depth: int) -> None:
    deep = nested(depth)
    part = {"type": "text", "text": "\ud800", "more": deep}
    call = ToolCall("c", "add", {"a": deep})
    runner = ToolLoopRunner(client=ScriptedModel(), model="m")
    items: list[Any] = [
        {"role": "user", "content": deep},
        {"role": "user", "content": [part]},
        User(deep),
        User([part]),
        Assistant("", (call,)),
    ]
    for item in items:
        with pytest.raises(ConfigError, match="nested too deeply: more than 128 levels"):
            asyncio.run(runner.run("hi", history=[item]))
    with pytest.raises(ConfigError, match="nested too deeply"):
        asyncio.run(runner.run([part]))
    with pytest.raises(ConfigError, match=r"request_overrides .* nested too deeply"):
        ToolCallingConfig(request_overrides={"logit_bias": deep})
    with pytest.raises(ConfigError, match=r"llm_options_defaults .* nested too deeply"):
        ToolLoopRunner(client=ScriptedModel(), model="m", llm_options_defaults={"stop": deep})


def test_what_is_nested_as_deeply_as_allowed_is_sent_and_kept() -> None:
    # A message in OpenAI's form has two levels of its own.
    history = [{"role": "user", "content": [{"type": "x", "more": nested(MAX_DEPTH - 3)}]}]
    options = {"metadata": nested(MAX_DEPTH - 1)}
    runner = ToolLoopRunner(
        client=ScriptedModel(says("ok")), model="m", llm_options_defaults=options
    )
    assert_kept(asyncio.run(runner.run("hi", history=history)))
