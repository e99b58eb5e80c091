"""Scenarios travel to the workers: built-in ones by name, those from files as code."""

import importlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from surecall.eval import scenario
from surecall.eval.running.cluster.parcel import Errand, packed, unpacked
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.plugins import load
from surecall.eval.scenarios.scenario import Scenario
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from tests.support.cluster import no_client, quick
from tests.support.eval_fakes import planned

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
from surecall.eval.running.cluster.parcel import unpacked
errand = unpacked(sys.stdin.buffer.read(), None)
for each in errand.plan.scenarios:
    tools = [tool.name for tool in each.begin("-").registry.definitions]
    print(each.id, each.prompt_hash, *tools)
"""


def errand(*scenarios: Scenario, **settings: Any) -> Errand:
    plan = planned(**settings)
    if scenarios:
        plan = msgspec.structs.replace(plan, scenarios=scenarios)
    return Errand(plan, quick, no_client)


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
    found = (SCENARIOS[0], *load(str(tmp_path / "own.py")), *load(str(tmp_path / "log.jsonl")))
    parcel = packed(errand(*found))
    (tmp_path / "own.py").unlink()
    there = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=parcel, capture_output=True, check=False
    )

    assert there.stdout.decode().splitlines() == described(found), there.stderr.decode()


def test_a_built_in_scenario_travels_by_its_name() -> None:
    again = unpacked(packed(errand()), None)

    assert all(
        one is other
        for one, other in zip(again.plan.scenarios, errand().plan.scenarios, strict=True)
    )
    assert (again.run_trial, again.open_client) == (quick, no_client)
    assert again.plan == errand().plan


def test_the_key_is_not_in_the_parcel_and_is_put_in_when_it_has_arrived() -> None:
    parcel = packed(errand(api_key=Secret("sk-made-up")))

    assert b"made-up" not in parcel
    assert unpacked(parcel, None).plan.settings.api_key is None
    key = unpacked(parcel, Secret("sk-arrived")).plan.settings.api_key
    assert key is not None
    assert key.reveal() == "sk-arrived"


def test_a_scenario_that_cannot_travel_is_refused_in_a_sentence() -> None:
    lock = threading.Lock()

    @scenario()
    async def locked(run: Any) -> None:
        with lock:
            await run("hi")

    with pytest.raises(ConfigError, match=r"scenario 'locked' cannot be sent .* --engine local"):
        packed(errand(locked))


def test_what_the_workers_lack_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text(HELPED)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        parcel = packed(errand(importlib.import_module("only_here").helped))
    del sys.modules["only_here"]

    with pytest.raises(ConfigError, match=r"'helped' needs .* workers lack: .*'only_here'"):
        unpacked(parcel, None)
