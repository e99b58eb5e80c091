"""The tasks of the pack `work` with single levers, as `bench/techniques.py` makes them."""

import asyncio
from pathlib import Path

import pytest

from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.runtime.transport import OpenAICompatible
from surecall.simulator.server import Simulator

FILE = Path(__file__).parents[3] / "bench" / "techniques.py"
ALL = {one.id: one for one in load_scenarios(str(FILE))}


def levers_of(one: Scenario) -> set[str]:
    specs = [definition.spec for definition in one.begin("-").registry.definitions]
    writes = [spec for spec in specs if not spec.may_repeat]
    found = {"thought"} if "guided_thought" not in one.config else set()
    found |= {"closing"} if "closing_reminder" not in one.config else set()
    found |= {"ground"} if any(spec.grounded for spec in specs) else set()
    found |= {"once"} if not all(spec.repeatable for spec in writes) else set()
    found |= {"gate"} if one.contract is not None and one.contract.in_order else set()
    return found


@pytest.mark.parametrize(
    ("name", "levers"),
    [
        ("bare", set()),
        *((name, {name}) for name in ("gate", "ground", "once", "thought", "closing")),
        ("no_thought", {"gate", "ground", "once", "closing"}),
    ],
)
def test_a_group_has_the_levers_of_its_name_and_no_other(name: str, levers: set[str]) -> None:
    assert levers_of(ALL[f"{name}.work_pay_invoice"]) == levers
    assert len([one for one in ALL.values() if name in one.tags]) == len(WORK)


@pytest.mark.parametrize("name", [one for one in ALL if one.startswith(("bare.", "gate."))])
def test_a_clean_model_does_it_without_levers_too(simulator: Simulator, name: str) -> None:
    async def go() -> Trial:
        client = OpenAICompatible(simulator.url)
        setup = make_cell_setup("sim/clean", strategy="guided_contract", contracted=True)
        async with client.opened():
            return (
                await run_trial(
                    Key(Cell("sim/clean"), name, 1), TrialCase(ALL[name], setup), client
                )
            )[0]

    assert asyncio.run(go()).ok
