"""The public door to what a stream brings: every name, met in a run that is watched."""

import asyncio
from typing import Any

import surecall
import surecall.streaming
from surecall import RetryPolicy, ToolLoopRunner
from surecall.streaming import (
    BlockingRunStream,
    CallAnnounced,
    ReasoningDelta,
    RunStream,
    TextDelta,
    TextWithdrawn,
)
from surecall.testing import ScriptedModel, calls, says, streams


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def runner_of(*script: Any) -> ToolLoopRunner:
    retry = RetryPolicy(first_wait_s=0.0)
    return ToolLoopRunner(client=ScriptedModel(*script), model="m", tools=[add], retry=retry)


def script() -> list[Any]:
    """Think, call, break off in the middle of an answer, and answer again."""
    thinking = calls("add", a=1, b=2)
    thinking["choices"][0]["message"]["reasoning_content"] = "I should add them."
    answer = says("It is three, and that was all.")
    half = len(streams(answer).body) // 2
    return [streams(thinking, 40), streams(answer, 40, after=half), streams(answer, 40)]


def test_the_main_door_lists_what_has_not_been_loaded_yet() -> None:
    assert dir(surecall) == surecall.__all__


def test_the_door_has_what_it_promises_and_nothing_else() -> None:
    # What pytest adds to modules of a plugin's package is no name that one could write.
    names = filter(str.isidentifier, vars(surecall.streaming))
    public = {name for name in names if not name.startswith("_")}

    assert public == set(surecall.streaming.__all__)
    assert sorted(surecall.streaming.__all__) == surecall.streaming.__all__


def test_what_comes_by_can_be_told_apart_by_the_names_of_the_door() -> None:
    stream = runner_of(*script()).stream_sync("1 + 2?")
    assert isinstance(stream, BlockingRunStream)

    thought, called, text, withdrawn = "", list[str](), "", ""
    for event in stream:
        match event:
            case ReasoningDelta(piece):
                thought += piece
            case CallAnnounced(_, name):
                called.append(name)
            case TextDelta(piece):
                text += piece
            case TextWithdrawn(back):
                text, withdrawn = text.removesuffix(back), back
            case _:  # the events of the trace
                assert event.run_id

    assert (thought, called) == ("I should add them.", ["add"])
    assert withdrawn
    assert text.startswith(withdrawn)
    assert stream.result.assistant_text == text


def test_the_stream_of_a_program_with_an_event_loop_is_of_the_door_too() -> None:
    async def main() -> str:
        stream = runner_of(streams(says("Hello."), 9)).stream("Hi!")
        assert isinstance(stream, RunStream)
        return "".join([event.text async for event in stream if isinstance(event, TextDelta)])

    assert asyncio.run(main()) == "Hello."
