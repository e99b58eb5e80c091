"""Who waits for the bell wakes when it rings, or when the time is up."""

import asyncio

from surecall.eval.running.bell import Bell


def test_everybody_who_waits_is_woken_and_those_who_come_later_wait_again() -> None:
    async def held() -> bool:
        bell = Bell()
        waiting = [asyncio.create_task(bell.heard(None)) for _ in range(3)]
        await asyncio.sleep(0)
        bell.ring()
        await asyncio.gather(*waiting)
        late = asyncio.create_task(bell.heard(None))
        await asyncio.sleep(0)
        still = not late.done()
        bell.ring()
        await late
        return still

    assert asyncio.run(held())


def test_nobody_waits_longer_than_they_want() -> None:
    assert asyncio.run(Bell().heard(0.0)) is None
