"""Tests of `surecall.cli.merge`."""

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

from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import open_for_reading
from surecall.values.types import JSON
from tests.support.commands import IDENTITY, Run, one_line, stored
from tests.support.project_files import ROOT
from tests.support.timing import PATIENCE_S
from tests.support.trials import series, trial

# `surecall merge`: shards put together again


SMALL = ("eval", "-q", "-m", "sim/clean,sim/lazy", "-s", "happy_path,chat_only")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def shards(run: Run, *more: str) -> None:
    for number in (1, 2):
        run(*SMALL, "-n", "3", "--shard", f"{number}/2", "--runs", f"part{number}", *more)


def parts(tmp_path: Path) -> list[str]:
    return [str(path) for path in sorted(tmp_path.glob("part*/runs/*"))]


def test_shards_make_one_run_as_if_it_had_never_been_cut(run: Run, tmp_path: Path) -> None:
    shards(run)
    run(*SMALL, "-n", "3", "--runs", "whole")
    code, out, err = run("merge", *parts(tmp_path), "--into", "merged")

    assert (code, err) == (0, "added 12 trials, 12 in total\n")
    merged = Path(out.strip())
    (whole,) = tmp_path.glob("whole/runs/*")
    assert timeless(merged) == timeless(whole)
    assert names(merged) == names(whole)
    assert (tmp_path / "merged" / "latest").read_text().strip() == merged.name
    assert run("replay", f"{merged}/1")[0] == 0
    _, compared, _ = run("compare", str(merged), str(whole))
    assert "broken" in compared


def test_a_merged_run_says_what_each_of_its_commands_asked_for(run: Run, tmp_path: Path) -> None:
    shards(run)
    run("eval", "-q", "-m", "sim/like-gpt", "-s", "simple", "-n", "1", "--runs", "part3")
    code, out, err = run("merge", *parts(tmp_path), "--into", "merged")

    assert code == 0, err
    found = json.loads((Path(out.strip()) / "summary.json").read_bytes())
    asked = [
        (one["model_filter"], one["shard"] and one["shard"]["index"]) for one in found["commands"]
    ]
    both = "sim/clean,sim/lazy"
    assert asked == [(both, 1), (both, 2), ("sim/like-gpt", None)]
    assert (found["model_filter"], found["trials_per_model"]) == (None, 3)
    assert run("merge", *parts(tmp_path)[::-1], "--into", "merged")[1] == out
    assert "recorded" not in run(*SMALL, "-n", "3", "--runs", "merged", "--dry-run")[1]


def timeless(directory: Path) -> list[object]:
    with open_for_reading(directory) as store:
        return [(one.key, one.status, one.score) for one in store.trials()]


def test_the_same_merge_again_adds_nothing(run: Run, tmp_path: Path) -> None:
    shards(run)
    first = run("merge", *parts(tmp_path), "--into", "merged")
    again = run("merge", *parts(tmp_path), "--into", "merged")

    assert again[1] == first[1]
    assert again[2] == "added 0 trials, 12 in total\n"


def test_a_run_can_take_the_others_in(run: Run) -> None:
    there = stored(series("..", "two"), base="there")
    here = stored(series(".."))
    code, out, err = run("merge", "latest", str(there), "--into", ".surecall")

    assert (code, Path(out.strip()).name) == (0, here.name)
    assert err == "added 2 trials, 4 in total\n"
    with open_for_reading(here) as store:
        assert len(store) == 4


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        (IDENTITY | {"seed": 7}, "cannot be merged: seed: 0 and 7"),
        ({"seed": 0}, 'cannot be merged: base_url: "sim" and nothing'),
    ],
)
def test_runs_of_different_settings_are_refused_and_nothing_is_made(
    run: Run, tmp_path: Path, identity: JSON, said: str
) -> None:
    runs = [stored(series(".")), stored(series(".x"), identity=identity)]
    code, out, err = run("merge", *(one.name for one in runs), "--into", "merged")

    assert (code, out) == (2, "")
    assert said in one_line(err)
    assert not (tmp_path / "merged").exists()


def test_scenarios_that_have_changed_are_refused(run: Run, tmp_path: Path) -> None:
    runs = [stored([trial(number=n, prompt_hash=f"p{n}")]) for n in (1, 2)]
    code, _, err = run("merge", *(one.name for one in runs), "--into", "merged")

    assert code == 2
    assert "scenarios differ between the runs: happy_path" in one_line(err)
    assert not (tmp_path / "merged").exists()


