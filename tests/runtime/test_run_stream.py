"""Watching a run: whoever leaves ends it, at once and without losing what is done."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surecall import (
    ConfigError,
    ErrorCode,
    RunFailed,
    SurecallError,
)
from surecall.runtime.run_stream import LiveEvent, RunStream
from surecall.runtime.transport import Incoming
from surecall.settings.presets import raw
from surecall.testing import (
    ScriptedModel,
    calls,
    failure,
    says,
)
from surecall.values.events import (
    RunFailedEvent,
)
from surecall.values.types import ToolResult
from surecall.wire.assembler import TextDelta
from tests.support.patience import never
from tests.support.watching import runner_of, script, shown, watched


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
        assert stream.run.turn == 0
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
    assert isinstance(stream.run.last, ToolResult)
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
