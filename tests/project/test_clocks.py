"""The clocks and counters of the tests do what they say, or what they show would mean nothing."""

import asyncio
import subprocess
import sys
import time

import pytest

from tests.support.clock import VirtualClock, shifted, skipping_time
from tests.support.patience import until, until_soon
from tests.support.steps import LINEAR, growth, steps


def test_in_virtual_time_an_hour_takes_none_and_order_is_kept(virtual: VirtualClock) -> None:
    ended: list[float] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        ended.append(seconds)

    async def main() -> None:
        await asyncio.gather(*map(sleep, (3600.0, 0.002, 60.0, 0.001)))

    began = virtual.now
    asyncio.run(main())

    assert ended == [0.001, 0.002, 60.0, 3600.0]
    assert virtual.now - began == pytest.approx(3600.0)


@pytest.mark.usefixtures("virtual")
def test_in_virtual_time_limits_strike() -> None:
    async def main() -> None:
        await asyncio.wait_for(asyncio.sleep(60.1), 60)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_time_that_is_skipped_is_noticed_by_whoever_waits() -> None:
    async def main(limit_s: float) -> None:
        asyncio.get_running_loop().call_soon(clock.skip, limit_s)
        await asyncio.wait_for(asyncio.Event().wait(), limit_s)

    with skipping_time() as clock, pytest.raises(TimeoutError):
        asyncio.run(main(3600.0))


def test_a_shifted_clock_is_that_of_new_event_loops_too() -> None:
    async def reading() -> float:
        return asyncio.get_running_loop().time()

    before = asyncio.run(reading())
    with shifted(1e7):
        after = asyncio.run(reading())

    assert after > before + 1e7
    assert after < before + 2e7


def test_steps_are_those_of_the_program_and_not_of_the_machine() -> None:
    def linear(size: int) -> None:
        for _ in range(size):
            pass

    def quadratic(size: int) -> None:
        for _ in range(size):
            linear(size)

    assert steps(lambda: linear(100)) == steps(lambda: linear(100)) > 100
    assert growth(linear, 200) < LINEAR < growth(quadratic, 200)


def test_what_never_happens_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.patience._LOOKS", 2)
    until(lambda: True)
    with pytest.raises(AssertionError, match="never happened"):
        until(lambda: False)
    with pytest.raises(AssertionError, match="never happened"):
        asyncio.run(until_soon(lambda: False))


def test_a_test_without_the_mark_starts_no_process() -> None:
    with pytest.raises(RuntimeError, match=r"pytest\.mark\.processes"):
        subprocess.run([sys.executable], check=False)


def test_the_clock_reads_what_the_option_says(request: pytest.FixtureRequest) -> None:
    shift = request.config.getoption("--clock-shift")
    real = time.clock_gettime(time.CLOCK_MONOTONIC)

    assert time.monotonic() - real == pytest.approx(shift, abs=1e6)
