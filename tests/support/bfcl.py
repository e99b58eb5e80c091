"""A benchmark in the form of BFCL, made up: one or two cases in each set, and its wheel."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.scenarios.bfcl import SETS, WITHOUT_ANSWERS
from surecall.eval.scenarios.bfcl_turns import CLASSES, PACKAGE
from surecall.eval.scenarios.bfcl_turns_data import MULTI_TURN_SETS
from surecall.values.types import JSON

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
        f"multi_turn_func_doc/{module}.json": [] for module in CLASSES.values()
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
    found = {module: OTHER.format(name=name) for name, module in CLASSES.items()}
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
    for name in SETS:
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
