"""Tests of `surecall.runtime.event_loop`."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import surecall
from surecall.core.outcome import LimitExceeded
from surecall.runtime.event_loop import (
    TASKS_PER_ITERATION,
    EventLoopThread,
    _Submission,
    wait_for_slot,
)
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import OpenAICompatible
from surecall.testing import (
    Item,
    Scripted,
    ScriptedModel,
    ScriptedProvider,
    calls,
    hangs,
    says,
)
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode
from surecall.values.events import Event, RunStartEvent
from surecall.values.types import JSON
from tests.support.spec import proves
from tests.support.timing import PATIENCE_S, never, until

# Blocking callers: run_sync in a loop, beside other runs, interrupted, at the program's end


if TYPE_CHECKING:
    from aiohttp import web

CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("CURRENT", default="nobody")


class PortCounter(ScriptedProvider):
    """A provider that remembers from which ports its clients came."""

    ports: set[int]

    async def _handle_completion(self, request: "web.Request") -> "web.StreamResponse":
        if request.transport is not None:
            self.ports = getattr(self, "ports", set()) | {
                request.transport.get_extra_info("peername")[1]
            }
        return await super()._handle_completion(request)


def runner_of(*script: Item, tools: tuple[Any, ...] = ()) -> ToolLoopRunner:
    return ToolLoopRunner(
        client=ScriptedModel(*script), model="m", registry=ToolRegistry(list(tools))
    )


def loop_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "surecall-event-loop"}


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    root = str(Path(surecall.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={"PYTHONPATH": root},
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
    )


@proves("G6")
def test_run_sync_works_inside_a_running_event_loop() -> None:
    async def main() -> str:
        return runner_of(says("hello")).run_sync("hi").assistant_text

    assert asyncio.run(main()) == "hello"


def test_run_sync_takes_the_settings_of_run_and_raises_its_errors() -> None:
    runner = runner_of(calls("tick"), says("never"), tools=({"name": "tick", "handler": list},))
    with pytest.raises(LimitExceeded) as limit:
        runner.run_sync("hi", history=["before"], max_turns=1)
    assert limit.value.code is ErrorCode.MAX_TURNS_EXCEEDED
    assert len(limit.value.result.history) == 4
    runner.close()


def test_run_sync_twice_uses_one_connection() -> None:
    with PortCounter(says("one"), says("two")) as provider:
        runner = ToolLoopRunner(client=OpenAICompatible(provider.url), model="m")
        texts = [runner.run_sync("hi").assistant_text for _ in range(2)]
        runner.close()
    assert texts == ["one", "two"]
    assert len(provider.ports) == 1


def test_run_sync_works_again_after_close() -> None:
    runner = runner_of(says("one"), says("two"))
    assert runner.run_sync("hi").assistant_text == "one"
    runner.close()
    runner.close()
    assert runner.run_sync("hi").assistant_text == "two"
    runner.close()


def test_close_ends_the_thread_and_so_does_forgetting() -> None:
    before = loop_threads()
    closed, forgotten = runner_of(says("a")), runner_of(says("b"))
    closed.run_sync("hi")
    forgotten.run_sync("hi")
    assert len(loop_threads()) == len(before) + 2
    closed.close()
    del forgotten
    gc.collect()
    until(lambda: loop_threads() <= before)


def test_run_sync_inside_an_asynchronous_tool_is_refused_instead_of_waiting_forever() -> None:
    async def nested() -> str:
        """Ask the same runner."""
        return runner.run_sync("again").assistant_text

    runner = runner_of(calls("nested"), says("done"), tools=(nested,))
    result = runner.run_sync("hi")
    runner.close()
    assert result.run.results[0].error_codes == ("INTERNAL_ERROR",)
    assert "await run" in (result.run.results[0].detail or "")


def test_run_sync_inside_a_synchronous_tool_works() -> None:
    def nested() -> str:
        """Ask the same runner."""
        return runner.run_sync("again").assistant_text

    runner = runner_of(calls("nested"), says("inner"), says("outer"), tools=(nested,))
    result = runner.run_sync("hi")
    runner.close()
    assert result.run.results[0].envelope["data"] == {"value": "inner"}
    assert result.assistant_text == "outer"


def test_tools_see_the_context_of_the_caller() -> None:
    def who() -> str:
        """Say who asks."""
        return CURRENT.get()

    runner = runner_of(calls("who"), says("ok"), tools=(who,))
    token = CURRENT.set("kim")
    result = runner.run_sync("hi")
    CURRENT.reset(token)
    runner.close()
    assert result.run.results[0].envelope["data"] == {"value": "kim"}


def test_threads_may_share_a_runner() -> None:
    runner = ToolLoopRunner(
        client=ScriptedModel(*[lambda request: says(request["messages"][0]["content"])] * 16),
        model="m",
    )
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(runner.run_sync, map(str, range(16))))
    runner.close()
    assert [result.assistant_text for result in results] == [str(item) for item in range(16)]


async def cancel(run: Coroutine[Any, Any, Any], arrived: asyncio.Event) -> None:
    """Start a run, and cancel it once it has arrived somewhere."""
    task = asyncio.create_task(run)
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_run_leaves_no_task_behind() -> None:
    async def main() -> None:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        def answer(_: JSON) -> Scripted:
            loop.call_soon_threadsafe(arrived.set)
            return hangs(3600)

        with ScriptedProvider(answer) as provider:
            runner = ToolLoopRunner(client=OpenAICompatible(provider.url), model="m")
            await cancel(runner.run("hi"), arrived)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    gc.collect()


def test_a_cancelled_run_closes_its_connection() -> None:
    async def main() -> None:
        arrived, closed = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            arrived.set()
            await reader.read()
            closed.set()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1") as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            runner = ToolLoopRunner(client=OpenAICompatible(url), model="m")
            await cancel(runner.run("hi"), arrived)
            await closed.wait()

    asyncio.run(main())


def test_a_run_is_cancelled_in_the_middle_of_a_tool() -> None:
    ended = []

    async def main() -> None:
        arrived = asyncio.Event()

        async def wait() -> None:
            """Wait for long."""
            arrived.set()
            try:
                await never()
            finally:
                ended.append("cancelled")

        runner = runner_of(calls("wait"), says("never"), tools=(wait,))
        await cancel(runner.run("hi"), arrived)

    asyncio.run(main())
    assert ended == ["cancelled"]


def test_closing_cancels_what_is_at_work_and_lets_it_tidy_up() -> None:
    steps: list[str] = []
    begun = threading.Event()
    thread = EventLoopThread(nullcontext)

    async def work() -> None:
        begun.set()
        try:
            await never()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            steps.append("tidied")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(thread.call, work())
        begun.wait(PATIENCE_S)
        thread.close()
        with pytest.raises(CancelledError):
            waiting.result(PATIENCE_S)
    assert steps == ["tidied"]


def test_closing_ends_generators_that_were_left_in_the_middle() -> None:
    steps: list[str] = []
    kept: list[object] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            steps.append("ended")

    async def work() -> int:
        kept.append(generator := numbers())
        return await anext(generator)

    thread = EventLoopThread(nullcontext)
    assert thread.call(work()) == 1
    thread.close()
    assert steps == ["ended"]


def test_work_on_the_threads_own_loop_cannot_wait_for_it() -> None:
    thread = EventLoopThread(nullcontext)

    async def work() -> None:
        thread.call(asyncio.sleep(0))

    with pytest.raises(ConfigError, match="would deadlock"):
        thread.call(work())
    thread.close()


def test_a_thread_that_is_closed_from_its_own_loop_does_not_wait_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread = EventLoopThread(nullcontext)
    joined: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "join", lambda one, _=None: joined.append(one))

    async def work() -> None:
        thread.close()

    thread.call(work())
    assert joined == []


@pytest.mark.processes
@proves("G12")
def test_a_tool_that_never_returns_does_not_keep_the_program_from_ending() -> None:
    ended = python(
        """
        import threading
        from surecall import ToolLoopRunner, ToolRegistry
        from surecall.testing import ScriptedModel, calls, says

        def stuck() -> None:
            "Never return."
            threading.Event().wait()

        runner = ToolLoopRunner(
            client=ScriptedModel(calls("stuck"), says("gave up")),
            model="m",
            registry=ToolRegistry([stuck]),
            config={"tool_timeout_s": 0.05},
        )
        result = runner.run_sync("hi")
        print(result.text, *result.run.results[0].error_codes)
        """
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("gave up TOOL_TIMEOUT\n", "", 0)


def test_work_that_was_called_back_before_it_arrived_never_begins() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    errand = _Submission(work())
    errand.cancel()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(errand.run())
    assert begun == []


@pytest.mark.processes
def test_an_interrupt_ends_the_wait_and_cancels_the_run() -> None:
    ended = python(
        """
        import asyncio, signal, threading
        from surecall import ToolLoopRunner, ToolRegistry
        from surecall.testing import ScriptedModel, calls

        main, cancelled = threading.main_thread().ident, threading.Event()

        async def wait() -> None:
            "Be interrupted."
            try:
                signal.pthread_kill(main, signal.SIGINT)
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        model = ScriptedModel(calls("wait"))
        runner = ToolLoopRunner(client=model, model="m", registry=ToolRegistry([wait]))
        try:
            runner.run_sync("hi")
        except KeyboardInterrupt:
            print("interrupted", cancelled.wait(300))
        """
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("interrupted True\n", "", 0)


@pytest.mark.processes
def test_a_request_on_its_way_at_the_end_of_the_program_is_no_noise() -> None:
    ended = python(
        """
        import signal, threading
        from surecall import OpenAICompatible, ToolLoopRunner
        from surecall.testing import ScriptedProvider, hangs

        main = threading.main_thread().ident

        def answer(request):
            signal.pthread_kill(main, signal.SIGINT)
            return hangs(3600)

        with ScriptedProvider(answer) as provider:
            runner = ToolLoopRunner(client=OpenAICompatible(provider.url), model="m")
            try:
                runner.run_sync("hi")
            except KeyboardInterrupt:
                print("interrupted")
        """
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("interrupted\n", "", 0)


# Taking turns: a few in each round of the event loop, in the order in which they came


MANY = 10 * TASKS_PER_ITERATION + 1


class Rounds:
    """Counts the rounds of the event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._next()

    def _next(self) -> None:
        self.count += 1
        self._handle = asyncio.get_running_loop().call_soon(self._next)

    def stop(self) -> None:
        self._handle.cancel()


