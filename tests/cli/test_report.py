"""`surecall report`: what it opens and writes, and how it fails."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest

from surecall import cli
from surecall.cli import report
from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import open_or_resume
from surecall.eval.storage.trial import Cell
from surecall.runtime.recording import dump_trace
from tests.support.commands import (
    HOSTILE,
    QUIET_SMALL,
    Run,
    one_line,
    stored,
    sum_trace,
    with_trace,
)
from tests.support.timing import PATIENCE_S
from tests.support.trials import CELL, SAME, key, passed, series, trial

# Without options: the report is updated and opened


LONG_AGO = 1_000_000_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("SURECALL_", "OPENROUTER_"))]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take down the addresses that a browser is asked to open."""
    addresses: list[str] = []

    def note(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    return addresses


def run_of(base: Path, trials: int = 1) -> Path:
    with open_or_resume(base, SAME) as store:
        for number in range(1, trials + 1):
            store.add(passed(key(number)))
    return store.directory


@pytest.mark.usefixtures("folder")
def test_report_opens_no_page_that_a_link_leads_to(opened: list[str], tmp_path: Path) -> None:
    page = run_of(Path(".surecall")).resolve() / "report.html"
    (tmp_path / "elsewhere.html").write_text("another page")
    page.symlink_to(tmp_path / "elsewhere.html")

    assert cli.main(["report"]) == 0
    assert opened == [page.as_uri()]
    assert not page.is_symlink()


@pytest.mark.usefixtures("folder")
def test_report_writes_a_missing_report_and_opens_it(
    opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    page = run_of(Path(".surecall")).resolve() / "report.html"
    assert not page.exists()

    assert cli.main(["report"]) == 0
    assert ">1/1</td>" in page.read_text("utf-8")
    assert opened == [page.as_uri()]
    assert Path(capsys.readouterr().out.strip()).resolve() == page


@pytest.mark.usefixtures("folder")
def test_report_leaves_a_report_alone_that_has_everything(opened: list[str]) -> None:
    page = run_of(Path(".surecall")) / "report.html"
    page.write_text("as it is")

    assert cli.main(["report", "--no-open"]) == 0
    assert (page.read_text(), opened) == ("as it is", [])


@pytest.mark.usefixtures("folder")
def test_report_writes_a_report_again_that_is_older_than_the_results() -> None:
    page = run_of(Path(".surecall")) / "report.html"
    page.write_text("of yesterday")
    os.utime(page, (LONG_AGO, LONG_AGO))

    assert cli.main(["report", "--no-open"]) == 0
    assert ">1/1</td>" in page.read_text("utf-8")


@pytest.mark.usefixtures("folder")
def test_results_that_are_still_in_the_log_count_as_results() -> None:
    with open_or_resume(Path(".surecall"), SAME) as store:
        store.add(passed(key(1)))
        page = store.directory / "report.html"
        page.write_text("of yesterday")
        os.utime(page, (LONG_AGO, LONG_AGO))
        os.utime(store.directory / DATABASE, (LONG_AGO, LONG_AGO))

        assert cli.main(["report", "--no-open"]) == 0
        assert ">1/1</td>" in page.read_text("utf-8")


@pytest.mark.usefixtures("folder")
def test_without_a_browser_the_address_is_there_to_be_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = run_of(Path(".surecall")).resolve() / "report.html"
    monkeypatch.setattr(webbrowser, "open", lambda _: False)

    assert cli.main(["report"]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("report.html\n")
    assert said.err == f"cannot start a browser; open this address in one: {page.as_uri()}\n"


@pytest.mark.usefixtures("folder")
def test_a_run_is_found_by_name_by_part_by_path_and_in_another_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = run_of(Path("elsewhere"))
    names = (directory.name, directory.name[5:], str(directory), "latest")

    for name in names:
        assert cli.main(["report", name, "--runs", "elsewhere", "--no-open"]) == 0
    assert len(set(capsys.readouterr().out.splitlines())) == 1


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", [("--no-open",), ("-o", "page.html"), ("--format", "json")])
def test_an_unknown_run_is_one_line_that_names_those_that_exist(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_of(Path(".surecall"))

    assert cli.main(["report", directory.name.replace("-", "_"), *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert directory.name in said.err
    assert cli.main(["report", "x" * 5_000, *words]) == 2


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", [("--no-open",), ("-o", "page.html"), ("--format", "json")])
def test_where_nothing_was_run_it_says_so(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", *words]) == 2
    assert capsys.readouterr().err == (
        "surecall: there are no runs in .surecall: run surecall eval first, or pass --runs\n"
    )


@pytest.mark.usefixtures("folder")
def test_a_port_that_is_taken_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(Path(".surecall"))
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        assert cli.main(["report", "--live", "--no-open", "--port", str(port)]) == 1

    said = f"surecall: port {port} is in use: stop the other process, or pass another --port\n"
    assert capsys.readouterr().err == said


@pytest.fixture
def live() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-m", "surecall", "report", "--live", "--no-open"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def _some_run(folder: Path) -> None:
    run_of(folder / ".surecall")


@pytest.mark.usefixtures("folder")
@pytest.mark.processes
@pytest.mark.usefixtures("_some_run")
def test_live_serves_the_page_until_an_interrupt_ends_it_quietly(
    live: subprocess.Popen[str],
) -> None:
    assert live.stdout is not None
    address = live.stdout.readline().strip()
    with urllib.request.urlopen(address) as page:  # noqa: S310 - the address of the line above
        assert b">1/1</td>" in page.read()
    live.send_signal(signal.SIGINT)
    out, said = live.communicate(timeout=PATIENCE_S)

    assert urlsplit(address).hostname == "127.0.0.1"
    assert (live.returncode, out) == (130, "")
    assert said.count("\n") == 1
    assert "press Ctrl-C to stop" in said


@pytest.mark.usefixtures("folder")
def test_live_opens_the_address_that_it_serves(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(Path(".surecall"))
    note = webbrowser.open

    def interrupt(address: str) -> bool:
        note(address)
        os.kill(os.getpid(), signal.SIGINT)
        return True

    monkeypatch.setattr(webbrowser, "open", interrupt)

    assert cli.main(["report", "--live"]) == 130
    assert capsys.readouterr().out.splitlines() == opened


# `--format` and `-o`: every report, made again from the store


FILE = re.compile(r"\b[\w./-]+\.(?:json|jsonl|html|md|xml|sqlite|txt)\b")


def files(folder: Path) -> dict[str, bytes]:
    skipped = {DATABASE}
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.name not in skipped
    }


def test_reports_that_were_lost_are_made_again_to_the_byte(run: Run, tmp_path: Path) -> None:
    run(*QUIET_SMALL, "-n", "2")
    (directory,) = tmp_path.glob(".surecall/runs/*")
    before = files(directory)
    for name in ("summary.json", "summary_by_scenario.json", "report.md", "junit.xml"):
        (directory / name).unlink()
    code, out, err = run("report", "-o", str(directory.relative_to(tmp_path)))

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
    run(*QUIET_SMALL, "-n", "2")
    (directory,) = tmp_path.glob(".surecall/runs/*")
    alone = named(directory)
    run("report", "-o", str(directory))
    exported = named(directory)

    assert not {name for name in alone | exported if not (directory / name).is_file()}
    assert not any(name.startswith("trials/") for name in alone)
    assert sum(name.startswith("trials/") for name in exported) == 8


def test_reports_can_go_elsewhere(run: Run, tmp_path: Path) -> None:
    stored(series(".x"), base="results")
    code, _, _ = run("report", "latest", "--runs", "results", "-o", "far/away/")

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
    directory = with_trace(dump_trace(sum_trace(HOSTILE)))
    code, out, err = run("report", "--format", "trials")

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
    document = json.loads(run("report", "--format", "json")[1])
    assert document["simulated"] is True
    assert document["totals"]["runs"] == 2
    assert {advice["model"] for advice in document["recommendations"]} == {
        cell.model,
        CELL.model,
    }
    lines = run("report", "--format", "jsonl")[1].splitlines()
    first, second = (json.loads(line) for line in lines)
    assert {one["key"]["cell"]["model"] for one in (first, second)} == {cell.model, CELL.model}
    assert all(one["simulated"] for one in (first, second))
    root = ET.fromstring(run("report", "--format", "junit")[1])  # noqa: S314 - our own
    assert root.attrib["tests"] == "2"
    assert "\u202e" in next(root.iter("failure")).attrib["message"]
    assert "**Simulated.**" in run("report", "--format", "markdown")[1]


def test_a_document_goes_to_a_file_a_pipe_or_the_terminal(run: Run, tmp_path: Path) -> None:
    stored([trial("failed", error=HOSTILE)])
    assert run("report", "--format", "jsonl", "-o", "out.jsonl") == (0, "", "")
    printed = run("report", "--format", "jsonl", "-o", "-")[1]
    assert json.loads((tmp_path / "out.jsonl").read_bytes()) == json.loads(printed)
    assert run("report", "--format", "json", "-o", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], 'unknown run "nobody"'),
        (["--format", "jsn"], "'jsn' is not one of"),
        (["--format", "trials", "-o", "-"], "cannot print several files: pass -o DIRECTORY"),
        (["--format", "json", "-o", "missing/folder/x"], "cannot use missing/folder/x: No such"),
        (["--format", "json", "-o", "."], "cannot use .: Is a directory"),
        (["--format", "trials", "-o", "occupied"], "cannot use occupied"),
        (["--runs", "nowhere", "--no-open"], "there are no runs in nowhere"),
        (["--live", "--format", "json"], "leave out --format and -o"),
        (["--live", "-o", "page.html"], "leave out --format and -o"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    run: Run, tmp_path: Path, arguments: list[str], said: str
) -> None:
    stored(series("."))
    (tmp_path / "occupied").write_text("")
    code, out, err = run("report", *arguments)

    assert (code, out) == (2, "")
    assert said in one_line(err)


# The page, written again


@pytest.mark.usefixtures("folder")
def test_the_format_html_writes_the_page_again_whatever_is_there(
    opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    page = run_of(Path(".surecall"), trials=3) / "report.html"
    page.write_text("broken")

    assert cli.main(["report", "--format", "html"]) == 0
    assert ">3/3</td>" in page.read_text("utf-8")
    assert capsys.readouterr().out == f"{page}\n"
    assert opened == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("folder_name", [".", "new/"])
def test_the_page_can_go_to_a_directory(folder_name: str) -> None:
    run_of(Path(".surecall"))

    assert cli.main(["report", "--format", "html", "-o", folder_name]) == 0
    assert ">1/1</td>" in Path(folder_name, "report.html").read_text("utf-8")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", [("-o", "-"), ("--format", "html", "-o", "-")])
def test_the_page_can_be_printed(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_of(Path(".surecall"))

    assert cli.main(["report", *words]) == 0
    printed = capsys.readouterr().out
    assert cli.main(["report", "--format", "html"]) == 0
    assert printed.rstrip("\n") == (directory / "report.html").read_text("utf-8").rstrip("\n")


@pytest.mark.usefixtures("folder")
def test_a_page_whose_traces_are_in_other_files_is_not_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(Path(".surecall"))

    def write_two_files(_: Path, *, target: Path) -> Path:
        target.write_text("a page")
        target.with_name("report_data").mkdir()
        return target

    monkeypatch.setattr(report, "write_report_at", write_two_files)
    assert cli.main(["report", "-o", "-"]) == 2
    assert "the traces are too large for one document" in one_line(capsys.readouterr().err)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("out.json", "{"),
        ("out.jsonl", '{"simulated"'),
        ("out.md", "# "),
        ("out.xml", "<testsuites"),
        ("out.htm", "<!doctype html>"),
        ("out", "<!doctype html>"),
    ],
)
def test_without_a_format_the_ending_of_the_file_decides(name: str, beginning: str) -> None:
    run_of(Path(".surecall"))

    assert cli.main(["report", "-o", name]) == 0
    assert Path(name).read_text("utf-8").lower().startswith(beginning)


@pytest.mark.usefixtures("folder")
def test_report_writes_where_it_is_told_and_nowhere_else() -> None:
    directory = run_of(Path(".surecall"))
    before = sorted(directory.iterdir())

    assert cli.main(["report", "latest", "-o", "out/mine.html"]) == 0
    assert ">1/1</td>" in Path("out/mine.html").read_text("utf-8")
    assert [path.name for path in Path("out").iterdir()] == ["mine.html"]
    assert sorted(directory.iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_report_says_why_it_cannot_write(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(Path(".surecall"))
    Path("file").write_text("")

    assert cli.main(["report", "-o", "file/mine.html"]) == 2
    assert capsys.readouterr().err.startswith("surecall: cannot use ")


@pytest.mark.usefixtures("folder")
def test_a_damaged_run_still_gives_a_page() -> None:
    directory = run_of(Path(".surecall"))
    (directory / DATABASE).write_bytes(b"no database at all, but long enough")

    assert cli.main(["report", "--no-open"]) == 0
    assert "is damaged" in (directory / "report.html").read_text("utf-8")
