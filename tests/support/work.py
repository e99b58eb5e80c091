"""Tasks of the pack `work`, played by the simulator or by a script."""

import asyncio
from typing import Any

from surecall.eval.running.trial_run import Case, run_trial, setup_for
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.presets import CONTRACTED, Strategy
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedModel, calls, says

BY_ID = {one.id: one for one in WORK}
# What must be looked up before a task's write may hold a value.
LOOK_UPS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "work_assign_ticket": [
        ("search_tickets", {"words": "printer"}),
        ("who_is_on_call", {"team": "facilities"}),
    ],
    "work_pay_invoice": [("find_invoices", {"company": "Hallberg"}), ("list_accounts", {})],
    "work_share_folder": [
        ("find_folders", {"folder_name": "minutes"}),
        ("find_people", {"surname": "Brunner"}),
    ],
    "work_order_part": [
        ("find_parts", {"words": "brass valve"}),
        ("list_offers", {"sku": "VB-22"}),
    ],
    "work_revoke_key": [("list_keys", {"service": "reports"})],
    "work_told_already": [("list_keys", {"service": "reports"})],
    "work_close_duplicates": [("linked_tickets", {"ticket_id": "T-311"})],
    "work_move_appointment": [
        ("find_appointments", {"patient": "Jonas Weber"}),
        ("free_slots", {"dentist": "Brandt"}),
    ],
    "work_find_room": [
        ("find_documents", {"title": "Harbour"}),
        ("get_person", {"person_id": "U-77"}),
    ],
}


def played(simulator: Simulator, model: str, name: str, strategy: Strategy) -> Trial:
    setup = setup_for(
        model, strategy=strategy, provider="openrouter", contracted=strategy in CONTRACTED
    )

    async def go() -> Trial:
        client = OpenAICompatible(simulator.url)
        async with client.opened():
            key = Key(Cell(model, strategy=strategy), name, 1)
            return (await run_trial(key, Case(BY_ID[name], setup), client))[0]

    return asyncio.run(go())


def scripted(name: str, *script: Any) -> Trial:
    key = Key(Cell("m"), name, 1)
    numbered = [each | {"id": f"r{at}"} for at, each in enumerate(script)]
    setup = setup_for("m", strategy="raw")
    return asyncio.run(run_trial(key, Case(BY_ID[name], setup), ScriptedModel(*numbered)))[0]


def steps(*made: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return a call for each step, with an id of its own."""
    return [calls(name, call_id=f"c{at}", **arguments) for at, (name, arguments) in enumerate(made)]


def done(name: str, *made: tuple[str, dict[str, Any]], answer: str) -> Trial:
    """Play a task by calls and an answer, without any help."""
    return scripted(name, *steps(*made), says(answer))