async def passed(count: int) -> list[tuple[int, int]]:
    """Let so many ask for a turn together; return their numbers, and the rounds they got."""
    rounds, seen = Rounds(), []

    async def work(number: int) -> None:
        await wait_for_slot()
        seen.append((number, rounds.count))

    await asyncio.gather(*map(work, range(count)))
    rounds.stop()
    return seen


def test_of_many_a_few_go_on_in_each_round_first_come_first_served() -> None:
    seen = asyncio.run(passed(MANY))
    rounds = [number for _, number in seen]

    assert [number for number, _ in seen] == list(range(MANY))
    assert max(map(rounds.count, rounds)) == TASKS_PER_ITERATION
    assert len(set(rounds)) == MANY // TASKS_PER_ITERATION + 1


def test_alone_one_goes_on_without_waiting() -> None:
    async def alone() -> int:
        rounds = Rounds()
        await wait_for_slot()
        rounds.stop()
        return rounds.count

    assert asyncio.run(alone()) == 1


def test_who_is_cancelled_leaves_its_turn_to_the_next() -> None:
    async def work() -> list[bool]:
        waiting = [asyncio.create_task(wait_for_slot()) for _ in range(3 * TASKS_PER_ITERATION)]
        await asyncio.sleep(0)
        for task in waiting[TASKS_PER_ITERATION : 2 * TASKS_PER_ITERATION]:
            task.cancel()
        await asyncio.wait(waiting)
        return [task.cancelled() for task in waiting]

    assert (
        asyncio.run(work())
        == [False] * TASKS_PER_ITERATION
        + [True] * TASKS_PER_ITERATION
        + [False] * TASKS_PER_ITERATION
    )


