"""What the engine knows of a worker: how much it should have waiting, and that it is lost."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from surecall.eval.running.cluster.members import Lost, Member
from surecall.eval.running.cluster.messages import PACKER, News, Orders, Outcome
from surecall.eval.running.guarded_trial import Ended
from surecall.eval.storage.trial import Cell, Key
from surecall.values.errors import ConfigError
from tests.support.clock import virtual_time
from tests.support.eval_fakes import a_trial

ADDRESS = "tcp://127.0.0.1:1"
OUTCOME = Outcome.of(1, Ended(a_trial(Key(Cell("m"), "x", 1))))


class Told:
    """A client of a cluster in which one worker says what it is told to."""

    id = "a client"

    def __init__(self, say: Callable[[], Any], after_s: float = 0.0) -> None:
        self.say = say
        self.after_s = after_s

    async def run(self, _: object, *__: object, workers: list[str]) -> dict[str, Any]:
        await asyncio.sleep(self.after_s)
        return dict.fromkeys(workers, self.say())


def test_so_much_waits_at_a_worker_as_it_does_in_a_moment() -> None:
    news = PACKER.encode(News(ended=[OUTCOME] * 100))

    async def work(after_s: float) -> list[int]:
        member = Member(Told(lambda: news, after_s), ADDRESS)
        before = member.ahead(8)
        await member.exchange(Orders())
        return [before, member.ahead(8)]

    with virtual_time():
        assert asyncio.run(work(1.0))[0] == 8
        assert asyncio.run(work(1e-6))[1] == 200


def test_a_slow_worker_has_one_trial_waiting() -> None:
    async def work() -> int:
        member = Member(Told(lambda: PACKER.encode(News())), ADDRESS)
        await member.exchange(Orders())
        return member.ahead(8)

    assert asyncio.run(work()) == 1


def raised() -> Any:
    raise OSError("gone")


@pytest.mark.parametrize("say", [raised, lambda: None])
def test_a_worker_that_does_not_answer_or_knows_nothing_is_lost(say: Callable[[], Any]) -> None:
    with pytest.raises(Lost):
        asyncio.run(Member(Told(say), ADDRESS).exchange(Orders()))


def test_one_that_is_lost_need_not_be_halted_or_closed() -> None:
    async def work() -> None:
        member = Member(Told(raised), ADDRESS)
        await member.halt()
        await member.close()

    asyncio.run(work())


def test_what_a_worker_cannot_do_is_the_users_to_know() -> None:
    member = Member(Told(lambda: "it lacks a package"), ADDRESS)

    with pytest.raises(ConfigError, match="it lacks a package"):
        asyncio.run(member.open(b"", None))
