"""Runs that are cancelled, given up or never end: their spans end, and nothing of them stays."""

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import StatusCode, get_current_span

from surecall import (
    ToolLoopRunner,
)
from surecall.otel import OpenTelemetry, observer
from surecall.testing import (
    ScriptedModel,
    calls,
    says,
    streams,
)
from tests.support.patience import never, until_soon
from tests.support.spans import SCRIPT, Kept, left_in, runner_of, told
from tests.support.tools import add


def test_a_cancelled_run_ends_its_spans_and_leaves_nothing_behind(kept: Kept) -> None:
    async def wait() -> None:
        """Wait."""
        await never()

    async def cancelled() -> None:
        with kept.tracer.start_as_current_span("page") as page:
            task = asyncio.create_task(runner.run("go"))
            await until_soon(lambda: kept.names == ["chat m"])
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert get_current_span() is page

    runner = runner_of(kept, calls("wait"), tools=[wait])
    asyncio.run(cancelled())

    assert kept.drawn == ["page", "  invoke_agent", "    chat m", "    execute_tool wait"]
    for name in ("invoke_agent", "execute_tool wait"):
        assert told(kept[name])["error.type"] == "CancelledError"
        assert kept[name].status.status_code is StatusCode.ERROR
    assert left_in(runner) == []


def test_a_run_that_is_given_up_in_its_callers_own_task_gives_the_current_span_back(
    kept: Kept,
) -> None:
    async def wait() -> None:
        """Wait until somebody loses patience."""
        callers[0].cancel()
        await never()

    async def impatient() -> None:
        caller = asyncio.current_task()
        assert caller is not None
        callers.append(caller)
        with kept.tracer.start_as_current_span("page") as page:
            with pytest.raises(asyncio.CancelledError):
                await runner.run("go")
            caller.uncancel()
            assert get_current_span() is page

    callers: list[asyncio.Task[Any]] = []
    runner = runner_of(kept, calls("wait"), tools=[wait])
    asyncio.run(impatient())

    assert left_in(runner) == []


def test_a_stream_that_is_left_ends_its_spans(kept: Kept) -> None:
    runner = runner_of(kept, *map(streams, SCRIPT), tools=[add])
    with runner.stream_sync("1 + 2?") as stream:
        next(iter(stream))
    runner.close()

    assert "invoke_agent" in kept.names
    assert left_in(runner) == []


def test_an_error_of_the_program_itself_ends_the_spans(kept: Kept) -> None:
    runner = runner_of(kept)
    with pytest.raises(AssertionError):
        asyncio.run(runner.run("a request beyond the end of the script"))

    assert [told(span)["error.type"] for span in kept.spans] == ["AssertionError"] * 2
    assert left_in(runner) == []


def test_runs_that_are_told_by_hand_and_never_end_are_let_go(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "MOST_UNENDED", 2)
    tell = OpenTelemetry(kept.provider)
    for _ in range(5):
        runner = ToolLoopRunner(client=ScriptedModel(says("hi")), model="m")
        tell(asyncio.run(runner.run("hello")).trace[0])

    assert len(tell._runs) == 2
    assert kept.names == ["invoke_agent"] * 3


def test_a_run_that_begins_again_ends_what_was_told_of_it_before(kept: Kept) -> None:
    runner = ToolLoopRunner(client=ScriptedModel(says("hi")), model="m")
    trace = asyncio.run(runner.run("hello")).trace
    tell = OpenTelemetry(kept.provider)

    for event in (trace[0], trace[1], *trace):
        tell(event)

    assert kept.names == ["chat m", "invoke_agent", "chat m", "invoke_agent"]


def test_events_of_a_run_that_nobody_has_begun_say_nothing(kept: Kept) -> None:
    runner = ToolLoopRunner(client=ScriptedModel(*SCRIPT), model="m", tools=[add])
    tell = OpenTelemetry(kept.provider)
    for event in list(asyncio.run(runner.run("1 + 2?")).trace)[1:]:
        tell(event)

    assert kept.spans == ()
