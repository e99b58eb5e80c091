"""Run directories: found by name, and never harmed when something is wrong."""

from pathlib import Path

import pytest

from surecall.eval.storage.run_directories import StoreError, find_run, runs
from surecall.eval.storage.store import Store, open_or_resume
from tests.support.eval_results import SAME


def test_a_damaged_lock_is_reported(base: Path, run: Store) -> None:
    run.close()
    (run.directory / "writer.lock").write_bytes(b"x" * 5000)

    with pytest.raises(StoreError, match=r"cannot use .*writer.lock: file is not a database"):
        open_or_resume(base, SAME)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"cannot use .*file: "):
        open_or_resume(tmp_path / "file", SAME)


def test_a_run_is_found_by_any_name_that_means_one(base: Path, run: Store) -> None:
    run.close()
    word = run.directory.name.rpartition("-")[2]
    for name in ("latest", run.directory.name, word, str(run.directory)):
        assert find_run(base, name) == run.directory

    (base / "latest").unlink()
    with pytest.raises(StoreError, match='unknown run "latest"'):
        find_run(base, "latest")
    for name in ("", "no-such-run"):
        with pytest.raises(StoreError, match=f'unknown run "{name}"; .*{word}'):
            find_run(base, name)


def test_a_place_without_runs_says_so(tmp_path: Path) -> None:
    assert runs(tmp_path) == []
    with pytest.raises(StoreError, match="there are no runs"):
        find_run(tmp_path, "latest")
