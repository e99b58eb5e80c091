"""The deadline of a run: it interrupts what is within it, and nothing else."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from surecall.runtime.deadline import Deadline, DeadlinePassed
from tests.support.patience import never

pytestmark = pytest.mark.usefixtures("virtual")


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(test())


async def after(seconds: float, value: str = "") -> str:
    return await asyncio.sleep(seconds, value)


@in_a_loop
async def test_what_ends_in_time_is_returned() -> None:
    with Deadline(5) as deadline:
        assert await deadline.within(after(1, "done")) == "done"
        assert await deadline.within(after(1, "again")) == "again"
        assert 0 < deadline.left_s <= 3


@in_a_loop
async def test_what_takes_longer_is_interrupted() -> None:
    with Deadline(5) as deadline:
        await deadline.within(after(3))
        with pytest.raises(DeadlinePassed):
            await deadline.within(never())
        assert deadline.left_s <= 0
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


@in_a_loop
async def test_what_is_not_within_it_goes_on() -> None:
    with Deadline(5) as deadline:
        assert await after(9, "done") == "done"
        # It is the caller's to see that there is no time left.
        assert await deadline.within(after(1, "late")) == "late"


@in_a_loop
async def test_a_task_that_is_cancelled_stays_so() -> None:
    async def waits() -> None:
        with Deadline(5) as deadline:
            await deadline.within(never())

    task = asyncio.create_task(waits())
    await after(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@in_a_loop
async def test_one_that_is_cancelled_when_the_time_ends_stays_so_too() -> None:
    async def waits() -> None:
        with Deadline(5) as deadline:
            await deadline.within(never())

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(5, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


@in_a_loop
async def test_what_the_work_raises_is_its_own() -> None:
    async def fails() -> None:
        raise TimeoutError("the client's own")

    with Deadline(5) as deadline, pytest.raises(TimeoutError, match="the client's own"):
        await deadline.within(fails())


@in_a_loop
async def test_a_block_that_is_left_leaves_no_timer() -> None:
    with Deadline(5) as deadline:
        pass
    assert await deadline.within(after(9, "done")) == "done"
