"""Scenario packs: tasks of `work`, and a benchmark in the form of BFCL."""

import asyncio
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from surecall import RunFailed, RunResult, ToolLoopRunner
from surecall.eval.running.trial_run import CellSetup, TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.bfcl import SET_NAMES, WITHOUT_ANSWERS
from surecall.eval.scenarios.bfcl_turns import MODULE_BY_CLASS, MULTI_TURN_SETS, PACKAGE
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.scenario import Scenario, select_scenarios
from surecall.eval.scenarios.work import WORK
from surecall.eval.storage.trial import Cell, Key, Score, Trial
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.config import ToolUseMode
from surecall.settings.presets import CONTRACT_STRATEGIES, Strategy, raw
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedModel, calls, says
from surecall.values.types import JSON

# Tasks of the pack `work`, played by the simulator or by a script


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
    setup = make_cell_setup(
        model, strategy=strategy, provider="openrouter", contracted=strategy in CONTRACT_STRATEGIES
    )

    async def go() -> Trial:
        client = OpenAICompatible(simulator.url)
        async with client.opened():
            key = Key(Cell(model, strategy=strategy), name, 1)
            return (await run_trial(key, TrialCase(BY_ID[name], setup), client))[0]

    return asyncio.run(go())


def scripted(name: str, *script: Any) -> Trial:
    key = Key(Cell("m"), name, 1)
    numbered = [each | {"id": f"r{at}"} for at, each in enumerate(script)]
    setup = make_cell_setup("m", strategy="raw")
    return asyncio.run(run_trial(key, TrialCase(BY_ID[name], setup), ScriptedModel(*numbered)))[0]


def steps(*made: tuple[str, dict[str, Any]]) -> list[Any]:
    """Return a call for each step, with an id of its own."""
    return [calls(name, call_id=f"c{at}", **arguments) for at, (name, arguments) in enumerate(made)]


def done(name: str, *made: tuple[str, dict[str, Any]], answer: str) -> Trial:
    """Play a task by calls and an answer, without any help."""
    return scripted(name, *steps(*made), says(answer))


# A benchmark in the form of BFCL, made up: one or two cases in each set, and its wheel


AREA: JSON = {
    "name": "shapes.area",
    "description": "Compute an area.",
    "parameters": {
        "type": "dict",
        "properties": {
            "base": {"type": "float"},
            "corner": {"type": "tuple", "items": {"type": "float"}},
            "style": {"type": "dict", "properties": {"dotted": {"type": "any"}}},
            "type": {"type": "string", "optional": True},
        },
        "required": ["base"],
    },
}
# A class as theirs are: it keeps what it is given, and returns all kinds of things.
TICKETS = """
class TicketAPI:
    def __init__(self):
        self.tickets = []
        self._looks = 0

    def _load_scenario(self, config, long_context=False):
        self.tickets = config.get("tickets", []) + (["long"] if long_context else [])

    def open_ticket(self, titles, urgent=False):
        self.tickets.append(titles)
        return {"number": len(self.tickets)}

    def add_title(self, number, title):
        self.tickets[number - 1].append(title)
        return {"tickets": self}

    def __repr__(self):
        return "<TicketAPI>"

    def count(self):
        self._looks += 1
        return len(self.tickets)
"""
OTHER = """
class {name}:
    def _load_scenario(self, config, long_context=False):
        self.config = config
"""
MATHS = """
class MathAPI:
    def add(self, a, b):
        return str(a + b)
"""
NUMBER: JSON = {"type": "integer"}
TOOLS: JSON = {
    "open_ticket": {
        "titles": {"type": "array", "items": {"type": "string"}},
        "urgent": {"type": "boolean"},
    },
    "add_title": {"number": NUMBER, "title": {"type": "string"}},
    "count": {},
}
GOLDEN = [["open_ticket(['a'], urgent=True)", "count()"], [], ["add_title(2, title='b')"]]
NO_TOOL = "live_irrelevance_1-0-0"
HOPELESS = "live_simple_1-0-0"


def case(case_id: str, words: str = "How large is it?", functions: Any = (AREA,)) -> JSON:
    question = [[{"role": "user", "content": words}]]
    return {"id": case_id, "question": question, "function": [*functions]}


def answer(case_id: str, *arguments: JSON) -> JSON:
    return {"id": case_id, "ground_truth": [{"shapes.area": each} for each in arguments]}


def conversation(case_id: str, *words: str, classes: Any = ("MathAPI", "TicketAPI")) -> JSON:
    return {
        "id": case_id,
        "question": [[{"role": "user", "content": each}] for each in words],
        "initial_config": {"TicketAPI": {"tickets": [["first"]]}},
        "involved_classes": [*classes],
    }


def documented(tools: JSON) -> list[JSON]:
    """Describe functions as they do."""
    return [
        {"name": name, "description": name, "parameters": {"type": "dict", "properties": each}}
        for name, each in tools.items()
    ]


