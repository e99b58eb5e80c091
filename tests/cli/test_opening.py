"""Which run a command writes to: its own, unless it is told another one."""

import json
from pathlib import Path

import pytest

from surecall.cli.opening import code_hash
from surecall.eval.storage.identity import settings_in
from surecall.eval.storage.store import Invocation, open_for_reading, open_or_resume
from surecall.values.types import JSON
from tests.support.commands import Run, one_line

CLEAN = ("eval", "-m", "sim/clean", "-s", "happy_path,chat_only", "-n", "2")
LAZY = ("eval", "-m", "sim/lazy", "-s", "happy_path", "-n", "2")


def runs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(".surecall/runs/*/trials.sqlite"))


def sizes(folder: Path) -> list[int]:
    found = []
    for directory in runs(folder):
        with open_for_reading(directory) as store:
            found.append(len(store))
    return found


def head(directory: Path) -> JSON:
    found: JSON = json.loads((directory / "summary.json").read_bytes())
    return found


def test_two_different_commands_make_two_runs_and_each_names_what_it_holds(
    run: Run, tmp_path: Path
) -> None:
    run(*CLEAN, "-q")
    run(*LAZY, "-q")

    assert sizes(tmp_path) == [4, 2]
    first, second = map(head, runs(tmp_path))
    assert (first["model_filter"], first["selected_models"]) == ("sim/clean", ["sim/clean"])
    assert (second["model_filter"], second["selected_models"]) == ("sim/lazy", ["sim/lazy"])
    assert (second["scenarios"], len(second["commands"])) == (["happy_path"], 1)


@pytest.mark.parametrize(
    "other",
    [
        ("-m", "sim/lazy"),
        ("-s", "!chat_only"),
        ("-p", "conversation", "--no-enforce-applicability"),
        ("--strategy", "raw"),
        ("--seed", "7"),
        ("--temperature", "0.5"),
        ("--tool-use-mode", "relaxed"),
    ],
)
def test_whatever_changes_results_makes_another_run(
    run: Run, tmp_path: Path, other: tuple[str, ...]
) -> None:
    run(*CLEAN, "-q")
    code, _, err = run(*CLEAN, "-q", *other)

    assert code == 0, err
    assert len(runs(tmp_path)) == 2


def test_the_same_matrix_continues_however_it_is_asked_for(run: Run, tmp_path: Path) -> None:
    run(*CLEAN, "-q")
    run("eval", "-m", "sim/clea*,sim/lazy,!sim/lazy", "-s", "chat_only,happy_path", "-n", "2", "-q")
    run(*CLEAN, "-j", "1", "-v", "--json", "--bar", "80", "--max-cost", "3", "--fail-under", "1")
    run(*CLEAN, "-q", "--shard", "1/2")
    assert sizes(tmp_path) == [4]
    run(*CLEAN, "-q", "-n", "4")
    assert sizes(tmp_path) == [8]
    run(*CLEAN, "-q", "-n", "auto")

    (directory,) = runs(tmp_path)
    assert sizes(tmp_path)[0] >= 20
    assert head(directory)["trials_per_model"] == "auto"


@pytest.mark.parametrize("name", ["latest", "{name}", "{part}", "{path}"])
def test_a_run_that_is_named_is_added_to_and_says_all_it_holds(
    run: Run, tmp_path: Path, name: str
) -> None:
    run(*CLEAN, "-q")
    (directory,) = runs(tmp_path)
    words = {"name": directory.name, "part": directory.name[11:], "path": str(directory)}
    code, out, err = run(*LAZY, "--into", name.format(**words))

    assert (code, sizes(tmp_path)) == (0, [6]), err
    assert ("sim/lazy" in out, "sim/clean" in out) == (True, False)
    found = head(directory)
    assert found["model_filter"] is None
    assert [one["model_filter"] for one in found["commands"]] == ["sim/clean", "sim/lazy"]
    assert sorted(found["selected_models"]) == ["sim/clean", "sim/lazy"]
    run(*CLEAN, "-q")
    assert sizes(tmp_path) == [6]


def test_a_run_elsewhere_is_added_to_and_does_not_become_the_latest(
    run: Run, tmp_path: Path
) -> None:
    run(*CLEAN, "-q", "-o", "there")
    run(*CLEAN, "-q")
    latest = (tmp_path / ".surecall" / "latest").read_text()
    (directory,) = tmp_path.glob("there/runs/*")
    code, _, err = run(*LAZY, "--into", str(directory))

    assert code == 0
    assert f"surecall view {directory}" in err
    assert (tmp_path / ".surecall" / "latest").read_text() == latest
    with open_for_reading(directory) as store:
        assert len(store) == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--into", "latest", "--fresh"), "leave out one of them"),
        (("--into", "nobody"), 'unknown run "nobody"'),
        (("--into", "latest", "--seed", "3"), "was made with different settings: seed: 0 and 3"),
    ],
)
def test_what_cannot_be_added_to_is_one_line_and_changes_nothing(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    run(*CLEAN, "-q")
    (directory,) = runs(tmp_path)
    with open_for_reading(directory) as store:
        before = store.meta
    code, out, err = run(*LAZY, *arguments)

    assert (code, out) == (2, "")
    assert said in one_line(err.removeprefix(err.partition("surecall: ")[0]))
    with open_for_reading(directory) as store:
        assert (len(store), store.meta) == (4, before)


def test_a_dry_run_looks_where_the_command_would_write(run: Run) -> None:
    run(*CLEAN, "-q")
    part = (*CLEAN[:4], "happy_path", "-n", "2", "--dry-run")

    assert "= 4 runs, 4 recorded" in run(*CLEAN, "--dry-run")[1]
    assert "recorded" not in run(*part)[1]
    assert "= 2 runs, 2 recorded" in run(*part, "--into", "latest")[1]
    assert "recorded" not in run(*CLEAN, "--dry-run", "--fresh")[1]


def test_a_folder_of_several_matrices_is_left_alone_and_pointed_out_once(
    run: Run, tmp_path: Path
) -> None:
    run(*CLEAN, "-q", "-o", "new")
    (made,) = tmp_path.glob("new/runs/*")
    with open_for_reading(made) as store:
        settings, kept = settings_in(store.meta.identity), list(store.trials())
    with open_or_resume(Path(".surecall"), settings, Invocation()) as old:
        for trial in kept:
            old.add(trial)
    name = old.directory.name
    before = (old.directory / "trials.sqlite").read_bytes()
    _, _, err = run(*CLEAN)

    told = f"{name}, of an earlier version, has trials of this command among others"
    assert err.count(told) == 1
    assert f"--into {name}" in err
    assert sizes(tmp_path) == [4, 4]
    assert (old.directory / "trials.sqlite").read_bytes() == before
    assert told not in run(*CLEAN)[2]
    assert told not in run(*LAZY)[2]
    assert run(*LAZY, "-q", "--into", name)[0] == 0
    with open_for_reading(old.directory) as store:
        assert len(store) == 6


def test_the_hash_of_the_program_says_its_version() -> None:
    assert code_hash().startswith("0.")
    assert code_hash() == code_hash()
