"""Threads for blocking tools: they start when work blocks, wait for more, and hold nothing up."""

import asyncio
import contextvars
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from surecall.runtime import execution
from surecall.runtime.execution import ToolThreadPool
from tests.support.spec import proves
from tests.support.timing import PATIENCE_S, until, until_soon

WHO = contextvars.ContextVar("WHO", default="nobody")


class Result:
    """Something that a weak reference can point to."""


def done(work: Callable[[], Any]) -> Any:
    return asyncio.run(ToolThreadPool().run(work))


async def idle(pool: ToolThreadPool) -> None:
    """Wait until a thread of the pool has nothing to do."""
    await until_soon(lambda: pool._idle._value)


def test_work_runs_in_a_daemon_thread_with_the_context_of_the_caller() -> None:
    WHO.set("kim")
    thread, who = done(lambda: (threading.current_thread(), WHO.get()))

    assert thread is not threading.main_thread()
    assert (thread.name, thread.daemon, who) == ("surecall-tool", True, "kim")


def test_what_work_changes_in_its_context_stays_there() -> None:
    WHO.set("kim")
    done(lambda: WHO.set("eve"))

    assert WHO.get() == "kim"


def raises(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_what_work_raises_is_raised_where_it_is_awaited() -> None:
    error = ValueError("no")
    with pytest.raises(ValueError, match="no") as raised:
        done(raises(error))

    assert raised.value is error


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3), KeyboardInterrupt()])
def test_what_a_future_or_a_thread_cannot_carry_becomes_an_ordinary_error(
    error: BaseException,
) -> None:
    with pytest.raises(RuntimeError, match=f"the tool raised {type(error).__name__}"):
        done(raises(error))


def test_one_piece_of_work_after_the_other_needs_one_thread() -> None:
    async def main() -> set[Any]:
        pool, seen = ToolThreadPool(), set()
        for _ in range(5):
            seen.add(await pool.run(threading.get_ident))
            await idle(pool)
        return seen

    assert len(asyncio.run(main())) == 1


def test_work_that_blocks_at_the_same_time_gets_a_thread_each() -> None:
    meeting = threading.Barrier(8, timeout=PATIENCE_S)

    async def main() -> list[Any]:
        pool = ToolThreadPool()
        return await asyncio.gather(*(pool.run(meeting.wait) for _ in range(8)))

    assert sorted(asyncio.run(main())) == list(range(8))


def test_an_idle_thread_ends_and_the_next_work_starts_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "IDLE_S", 0.01)

    async def main() -> None:
        pool = ToolThreadPool()
        first = await pool.run(threading.current_thread)
        await until_soon(lambda: not first.is_alive())
        assert await pool.run(threading.current_thread) is not first

    asyncio.run(main())


def test_a_result_is_not_kept_by_the_thread_that_made_it() -> None:
    async def main() -> None:
        pool = ToolThreadPool()
        made = weakref.ref(await pool.run(Result))
        await idle(pool)
        await asyncio.sleep(0)  # this very step was started with the result at hand
        assert made() is None

    asyncio.run(main())


def test_work_that_is_given_up_goes_on_unheard_and_its_thread_works_again() -> None:
    begun, release = threading.Event(), threading.Event()
    faults: list[Any] = []

    def work() -> None:
        begun.set()
        release.wait(PATIENCE_S)

    async def main() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: faults.append(told))
        pool = ToolThreadPool()
        waiting = asyncio.create_task(pool.run(work))
        await until_soon(begun.is_set)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        await idle(pool)
        return str(await pool.run(lambda: "next"))

    assert (asyncio.run(main()), faults) == ("next", [])


def test_work_that_outlives_the_event_loop_ends_in_silence() -> None:
    begun, release = threading.Event(), threading.Event()
    seen: list[threading.Thread] = []

    def work() -> None:
        seen.append(threading.current_thread())
        begun.set()
        release.wait(PATIENCE_S)

    async def main() -> None:
        waiting = asyncio.create_task(pool.run(work))
        await until_soon(begun.is_set)
        waiting.cancel()

    pool = ToolThreadPool()
    asyncio.run(main())
    release.set()
    until(lambda: pool._idle._value)

    assert seen[0].is_alive()
    assert asyncio.run(pool.run(threading.current_thread)) is seen[0]


STUCK = """
import asyncio, threading
from surecall.runtime.execution import ToolThreadPool
begun = threading.Event()
def work():
    begun.set()
    threading.Event().wait()
async def main():
    waiting = asyncio.create_task(ToolThreadPool().run(work))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    waiting.cancel()
asyncio.run(main())
"""


@proves("G12")
@pytest.mark.processes
def test_work_that_never_returns_does_not_keep_the_program_alive() -> None:
    ran = subprocess.run([sys.executable, "-c", STUCK], timeout=PATIENCE_S, check=False)

    assert ran.returncode == 0
