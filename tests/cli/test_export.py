"""`surecall export`: every report, made again from the store."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.trial import Cell
from surecall.runtime.trace import dump_trace
from tests.cli.test_replay import SMALL, held, with_trace
from tests.support.commands import HOSTILE, Run, one_line, stored
from tests.support.trials import CELL, series, trial

FILE = re.compile(r"\b[\w./-]+\.(?:json|jsonl|html|md|xml|sqlite|txt)\b")


def files(folder: Path) -> dict[str, bytes]:
    skipped = {DATABASE}
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.name not in skipped
    }


def test_reports_that_were_lost_are_made_again_to_the_byte(run: Run, tmp_path: Path) -> None:
    run(*SMALL, "-n", "2")
    (directory,) = tmp_path.glob(".surecall/runs/*")
    before = files(directory)
    for name in ("summary.json", "summary_by_scenario.json", "report.md", "junit.xml"):
        (directory / name).unlink()
    code, out, err = run("export")

    assert code == 0
    after = files(directory)
    summaries = [each.pop("summary.json") for each in (before, after)]
    assert after == before
    without = re.sub(rb'"trials/[^"]+"', b"null", summaries[1])
    assert without == summaries[0] != summaries[1]
    assert "simulated" in before["report.md"].decode().lower()
    assert len(out.splitlines()) == 7
    assert err == "8 trials\n"
    assert len(list((directory / "trials").iterdir())) == 8


def named(directory: Path) -> set[str]:
    """Return everything in the files of a run that looks like the path of one."""
    texts = [data.decode("utf-8", "replace") for data in files(directory).values()]
    return {name for text in texts for name in FILE.findall(text)}


def test_every_file_that_a_run_names_is_there(run: Run, tmp_path: Path) -> None:
    run(*SMALL, "-n", "2")
    (directory,) = tmp_path.glob(".surecall/runs/*")
    alone = named(directory)
    run("export")
    exported = named(directory)

    assert not {name for name in alone | exported if not (directory / name).is_file()}
    assert not any(name.startswith("trials/") for name in alone)
    assert sum(name.startswith("trials/") for name in exported) == 8


def test_reports_can_go_elsewhere(run: Run, tmp_path: Path) -> None:
    stored(series(".x"), base="results")
    code, _, _ = run("export", "latest", "--runs", "results", "-o", "far/away")

    assert code == 0
    assert set(files(tmp_path / "far" / "away")) == {
        "junit.xml",
        "report.html",
        "report.md",
        "summary.json",
        "summary_by_scenario.json",
        "summary_by_scenario_and_strategy.json",
    }


def test_each_trial_has_a_file_that_is_named_as_replay_calls_it(run: Run) -> None:
    directory = with_trace(dump_trace(held(HOSTILE)))
    code, out, err = run("export", "--format", "trials")

    (path,) = (directory / "trials").iterdir()
    assert (code, err) == (0, "1 trial\n")
    assert Path(out.strip()).resolve() == path.parent.resolve()
    found = json.loads(path.read_bytes())
    assert (found["ok"], found["error_category"]) == (False, "ASSERTION_FAILED")
    assert found["trace"][-1]["text"] == HOSTILE
    assert run("replay", f"latest/{path.name}")[0] == 0
    assert not (directory / "summary.json").exists()


def test_documents_are_printed_so_that_programs_can_read_them(run: Run) -> None:
    cell = Cell(f"m{HOSTILE}")
    stored([trial("failed", cell=cell, error=HOSTILE, hint=HOSTILE), *series(".", cell=CELL)])
    document = json.loads(run("export", "--format", "json")[1])
    assert document["simulated"] is True
    assert document["totals"]["runs"] == 2
    assert {advice["model"] for advice in document["recommendations"]} == {
        cell.model,
        CELL.model,
    }
    lines = run("export", "--format", "jsonl")[1].splitlines()
    first, second = (json.loads(line) for line in lines)
    assert {one["key"]["cell"]["model"] for one in (first, second)} == {cell.model, CELL.model}
    assert all(one["simulated"] for one in (first, second))
    root = ET.fromstring(run("export", "--format", "junit")[1])  # noqa: S314 - our own
    assert root.attrib["tests"] == "2"
    assert "\u202e" in next(root.iter("failure")).attrib["message"]
    assert "**Simulated.**" in run("export", "--format", "markdown")[1]


def test_a_document_goes_to_a_file_a_pipe_or_the_terminal(run: Run, tmp_path: Path) -> None:
    stored([trial("failed", error=HOSTILE)])
    assert run("export", "--format", "jsonl", "-o", "out.jsonl") == (0, "", "")
    printed = run("export", "--format", "jsonl", "-o", "-")[1]
    assert json.loads((tmp_path / "out.jsonl").read_bytes()) == json.loads(printed)
    assert run("export", "--format", "json", "-o", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], 'unknown run "nobody"'),
        (["--format", "jsn"], "'jsn' is not one of"),
        (["-o", "-"], "several files cannot be printed"),
        (["--format", "json", "-o", "missing/folder/x"], "cannot use missing/folder/x: No such"),
        (["--format", "json", "-o", "."], "cannot use .: Is a directory"),
        (["-o", "occupied"], "cannot use occupied"),
        (["--runs", "nowhere"], "there are no runs in nowhere"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    run: Run, tmp_path: Path, arguments: list[str], said: str
) -> None:
    stored(series("."))
    (tmp_path / "occupied").write_text("")
    code, out, err = run("export", *arguments)

    assert (code, out) == (2, "")
    assert said in one_line(err)
