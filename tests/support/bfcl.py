"""A benchmark in the form of BFCL, made up: one or two cases in each set, and its wheel."""

import json
import zipfile
from pathlib import Path
from typing import Any

from surecall.eval.scenarios.bfcl import SETS, WITHOUT_ANSWERS
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
NO_TOOL = "live_irrelevance_1-0-0"
HOPELESS = "live_simple_1-0-0"


def case(case_id: str, words: str = "How large is it?", functions: Any = (AREA,)) -> JSON:
    question = [[{"role": "user", "content": words}]]
    return {"id": case_id, "question": question, "function": [*functions]}


def answer(case_id: str, *arguments: JSON) -> JSON:
    return {"id": case_id, "ground_truth": [{"shapes.area": each} for each in arguments]}


def files() -> dict[str, list[JSON]]:
    """Return the lines of every file, by its path in the data folder."""
    found: dict[str, list[JSON]] = {}
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
    return path
