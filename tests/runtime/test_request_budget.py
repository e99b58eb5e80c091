"""What an answer may cost: counted before it is parsed, read aside, ended by the deadline."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from surecall import (
    ErrorCode,
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    presets,
    tool,
)
from surecall.core.outcome import RequestFailed
from surecall.parsing.budget import MAX_CALLS, MAX_TEXT
from surecall.runtime.request import LARGE, read_body
from surecall.settings.presets import RAW
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.errors import Fault
from surecall.values.events import TextCallAskedEvent
from surecall.values.types import JSON, Answer
from surecall.wire.messages import decode


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def runner(model: ScriptedModel, config: ToolCallingConfig = RAW) -> ToolLoopRunner:
    retry = RetryPolicy(attempts=1)
    return ToolLoopRunner(
        client=model, model="m", registry=ToolRegistry([add]), config=config, retry=retry
    )


def ask(model: ScriptedModel, config: ToolCallingConfig = RAW) -> RunResult:
    return asyncio.run(runner(model, config).run("1 + 2?"))


def thread_of_reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note in which threads answers are decoded."""
    threads: list[str] = []

    def noted(data: bytes, most: int) -> Any:
        threads.append(threading.current_thread().name)
        return decode(data, most)

    monkeypatch.setattr("surecall.runtime.request.decode", noted)
    return threads


@pytest.mark.parametrize(("size", "aside"), [(1_000, False), (LARGE + 1, True)])
def test_a_large_answer_is_read_beside_the_event_loop(
    size: int, *, aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = thread_of_reading(monkeypatch)
    result = ask(ScriptedModel(says("x" * size)))

    assert result.assistant_text == "x" * size
    assert [name != threading.main_thread().name for name in threads] == [aside]


def test_a_large_call_in_text_is_read_like_a_small_one() -> None:
    call = json.dumps({"name": "add", "arguments": {"a": 1, "b": 2}})
    text = f"<tool_call>{call.replace(':', ': ' + ' ' * LARGE)}</tool_call>"
    result = ask(ScriptedModel(says(text), says("3")), presets.default_tool_calling())

    assert result.run.results[0].envelope["data"] == {"value": 3}


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (says("ok") | {"extra": [0] * 200_000}, True),
        (says("ok") | {"extra": [0] * 199_000}, False),
        (says('a, "b", [c], {d} \\' * 60_000), False),
    ],
)
def test_an_answer_with_too_many_values_is_refused_before_it_is_decoded(
    body: JSON, *, refused: bool
) -> None:
    read = read_body(Answer(200, {}, json.dumps(body).encode()))

    assert (isinstance(read, Fault) and read.code is ErrorCode.RESPONSE_TOO_LARGE) is refused


def body_of(raw_calls: list[JSON]) -> JSON:
    return {"choices": [{"message": {"role": "assistant", "tool_calls": raw_calls}}]}


@pytest.mark.parametrize("wrap", [str, json.dumps])
def test_lists_that_hide_in_the_arguments_of_many_calls_are_refused_unread(
    wrap: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = calls("add", a=1, b=2)
    call = many["choices"][0]["message"]["tool_calls"][0]
    lists = wrap(json.dumps({"a": [[]] * 10_000}))
    one = call | {"function": {"name": "add", "arguments": lists}}
    monkeypatch.setattr("surecall.core.inbound.read_arguments", pytest.fail)

    with pytest.raises(RequestFailed) as failed:
        ask(ScriptedModel(body_of([one] * 11)))

    assert failed.value.code is ErrorCode.RESPONSE_TOO_LARGE


def test_a_call_in_a_text_that_is_too_long_is_asked_about_and_not_run() -> None:
    call = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    text = "x" * MAX_TEXT + "\n" + call
    result = ask(ScriptedModel(says(text), says("3")), presets.default_tool_calling())

    assert result.run.results == ()
    assert result.assistant_text == "3"
    assert [event.rule for event in result.trace if isinstance(event, TextCallAskedEvent)] == [
        "whole"
    ]


def test_the_deadline_binds_while_an_answer_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def endless(*_: object) -> None:
        go_on.wait()

    monkeypatch.setattr("surecall.runtime.request.decode", endless)

    async def asked() -> str:
        brief = RAW.replace(run_deadline_s=0.01)
        try:
            await runner(ScriptedModel(says("x" * LARGE)), brief).run("1 + 2?")
        except RunFailed as error:
            return str(error.code)
        finally:
            go_on.set()
        return ""

    assert asyncio.run(asked()) == ErrorCode.DEADLINE_EXCEEDED


def test_a_reply_with_too_many_calls_is_refused_wherever_they_stand() -> None:
    many = calls_many(*[calls("add", a=1, b=2)] * (MAX_CALLS + 1))
    text = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>\n'
    for body in (many, says(text * (MAX_CALLS + 1))):
        with pytest.raises(RequestFailed) as failed:
            ask(ScriptedModel(body), presets.default_tool_calling())
        assert failed.value.code is ErrorCode.RESPONSE_TOO_LARGE
