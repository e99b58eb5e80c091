"""`surecall report`: the page, written again."""

import os
from pathlib import Path

import pytest

from surecall import cli
from surecall.eval.storage.run_directories import DATABASE
from tests.cli.test_view import run_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("SURECALL_", "OPENROUTER_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def test_report_writes_the_page_again_from_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    page = run_of(Path(".surecall"), trials=3) / "report.html"
    page.write_text("broken")

    assert cli.main(["report"]) == 0
    assert ">3/3</td>" in page.read_text("utf-8")
    assert capsys.readouterr().out == f"{page}\n"


def test_report_writes_where_it_is_told_and_nowhere_else() -> None:
    directory = run_of(Path(".surecall"))
    before = sorted(directory.iterdir())

    assert cli.main(["report", "latest", "-o", "out/mine.html"]) == 0
    assert ">1/1</td>" in Path("out/mine.html").read_text("utf-8")
    assert [path.name for path in Path("out").iterdir()] == ["mine.html"]
    assert sorted(directory.iterdir()) == before


def test_report_says_why_it_cannot_write(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(Path(".surecall"))
    Path("file").write_text("")

    assert cli.main(["report", "-o", "file/mine.html"]) == 2
    assert capsys.readouterr().err.startswith("surecall: cannot use ")


def test_a_damaged_run_still_gives_a_page() -> None:
    directory = run_of(Path(".surecall"))
    (directory / DATABASE).write_bytes(b"no database at all, but long enough")

    assert cli.main(["report"]) == 0
    assert "is damaged" in (directory / "report.html").read_text("utf-8")