def test_every_event_loop_has_its_own_turns() -> None:
    seen: list[int] = []
    threads = [
        threading.Thread(target=lambda: seen.append(len(asyncio.run(passed(MANY)))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [MANY] * 3
    assert [len(asyncio.run(passed(MANY))) for _ in range(2)] == [MANY] * 2


def test_runs_that_start_together_do_not_all_work_in_one_round() -> None:
    async def starts() -> list[int]:
        rounds, begun = Rounds(), []

        def note(event: Event) -> None:
            if isinstance(event, RunStartEvent):
                begun.append(rounds.count)

        model = ScriptedModel(*[says("ok")] * MANY)
        runner = ToolLoopRunner(client=model, model="m", observers=[note])
        await asyncio.gather(*(runner.run("Hi.") for _ in range(MANY)))
        rounds.stop()
        return begun

    begun = asyncio.run(starts())

    assert len(begun) == MANY
    assert max(map(begun.count, begun)) <= TASKS_PER_ITERATION


# Work that is handed to an event loop in a thread of its own, without waiting for it


def test_work_may_be_handed_over_and_cancelled_without_waiting_for_it() -> None:
    thread = EventLoopThread()
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await never()
        finally:
            ended.set()

    submitted = thread.submit(work())
    begun.wait(PATIENCE_S)
    submitted.cancel()

    assert ended.wait(PATIENCE_S)
    thread.close()