def test_two_results_of_the_same_trial_are_refused(run: Run) -> None:
    runs = [stored(series(mark)) for mark in ".x"]
    code, _, err = run("merge", *(one.name for one in runs), "--into", "merged")

    assert code == 2
    assert "already has a different result" in one_line(err)


def test_runs_of_different_programs_are_merged_with_a_warning(run: Run) -> None:
    runs = [stored([trial(number=n)], code=f"0.{n}+abc") for n in (1, 2)]
    code, _, err = run("merge", *(one.name for one in runs), "--into", "merged")

    assert code == 0
    assert "warning: the runs were made with different versions of surecall: 0.1+abc, 0.2" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--into", "merged"], "Missing argument 'RUN...'"),
        (["latest"], "Missing option '--into'"),
        (["nobody", "--into", "merged"], 'unknown run "nobody"'),
        (["latest", "--into", "occupied"], "cannot use occupied"),
    ],
)
def test_what_cannot_be_merged_is_one_line(
    run: Run, tmp_path: Path, arguments: list[str], said: str
) -> None:
    stored(series("."))
    (tmp_path / "occupied").write_text("")
    code, out, err = run("merge", *arguments)

    assert (code, out) == (2, "")
    assert said in one_line(err)


def test_a_damaged_part_leaves_the_target_as_it_was(run: Run) -> None:
    good = stored(series("."))
    bad = stored(series(".x"))
    (bad / DATABASE).write_bytes(b"no database at all" * 99)
    code, _, err = run("merge", good.name, bad.name, "--into", "merged")

    assert code == 2
    assert "is damaged" in one_line(err)
    assert json.loads(run("ls", "runs", "--runs", "merged", "--json")[1])["runs"] == []


# Shards of one evaluation, in processes of their own: killed, started again, and merged


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
KILLED = (sys.executable, "-m", "tests.support.commands")
RECIPES = (ROOT / "docs" / "distributed.md").read_text("utf-8")
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


@pytest.mark.processes
def test_shards_that_are_killed_and_started_again_make_the_run_that_was_never_cut(
    tmp_path: Path,
) -> None:
    chance = random.Random(19)  # noqa: S311  # repeatable, not secret
    moments = [(chance.randrange(6), chance.choice(["before", "after"])) for _ in range(PARTS)]
    part = (*PLAN, "--shard", f"auto/{PARTS}", "--runs")
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
    whole_too = started(tmp_path, *SURECALL, *PLAN, "--runs", "whole")
    assert [found for found in map(ended, [*again, whole_too]) if found[0]] == []
    shards = sorted(map(str, tmp_path.glob("shards/*/runs/*")))
    code, said = ended(started(tmp_path, *SURECALL, "merge", *shards, "--into", "merged"))

    assert code == 0, said
    assert "added 96 trials, 96 in total" in said
    (merged,), (whole,) = tmp_path.glob("merged/runs/*"), tmp_path.glob("whole/runs/*")
    assert trials_in(merged) == trials_in(whole)
    assert tables(merged) == tables(whole)
    assert len(tables(merged)) == 3


def recipe(beginning: str) -> str:
    """Return the line of the documentation that a scheduler runs."""
    (line,) = re.findall(rf"^[- ]*({beginning}.*--shard auto/8.*)$", RECIPES, re.MULTILINE)
    assert "-n 20 " in line
    return str(line).replace("-n 20 ", "-n 3 ").replace("surecall", " ".join(SURECALL), 1)


@pytest.mark.processes
def test_the_recipe_for_slurm_runs_each_part_in_its_own_directory(tmp_path: Path) -> None:
    script = recipe("surecall eval")
    tasks = [started(tmp_path, "bash", "-c", script, **slurm(index)) for index in (0, 7)]

    assert [code for code, _ in map(ended, tasks)] == [0, 0]
    assert 0 < recorded(tmp_path, 0) + recorded(tmp_path, 7) < 36


@pytest.mark.processes
def test_the_recipe_for_kubernetes_runs_each_part_in_its_own_directory(tmp_path: Path) -> None:
    script = recipe("exec surecall eval").replace("/results/", f"{tmp_path}/shards/")
    pods = [
        started(tmp_path, "sh", "-c", script, JOB_COMPLETION_INDEX=f"{index}") for index in (0, 7)
    ]

    assert [code for code, _ in map(ended, pods)] == [0, 0]
    assert 0 < recorded(tmp_path, 0) + recorded(tmp_path, 7) < 36
