"""`surecall view` and `surecall report`: what they open and write, and how they fail."""

import os
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

import pytest

from surecall import cli
from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import open_or_resume
from tests.support.eval_results import SAME, key, passed
from tests.support.patience import PATIENCE_S

LONG_AGO = 1_000_000_000


@pytest.fixture(autouse=True)
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


def test_view_opens_no_page_that_a_link_leads_to(opened: list[str], tmp_path: Path) -> None:
    page = run_of(Path(".surecall")).resolve() / "report.html"
    (tmp_path / "elsewhere.html").write_text("another page")
    page.symlink_to(tmp_path / "elsewhere.html")

    assert cli.main(["view"]) == 0
    assert opened == [page.as_uri()]
    assert not page.is_symlink()


def test_view_writes_a_missing_report_and_opens_it(
    opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    page = run_of(Path(".surecall")).resolve() / "report.html"
    assert not page.exists()

    assert cli.main(["view"]) == 0
    assert ">1/1</td>" in page.read_text("utf-8")
    assert opened == [page.as_uri()]
    assert Path(capsys.readouterr().out.strip()).resolve() == page


def test_view_leaves_a_report_alone_that_has_everything(opened: list[str]) -> None:
    page = run_of(Path(".surecall")) / "report.html"
    page.write_text("as it is")

    assert cli.main(["view", "--no-open"]) == 0
    assert (page.read_text(), opened) == ("as it is", [])


def test_view_writes_a_report_again_that_is_older_than_the_results() -> None:
    page = run_of(Path(".surecall")) / "report.html"
    page.write_text("of yesterday")
    os.utime(page, (LONG_AGO, LONG_AGO))

    assert cli.main(["view", "--no-open"]) == 0
    assert ">1/1</td>" in page.read_text("utf-8")


def test_results_that_are_still_in_the_log_count_as_results() -> None:
    with open_or_resume(Path(".surecall"), SAME) as store:
        store.add(passed(key(1)))
        page = store.directory / "report.html"
        page.write_text("of yesterday")
        os.utime(page, (LONG_AGO, LONG_AGO))
        os.utime(store.directory / DATABASE, (LONG_AGO, LONG_AGO))

        assert cli.main(["view", "--no-open"]) == 0
        assert ">1/1</td>" in page.read_text("utf-8")


def test_without_a_browser_the_address_is_there_to_be_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = run_of(Path(".surecall")).resolve() / "report.html"
    monkeypatch.setattr(webbrowser, "open", lambda _: False)

    assert cli.main(["view"]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("report.html\n")
    assert said.err == f"no browser could be started; open this in one: {page.as_uri()}\n"


def test_a_run_is_found_by_name_by_part_by_path_and_in_another_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = run_of(Path("elsewhere"))
    names = (directory.name, directory.name[5:], str(directory), "latest")

    for name in names:
        assert cli.main(["view", name, "--runs", "elsewhere", "--no-open"]) == 0
    assert len(set(capsys.readouterr().out.splitlines())) == 1


@pytest.mark.parametrize("command", ["view", "report"])
def test_an_unknown_run_is_one_line_that_names_those_that_exist(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = run_of(Path(".surecall"))

    assert cli.main([command, directory.name.replace("-", "_")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert directory.name in said.err
    assert cli.main([command, "x" * 5_000]) == 2


@pytest.mark.parametrize("command", ["view", "report"])
def test_where_nothing_was_run_it_says_so(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command]) == 2
    assert capsys.readouterr().err == "surecall: there are no runs in .surecall\n"


def test_a_port_that_is_taken_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(Path(".surecall"))
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        assert cli.main(["view", "--live", "--no-open", "--port", str(port)]) == 1

    said = f"surecall: port {port} is taken; choose another one with --port\n"
    assert capsys.readouterr().err == said


@pytest.fixture
def live() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-m", "surecall", "view", "--live", "--no-open"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def _some_run(folder: Path) -> None:
    run_of(folder / ".surecall")


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
    assert "Ctrl-C ends it" in said


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

    assert cli.main(["view", "--live"]) == 130
    assert capsys.readouterr().out.splitlines() == opened
