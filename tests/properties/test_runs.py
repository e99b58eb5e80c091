"""Whole runs: whatever the model says, what is sent stays legal and replays."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import given, settings

from surecall import (
    Run,
    ToolCallingConfig,
    ToolDispatcher,
    ToolLoopRunner,
    load_trace,
    replay,
    save_trace,
)
from surecall.core.exposed_tools import next_plan
from surecall.core.loop import next_move, record_refusal, record_reply, record_results
from surecall.core.state import AskModel, RunTools
from surecall.runtime.retrying_requests import PromptRunner
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.values.events import (
    LlmRequestEndEvent,
    RequestRefusedEvent,
    RunStartEvent,
    ToolCallEndEvent,
)
from surecall.values.types import User
from tests.support.generated import CONFIGS, SCRIPTS
from tests.support.scripted_runs import REGISTRY, add, assert_legal, result_of
from tests.support.spec import proves


@proves("G7", "G8")
@given(SCRIPTS, CONFIGS)
@settings(max_examples=300)
def test_every_history_that_is_sent_is_legal(script: list[Any], config: ToolCallingConfig) -> None:
    _, model = result_of(script, config)

    for request in model.requests:
        assert_legal(request)


@proves("G4")
@given(SCRIPTS, CONFIGS)
@settings(max_examples=200)
def test_a_recording_gives_the_same_run_again(script: list[Any], config: ToolCallingConfig) -> None:
    result, _ = result_of(script, config)

    with TemporaryDirectory() as folder:
        save_trace(result.trace, Path(folder, "trace.jsonl"))
        again = replay(load_trace(Path(folder, "trace.jsonl")))

    assert again.run == result.run
    assert (again.assistant_text, again.stop_reason) == (result.assistant_text, result.stop_reason)
    assert replay(result.trace).run == result.run


@proves("G3")
@given(SCRIPTS, CONFIGS)
def test_a_run_can_be_written_down_after_any_move(
    script: list[Any], config: ToolCallingConfig
) -> None:
    result, _ = result_of(script, config)
    start = result.trace[0]
    assert isinstance(start, RunStartEvent)
    kinds = (LlmRequestEndEvent, ToolCallEndEvent, RequestRefusedEvent)
    events = iter([event for event in result.trace if isinstance(event, kinds)])
    run = msgspec.structs.replace(result.run, messages=start.messages)

    while isinstance(move := next_move(run), AskModel | RunTools):
        run = Run.from_json(run.to_json())
        due = len(move.calls) if isinstance(move, RunTools) else 1
        happened = [next(events) for _ in range(due)]
        match happened[0]:
            case ToolCallEndEvent():
                run = record_results(
                    run, [item.result for item in happened if isinstance(item, ToolCallEndEvent)]
                )
            case LlmRequestEndEvent(reply=reply):
                run = record_reply(run, reply)
            case RequestRefusedEvent(fault=fault):
                run = record_refusal(run, fault)
    assert run == result.run


@proves("G3")
def test_a_run_is_continued_in_another_process_from_what_was_written_down() -> None:
    first = ScriptedModel(calls("add", a=1, b=2))
    requests = PromptRunner(first).requests(toolbox=REGISTRY)
    run = Run("r", "m", raw(), (User("1 + 2?"),), tools=(add.spec,))
    run = record_reply(run, asyncio.run(requests.ask(next_plan(run))).reply)

    runner = ToolLoopRunner(client=ScriptedModel(says("3")), model="m", registry=REGISTRY)
    result = asyncio.run(runner.resume(Run.from_json(run.to_json())))

    assert result.assistant_text == "3"
    assert [item.ok for item in result.run.results] == [True]


def test_a_refused_request_is_part_of_the_recording() -> None:
    run = Run("r", "m", raw(), (User("Hello"),))
    fault = result_of([says("x", finish_reason="error")], raw())[0].run.messages[-1]
    after = record_refusal(run, fault.fault)  # type: ignore[union-attr]  # the last message is a refusal

    assert Run.from_json(after.to_json()) == after


def test_the_dispatcher_serves_calls_outside_a_loop() -> None:
    dispatcher = ToolDispatcher(REGISTRY, raw())

    result = asyncio.run(dispatcher.execute("add", {"a": 1, "b": 2}, "c1"))

    assert (result.call_id, result.ok, result.envelope["data"]) == ("c1", True, {"sum": 3})
