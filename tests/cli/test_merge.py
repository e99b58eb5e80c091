"""`surecall merge`: shards put together again."""

import json
from pathlib import Path

import pytest

from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import open_for_reading
from surecall.values.types import JSON
from tests.support.commands import IDENTITY, Run, one_line, stored
from tests.support.trials import series, trial

SMALL = ("eval", "-q", "-m", "sim/clean,sim/lazy", "-s", "happy_path,chat_only")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def shards(run: Run, *more: str) -> None:
    for number in (1, 2):
        run(*SMALL, "-n", "3", "--shard", f"{number}/2", "-o", f"part{number}", *more)


def parts(tmp_path: Path) -> list[str]:
    return [str(path) for path in sorted(tmp_path.glob("part*/runs/*"))]


def test_shards_make_one_run_as_if_it_had_never_been_cut(run: Run, tmp_path: Path) -> None:
    shards(run)
    run(*SMALL, "-n", "3", "-o", "whole")
    code, out, err = run("merge", *parts(tmp_path), "--into", "merged")

    assert (code, err) == (0, "12 trials added, 12 in all\n")
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
    run("eval", "-q", "-m", "sim/like-gpt", "-s", "simple", "-n", "1", "-o", "part3")
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
    assert "recorded" not in run(*SMALL, "-n", "3", "-o", "merged", "--dry-run")[1]


def timeless(directory: Path) -> list[object]:
    with open_for_reading(directory) as store:
        return [(one.key, one.status, one.score) for one in store.trials()]


def test_the_same_merge_again_adds_nothing(run: Run, tmp_path: Path) -> None:
    shards(run)
    first = run("merge", *parts(tmp_path), "--into", "merged")
    again = run("merge", *parts(tmp_path), "--into", "merged")

    assert again[1] == first[1]
    assert again[2] == "0 trials added, 12 in all\n"


def test_a_run_can_take_the_others_in(run: Run) -> None:
    there = stored(series("..", "two"), base="there")
    here = stored(series(".."))
    code, out, err = run("merge", "latest", str(there), "--into", ".surecall")

    assert (code, Path(out.strip()).name) == (0, here.name)
    assert err == "2 trials added, 4 in all\n"
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
    assert "not the same scenario in all runs: happy_path" in one_line(err)
    assert not (tmp_path / "merged").exists()


def test_two_results_of_the_same_trial_are_refused(run: Run) -> None:
    runs = [stored(series(mark)) for mark in ".x"]
    code, _, err = run("merge", *(one.name for one in runs), "--into", "merged")

    assert code == 2
    assert "holds another result of the same trial" in one_line(err)


def test_runs_of_different_programs_are_merged_with_a_warning(run: Run) -> None:
    runs = [stored([trial(number=n)], code=f"0.{n}+abc") for n in (1, 2)]
    code, _, err = run("merge", *(one.name for one in runs), "--into", "merged")

    assert code == 0
    assert "warning: the runs were made by different states of the program: 0.1+abc, 0.2" in err


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
    assert json.loads(run("ls", "runs", "-o", "merged", "--json")[1])["runs"] == []
