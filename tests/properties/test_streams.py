"""Streamed and parallel runs under attack, and malformed errors inside streams."""

import asyncio
import json
import threading
from typing import Any

import pytest

from surecall import (
    Decision,
    ErrorCode,
    RetryPolicy,
    Run,
    RunFailed,
    SurecallError,
    ToolLoopRunner,
    tool,
)
from surecall.core.streaming import CallAnnounced, TextWithdrawn
from surecall.runtime.event_loop import EventLoopClosed
from surecall.runtime.run_stream import LiveEvent
from surecall.testing import Scripted, ScriptedModel, calls, calls_many, failure, says, streams
from surecall.values.events import RunFailedEvent, ToolCallEndEvent, ToolCallStartEvent
from surecall.wire.assembler import ReasoningDelta, TextDelta
from tests.support.scripted_runs import QUICK, runner_of, shown, watched
from tests.support.timing import PATIENCE_S, never, until

# Attacks on streamed and parallel runs that once succeeded


DONE = "data: [DONE]\n\n"
PARALLEL = {"request_overrides": {"parallel_tool_calls": True}}


def event(delta: Any, finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


def fragment(arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | more.pop("function", {})
    return {"tool_calls": [{"index": 0, "function": function} | more]}


def played(*bodies: Any) -> ScriptedModel:
    script = [Scripted(body=item.encode()) if isinstance(item, str) else item for item in bodies]
    return ScriptedModel(*script)


@pytest.mark.parametrize("broken", ["torn", "page", "deep"])
def test_a_call_with_an_unreadable_event_inside_never_runs(broken: str) -> None:
    paid: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    lost = event(fragment("00"))
    bad = {
        "torn": lost[: len(lost) // 2] + "\n\n",
        "page": "data: <html>502</html>\n\n",
        "deep": f"data: {'[' * 100_000}\n\n",
    }
    body = event(fragment("", id="c1", function={"name": "pay"})) + event(fragment('{"amount": 1'))
    body += bad[broken] + event(fragment("}")) + event({}, "tool_calls") + DONE
    events = watched(played(body, says("fine")), registry=[pay])

    assert (paid, shown(events)) == ([], "fine")


def test_a_call_whose_arguments_never_came_does_not_run() -> None:
    wiped: list[str] = []

    @tool
    def wipe(path: str = "/") -> str:
        """Wipe."""
        wiped.append(path)
        return "wiped"

    body = event(fragment("", id="c1", function={"name": "wipe"})) + DONE
    events = watched(played(body, says("fine")), registry=[wipe])

    assert (wiped, shown(events)) == ([], "fine")


@pytest.mark.parametrize("streamed", ['{"city":"P"}', '{"city":'])
def test_a_closing_message_that_repeats_a_call_does_not_make_it_twice(streamed: str) -> None:
    asked: list[str] = []

    @tool
    def weather(city: str) -> str:
        """Weather."""
        asked.append(city)
        return "clear"

    def call(arguments: str) -> list[Any]:
        return [{"type": "function", "function": {"name": "weather", "arguments": arguments}}]

    message = {"role": "assistant", "content": None, "tool_calls": call('{"city": "P"}')}
    whole = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    body = event({"tool_calls": call(streamed)}) + f"data: {json.dumps(whole)}\n\n" + DONE
    watched(played(body, says("fine")), registry=[weather])

    assert asked == ["P"]


@pytest.mark.parametrize("mode", ["off", "marked", "any"])
@pytest.mark.parametrize("block", ["<think>\n\n</think>\n\n", "<think></think>", "[THINK][/THINK]"])
def test_an_empty_block_of_thoughts_is_no_part_of_the_answer(mode: str, block: str) -> None:
    model = ScriptedModel(streams(says(f"{block}The sum is 3."), piece_bytes=7))
    events = watched(model, config={"text_calls": mode}, registry=[])

    assert shown(events) == "The sum is 3."
    assert not any(isinstance(event, TextWithdrawn) for event in events)


@pytest.mark.parametrize("bound", [1, 2])
def test_a_call_that_has_ended_is_not_made_again_after_a_break(bound: int) -> None:
    ran: list[int] = []

    async def step(n: int) -> str:
        """Take a step."""
        ran.append(n)
        if n > 1:
            await never()
        return "ok"

    async def leave() -> None:
        model = ScriptedModel(streams(calls_many(calls("step", n=1), calls("step", n=2))))
        config = PARALLEL | {"max_concurrent_tools": bound}
        stream = runner_of(model, config=config, registry=[step]).stream("go")
        async for happened in stream:
            if isinstance(happened, ToolCallEndEvent):
                break
        assert [item.call_id for item in stream.run.results] == ["call_1"]
        await stream.aclose()
        assert [item.call_id for item in stream.run.results] == ["call_1"]

    asyncio.run(leave())
    assert ran.count(1) == 1


def test_a_tool_that_takes_its_cancellation_for_something_else_is_the_last_to_run() -> None:
    ran: list[int] = []
    begun = asyncio.Event()

    async def slow(n: int) -> str:
        """Take long."""
        ran.append(n)
        begun.set()
        try:
            await never()
        except BaseException as error:
            raise RuntimeError("wrapped") from error
        return "never"

    async def leave() -> ScriptedModel:
        model = ScriptedModel(streams(calls_many(calls("slow", n=1), calls("slow", n=2))))
        async with runner_of(model, config={}, registry=[slow]).stream("go") as stream:
            async for happened in stream:
                if isinstance(happened, ToolCallStartEvent):
                    await begun.wait()
                    break
        assert (stream.run.results, len(stream.run.begun)) == ((), 1)
        return model

    model = asyncio.run(leave())
    assert (ran, len(model.requests)) == ([1], 1)


@pytest.mark.usefixtures("virtual")
def test_leaving_twice_lets_a_tool_leave_in_good_order() -> None:
    log: list[str] = []

    async def slow() -> str:
        """Take long."""
        try:
            await never()
        finally:
            log.append("begins")
            await asyncio.sleep(0.05)
            log.append("done")
        return "never"

    async def leave() -> None:
        model = ScriptedModel(streams(calls("slow")))
        async with runner_of(model, registry=[slow]).stream("go") as stream:
            async for happened in stream:
                if isinstance(happened, ToolCallStartEvent):
                    await asyncio.sleep(0.01)
                    break
        await stream.aclose()

    asyncio.run(leave())
    assert log == ["begins", "done"]


@pytest.mark.usefixtures("virtual")
def test_closing_a_stream_does_not_swallow_the_callers_own_cancellation() -> None:
    async def slow() -> str:
        """Take long, and take long to leave."""
        try:
            await never()
        finally:
            await asyncio.sleep(0.3)
        return "never"

    async def close() -> None:
        stream = runner_of(ScriptedModel(streams(calls("slow"))), registry=[slow]).stream("go")
        watching = aiter(stream)
        while not isinstance(await anext(watching), ToolCallStartEvent):
            pass
        await asyncio.sleep(0.01)
        async with asyncio.timeout(0.05):
            await stream.aclose()

    with pytest.raises(TimeoutError):
        asyncio.run(close())


def test_a_stream_that_was_closed_before_it_began_sends_nothing() -> None:
    async def close() -> list[LiveEvent]:
        stream = runner_of(ScriptedModel()).stream("go")
        await stream.aclose()
        return [happened async for happened in stream]

    assert asyncio.run(close()) == []


def test_a_failed_run_that_nobody_watched_to_its_end_is_no_noise() -> None:
    async def leave() -> None:
        stream = runner_of(ScriptedModel(failure(401))).stream("go")
        async for happened in stream:
            if isinstance(happened, RunFailedEvent):
                break
        await stream.aclose()

    asyncio.run(leave())


def test_a_policy_that_cancels_itself_is_an_error_of_the_policy() -> None:
    class Policy:
        def visible(self, *_: object) -> bool:
            return True

        async def authorize(self, *_: object) -> Decision:
            raise asyncio.CancelledError

    model = ScriptedModel(streams(calls("add", a=1, b=2)), streams(says("fine")))
    events = watched(model, tool_policy=Policy())

    (ended,) = [happened for happened in events if isinstance(happened, ToolCallEndEvent)]
    assert ended.error_codes == (ErrorCode.TOOL_POLICY_ERROR,)


@pytest.mark.usefixtures("virtual")
def test_a_policy_and_a_tool_share_the_time_that_is_left() -> None:
    class Policy:
        def visible(self, *_: object) -> bool:
            return True

        async def authorize(self, *_: object) -> Decision:
            await asyncio.sleep(0.4)
            return Decision("allow")

    async def slow() -> None:
        """Take long."""
        await never()

    model = ScriptedModel(streams(calls("slow")))
    events = watched(model, tool_policy=Policy(), registry=[slow], config={"run_deadline_s": 2.0})

    assert isinstance(events[-1], RunFailedEvent)
    assert events[-1].code == ErrorCode.DEADLINE_EXCEEDED
    (ended,) = [happened for happened in events if isinstance(happened, ToolCallEndEvent)]
    assert ended.elapsed_ms == 2_000


def test_an_error_in_mid_stream_teaches_nothing_about_the_request() -> None:
    error = {"error": {"code": 400, "message": "upstream closed the stream: bad request"}}
    body = event({"content": "I"}) + f"data: {json.dumps(error)}\n\n"
    model = played(body, streams(says("fine")))
    watched(model)
    watched(model)

    assert [request["stream"] for request in model.requests] == [True, True]


def test_half_a_character_beside_the_text_can_be_written_down() -> None:
    detail = {"type": "reasoning.encrypted", "data": "x\ud83d"}
    body = event({"content": "fine", "reasoning_details": [detail]}) + event({}, "stop") + DONE
    stream = runner_of(played(body)).stream_sync("go")
    list(stream)

    assert stream.result.run.to_json()
    assert stream.result.trace.digest


def test_thoughts_in_a_last_event_without_its_blank_line_are_shown() -> None:
    body = event({"content": "fine"}) + event({"reasoning_content": "so"}, "stop").rstrip()
    events = watched(played(body))

    assert ReasoningDelta("so") in events
    assert shown(events) == "fine"


def test_a_call_that_also_stands_in_the_text_is_not_shown() -> None:
    text = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    call = fragment('{"a": 1, "b": 2}', id="c1", function={"name": "add"})
    body = event({"content": f"Well. {text}"}) + event(call) + event({}, "tool_calls") + DONE
    events = watched(played(body, streams(says("3"))))

    assert shown(events) == "Well.3"
    assert sum(isinstance(happened, ToolCallEndEvent) for happened in events) == 1


def test_a_name_in_two_pieces_is_announced_when_it_is_whole() -> None:
    body = event(fragment("", id="c1", function={"name": "ad"}))
    body += event(fragment('{"a": 1, "b": 2}', function={"name": "d"}))
    events = watched(played(body + event({}, "tool_calls") + DONE, streams(says("3"))))

    assert [item for item in events if isinstance(item, CallAnnounced)] == [CallAnnounced(0, "add")]


@pytest.mark.usefixtures("virtual")
def test_text_that_was_shown_when_time_ran_out_is_withdrawn() -> None:
    class Slow:
        def __init__(self) -> None:
            self._model = played(event({"content": "The answer is "}) * 3)
            self.opened = self._model.opened
            self.send = self._model.send

        def stream(self, body: bytes) -> Any:
            return _Stuck(self._model.stream(body))

    events = watched(Slow(), config={"run_deadline_s": 0.3}, registry=[])

    assert any(isinstance(happened, TextDelta) for happened in events)
    assert shown(events) == ""


class _Stuck:
    """An answer that stops in the middle."""

    def __init__(self, opening: Any) -> None:
        self._opening = opening

    async def __aenter__(self) -> Any:
        incoming = await self._opening.__aenter__()

        async def chunks() -> Any:
            async for chunk in incoming.chunks:
                yield chunk
            await never()

        return incoming._replace(chunks=chunks())

    async def __aexit__(self, *error: object) -> Any:
        return await self._opening.__aexit__(*error)


def test_a_runner_that_is_closed_under_a_stream_ends_it() -> None:
    model = ScriptedModel(Scripted(wait=3600.0))
    runner = ToolLoopRunner(client=model, model="m", retry=QUICK)
    ended: list[BaseException] = []

    def watch() -> None:
        try:
            list(runner.stream_sync("go"))
        except BaseException as error:  # noqa: BLE001  # whatever it is, it must end
            ended.append(error)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    until(lambda: model.requests)
    runner.close()
    watching.join(PATIENCE_S)

    assert not watching.is_alive()
    assert ended


def test_a_stream_of_a_closed_runner_says_so() -> None:
    runner = runner_of(ScriptedModel(says("3")))
    stream = runner.stream_sync("go")
    runner.close()

    with pytest.raises(EventLoopClosed):
        list(stream)


def test_a_run_that_is_cancelled_from_inside_does_not_end_in_silence() -> None:
    async def watch() -> None:
        stream = runner_of(ScriptedModel(Scripted(wait=3600.0))).stream("go")
        watching = aiter(stream)
        await anext(watching)
        assert stream._task is not None
        stream._task.cancel()
        while True:
            await anext(watching)

    with pytest.raises(SurecallError):
        asyncio.run(watch())


# Errors inside of streams, bent in ways that would outlive the stream


@pytest.mark.parametrize(
    "error",
    [
        {"message": "\ud800 overloaded"},
        {"message": "no", "metadata": {"provider_name": "\udc00", "remedy_hint": "\ud83d"}},
        {"message": "no", "metadata": {"raw": "\ud800"}},
        "\ud800",
    ],
)
def test_half_a_character_in_an_error_does_not_make_a_run_unwritable(error: Any) -> None:
    body = f"data: {json.dumps({'error': error})}\n\ndata: [DONE]\n\n".encode()
    runner = ToolLoopRunner(
        client=ScriptedModel(Scripted(body=body)),
        model="m",
        config={},
        retry=RetryPolicy(attempts=1),
    )
    with pytest.raises(RunFailed) as failed, runner.stream_sync("Go.") as stream:
        list(stream)

    run = failed.value.result.run
    assert Run.from_json(run.to_json()) == run
