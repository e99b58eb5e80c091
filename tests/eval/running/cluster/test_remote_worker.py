"""Tests of `surecall.eval.running.cluster.remote_worker`."""

import asyncio
import importlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall.eval import scenario
from surecall.eval.running.cluster import remote_worker
from surecall.eval.running.cluster.remote_worker import (
    WorkerPayload,
    close_worker,
    exchange,
    halt_worker,
    open_worker,
    pack_payload,
    unpack_payload,
)
from surecall.eval.running.cluster.worker_trials import (
    ENCODER,
    REPORT_DECODER,
    SealedKey,
    TrialOrder,
    WorkerOrders,
    WorkerReport,
)
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.scenarios.scenario import Scenario
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from tests.support.evaluations import Gated, no_client, no_door, planned, quick
from tests.support.timing import until_soon

# A worker in its process: opened, asked, halted, closed, and forgotten


PLAN = planned(trials=2)
ORDERS = [TrialOrder(number, "lane", key) for number, key in enumerate(PLAN.keys(), start=1)]
NO_KEY = SealedKey(None)
ME = "an evaluation"


def parcel(run_trial: Any = quick) -> bytes:
    return pack_payload(WorkerPayload(PLAN, run_trial, no_client))


async def told(new: list[TrialOrder]) -> WorkerReport:
    answer = await exchange(ME, ENCODER.encode(WorkerOrders(new, 99, {"lane": 99})))
    assert answer is not None
    return REPORT_DECODER.decode(answer)


def test_it_runs_what_it_is_told_to() -> None:
    async def work() -> list[int]:
        assert await open_worker(ME, parcel(), SealedKey(Secret("sk-made-up"))) == ""
        ended = list((await told(ORDERS)).outcomes)
        while len(ended) < len(ORDERS):
            ended += (await told([])).outcomes
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
        asked = asyncio.create_task(
            exchange(ME, ENCODER.encode(WorkerOrders(ORDERS, 99, {"lane": 99})))
        )
        await until_soon(lambda: gated.begun)
        await close_worker(ME)
        await close_worker(ME)
        await halt_worker(ME)
        assert await exchange(ME, ENCODER.encode(WorkerOrders())) is None
        await asked

    asyncio.run(work())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no parcel", "UnpicklingError"),
        (pack_payload(WorkerPayload(PLAN, quick, no_door)), "no way in"),
    ],
)
def test_what_is_wrong_is_said_in_place_of_an_error(data: bytes, said: str) -> None:
    assert said in asyncio.run(open_worker(ME, data, NO_KEY))


def test_a_worker_that_nobody_asks_any_more_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated = Gated(tmp_path)
    monkeypatch.setattr(remote_worker, "ABANDONED_AFTER_S", 0.0)

    async def work() -> None:
        assert await open_worker(ME, parcel(gated), NO_KEY) == ""
        worker = remote_worker._WORKERS[ME]
        await until_soon(lambda: not worker._thread.is_alive)
        assert await exchange(ME, ENCODER.encode(WorkerOrders(ORDERS, 99, {"lane": 99}))) is None
        await close_worker(ME)

    asyncio.run(work())
    assert gated.begun == []


# Scenarios travel to the workers: built-in ones by name, those from files as code


OWN = '''
from surecall import tool
from surecall.eval import expect, scenario

CITIES = {"Oslo": 3}

@tool(read_only=True)
def temperature(city: str) -> int:
    """The temperature in a city."""
    return CITIES[city]

@scenario(tools=[temperature])
async def asks_oslo(run):
    """Ask for a temperature."""
    heard = await run("How warm is it in Oslo?")
    expect.called(heard, "temperature")
'''
HELPED = """
from surecall.eval import scenario

class Words:
    text = "hi"

@scenario()
async def helped(run):
    await run(Words().text)
"""
RECORDED = b'{"messages": [{"role": "user", "content": "hi"}], "id": "said_hi"}\n'
ELSEWHERE = """
import sys
from surecall.eval.running.cluster.remote_worker import unpack_payload
errand = unpack_payload(sys.stdin.buffer.read(), None)
for each in errand.plan.scenarios:
    tools = [tool.name for tool in each.begin("-").registry.definitions]
    print(each.id, each.prompt_hash, *tools)
"""


def errand(*scenarios: Scenario, **settings: Any) -> WorkerPayload:
    plan = planned(**settings)
    if scenarios:
        plan = msgspec.structs.replace(plan, scenarios=scenarios)
    return WorkerPayload(plan, quick, no_client)


def described(scenarios: tuple[Scenario, ...]) -> list[str]:
    tools = [[tool.name for tool in each.begin("-").registry.definitions] for each in scenarios]
    return [
        " ".join((each.id, each.prompt_hash, *names))
        for each, names in zip(scenarios, tools, strict=True)
    ]


@pytest.mark.processes
def test_scenarios_of_every_kind_are_the_same_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "log.jsonl").write_bytes(RECORDED)
    found = (
        SCENARIOS[0],
        *load_scenarios(str(tmp_path / "own.py")),
        *load_scenarios(str(tmp_path / "log.jsonl")),
    )
    parcel = pack_payload(errand(*found))
    (tmp_path / "own.py").unlink()
    there = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=parcel, capture_output=True, check=False
    )

    assert there.stdout.decode().splitlines() == described(found), there.stderr.decode()


def test_a_built_in_scenario_travels_by_its_name() -> None:
    again = unpack_payload(pack_payload(errand()), None)

    assert all(
        one is other
        for one, other in zip(again.plan.scenarios, errand().plan.scenarios, strict=True)
    )
    assert (again.run_trial, again.open_client) == (quick, no_client)
    assert again.plan == errand().plan


def test_the_key_is_not_in_the_parcel_and_is_put_in_when_it_has_arrived() -> None:
    parcel = pack_payload(errand(api_key=Secret("sk-made-up")))

    assert b"made-up" not in parcel
    assert unpack_payload(parcel, None).plan.settings.api_key is None
    key = unpack_payload(parcel, Secret("sk-arrived")).plan.settings.api_key
    assert key is not None
    assert key.reveal() == "sk-arrived"


def test_a_scenario_that_cannot_travel_is_refused_in_a_sentence() -> None:
    lock = threading.Lock()

    @scenario()
    async def locked(run: Any) -> None:
        with lock:
            await run("hi")

    with pytest.raises(ConfigError, match=r"scenario 'locked' cannot be sent .* --engine local"):
        pack_payload(errand(locked))


def test_what_the_workers_lack_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text(HELPED)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        parcel = pack_payload(errand(importlib.import_module("only_here").helped))
    del sys.modules["only_here"]

    with pytest.raises(ConfigError, match=r"'helped' needs .* workers lack: .*'only_here'"):
        unpack_payload(parcel, None)
