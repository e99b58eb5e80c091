"""Taking turns: a few in each round of the event loop, in the order in which they came."""

import asyncio
import threading

from surecall import ToolLoopRunner
from surecall.runtime.turns import AT_ONCE, turn
from surecall.testing import ScriptedModel, says
from surecall.values.events import Event, RunStartEvent

MANY = 10 * AT_ONCE + 1


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
        await turn()
        seen.append((number, rounds.count))

    await asyncio.gather(*map(work, range(count)))
    rounds.stop()
    return seen


def test_of_many_a_few_go_on_in_each_round_first_come_first_served() -> None:
    seen = asyncio.run(passed(MANY))
    rounds = [number for _, number in seen]

    assert [number for number, _ in seen] == list(range(MANY))
    assert max(map(rounds.count, rounds)) == AT_ONCE
    assert len(set(rounds)) == MANY // AT_ONCE + 1


def test_alone_one_goes_on_without_waiting() -> None:
    async def alone() -> int:
        rounds = Rounds()
        await turn()
        rounds.stop()
        return rounds.count

    assert asyncio.run(alone()) == 1


def test_who_is_cancelled_leaves_its_turn_to_the_next() -> None:
    async def work() -> list[bool]:
        waiting = [asyncio.create_task(turn()) for _ in range(3 * AT_ONCE)]
        await asyncio.sleep(0)
        for task in waiting[AT_ONCE : 2 * AT_ONCE]:
            task.cancel()
        await asyncio.wait(waiting)
        return [task.cancelled() for task in waiting]

    assert asyncio.run(work()) == [False] * AT_ONCE + [True] * AT_ONCE + [False] * AT_ONCE


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
    assert max(map(begun.count, begun)) <= AT_ONCE
