"""Shards of one evaluation, in processes of their own: killed, started again, and merged."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.storage.store import open_for_reading
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.processes

PARTS = 8
PLAN = (
    "eval",
    "-q",
    "-m",
    "sim/clean,sim/lazy",
    "-s",
    "happy_path,chat_only",
    "-n",
    "24",
    "-j",
    "4",
)
SURECALL = (sys.executable, "-m", "surecall")
KILLED = (sys.executable, "-m", "tests.support.killed_command")
RECIPES = (ROOT / "docs" / "past-one-machine.md").read_text("utf-8")
# When it was, where it is, how long it took, and which commands made it.
PASSING = re.compile(r"ts|output_dir|commands|.*(^|_)ms(_.*)?")


def started(folder: Path, *command: str, **environ: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if "SURECALL" not in name}
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept | {"PYTHONPATH": str(ROOT)} | environ,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out + err


def slurm(index: int, parts: int = PARTS) -> dict[str, str]:
    found = {"ID": index, "MIN": 0, "MAX": parts - 1, "COUNT": parts, "STEP": 1}
    return {f"SLURM_ARRAY_TASK_{name}": f"{value}" for name, value in found.items()}


def trials_in(directory: Path) -> list[object]:
    with open_for_reading(directory) as store:
        return [(one.key, one.status, one.category, one.score) for one in store.trials()]


def recorded(folder: Path, index: int) -> int:
    (directory,) = folder.glob(f"shards/{index}/runs/*")
    return len(trials_in(directory))


def tables(directory: Path) -> dict[str, Any]:
    found = {}
    for path in directory.glob("*.json"):
        found[path.name] = lasting(json.loads(path.read_bytes()))
    return found


def lasting(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: lasting(each) for key, each in value.items() if not PASSING.fullmatch(key)}
    return [lasting(each) for each in value] if isinstance(value, list) else value


def test_shards_that_are_killed_and_started_again_make_the_run_that_was_never_cut(
    tmp_path: Path,
) -> None:
    chance = random.Random(19)  # noqa: S311  # repeatable, not secret
    moments = [(chance.randrange(6), chance.choice(["before", "after"])) for _ in range(PARTS)]
    part = (*PLAN, "--shard", f"auto/{PARTS}", "-o")
    killed = [
        started(tmp_path, *KILLED, f"{count}", when, *part, f"shards/{index}", **slurm(index))
        for index, (count, when) in enumerate(moments)
    ]
    assert [code for code, _ in map(ended, killed)] == [-9] * PARTS
    kept = [count + (when == "after") for count, when in moments]
    assert [recorded(tmp_path, index) for index in range(PARTS)] == kept
    again = [
        started(tmp_path, *SURECALL, *part, f"shards/{index}", **slurm(index))
        for index in range(PARTS)
    ]
    whole_too = started(tmp_path, *SURECALL, *PLAN, "-o", "whole")
    assert [found for found in map(ended, [*again, whole_too]) if found[0]] == []
    shards = sorted(map(str, tmp_path.glob("shards/*/runs/*")))
    code, said = ended(started(tmp_path, *SURECALL, "merge", *shards, "--into", "merged"))

    assert code == 0, said
    assert "96 trials added, 96 in all" in said
    (merged,), (whole,) = tmp_path.glob("merged/runs/*"), tmp_path.glob("whole/runs/*")
    assert trials_in(merged) == trials_in(whole)
    assert tables(merged) == tables(whole)
    assert len(tables(merged)) == 3


def recipe(beginning: str) -> str:
    """Return the line of the documentation that a scheduler runs."""
    (line,) = re.findall(rf"^[- ]*({beginning}.*--shard auto/8.*)$", RECIPES, re.MULTILINE)
    assert "-n 20 " in line
    return str(line).replace("-n 20 ", "-n 3 ").replace("surecall", " ".join(SURECALL), 1)


def test_the_recipe_for_slurm_runs_each_part_in_its_own_directory(tmp_path: Path) -> None:
    script = recipe("surecall eval")
    tasks = [started(tmp_path, "bash", "-c", script, **slurm(index)) for index in (0, 7)]

    assert [code for code, _ in map(ended, tasks)] == [0, 0]
    assert 0 < recorded(tmp_path, 0) + recorded(tmp_path, 7) < 36


def test_the_recipe_for_kubernetes_runs_each_part_in_its_own_directory(tmp_path: Path) -> None:
    script = recipe("exec surecall eval").replace("/results/", f"{tmp_path}/shards/")
    pods = [
        started(tmp_path, "sh", "-c", script, JOB_COMPLETION_INDEX=f"{index}") for index in (0, 7)
    ]

    assert [code for code, _ in map(ended, pods)] == [0, 0]
    assert 0 < recorded(tmp_path, 0) + recorded(tmp_path, 7) < 36
