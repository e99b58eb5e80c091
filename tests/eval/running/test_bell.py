"""Who waits for the bell wakes when it is their turn, or when the time is up."""

import asyncio

from surecall.eval.running.bell import Bell, Gong


def test_each_ring_wakes_who_has_waited_longest() -> None:
    async def woken() -> list[str]:
        bell, order = Bell(), list[str]()

        async def wait(name: str, timeout_s: float | None = None) -> None:
            await bell.heard(timeout_s)
            order.append(name)

        tasks = [asyncio.create_task(wait(name)) for name in "ab"]
        late = asyncio.create_task(wait("late", 0.0))
        await late
        for _ in tasks:
            bell.ring()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append("ring")
        bell.ring()
        return order

    assert asyncio.run(woken()) == ["late", "a", "ring", "b", "ring"]


def test_a_ring_for_somebody_who_is_gone_goes_to_the_next() -> None:
    async def heard() -> None:
        bell = Bell()
        gone, also_gone, waiting = (asyncio.create_task(bell.heard(None)) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        bell.ring()  # for the second, who is cancelled before it comes
        also_gone.cancel()
        await waiting

    asyncio.run(heard())


def test_nobody_waits_longer_than_they_want() -> None:
    assert asyncio.run(Bell().heard(0.0)) is None


def test_a_gong_wakes_everybody_as_often_as_it_sounds(virtual: object) -> None:
    del virtual
    gong, woken = Gong(), []

    async def waits(name: str) -> None:
        for _ in range(2):
            await gong.heard(None)
            woken.append(name)

    async def work() -> None:
        tasks = [asyncio.create_task(waits(name)) for name in ("a", "b")]
        for _ in range(2):
            await asyncio.sleep(0)
            gong.sound()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        await gong.heard(0.5)

    asyncio.run(work())
    assert woken == ["a", "b", "a", "b"]
