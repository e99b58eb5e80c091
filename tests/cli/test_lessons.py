"""`surecall lessons` lists, exports, imports, and forgets what endpoints have refused."""

import json
from pathlib import Path

import pytest

from surecall import cli
from surecall.runtime.learned_lessons import LessonBook, LessonStore

HOST = "https://api.example.com/v1"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LessonStore:
    path = tmp_path / "lessons.db"
    monkeypatch.setenv("SURECALL_LESSONS", str(path))
    return LessonStore(path)


@pytest.fixture
def learned(store: LessonStore) -> LessonStore:
    LessonBook(HOST, store)["m"] = ("temperature", "rename:max_tokens:max_completion_tokens")
    return store


def test_lessons_are_listed_in_words(
    learned: LessonStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert learned.read()
    assert cli.main(["lessons"]) == 0
    shown = capsys.readouterr().out
    assert "omits temperature" in shown
    assert "renames max_tokens to max_completion_tokens" in shown
    assert "today" in shown


def test_without_lessons_the_list_says_so(
    store: LessonStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["lessons"]) == 0
    assert str(store.path) in capsys.readouterr().err


def test_an_export_can_be_imported_elsewhere(
    learned: LessonStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "export.json"
    assert cli.main(["lessons", "export", "-o", str(file)]) == 0
    assert cli.main(["lessons", "export"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_bytes())
    before = learned.read()
    assert cli.main(["lessons", "clear"]) == 0
    assert learned.read() == []
    assert cli.main(["lessons", "import", str(file)]) == 0
    assert learned.read() == before
    assert "imported 2 lessons" in capsys.readouterr().out


def test_lessons_of_one_endpoint_or_model_are_forgotten(learned: LessonStore) -> None:
    LessonBook("http://other/v1", learned)["n"] = ("seed",)

    assert cli.main(["lessons", "clear", "-m", "none"]) == 4
    assert cli.main(["lessons", "clear", "--base-url", HOST]) == 0
    assert [each.lesson for each in learned.read()] == ["seed"]


def test_a_wrong_file_and_a_store_that_is_off_are_reported(
    store: LessonStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "wrong").write_text("{}")
    assert cli.main(["lessons", "import", str(tmp_path / "wrong")]) == 2
    assert not store.path.exists()
    monkeypatch.setenv("SURECALL_LESSONS", "off")
    assert cli.main(["lessons"]) == 4
    assert cli.main(["lessons", "clear"]) == 2
    assert "SURECALL_LESSONS" in capsys.readouterr().err
