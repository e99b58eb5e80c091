"""Typed answers through the runner: the type reads them, the application is asked after it."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, field_validator

from surecall import (
    ConfigError,
    Contract,
    Decision,
    ErrorCode,
    Run,
    RunFailed,
    RunResult,
    TextDelta,
    TextWithdrawn,
    ToolCallingConfig,
    ToolLoopRunner,
    presets,
    replay,
    run_of,
)
from surecall.core.outcome import RequestFailed
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import REMIND
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, calls, failure, says, streams
from surecall.values.events import FinalEvent, FinalObjectedEvent, RunStartEvent
from surecall.values.trace import Trace
from surecall.values.types import ToolCall, ToolSpec


@dataclass
class Weather:
    """A forecast."""

    city: str
    days: int


class Even(BaseModel):
    """A number that only its class can judge."""

    n: int

    @field_validator("n")
    @classmethod
    def check(cls, n: int) -> int:
        """Take even numbers."""
        if n == 13:
            raise KeyError("unlucky")
        if n % 2:
            raise ValueError("it must be even")
        return n


class Stubborn(msgspec.Struct):
    """A class whose errors cannot even be told."""

    n: int

    def __post_init__(self) -> None:
        """Refuse everything, without a word."""
        raise ValueError


def get(key: str = "a") -> str:
    """Read."""
    return key


PARIS = says('{"city": "Paris", "days": 2}')


def runner_of(
    model: ScriptedModel, output: Any, config: ToolCallingConfig | None = None, **settings: Any
) -> ToolLoopRunner[Any]:
    return ToolLoopRunner(
        client=model,
        model="m",
        tools=[get],
        output=output,
        config=config or presets.default_tool_calling(),
        **settings,
    )


def ran(output: Any, *script: Item, **settings: Any) -> tuple[RunResult[Any], ScriptedModel]:
    model = ScriptedModel(*script)
    result = asyncio.run(runner_of(model, output, **settings).run("Go."))
    assert replay(result.trace).run == result.run
    return result, model


def fails(output: Any, *script: Item, **settings: Any) -> RunFailed:
    with pytest.raises(RunFailed) as failed:
        ran(output, *script, **settings)
    result = failed.value.result
    assert result.output is None
    assert replay(result.trace).run == result.run
    return failed.value


def objections(trace: Trace) -> list[tuple[str, str]]:
    found = (event for event in trace if isinstance(event, FinalObjectedEvent))
    return [(event.by, event.reason) for event in found]


@pytest.mark.parametrize("protocol", ["native", "guided", "prompted"])
def test_an_answer_after_calls_is_a_value_of_its_type(protocol: str) -> None:
    script = {
        "native": (calls("get"), PARIS),
        "guided": (
            says('{"tool": "get", "arguments": {}}'),
            says('{"answer": {"city": "Paris", "days": 2}}'),
        ),
        "prompted": (says('<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call>'), PARIS),
    }[protocol]
    config = presets.default_tool_calling().replace(call_protocol=protocol)
    result, model = ran(Weather, *script, config=config)

    assert result.output == Weather("Paris", 2)
    assert [item.name for item in result.run.results] == ["get"]
    assert len(model.requests) == 2


def test_an_answer_that_does_not_fit_is_told_why_and_the_next_may_count() -> None:
    result, model = ran(Weather, says("Two days in Paris."), PARIS)

    assert result.output == Weather("Paris", 2)
    near = "it is not one JSON value with nothing around it (near `Two days in Paris.`)"
    assert objections(result.trace) == [("schema", near)]
    assert near in model.requests[1]["messages"][-1]["content"]
    assert f"answer not accepted: {near[:50]}" in str(result.trace)


def test_repairs_of_an_answer_are_named() -> None:
    result, _ = ran(Weather, says('```json\n{"city": "Paris", "days": "2"}\n```'))

    assert result.output == Weather("Paris", 2)
    assert result.repairs == ("code_fence", "number_from_text")
    assert [event.repairs for event in result.trace if isinstance(event, FinalEvent)] == [
        ("code_fence", "number_from_text")
    ]


def test_a_model_that_refuses_fails_the_run_and_its_words_are_kept() -> None:
    failed = fails(Weather, *[says("I cannot do that.")] * 4)

    assert failed.code is ErrorCode.OUTPUT_INVALID
    assert failed.result.assistant_text == "I cannot do that."
    assert not isinstance(failed, RequestFailed)


def test_what_only_the_type_knows_is_told_and_recorded() -> None:
    result, model = ran(Even, says('{"n": 1}'), says('{"n": 2}'))

    assert result.output == Even(n=2)
    assert objections(result.trace) == [("type", "n: Value error, it must be even")]
    assert "it must be even" in model.requests[1]["messages"][-1]["content"]


def test_a_type_that_is_never_content_ends_the_run_with_the_same_code() -> None:
    failed = fails(Even, *[says('{"n": 1}')] * 4)

    assert failed.code is ErrorCode.OUTPUT_INVALID
    assert type(failed) is RunFailed
    assert len(objections(failed.result.trace)) == 4


def test_in_the_last_turn_the_type_fails_the_run_instead_of_the_limit() -> None:
    failed = fails(Even, says('{"n": 1}'), config=raw(max_turns=1))

    assert failed.code is ErrorCode.OUTPUT_INVALID


def test_a_type_that_says_nothing_is_spoken_for() -> None:
    failed = fails(Stubborn, *[says('{"n": 1}')] * 4)

    assert objections(failed.result.trace)[0] == ("type", "its type does not accept it")


def test_a_type_that_breaks_ends_the_run_with_a_name() -> None:
    failed = fails(Even, says('{"n": 13}'))

    assert failed.code is ErrorCode.POLICY_ERROR
    assert "the output type raised KeyError" in str(failed)


def test_the_application_is_asked_about_the_value_after_its_type() -> None:
    seen: list[Any] = []

    def prefer_four(result: RunResult[Any]) -> str | None:
        seen.append(result.output)
        return None if result.output == Even(n=4) else "It must be four."

    script = (says('{"n": 1}'), says('{"n": 2}'), says('{"n": 4}'))
    config = raw(final_ladder=(REMIND,))
    result, _ = ran(Even, *script, accept_final=prefer_four, config=config)

    assert seen == [Even(n=2), Even(n=4)]
    assert result.output == Even(n=4)
    assert [by for by, _ in objections(result.trace)] == ["type", "application"]


def test_a_contract_comes_before_the_type() -> None:
    config = presets.default_tool_calling().replace(contract=Contract(all_of=["get"]))
    script = (PARIS, calls("get"), PARIS)
    result, model = ran(
        Weather, *script, config=config, capabilities=Capabilities(json_schema=True)
    )

    assert (result.output, result.false_finals) == (Weather("Paris", 2), 1)
    assert ["response_format" in request for request in model.requests] == [False, False, True]


def test_a_known_provider_is_asked_to_bind_the_answer_and_words_follow_a_refusal() -> None:
    refusal = failure(400, {"error": {"message": "'response_format' is not supported"}})
    model = ScriptedModel(refusal, PARIS, PARIS)
    runner = ToolLoopRunner(
        client=model, model="m", output=Weather, capabilities=Capabilities(json_schema=True)
    )
    first, second = runner.run_sync("Go."), runner.run_sync("Go.")
    runner.close()

    assert first.output == second.output == Weather("Paris", 2)
    assert ["response_format" in request for request in model.requests] == [True, False, False]
    words = [request["messages"][0]["content"] for request in model.requests]
    assert words[0] == "Go."
    assert words[1] == words[2]
    assert "as JSON of this schema" in words[1]
    for result in (first, second):
        assert replay(result.trace).run == result.run


def test_the_address_tells_whether_an_answer_can_be_bound() -> None:
    def bound(address: str) -> bool:
        runner = ToolLoopRunner(client=address, model="m", output=Weather)
        # The client is never used: the run is only made.
        stream = runner.stream("Go.")
        assert stream.run.output is not None
        return stream.run.output.bound

    async def both() -> list[bool]:
        return [bound("https://api.openai.com"), bound("http://127.0.0.1:8000")]

    assert asyncio.run(both()) == [True, False]


def test_a_long_answer_is_read_beside_the_event_loop_and_only_once() -> None:
    threads: list[str] = []

    class Watched(msgspec.Struct):
        """A class that notes where it is made."""

        n: list[int]

        def __post_init__(self) -> None:
            threads.append(threading.current_thread().name)

    long = says(msgspec.json.encode({"n": [1] * 50_000}).decode())
    result, _ = ran(Watched, long)
    short, _ = ran(Watched, says('{"n": [1]}'))

    assert result.output.n == [1] * 50_000
    assert short.output.n == [1]
    assert [name == threading.main_thread().name for name in threads] == [False, True]


# Streamed


def shown(events: Iterator[Any]) -> str:
    """Return what somebody who watches has before them in the end."""
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, TextWithdrawn):
            text = ""
    return text


@pytest.mark.parametrize("protocol", ["native", "guided"])
def test_a_stream_has_the_value_and_shows_no_answer_that_does_not_count(protocol: str) -> None:
    texts = ['"Paris"', '{"city": "Paris", "days": 2}']
    if protocol == "guided":
        texts = [f'{{"answer": {text}}}' for text in texts]
    model = ScriptedModel(*(streams(says(text), piece_bytes=7) for text in texts))
    config = presets.default_tool_calling().replace(call_protocol=protocol)
    runner = runner_of(model, Weather, config=config)
    stream = runner.stream_sync("Go.")
    events = list(stream)
    text = shown(iter(events))
    runner.close()

    assert stream.result.output == Weather("Paris", 2)
    assert sum(isinstance(event, TextWithdrawn) for event in events) == 1
    assert text == stream.result.assistant_text
    assert msgspec.json.decode(text) == {"city": "Paris", "days": 2}


# Resumed and replayed


def test_a_run_is_resumed_elsewhere_with_its_type() -> None:
    first, _ = ran(Weather, says("Hm."), PARIS)
    cut = Trace(first.trace.events[:4])
    written = Run.from_json(run_of(cut).to_json())
    assert written.turn_count == 1

    other = runner_of(ScriptedModel(PARIS), Weather)
    assert asyncio.run(other.resume(written)).output == Weather("Paris", 2)


def test_a_run_that_waits_for_a_person_has_no_output_before_it_goes_on() -> None:
    class Ask:
        """A policy that leaves every call to somebody else."""

        def visible(self, tool: ToolSpec, context: object) -> bool:
            del tool, context
            return True

        def authorize(self, call: ToolCall, context: object) -> Decision:
            del call, context
            return Decision.confirm("May it?")

    first, _ = ran(Weather, calls("get"), tool_policy=Ask())
    assert (first.output, first.stop_reason) == (None, "waiting")

    runner = runner_of(ScriptedModel(says("Hm."), PARIS), Weather, tool_policy=Ask())
    decisions = {call.id: Decision.approve() for call in first.waiting}
    result = asyncio.run(runner.resume(Run.from_json(first.run.to_json()), decisions=decisions))
    assert result.output == Weather("Paris", 2)
    assert replay(result.trace).run == result.run


def test_a_runner_without_a_type_keeps_the_schema_of_a_run_and_returns_plain_data() -> None:
    failed = fails(Weather, says("Hm."), failure(401))
    other = runner_of(ScriptedModel(says("Hm."), PARIS), None)
    result = asyncio.run(other.resume(failed.result.run))

    assert result.output == {"city": "Paris", "days": 2}


def test_a_runner_with_another_type_asks_for_its_own() -> None:
    failed = fails(Weather, says("Hm."), failure(401))
    other = runner_of(ScriptedModel(says("[1]")), list[int])

    assert asyncio.run(other.resume(failed.result.run)).output == [1]


def test_a_replay_knows_the_schema_and_has_plain_data() -> None:
    result, _ = ran(Weather, PARIS)
    start = result.trace[0]

    assert isinstance(start, RunStartEvent)
    assert start.output == result.run.output
    assert replay(result.trace).output == {"city": "Paris", "days": 2}


def test_without_a_type_there_is_no_output() -> None:
    result, model = ran(None, says("Hello."))

    assert (result.output, result.run.output) == (None, None)
    assert model.requests[0]["messages"] == [{"role": "user", "content": "Go."}]


def test_a_word_of_several_may_come_without_quotation_marks() -> None:
    result, _ = ran(Literal["yes", "no"], says("yes"))

    assert result.output == "yes"


@pytest.mark.parametrize("output", [5, "Weather", Weather("Paris", 1), {"type": "nope"}])
def test_what_is_no_type_is_refused_before_anything_is_sent(output: Any) -> None:
    with pytest.raises(ConfigError):
        runner_of(ScriptedModel(), output)
