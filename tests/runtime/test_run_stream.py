"""Tests of `surecall.runtime.run_stream`."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surecall import (
    BlockingRunStream,
    Capabilities,
    ConfigError,
    ErrorCode,
    OpenAICompatible,
    Plan,
    PromptRunner,
    RetryPolicy,
    RunFailed,
    SurecallError,
    ToolLoopRunner,
    replay,
    run_of,
)
from surecall.core.streaming import CallAnnounced, TextWithdrawn
from surecall.runtime.run_stream import LiveEvent, RunStream
from surecall.runtime.transport import Incoming
from surecall.settings.presets import raw
from surecall.testing import (
    Scripted,
    ScriptedModel,
    ScriptedProvider,
    calls,
    calls_many,
    cuts,
    failure,
    hangs,
    says,
    streams,
)
from surecall.testing import raw as raw_reply
from surecall.values.events import (
    BaseEvent,
    FinalEvent,
    LlmRequestRetryEvent,
    RunFailedEvent,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import ToolResult, User
from surecall.wire.assembler import ReasoningDelta, TextDelta
from tests.support.replies import RECORDED, recorded
from tests.support.scripted_runs import HEALING, PIECE, runner_of, script, shown, watched
from tests.support.spec import proves
from tests.support.timing import never

# Tests of `surecall.runtime.run_stream`


# Watching a run: whoever leaves ends it, at once and without losing what is done


def test_a_failed_run_raises_after_its_last_event() -> None:
    stream = runner_of(ScriptedModel(failure(401))).stream_sync("1 + 2?")
    seen: list[LiveEvent] = []

    with pytest.raises(RunFailed):
        deque(map(seen.append, stream), maxlen=0)
    assert isinstance(seen[-1], RunFailedEvent)
    with pytest.raises(RunFailed):
        _ = stream.result


def test_a_mistake_in_the_call_is_told_before_anything_begins() -> None:
    with pytest.raises(ConfigError):
        runner_of(ScriptedModel()).stream("")


def test_a_result_is_not_there_before_the_end() -> None:
    stream = runner_of(ScriptedModel(says("3"))).stream_sync("1 + 2?")

    with pytest.raises(SurecallError):
        _ = stream.result
    with stream:
        assert stream.run.turn_count == 0
    with pytest.raises(SurecallError):
        _ = stream.result


class _Stalling:
    """A client that counts the answers being read, and never comes to the end of a long one."""

    def __init__(self, model: ScriptedModel, longest: int) -> None:
        self._model = model
        self._longest = longest
        self.open = 0
        self.send = model.send
        self.opened = model.opened

    @asynccontextmanager
    async def stream(self, body: bytes) -> Any:
        self.open += 1
        try:
            async with self._model.stream(body) as incoming:
                chunks = self._chunks(incoming)
                yield Incoming(incoming.status, incoming.headers, chunks)
        finally:
            self.open -= 1

    async def _chunks(self, incoming: Incoming) -> Any:
        sent = 0
        async for chunk in incoming.chunks:
            sent += len(chunk)
            if sent > self._longest:
                await never()
            yield chunk


async def left(stream: RunStream, leaving: str) -> None:
    """Watch until there is text, and leave in one of three ways."""
    has_text = asyncio.Event()

    async def watch() -> None:
        async for event in stream:
            if isinstance(event, TextDelta):
                has_text.set()
                if leaving == "break":
                    break

    task = asyncio.create_task(watch())
    await has_text.wait()
    if leaving == "cancel":
        task.cancel()
    if leaving == "aclose":
        await stream.aclose()
    await asyncio.gather(task, return_exceptions=True)
    # A loop that was left is closed by the event loop, a few turns later.
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("leaving", ["break", "cancel", "aclose"])
def test_whoever_leaves_ends_the_run_closes_its_connection_and_can_go_on_later(
    leaving: str,
) -> None:
    long = says("A long answer of many words. " * 40)
    client = _Stalling(ScriptedModel(*script(calls("add", a=1, b=2), long)), longest=3000)
    stream = runner_of(client).stream("1 + 2?")
    asyncio.run(left(stream, leaving))

    assert client.open == 0
    assert isinstance(stream.run.last_message, ToolResult)
    resumed = runner_of(ScriptedModel(says("3")))
    assert resumed.resume_sync(stream.run).assistant_text == "3"


def test_a_stopped_run_can_be_continued_as_a_stream() -> None:
    model = ScriptedModel(calls("add", a=1, b=2), failure(401))
    with pytest.raises(RunFailed) as failed:
        runner_of(model).run_sync("1 + 2?")

    async def watch() -> str:
        stream = runner_of(ScriptedModel(*script(says("3")))).stream_resumed(
            failed.value.result.run
        )
        async with stream:
            return shown([event async for event in stream])

    assert asyncio.run(watch()) == "3"


def test_leaving_a_blocking_stream_ends_the_run() -> None:
    client = _Stalling(ScriptedModel(*script(says("A long answer. " * 99))), longest=3000)
    runner = runner_of(client)
    for event in runner.stream_sync("1 + 2?"):
        if isinstance(event, TextDelta):
            break

    assert client.open == 0


@pytest.mark.usefixtures("virtual")
def test_a_server_that_stays_silent_in_mid_stream_runs_into_the_deadline() -> None:
    client = _Stalling(ScriptedModel(*script(says("A long answer. " * 99))), longest=3000)
    config = raw(run_deadline_s=0.2)
    events = watched(client, config=config)

    assert isinstance(events[-1], RunFailedEvent)
    assert events[-1].code == ErrorCode.DEADLINE_EXCEEDED
    assert client.open == 0


# Streamed runs: the text as it comes, calls only when the stream ended well, nothing doubled


@proves("C109")
def test_text_is_shown_as_it_comes_and_the_result_is_that_of_a_plain_run() -> None:
    replies = (calls("add", a=1, b=2), says("The sum of both numbers is three."))
    with ScriptedProvider(*script(*replies)) as provider:
        events = watched(OpenAICompatible(provider.url))
    plain = runner_of(ScriptedModel(*replies)).run_sync("1 + 2?")

    assert shown(events) == plain.assistant_text
    assert isinstance(events[-1], FinalEvent)
    assert [request["stream"] for request in provider.requests] == [True, True]
    assert events[-1].usage.total_tokens == 4


def test_text_is_shown_before_all_of_it_is_there() -> None:
    events = watched(ScriptedModel(*script(says("The sum of both numbers is three."))))

    assert sum(isinstance(event, TextDelta) for event in events) > 1


def test_events_come_in_the_order_in_which_things_happen() -> None:
    events = watched(ScriptedModel(*script(calls("add", a=1, b=2), says("3"))))
    order = [type(event).__name__ for event in events]

    assert (
        order.index("CallAnnounced")
        < order.index("ToolCallStartEvent")
        < order.index("ToolCallEndEvent")
    )
    assert order.index("ToolCallEndEvent") < order.index("TextDelta") < order.index("FinalEvent")
    assert isinstance(events[0], RunStartEvent)


@pytest.mark.slow
@proves("C112")
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_stream_gives_one_trace_however_it_is_cut(name: str) -> None:
    stream, _ = recorded(name)
    generator = random.Random(name)  # noqa: S311  # no secret
    sizes = [1, len(stream), *(generator.randint(2, 64) for _ in range(4))]

    def digest(piece_bytes: int) -> str:
        said = Scripted(body=stream, piece_bytes=piece_bytes)
        model = ScriptedModel(said, says("Done."), says("Done."), says("Done."))
        events = watched(model, retry=RetryPolicy(attempts=1))
        return Trace(tuple(event for event in events if isinstance(event, BaseEvent))).digest

    assert len(set(map(digest, sizes))) == 1


@pytest.mark.parametrize(
    "reply",
    [
        says("Hello there."),
        says("  Spaces   stay.  \n"),
        calls("add", a=1, b=2),
        calls_many(calls("add", a=1, b=2), calls("add", a=3, b=4)),
        says('<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'),
        says("<think>hm</think>\n\nThree."),
        says("Three.", reasoning_content="One and two."),
        says("cut", finish_reason="length"),
        says(""),
    ],
)
def test_streamed_and_plain_forms_of_a_reply_give_equal_runs(reply: Any) -> None:
    rest = [says("3")] * 3
    config = HEALING.replace(request_overrides={"parallel_tool_calls": True})
    plain = runner_of(ScriptedModel(reply, *rest), config=config)
    streamed = runner_of(ScriptedModel(*script(reply, *rest)), config=config)

    def messages(run: Callable[[], Any]) -> Any:
        try:
            result = run()
        except RunFailed as failed:
            result = failed.result
        return [
            item if not isinstance(item, ToolResult) else (item.call_id, item.content)
            for item in result.run.messages
        ]

    def watch() -> Any:
        stream = streamed.stream_sync("1 + 2?")
        list(stream)
        return stream.result

    assert messages(watch) == messages(lambda: plain.run_sync("1 + 2?"))


def test_a_call_written_as_text_is_never_shown() -> None:
    text = 'Let me see.\n<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    events = watched(ScriptedModel(*script(says(text), says("3"), piece_bytes=1)))

    assert shown(events) == "Let me see.3"
    assert not any(isinstance(event, TextWithdrawn) for event in events)
    assert CallAnnounced(0, "add") in events
    assert any(isinstance(event, ToolCallEndEvent) and event.ok for event in events)


def test_thoughts_inside_the_text_are_shown_as_thoughts() -> None:
    text = "<think>One and two make three, I suppose, as always.</think>\n\nThree."
    events = watched(ScriptedModel(*script(says(text), piece_bytes=3)), registry=[])

    assert shown(events) == "Three."
    thoughts = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    assert thoughts == "One and two make three, I suppose, as always."


def test_thoughts_that_turn_out_to_be_such_only_at_their_end_are_withdrawn() -> None:
    text = "One and two make three.\n</think>\n\nThree."
    events = watched(ScriptedModel(*script(says(text), piece_bytes=3)), registry=[])

    assert shown(events) == "Three."
    assert sum(isinstance(event, TextWithdrawn) for event in events) == 1


def test_text_of_a_stream_that_broke_is_withdrawn_and_nothing_runs_from_it() -> None:
    broken = streams(calls_many(calls("add", a=1, b=2)), PIECE)
    cut = Scripted(body=broken.body, sent=len(broken.body) - 120, piece_bytes=PIECE)
    text = streams(says("I would say that it is"), PIECE)
    cut_text = Scripted(body=text.body, sent=len(text.body) - 150, piece_bytes=PIECE)
    with ScriptedProvider(cut, cut_text, *script(says("3"))) as provider:
        events = watched(OpenAICompatible(provider.url))

    assert shown(events) == "3"
    assert sum(isinstance(event, TextWithdrawn) for event in events) == 1
    assert sum(isinstance(event, LlmRequestRetryEvent) for event in events) == 2
    assert not any(isinstance(event, ToolCallStartEvent) for event in events)


def test_a_stream_that_ends_without_its_last_event_is_asked_for_again() -> None:
    whole = streams(says("Three."), PIECE).body
    body = whole[: whole.index(b'"stop"') - 100]
    model = ScriptedModel(raw_reply(body), *script(says("3")))

    assert shown(watched(model)) == "3"


def test_a_broken_stream_that_stays_broken_fails_the_run_and_takes_its_text_back() -> None:
    text = streams(says("I would say that it is"), PIECE)
    broken = Scripted(body=text.body, sent=len(text.body) - 150, piece_bytes=PIECE)
    events = watched(ScriptedModel(broken, broken, broken))

    assert shown(events) == ""
    assert isinstance(events[-1], RunFailedEvent)
    assert events[-1].code == ErrorCode.CONNECTION_ERROR


def test_an_endpoint_that_ignores_the_wish_to_stream_is_read_as_it_answers() -> None:
    events = watched(ScriptedModel(calls("add", a=1, b=2), says("3")))

    assert shown(events) == "3"


@proves("C112")
@pytest.mark.parametrize(
    ("refusal", "dropped"),
    [
        ("Unrecognized request argument supplied: stream_options", {"stream_options"}),
        ("Streaming is not supported for this model", {"stream", "stream_options"}),
        ("stream: extra fields not permitted", {"stream", "stream_options"}),
    ],
)
def test_an_endpoint_that_refuses_streaming_is_asked_without_it_once(
    refusal: str, dropped: set[str]
) -> None:
    model = ScriptedModel(
        failure(400, {"error": {"message": refusal}}), calls("add", a=1, b=2), says("3")
    )
    events = watched(model)

    first, *others = model.requests
    assert shown(events) == "3"
    assert all(first.keys() - request.keys() == dropped for request in others)


def test_an_error_about_something_upstream_is_no_reason_to_stop_streaming() -> None:
    model = ScriptedModel(failure(400, {"error": {"message": "the upstream said no"}}))
    watched(model)

    assert len(model.requests) == 1


def test_an_endpoint_known_not_to_stream_is_never_asked_to() -> None:
    model = ScriptedModel(says("3"))
    watched(model, capabilities=Capabilities(streaming=False))

    assert "stream" not in model.requests[0]


def test_a_client_that_cannot_stream_shows_its_text_at_once() -> None:
    class Plain:
        def __init__(self, model: ScriptedModel) -> None:
            self.send: Callable[[bytes], Any] = model.send
            self.opened = model.opened

    assert shown(watched(Plain(ScriptedModel(says("3"))))) == "3"


def test_a_streamed_run_is_replayed_and_read_back_like_any_other() -> None:
    stream = runner_of(
        ScriptedModel(
            failure(400, {"error": {"message": "no stream_options here"}}),
            *script(calls("add", a=1, b=2), says("3")),
        )
    ).stream_sync("1 + 2?")
    list(stream)

    assert replay(stream.result.trace).run == stream.result.run
    assert run_of(stream.result.trace) == stream.result.run


def test_the_connection_of_one_turn_serves_the_next() -> None:
    with ScriptedProvider(*script(calls("add", a=1, b=2), says("3"))) as provider:
        client = OpenAICompatible(provider.url)

        async def connections() -> int:
            async with client:
                async for _ in runner_of(client).stream("1 + 2?"):
                    pass
                connector = client._current_session().session.connector
                assert connector is not None
                return sum(len(idle) for idle in connector._conns.values())

        assert asyncio.run(connections()) == 1


@proves("C108")
def test_a_single_request_is_streamed_without_a_loop() -> None:
    pieces: list[str] = []

    def show(event: object) -> None:
        assert isinstance(event, TextDelta)
        pieces.append(event.text)

    runner = PromptRunner(ScriptedModel(streams(says("Hello there, world."), PIECE)))
    exchange = asyncio.run(runner.ask(Plan("m", (User("Hi"),)), show=show))

    assert "".join(pieces) == exchange.reply.text == "Hello there, world."
    assert exchange.reply.finish_reason == "stop"
    assert exchange.reply.usage is not None
    assert exchange.streamed


def test_a_key_that_a_stream_echoes_does_not_reach_the_trace() -> None:
    key = "sk-very-secret-key-1234567890"
    with ScriptedProvider(*script(says(f"Your key is {key}."))) as provider:
        events = watched(OpenAICompatible(provider.url, key), registry=[])

    ended = next(event for event in events if isinstance(event, FinalEvent))
    assert key not in ended.text


def test_a_script_can_be_cut_and_can_keep_one_waiting() -> None:
    model = ScriptedModel(cuts(says("never"), 10), hangs(0.001), *script(says("3")))

    assert shown(watched(model)) == "3"


# A stream yields every event type that the package exports


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def runner_with_events(*script: Any) -> ToolLoopRunner:
    retry = RetryPolicy(first_wait_s=0.0)
    return ToolLoopRunner(client=ScriptedModel(*script), model="m", tools=[add], retry=retry)


def script_of_events() -> list[Any]:
    """Think, call, break off in the middle of an answer, and answer again."""
    thinking = calls("add", a=1, b=2)
    thinking["choices"][0]["message"]["reasoning_content"] = "I should add them."
    answer = says("It is three, and that was all.")
    half = len(streams(answer).body) // 2
    return [streams(thinking, 40), streams(answer, 40, after=half), streams(answer, 40)]


def test_events_are_told_apart_by_their_public_types() -> None:
    stream = runner_with_events(*script_of_events()).stream_sync("1 + 2?")
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


def test_an_async_program_gets_a_run_stream() -> None:
    async def main() -> str:
        stream = runner_with_events(streams(says("Hello."), 9)).stream("Hi!")
        assert isinstance(stream, RunStream)
        return "".join([event.text async for event in stream if isinstance(event, TextDelta)])

    assert asyncio.run(main()) == "Hello."