def turns() -> dict[str, list[JSON]]:
    """Return the lines of the files of the multi-turn sets."""
    found: dict[str, list[JSON]] = {
        f"multi_turn_func_doc/{module}.json": [] for module in MODULE_BY_CLASS.values()
    }
    found["multi_turn_func_doc/ticket_api.json"] = documented(TOOLS)
    found["multi_turn_func_doc/math_api.json"] = documented({"add": {"a": NUMBER, "b": NUMBER}})
    for name in MULTI_TURN_SETS:
        path = f"BFCL_v4_{name}.json"
        found[path] = [conversation(f"{name}_0", "Open a ticket.", "Thanks.", "Add b.")]
        found[f"possible_answer/{path}"] = [{"id": f"{name}_0", "ground_truth": GOLDEN}]
    return found


def code() -> dict[str, str]:
    """Return their classes, by path."""
    folder = PACKAGE.replace(".", "/")
    found = {module: OTHER.format(name=name) for name, module in MODULE_BY_CLASS.items()}
    found |= {"ticket_api": TICKETS, "math_api": MATHS, "long_context": ""}
    return {f"{folder}/{module}.py": text for module, text in found.items()}


def forget_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep code of theirs from one test out of the next."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "bfcl_eval"]:
        monkeypatch.delitem(sys.modules, name)


def files() -> dict[str, list[JSON]]:
    """Return the lines of every file, by its path in the data folder."""
    found: dict[str, list[JSON]] = turns()
    for name in SET_NAMES:
        path = f"BFCL_v4_{name}.json"
        found[path] = [case(f"{name}_0")]
        if name not in WITHOUT_ANSWERS:
            several = 3 if "parallel" in name else 1
            wanted = ({"base": [n], "type": ["square", ""]} for n in range(several))
            found[f"possible_answer/{path}"] = [answer(f"{name}_0", *wanted)]
    found["BFCL_v4_live_irrelevance.json"].append(case(NO_TOOL, functions=()))
    found["BFCL_v4_live_simple.json"].append(case(HOPELESS))
    found["possible_answer/BFCL_v4_live_simple.json"].append(answer(HOPELESS, {"colour": ["red"]}))
    return found


def written(lines: list[JSON]) -> str:
    return "\n".join(map(json.dumps, lines))


def data_folder(folder: Path) -> Path:
    """Write the files into a folder, as they lie in a checkout."""
    for path, lines in files().items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(written(lines), "utf-8")
    return folder


def wheel(folder: Path) -> Path:
    """Write the wheel."""
    path = folder / "bfcl_eval-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as target:
        for name, lines in files().items():
            target.writestr(f"bfcl_eval/data/{name}", written(lines))
        for name, text in code().items():
            target.writestr(name, text)
    return path


def scripted_trial(one: Scenario, *script: Any) -> Trial:
    """Run one trial of a scenario against a script."""
    config = raw(tool_use_mode="enforced")
    setup = CellSetup(model="m", config=config, extra_attempts=0)
    key = Key(Cell("m"), one.id, 1)
    return asyncio.run(run_trial(key, TrialCase(one, setup), ScriptedModel(*script)))[0]


BUILTIN_BY_ID = {scenario.id: scenario for scenario in SCENARIOS}


GET = calls("state_get", workspace_id="ws_1")


def patch(value: str = "bar", path: str = "/draft/foo", **more: Any) -> JSON:
    op = {"op": "set", "path": path, "value": value}
    return calls("state_patch", request_id="r1", ops=[op], **more)


DONE = says("Done.")


def play(name: str, *script: JSON, mode: str = "enforced") -> tuple[RunResult, Score]:
    """Hold a scripted conversation in a scenario; return how it ended, and its score."""
    scenario = BUILTIN_BY_ID[name]
    world = scenario.begin("ws_1")
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=world.registry,
        executor=world.executor,
        config=scenario.effective_config(raw(tool_use_mode=ToolUseMode(mode))),
        system=scenario.system,
    )
    try:
        result = asyncio.run(world.converse(runner.run))
    except RunFailed as failure:
        result = failure.result
    return result, world.judge(result)


def chosen_ids(expression: str) -> list[str]:
    return [scenario.id for scenario in select_scenarios(expression, SCENARIOS)]


SCENARIO_FILE = '''"""Two scenarios."""
from surecall import tool
from surecall.eval import expect, scenario

@tool
def look(place: str) -> str:
    """Look somewhere."""
    return "nothing"

@scenario(tags=["mine"], tools=[look], system="Look around.")
async def looks(run):
    """Look once.

    Nothing else.
    """
    out = await run("Look into the box.")
    expect.called(out, "look", place="box")
    expect.text(out, "Done.", lenient=True)

@scenario()
async def greets(run):
    expect.contains(await run("Say hello."), "hello")

again = greets
'''
