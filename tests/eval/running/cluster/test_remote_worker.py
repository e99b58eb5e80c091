"""A worker in its process: opened, asked, halted, closed, and forgotten."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.running.cluster import remote_worker
from surecall.eval.running.cluster.messages import (
    PACKER,
    READ_NEWS,
    News,
    Order,
    Orders,
    SealedKey,
)
from surecall.eval.running.cluster.parcel import Errand, packed
from surecall.eval.running.cluster.remote_worker import (
    close_worker,
    exchange,
    halt_worker,
    open_worker,
)
from surecall.values.types import Secret
from tests.support.cluster import Gated, no_client, no_door, quick
from tests.support.eval_fakes import planned
from tests.support.patience import until_soon

PLAN = planned(trials=2)
ORDERS = [Order(number, "lane", key) for number, key in enumerate(PLAN.keys(), start=1)]
NO_KEY = SealedKey(None)
ME = "an evaluation"


def parcel(run_trial: Any = quick) -> bytes:
    return packed(Errand(PLAN, run_trial, no_client))


async def told(new: list[Order]) -> News:
    answer = await exchange(ME, PACKER.encode(Orders(new, 99, {"lane": 99})))
    assert answer is not None
    return READ_NEWS.decode(answer)


def test_it_runs_what_it_is_told_to() -> None:
    async def work() -> list[int]:
        assert await open_worker(ME, parcel(), SealedKey(Secret("sk-made-up"))) == ""
        ended = list((await told(ORDERS)).ended)
        while len(ended) < len(ORDERS):
            ended += (await told([])).ended
        await close_worker(ME)
        return sorted(each.number for each in ended)

    assert asyncio.run(work()) == [order.number for order in ORDERS]


def test_a_halted_worker_begins_nothing_more(tmp_path: Path) -> None:
    gated = Gated(tmp_path)

    async def work() -> None:
        assert await open_worker(ME, parcel(gated), NO_KEY) == ""
        await halt_worker(ME)
        assert len((await told(ORDERS)).dropped) == len(ORDERS)
        await close_worker(ME)

    asyncio.run(work())
    assert gated.begun == []


def test_closing_ends_what_is_under_way_and_then_nobody_is_there(tmp_path: Path) -> None:
    gated = Gated(tmp_path)

    async def work() -> None:
        assert await open_worker(ME, parcel(gated), NO_KEY) == ""
        asked = asyncio.create_task(exchange(ME, PACKER.encode(Orders(ORDERS, 99, {"lane": 99}))))
        await until_soon(lambda: gated.begun)
        await close_worker(ME)
        await close_worker(ME)
        await halt_worker(ME)
        assert await exchange(ME, PACKER.encode(Orders())) is None
        await asked

    asyncio.run(work())


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"no parcel", "UnpicklingError"), (packed(Errand(PLAN, quick, no_door)), "no way in")],
)
def test_what_is_wrong_is_said_in_place_of_an_error(data: bytes, said: str) -> None:
    assert said in asyncio.run(open_worker(ME, data, NO_KEY))


def test_a_worker_that_nobody_asks_any_more_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated = Gated(tmp_path)
    monkeypatch.setattr(remote_worker, "FORGOTTEN_AFTER_S", 0.0)

    async def work() -> None:
        assert await open_worker(ME, parcel(gated), NO_KEY) == ""
        worker = remote_worker._WORKERS[ME]
        await until_soon(lambda: not worker._thread.alive)
        assert await exchange(ME, PACKER.encode(Orders(ORDERS, 99, {"lane": 99}))) is None
        await close_worker(ME)

    asyncio.run(work())
    assert gated.begun == []
